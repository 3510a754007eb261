"""Progress bars on stderr while a person watches, and notes about what goes wrong underneath."""

import sys
import threading
from typing import Any

from ckptstore.cli.output import Output, make_console
from ckptstore.events import Event, FragmentDamaged, TargetFailed
from ckptstore.events import Progress as Step

__all__ = ["Progress"]


class Progress:
    """Listens to the events of one command. Thread-safe."""

    def __init__(self, output: Output, *, verbose: bool) -> None:
        self._output = output
        self._verbose = verbose
        self._lock = threading.Lock()
        self._tasks: dict[str, Any] = {}
        self._bars: Any = _bars() if sys.stderr.isatty() else None

    def observe(self, event: Event) -> None:
        """An `Observer`."""
        with self._lock:
            if isinstance(event, Step):
                self._advance(event)
            elif isinstance(event, TargetFailed):
                self._output.note(f"target {event.target} stopped answering ({event.work}): {event.reason}")
            elif isinstance(event, FragmentDamaged) and self._verbose:
                self._output.note(f"{event.path} on {event.target}: {event.reason}")

    def close(self) -> None:
        """Take the bars off the screen."""
        if self._bars is not None:
            self._bars.stop()

    def _advance(self, step: Step) -> None:
        if self._bars is None:
            return
        if step.work not in self._tasks:
            self._bars.start()
            self._tasks[step.work] = self._bars.add_task(step.work, total=step.total)
        self._bars.update(self._tasks[step.work], advance=step.done, total=step.total)


def _bars() -> Any:
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    return Bars(*columns, console=make_console(stderr=True), transient=True)
