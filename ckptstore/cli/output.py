"""Where a command's output goes: tables for people, or one JSON document a line for scripts.

With `--json` nothing but JSON is written to stdout, whatever happens, and the last line is always the summary:
`{"type": "summary", "command": …, "code": …}` with what was found, or with `kind`, `message` and `hint` of what
went wrong. Prose for people goes to stderr.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TextIO, cast

from ckptstore.cli.failures import Failure
from ckptstore.wording import printable

if TYPE_CHECKING:
    from rich.console import Console

GAP = 2
"""Spaces between the columns of a table."""

__all__ = ["Output", "make_console"]


class Output:
    """The output of one command."""

    def __init__(self, command: str, *, as_json: bool) -> None:
        self.command = command
        self.as_json = as_json

    def say(self, text: str) -> None:
        """A line of the answer, for people."""
        if not self.as_json:
            _print(text, sys.stdout)

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
        """A table of the answer, for people. Columns named in `right` hold numbers."""
        if not self.as_json:
            cells = [[printable(cell) for cell in row] for row in rows]
            show = _show_table if sys.stdout.isatty() else _print_table
            show(headings, cells, [heading in right for heading in headings])

    def write_bytes(self, data: memoryview) -> None:
        """Bytes of the answer, as they are: of a command that says nothing else on stdout."""
        cast("Any", sys.stdout).write_bytes(data)  # `with_streams` put it there

    def note(self, text: str) -> None:
        """A remark beside the answer, on stderr."""
        _print(text, sys.stderr, style="dim")

    def record(self, kind: str, /, **found: Any) -> None:
        """One JSON line of an answer that comes bit by bit."""
        if self.as_json:
            _write({"type": kind, **found})

    def summary(self, code: int, /, **found: Any) -> int:
        """The last JSON line: all of the answer, or its sum. Returns `code`."""
        self.record("summary", command=self.command, code=code, **found)
        return code

    def failure(self, failure: Failure, **found: Any) -> int:
        """Say what went wrong: in words on stderr, and as the last line of JSON, with what was found all the same."""
        _print(f"error: {failure.message}", sys.stderr, style="bold red")
        _print(f"  next: {failure.next}", sys.stderr)
        return self.summary(failure.code, kind=failure.kind, message=failure.message, hint=failure.hint, **found)


def make_console(*, stderr: bool) -> "Console":
    """A console that takes text literally, for a terminal."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def _print(text: str, stream: TextIO, style: str = "") -> None:
    """With colour on a terminal. Elsewhere as it is, and without the time that it takes to import rich."""
    if stream.isatty():
        make_console(stderr=stream is sys.stderr).print(printable(text), style=style, soft_wrap=True)
    else:
        stream.write(f"{printable(text)}\n")


def _show_table(headings: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
    """On a terminal: as wide as it is, long cells folded."""
    from rich.table import Table

    table = Table(box=None, show_header=any(headings), pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for heading, is_number in zip(headings, right, strict=True):
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    make_console(stderr=False).print(table)


def _print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
    """In a file or a pipe: one line a row, nothing is cut."""
    lines = [*([headings] if any(headings) else []), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, right, strict=True)
        ]
        sys.stdout.write((" " * GAP).join(cells).rstrip() + "\n")


def _write(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(_plain(document)) + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    """What JSON can hold: records of any kind as objects, sequences as lists, the rest by its own words."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    names = _field_names(value)
    if names is not None:
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return str(value)


def _field_names(value: Any) -> Sequence[str] | None:
    """Of a dataclass, a named tuple or a stored document; None for anything else."""
    if is_dataclass(value):
        return [field.name for field in fields(value)]
    names: Sequence[str] | None = getattr(value, "_fields", None) or getattr(value, "__struct_fields__", None)
    return names and [name for name in names if name != "extra"]
