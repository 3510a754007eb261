"""What the demo shows: numbered steps, one line for each check, and a spinner while a person waits."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

__all__ = ["CheckError", "Report"]


class CheckError(Exception):
    """A check of the demo did not hold; the message says what was wanted and what was found."""


class Report:
    """Writes to stdout. The first check that fails raises CheckError: later steps build on earlier ones."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._start = time.monotonic()
        self.checks = 0

    def title(self, text: str, detail: str) -> None:
        """Say what is about to be seen."""
        self._console.print(f"[bold]{escape(text)}[/]\n[dim]{escape(detail)}[/]")

    def step(self, number: int, text: str) -> None:
        """Announce a step."""
        self._console.print(f"\n[bold cyan]{number}[/]  [bold]{escape(text)}[/]")

    def check(self, held: bool, text: str, otherwise: object = "") -> None:
        """Tick `text` if it held; else print what was found instead and raise CheckError."""
        if held:
            self.checks += 1
            self._console.print(f"   [green]✓[/] {escape(text)}  [dim]{self.seconds:.0f} s[/]")
            return
        self._console.print(f"   [red]✗[/] {escape(text)}\n     found: {escape(str(otherwise))}")
        raise CheckError(text)

    def note(self, text: str) -> None:
        """Say something that is neither held nor failed."""
        self._console.print(f"   - {escape(text)}")

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Show `text` with a spinner while the block runs, on a terminal only."""
        if not self._console.is_terminal:
            yield
            return
        with self._console.status(f"[dim]{escape(text)}[/]"):
            yield

    def last(self, held: bool, text: str) -> None:
        """Print the verdict."""
        self._console.print(f"\n[bold {'green' if held else 'red'}]{escape(text)}[/]")

    @property
    def seconds(self) -> float:
        """Time since the demo began."""
        return time.monotonic() - self._start
