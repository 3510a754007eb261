"""What every command shares: the options `--store`, `--run`, `--json` and `-v`, and what they lead to."""

import inspect
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ckptstore.cli.failures import failure_of
from ckptstore.cli.output import Output
from ckptstore.cli.streams import OutputError
from ckptstore.cli.wording import joined
from ckptstore.errors import AccessDenied, NotFoundError, OutOfReach, TargetError, UsageError
from ckptstore.redaction import redacted

if TYPE_CHECKING:
    from ckptstore.config import Config
    from ckptstore.events import Observer
    from ckptstore.opened import Opened
    from ckptstore.run import Run
    from manifests import History

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store", envvar="CKPT_STORE", metavar="PATH", help="The store's settings: a store.toml.", show_default=False
    ),
]
RunOption = Annotated[str, typer.Option("--run", envvar="CKPT_RUN", metavar="RUN", help="The training run.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer in JSON on stdout; the last line is the summary.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Tell on stderr what happens underneath, and show tracebacks.")
]
METRICS_DIR = "CKPT_METRICS_DIR"
"""Where the environment names a folder by it, commands leave how they ended there (`recording`)."""

__all__ = ["Call", "command"]


class Call:
    """One call of a command: its store, its run, its output."""

    def __init__(self, name: str, *, store: str | None, run: str, as_json: bool, verbose: bool) -> None:
        self.store = store
        self.run = run
        self.verbose = verbose
        self.output = Output(name, as_json=as_json)

    @property
    def path(self) -> str:
        """Where store.toml is. Raises `UsageError` where nobody said."""
        if self.store is None:
            raise UsageError(
                "no store is named",
                hint="name it with --store or CKPT_STORE, or make one: ckpt init --code 2+1 --targets DIR DIR DIR",
            )
        return self.store

    @cached_property
    def config(self) -> "Config":
        """The store's settings. Raises `ConfigError`."""
        from ckptstore.config import Config

        return Config.load(self.path)

    @cached_property
    def opened(self) -> "Opened":
        """The open store."""
        from ckptstore.opened import shared

        self.check_run()
        return shared(self.config)

    @cached_property
    def training(self) -> "Run":
        """The run, as the Python API has it."""
        from ckptstore.run import Run

        return Run(self.opened.config, self.run)

    def history(self, run: str | None = None) -> "History":
        """What a run holds. Raises `OutOfReach`, and `NotFoundError` where there is no store."""
        from ckptstore.selection import Selector, history_for

        return history_for(self.opened, run or self.run, Selector())

    def runs(self) -> list[str]:
        """The runs that there are."""
        from ckptstore.store import Store

        return Store(self.config).runs()

    def check_run_is_known(self) -> None:
        """An empty run is fine; one that was never opened while others were is a slip of the pen: `NotFoundError`."""
        runs = self.runs()
        if runs and self.run not in runs:
            raise NotFoundError(f"there is no run {self.run}; there are {joined(runs)}", hint="run: ckpt ls --all-runs")

    def cause(self, error: BaseException) -> BaseException:
        """`AccessDenied` in the place of `OutOfReach` where targets are in reach and refuse us, all that fail."""
        if not isinstance(error, OutOfReach) or "opened" not in vars(self):
            return error
        from manifests import paths

        replies = self.opened.on_targets(lambda target: target.get(paths.IDENTITY)).values()
        errors = [reply for reply in replies if isinstance(reply, TargetError)]
        denied = [reply for reply in errors if isinstance(reply, AccessDenied)]
        return denied[0] if denied and len(denied) == len(errors) else error

    @contextmanager
    def watching(self) -> "Iterator[Observer]":
        """Give an observer; show what it hears: bars while a person watches, notes about targets that fail.

        With -v about fragments too.
        """
        from ckptstore.cli.progress import Progress

        progress = Progress(self.output, verbose=self.verbose)
        try:
            yield progress.observe
        finally:
            progress.close()

    def check_run(self) -> None:
        """Raise `UsageError` for a name that no run can have."""
        from ckptstore.names import check_run

        check_run(self.run)


def command(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options that all commands have; the function gets them as its first argument, a `Call`.

    What the function raises ends here: it is told, and its exit code returned.
    """

    @wraps(function)
    def called(*args: Any, store: str | None, run: str, as_json: bool, verbose: bool, **options: Any) -> int:
        call = Call(function.__name__.removesuffix("_"), store=store, run=run, as_json=as_json, verbose=verbose)
        begun = time.monotonic()
        try:
            code = function(call, *args, **options)
        except (SystemExit, OutputError):
            raise
        except BaseException as error:  # noqa: BLE001 - told, whatever it is, a panic of a client too; its code says which
            if verbose:
                sys.stderr.write(redacted("".join(traceback.format_exception(error))))
            code = call.output.failure(failure_of(call.cause(error)))
        if METRICS_DIR in os.environ:
            from ckptstore.cli.recording import record

            record(call, options, code, time.monotonic() - begun)
        return code

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    called.__signature__ = inspect.Signature([*own, *_COMMON])  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *_COMMON]}
    return called


def _common(name: str, *, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_COMMON = [
    _common("store", default=None, annotation=StoreOption),
    _common("run", default="default", annotation=RunOption),
    _common("as_json", default=False, annotation=JsonOption),
    _common("verbose", default=False, annotation=VerboseOption),
]
