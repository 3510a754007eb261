"""How a command ended, for node_exporter: a nightly job is gone by the time that anybody asks for its metrics.

Where CKPT_METRICS_DIR names the folder of a textfile collector, each command that does work on a run leaves a file
there, of its own: none holds a series that another has.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ckptstore.cli.call import METRICS_DIR, Call
from ckptstore.cli.failures import BAD_USAGE, INTERRUPTED, TERMINATED, failure_of
from ckptstore.errors import UsageError

WORKS = ("save", "restore", "verify", "repair", "prune", "copy", "drill")
PARTIAL = ("which", "step", "name", "tag")
"""Options by which one checkpoint is meant: that one was verified says nothing of the others."""
READING = ("read_data", "read_data_subset")
DONE = {"verify": (0, 3, 4)}
"""Exit codes of work that was done, where that is not 0 alone: what verify found is no failure to verify."""

__all__ = ["record"]


def record(call: Call, options: Mapping[str, Any], code: int, seconds: float) -> None:
    """Leave a file about a command that exits with `code`. A failure to do so is noted, and fails nothing.

    A dry run is no work, and a command line that can't be no try.
    """
    command = call.output.command
    selects = command in {"verify", "repair"} and any(options.get(name) is not None for name in PARTIAL)
    several = bool(options.get("all_runs"))  # its code is that of the worst of them
    no_work = command not in WORKS or selects or several or options.get("dry_run")
    if no_work or code == BAD_USAGE or "config" not in vars(call):
        return
    work = f"{command}_data" if command == "verify" and any(map(options.get, READING)) else command
    try:
        _write(call, work, _outcome(command, code), seconds)
    except (OSError, UsageError) as error:
        failure = failure_of(error)
        call.output.note(f"{METRICS_DIR}: {failure.message}  (next: {failure.hint})")


def _write(call: Call, work: str, outcome: str, seconds: float) -> None:
    from ckptstore.events import WorkBegan, WorkEnded
    from ckptstore.telemetry.exposing import write_textfile
    from ckptstore.telemetry.metrics import PrometheusObserver

    call.check_run()  # it becomes part of a file's name
    metrics = PrometheusObserver()
    metrics(WorkBegan(0, work, call.run, None))
    metrics(WorkEnded(0, work, call.run, None, seconds, 0, outcome, ""))
    name = f"ckptstore_{call.config.name}_{call.run}_{work}.prom"
    write_textfile(metrics.registry, Path(os.environ[METRICS_DIR]) / name)


def _outcome(command: str, code: int) -> str:
    if code in DONE.get(command, (0,)):
        return "ok"
    return "interrupted" if code in {INTERRUPTED, TERMINATED} else "failed"
