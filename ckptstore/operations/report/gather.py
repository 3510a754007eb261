"""A whole report: every run is looked at as `ckpt verify` looks at it; costs and drills come beside."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ckptstore.config import Config
from ckptstore.durations import age_of
from ckptstore.errors import CkptStoreError, ConfigError, NotFoundError, UsageError
from ckptstore.events import Observer, ignore
from ckptstore.opened import Opened, shared
from ckptstore.operations.health import CheckpointHealth, VerifyReport
from ckptstore.operations.inventory import index_of
from ckptstore.operations.promises import beyond_layout
from ckptstore.operations.remedy import remedy_for
from ckptstore.operations.report.advice import after_error, drill_step, loads, next_steps, run_verdict, store_verdict
from ckptstore.operations.report.cells import row_of, targets_in
from ckptstore.operations.report.content import Drills, Row, RunPart, StoreReport
from ckptstore.operations.report.costs import costs_of, prices_with
from ckptstore.operations.report.drills import check_folder, read_drills
from ckptstore.operations.report.writing import check_out, write_page
from ckptstore.operations.runs import list_runs
from ckptstore.operations.subsets import Subset
from ckptstore.operations.verify import Looking
from ckptstore.operations.verify import look as look_at
from ckptstore.protocolerrors import protocol_errors
from ckptstore.selection import history_of
from manifests import History, paths

__all__ = ["report"]


def report(
    config: Config,
    run: str | None = None,
    out: Path | None = None,
    *,
    reports: Path | None = None,
    read_data: bool = False,
    price: float | None = None,
    settings: str = "",
    observer: Observer = ignore,
) -> StoreReport:
    """Look at one run, or at all of a store, and write the page to `out`, whole or not at all.

    `reports`: the folder that drills wrote to. `price` of a GB and month, in dollars, in the place of those of
    `[prices]`. `settings`: the path of store.toml, for the commands to type. Raises `UsageError` for what can't be,
    before anything is looked at, and `NotFoundError` where there is no such run. Of several runs, one that can't be
    looked at is told of in the report.
    """
    prices = prices_with(config.prices, price)
    if reports is not None:
        check_folder(reports)
    if out is not None:
        check_out(out)
    made, began = datetime.now(UTC), time.monotonic()
    opened = shared(config)
    names = list_runs(opened) if run is None else [run]
    drills = read_drills(reports, config.name, names)
    where = f" --store {shlex.quote(settings)}" if settings else ""
    looks = [_look(opened, name, read_data=read_data, alone=run is not None, observer=observer) for name in names]
    targets = _targets(config, looks)
    parts = [look.part([*targets], drills, f" --run {shlex.quote(look.run)}{where}") for look in looks]
    rows = [row for part in parts for row in part.rows]
    found = StoreReport(
        store=config.name,
        made=made.isoformat(timespec="seconds"),
        seconds=time.monotonic() - began,
        read_data=read_data,
        targets=targets,
        wanted=(config.objectives.survive, config.objectives.survive_domains),
        beyond_layout=beyond_layout(config),
        rpo=config.objectives.rpo_seconds,
        ages={part.run: age for part in parts if (age := _age(part.rows, made)) is not None},
        runs=parts,
        costs=costs_of(config, rows, prices),
        drills=drills,
    )
    found = replace(found, verdict=store_verdict(found))
    if out is not None:
        write_page(found, out)
    return found


class _Look:
    """What verify found of a run, and its history; or why there is none."""

    def __init__(self, opened: Opened, run: str) -> None:
        self.opened, self.run = opened, run
        self.report = VerifyReport([])
        self.history: History | None = None
        self.error: CkptStoreError | None = None

    @property
    def healths(self) -> list[CheckpointHealth]:
        """Live ones first."""
        return [*self.report.checkpoints, *self.report.deleted]

    def part(self, targets: Sequence[str], drills: Drills, options: str) -> RunPart:
        """The run's part of the report. `options` name the run and the store in the commands to type."""
        if self.error is not None:
            error = self.error
            steps = [after_error(error, options)]
            return RunPart(self.run, error.exit_code, "could not be looked at", steps, error=error.message)
        rows = [
            self._row(health, targets, deleted=n >= len(self.report.checkpoints))
            for n, health in enumerate(self.healths)
        ]
        steps = list(next_steps(remedy_for(self.opened, self.report), rows, options))
        part = RunPart(self.run, self.report.exit_code, run_verdict(self.report), steps, rows, [*self.report.history])
        drill = drill_step(part, drills, options)
        return replace(part, next=[*steps, drill]) if drill else part

    def _row(self, health: CheckpointHealth, targets: Sequence[str], *, deleted: bool) -> Row:
        checkpoint = self.history.find(*paths.split_save(health.key)) if self.history else None
        complete = health.state in {"good", "degraded"}
        if checkpoint is not None and not complete and health.state != "changed":
            try:
                complete = len(index_of(self.opened, checkpoint).shards) == len(health.shards)
            except CkptStoreError:
                complete = False
        return row_of(health, checkpoint, targets, complete=complete, deleted=deleted)


def _look(opened: Opened, run: str, *, read_data: bool, alone: bool, observer: Observer) -> _Look:
    look = _Look(opened, run)
    looking = Looking(read=Subset.of(1.0) if read_data else None, observer=observer, keep=True)
    try:
        with protocol_errors():
            look.report = look_at(opened, run, None, looking)
            look.history = history_of(opened, run)
    except (UsageError, ConfigError):
        raise
    except NotFoundError:
        if alone:
            raise
        look.report = VerifyReport([])
    except CkptStoreError as error:
        look.error = error
    return look


def _targets(config: Config, looks: Sequence[_Look]) -> dict[str, str]:
    """Name and domain of every target of the store, and of those that it doesn't name any more."""
    domains = {place.target: place.domain for place in config.places}
    others = {name for look in looks for name in targets_in(look.healths)} - domains.keys()
    return domains | dict.fromkeys(sorted(others), "not in store.toml")


def _age(rows: Sequence[Row], now: datetime) -> float | None:
    """Of the newest checkpoint that loads, in seconds, by this machine's clock."""
    loading = loads(rows)
    return age_of(loading[-1].created, now) if loading else None
