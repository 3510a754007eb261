"""Where a command's output goes: tables for people, or one JSON document a line for scripts.

With `--json` nothing but JSON is written to stdout, whatever happens, and the last line is always the summary:
`{"type": "summary", "command": …, "code": …}` with what was found, or with `kind`, `message` and `hint` of what
went wrong. Prose for people goes to stderr.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ckptstore.cli.failures import Failure

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

UNBOUNDED = 4096
"""Columns of a table that goes to a file or a pipe: nothing is cut there."""

__all__ = ["Output", "make_console", "printable", "silence"]


class Output:
    """The output of one command."""

    def __init__(self, command: str, *, as_json: bool) -> None:
        self.command = command
        self.as_json = as_json

    @cached_property
    def console(self) -> "Console":
        """Stdout, for people."""
        return make_console(stderr=False)

    @cached_property
    def errors(self) -> "Console":
        """Stderr."""
        return make_console(stderr=True)

    def say(self, text: str) -> None:
        """A line of the answer, for people."""
        if not self.as_json:
            self.console.print(printable(text), soft_wrap=True)

    def table(self, headings: list[str], rows: list[list[str]], *, right: tuple[str, ...] = ()) -> None:
        """A table of the answer, for people. Columns named in `right` hold numbers."""
        if not self.as_json:
            self.console.print(_table(headings, rows, right))

    def note(self, text: str) -> None:
        """A remark beside the answer, on stderr."""
        self.errors.print(printable(text), style="dim", soft_wrap=True)

    def record(self, kind: str, /, **found: Any) -> None:
        """One JSON line of an answer that comes bit by bit."""
        if self.as_json:
            _write({"type": kind, **found})

    def summary(self, code: int, /, **found: Any) -> int:
        """The last JSON line: all of the answer, or its sum. Returns `code`."""
        self.record("summary", command=self.command, code=code, **found)
        return code

    def failure(self, failure: Failure) -> int:
        """Say what went wrong: in words on stderr, and as the last line of JSON."""
        self.errors.print(f"error: {printable(failure.message)}", style="bold red", soft_wrap=True)
        self.errors.print(f"  next: {printable(failure.hint.removeprefix('run: '))}", soft_wrap=True)
        return self.summary(failure.code, kind=failure.kind, message=failure.message, hint=failure.hint)


def make_console(*, stderr: bool) -> "Console":
    """A console that takes text literally. A table in a pipe is as wide as it needs to be."""
    from rich.console import Console

    console = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = UNBOUNDED
    return console


def silence() -> None:
    """Write no more: the pipe is closed, and the interpreter would complain when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """`text` with control characters, and what can't be encoded, spelled out: names are data, not commands to a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def _table(headings: list[str], rows: list[list[str]], right: tuple[str, ...]) -> "Table":
    from rich.table import Table

    table = Table(box=None, show_header=any(headings), pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(printable, row))
    return table


def _write(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(_plain(document)) + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    """Dataclasses, named tuples and stored documents as objects, other sequences as lists, the rest by its own words."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "__struct_fields__"):
        names = (name for name in value.__struct_fields__ if name != "extra")
        return {name: _plain(getattr(value, name)) for name in names}
    return str(value)
