"""`ckpt cat`: what stands in one tensor or object."""

import json
import sys
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.selecting import selected
from ckptstore.cli.wording import count, shape_text, size
from ckptstore.errors import CorruptError, NotFoundError, UsageError

if TYPE_CHECKING:
    from ckptstore.operations.slices import Box
    from ckptstore.source import Source

Checkpoint = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="A step, a name, `latest`, `tag:NAME`, or a key.")
]
What = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="A tensor or an object, as `ckpt ls --tensors` lists them; for --stats a GLOB."
    ),
]
Stats = Annotated[bool, typer.Option("--stats", help="Least, greatest, mean, and how many are NaN or infinite.")]
Raw = Annotated[bool, typer.Option("--raw", help="Write the bytes to stdout: little-endian, row after row.")]
Slice = Annotated[
    str | None,
    typer.Option("--slice", metavar="RANGES", help='Only a part, as in "0:10,:".', show_default=False),
]

CORNER = 6
"""Rows and columns that a person sees of a tensor."""

__all__ = ["cat"]


def cat(call: Call, which: Checkpoint, name: What, stats: Stats = False, raw: Raw = False, slice_: Slice = None) -> int:
    """Show a tensor's first numbers, or an object as typed JSON (docs/format.md).

    With --stats all of the tensor's numbers are read, or of all tensors that match a GLOB; with --raw its bytes, whole
    or a part, go to stdout. Whatever is read is verified, and no block is read that isn't needed.
    """
    from ckptstore.selection import Selector, select
    from ckptstore.source import Source

    _check(call, stats=stats, raw=raw)
    with call.watching() as observer:
        chosen = select(call.opened, call.run, selected(which, None, None, None) or Selector())
        source = Source.open(call.opened, chosen, observer)
        names = _names(source, name)
        if stats:
            return _show_stats(call, source, names, slice_)
        if len(names) > 1:
            raise UsageError(
                f"{name!r:.100} matches {len(names)} names", hint=f"name one: {names[0]!r:.100}, or --stats"
            )
        if source.index.tensors[names[0]].dtype == "object":
            return _show_object(call, source, names[0], slice_, raw=raw)
        box = _box(source, names[0], slice_)
        return _write(call, source, box) if raw else _show_corner(call, source, box)


def _check(call: Call, *, stats: bool, raw: bool) -> None:
    if raw and (stats or call.output.as_json):
        raise UsageError("--raw writes bytes and nothing else", hint="leave out --stats and --json")
    if raw and sys.stdout.isatty():
        raise UsageError("stdout is a terminal, and bytes are no text", hint="ckpt cat … --raw > FILE")


def _names(source: "Source", name: str) -> list[str]:
    """The name itself, or else those that match it. Raises `NotFoundError`."""
    table = source.index.tensors
    names = [name] if name in table else [fqn for fqn in table if fnmatchcase(fqn, name)]
    if not names:
        raise NotFoundError(f"no tensor or object matches {name!r:.100}", hint="see their names: ckpt ls --tensors")
    return names


def _box(source: "Source", name: str, slice_: str | None) -> "Box":
    from ckptstore.operations.slices import parse_slice, whole_box

    box = whole_box(source, name)
    return box if slice_ is None else parse_slice(slice_, box)


def _fields(source: "Source", box: "Box") -> dict[str, Any]:
    entry = source.index.tensors[box.fqn]
    part = {"offsets": box.offsets, "sizes": box.sizes}
    return {"name": box.fqn, "dtype": entry.dtype, "shape": entry.shape, **part, "bytes": box.nbytes}


def _show_object(call: Call, source: "Source", name: str, slice_: str | None, *, raw: bool) -> int:
    if slice_ is not None:
        raise UsageError(f"{name!r:.100} is an object, and has no slices", hint="leave out --slice")
    data = source.read_object(name, source.opened.config.window_bytes // 2)
    if raw:
        call.output.write_bytes(memoryview(data))
        return 0
    value = _value(name, data)
    call.output.say(json.dumps(value))
    return call.output.summary(0, run=call.run, name=name, dtype="object", value=value)


def _value(name: str, data: bytes) -> Any:
    """The typed JSON; of a pickle that was stored all the document, for it is never read."""
    try:
        document = json.loads(data)
        return document.get("value", document)
    except (ValueError, AttributeError, RecursionError) as error:
        raise CorruptError(f"object {name!r:.100} is no typed JSON: {error}", hint="run: ckpt verify") from error


def _write(call: Call, source: "Source", box: "Box") -> int:
    from ckptstore.operations.slices import boxes_in, read_boxes

    for part in boxes_in(box, source.opened.config.window_bytes // 4):
        (data,) = read_boxes(source, [part])
        call.output.write_bytes(data.data)
    return 0


def _show_corner(call: Call, source: "Source", box: "Box") -> int:
    import numpy as np

    from ckptstore.operations.slices import read_boxes
    from ckptstore.operations.values import numbers_of

    seen = [min(length, CORNER if axis >= len(box.sizes) - 2 else 1) for axis, length in enumerate(box.sizes)]
    corner = box._replace(sizes=tuple(seen))
    fields = _fields(source, box)
    numbers = numbers_of(read_boxes(source, [corner])[0], fields["dtype"]).reshape(seen)
    text = np.array2string(numbers, threshold=CORNER**3, max_line_width=100)
    of = "" if box.sizes == fields["shape"] else f", {shape_text(box.sizes)} of it from {shape_text(box.offsets)}"
    call.output.say(f"{box.fqn}: {fields['dtype']} {shape_text(fields['shape'])}{of}, {size(box.nbytes)}")
    for line in text.splitlines():
        call.output.say(line)
    if corner.sizes != box.sizes:
        call.output.say(f"… the first {shape_text(seen)}; all of them: --stats, or --raw")
    return call.output.summary(0, run=call.run, **fields, shown=corner.sizes, text=text)


def _show_stats(call: Call, source: "Source", names: list[str], slice_: str | None) -> int:
    from ckptstore.operations.statistics import stats_of
    from ckptstore.operations.values import has_numbers

    tensors = [name for name in names if has_numbers(source.index.tensors[name].dtype)]
    if not tensors:
        dtype = source.index.tensors[names[0]].dtype
        raise UsageError(f"{names[0]!r:.100} is of dtype {dtype}: it has no numbers to count", hint="leave out --stats")
    rows = []
    for name in tensors:
        box = _box(source, name, slice_)
        fields, found = _fields(source, box), stats_of(source, box)
        told = {each: getattr(found, each) for each in ("min", "max", "mean", "nan", "inf")}
        call.output.record("tensor", **fields, elements=found.count, **told)
        numbers = ["" if told[each] is None else f"{told[each]:.6g}" for each in ("min", "max", "mean")]
        rows.append([name, fields["dtype"], shape_text(box.sizes), *numbers, str(found.nan), str(found.inf)])
    headings = ["name", "dtype", "shape", "min", "max", "mean", "nan", "inf"]
    call.output.table(headings, rows, right=headings[3:])
    left_out = len(names) - len(tensors)
    beside = f"; {left_out} without numbers left out" if left_out else ""
    call.output.say(f"{count(len(tensors), 'tensor')}; least, greatest and mean of the finite numbers{beside}")
    return call.output.summary(0, run=call.run, tensors=len(tensors), left_out=left_out)
