"""The Python API: a store, its runs, their checkpoints.

store = ckptstore.open("store.toml")
run = store.run("pretrain-7b")
run.save(state_dict, step=100)
run.load(state_dict)
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

from ckptstore.config import Config
from ckptstore.errors import ConfigError
from ckptstore.events import Observer, ignore
from ckptstore.names import check_run
from ckptstore.opened import release, shared
from ckptstore.run import Run
from ckptstore.targets import check_apart

if TYPE_CHECKING:
    from ckptstore.operations.pacing import How
    from ckptstore.operations.report import StoreReport
    from ckptstore.operations.verify_runs import RunsReport

__all__ = ["Run", "Store", "open_store"]


class Store:
    """An open store. Threads and clients are made when first needed, in the process that needs them."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def run(self, name: str = "default") -> Run:
        """A training run. It comes into being with its first save. Raises `UsageError` for what can't be its name."""
        return Run(self.config, check_run(name))

    def runs(self) -> list[str]:
        """The names of all runs that any target in reach holds."""
        from ckptstore.operations.runs import list_runs

        return list_runs(shared(self.config))

    def verify(
        self,
        *,
        read_data: bool = False,
        subset: float | str = 1.0,
        observer: Observer = ignore,
        **how: "Unpack[How]",
    ) -> "RunsReport":
        """Check every run, as `Run.verify` does one. A run that can't be read doesn't stop the others: see `failed`."""
        from ckptstore.operations.verify_runs import verify_runs

        return verify_runs(shared(self.config), read_data=read_data, subset=subset, observer=observer, **how)

    def report(
        self,
        out: str | os.PathLike[str] | None = None,
        *,
        reports: str | os.PathLike[str] | None = None,
        read_data: bool = False,
        price: float | None = None,
        observer: Observer = ignore,
    ) -> "StoreReport":
        """Look at every checkpoint of every run, and write one HTML page to `out` if it is given: see `Run.report`."""
        from ckptstore.operations.report import report

        return report(
            self.config,
            None,
            None if out is None else Path(out),
            reports=None if reports is None else Path(reports),
            read_data=read_data,
            price=price,
            observer=observer,
        )

    def close(self) -> None:
        """Wait for background saves, release threads and clients; using the store again opens it again.

        Raises what a background save failed with, if nobody has been told. A load or save that another thread is in the
        middle of raises `StoreClosed`.
        """
        saver = sys.modules.get("ckptstore.dcp.saver")  # where it was never imported, nothing was saved
        failures = saver.finish_saves(self.config) if saver else []
        release(self.config)
        if failures:
            raise failures[0][1]


def open_store(store: Config | str | os.PathLike[str] | None = None) -> Store:
    """Open a store by its `store.toml`, a `Config`, or the environment's CKPT_STORE. Raises `ConfigError`."""
    if store is None:
        store = os.environ.get("CKPT_STORE")
    if store is None:
        raise ConfigError("no store is named", hint="pass a store.toml, or set CKPT_STORE")
    config = store if isinstance(store, Config) else Config.load(store)
    check_apart(config)
    return Store(config)
