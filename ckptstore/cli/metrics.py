"""`ckpt metrics`: what a verify of the store finds, for Prometheus."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.failures import failure_of
from ckptstore.cli.wording import count
from ckptstore.errors import CkptStoreError, UsageError

if TYPE_CHECKING:
    from ckptstore.telemetry import PrometheusObserver

AllRuns = Annotated[bool, typer.Option("--all-runs", help="Look at every run, those too that begin later.")]
Textfile = Annotated[
    Path | None,
    typer.Option("--textfile", metavar="PATH", help="Write them to this file, by rename: a name that ends in .prom."),
]
Listen = Annotated[
    str | None, typer.Option("--listen", metavar="HOST:PORT", help="Serve them over HTTP until SIGTERM or Ctrl-C.")
]
Every = Annotated[str | None, typer.Option("--every", metavar="TIME", help="With --listen: look again so often [15m].")]
EVERY = "15m"

__all__ = ["metrics"]


def metrics(
    call: Call, all_runs: AllRuns = False, textfile: Textfile = None, listen: Listen = None, every: Every = None
) -> int:
    """Look at a run as `ckpt verify` does, and tell what is found as Prometheus metrics.

    Prints them, writes them for node_exporter's textfile collector, or serves them. docs/metrics.md says what each
    means. Reads no data and writes nothing to the store. Exits 0 where all runs could be looked at, whatever was found;
    else the metrics of the others are told, and the code is that of the last failure. Needs the extra
    `ckptstore[metrics]`.
    """
    from ckptstore.listening import subscribe, unsubscribe
    from ckptstore.telemetry import PrometheusObserver, write_textfile
    from ckptstore.telemetry.exposing import check_textfile

    seconds = _seconds(every, listen, textfile)
    if textfile is not None:
        check_textfile(textfile)
    found, looks = PrometheusObserver(), _Looks(call, all_runs=all_runs)
    subscribe(found)
    try:
        if listen is not None:
            return _serve(call, found, listen, seconds, looks)
        looks.look()
    finally:
        unsubscribe(found)
    if textfile is None:
        _print(call, found)
    else:
        write_textfile(found.registry, textfile)
        call.output.say(f"wrote {textfile}")
    return call.output.summary(looks.code, store=call.config.name, textfile=textfile)


def _seconds(every: str | None, listen: str | None, textfile: Path | None) -> float:
    """Between two looks. Raises `UsageError` for options that don't go together."""
    from ckptstore.errors import ConfigError
    from ckptstore.retention import parse_duration

    if listen is not None and textfile is not None:
        raise UsageError(
            "--listen serves, --textfile writes once: one of them is wanted", hint="see: ckpt metrics --help"
        )
    if every is not None and listen is None:
        raise UsageError("--every goes with --listen", hint="write a file again and again from cron or a systemd timer")
    try:
        seconds = parse_duration(every or EVERY, "every")
    except ConfigError:
        seconds = 0.0
    if seconds < 1:
        raise UsageError(f"--every {every}: a time of a second or more is wanted, as in 90s, 15m, 1h")
    return seconds


class _Looks:
    """Looks at a store, one after another; the metrics hear of what is found."""

    def __init__(self, call: Call, *, all_runs: bool) -> None:
        self._call = call
        self._all_runs = all_runs
        self._runs: list[str] = [] if all_runs else [call.run]
        self.made = 0
        self.code = 0

    def look(self) -> None:
        """Look once. `code` is then 0, or the exit code of the last failure to do so.

        Raises `CkptStoreError` where the runs can't be listed, and none were before.
        """
        self._list_runs()
        self.code = 0
        for run in self._runs:
            try:
                _look_at(self._call, run)
                self._call.output.record("run", run=run, code=0)
            except CkptStoreError as error:
                self.code = _tell(self._call, run, error)
        self.made += 1

    def _list_runs(self) -> None:
        if not self._all_runs:
            return
        try:
            self._runs = self._call.runs()
        except CkptStoreError:
            if not self._runs:
                raise  # those that are known are looked at all the same: each of them tells that it can't be


def _look_at(call: Call, run: str) -> None:
    from ckptstore.listening import tell
    from ckptstore.operations.telling import listed
    from ckptstore.run import Run

    Run(call.opened.config, run).verify()
    tell(listed(call.history(run)))


def _tell(call: Call, run: str, error: CkptStoreError) -> int:
    """Why a run could not be looked at."""
    failure = failure_of(call.cause(error))
    call.output.note(f"run {run} could not be looked at: {failure.message}")
    call.output.note(f"  next: {failure.next}")
    call.output.record("run", run=run, **failure._asdict())
    return failure.code


def _print(call: Call, found: "PrometheusObserver") -> None:
    """In Prometheus' text format; as JSON one line a sample."""
    from ckptstore.telemetry.exposing import exposition

    for line in exposition(found.registry).splitlines():
        call.output.say(line)
    for family in found.registry.collect():
        for sample in family.samples:
            call.output.record("sample", name=sample.name, labels=sample.labels, value=sample.value)


def _serve(call: Call, found: "PrometheusObserver", address: str, seconds: float, looks: _Looks) -> int:
    """Serve until a signal. What can't be looked at is told, and tried again at the next look."""
    from ckptstore.telemetry import serve

    with serve(found.registry, address) as server:
        where = f"http://{address.rpartition(':')[0]}:{server.port}/metrics"
        call.output.record("listening", url=where)
        call.output.note(f"serving {where}")
        try:
            while True:
                looks.look()
                time.sleep(seconds)
        except KeyboardInterrupt:  # SIGTERM raises one too: to be stopped is how a service ends well
            call.output.note(f"stopped after {count(looks.made, 'look')}")
    return call.output.summary(0, store=call.config.name, looks=looks.made, last=looks.code)
