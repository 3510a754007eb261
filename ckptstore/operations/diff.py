"""`ckpt diff`: what one checkpoint holds that another doesn't, or holds otherwise.

The format records no digests of tensors, and those of blocks are of blocks that lie elsewhere under another code: bytes
are compared by reading them, verified, a part at a time on both sides.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ckptstore.arguments import check_observer
from ckptstore.buffers import Bytes
from ckptstore.dtypes import OBJECT
from ckptstore.events import Observer, Progress, ignore
from ckptstore.operations.slices import Box, boxes_in, read_boxes, whole_box
from ckptstore.source import Source, batches
from ckptstore.wording import shape_text

__all__ = ["DiffReport", "Difference", "diff", "kind_of"]

LONGEST = 60
"""Characters of an object's value that are told."""


@dataclass(frozen=True)
class Difference:
    """One name, or none for the state as a whole.

    `what`: "added", "gone", "dtype", "shape", "bytes", "value" (an object's) or "structure" (the containers').
    `before` and `after` in words; of tensors whose bytes differ also how many `elements` do.
    """

    fqn: str
    what: str
    before: str = ""
    after: str = ""
    elements: int | None = None


@dataclass
class DiffReport:
    """`differences` by name. `same`: tensors and objects that are equal, as far as they were compared.

    `compared`: bytes of tensors that were read of each; none where the structure alone was compared.
    """

    differences: list[Difference] = field(default_factory=list)
    same: int = 0
    compared: int = 0


def diff(one: Source, other: Source, *, structure: bool = False, observer: Observer = ignore) -> DiffReport:
    """What `other` has otherwise than `one`. `structure`: names, dtypes and shapes only, and no data is read.

    Raises `DataLost`, `OutOfReach`, `CorruptError` where something can't be read: it is not known to be equal then.
    """
    check_observer(observer)
    report = DiffReport()
    names, others = set(one.index.tensors), set(other.index.tensors)
    report.differences += [Difference(fqn, "gone", before=kind_of(one, fqn)) for fqn in names - others]
    report.differences += [Difference(fqn, "added", after=kind_of(other, fqn)) for fqn in others - names]
    alike = []
    for fqn in names & others:
        found = _declared(one, other, fqn)
        if found is None:
            alike.append(fqn)
        else:
            report.differences.append(found)
    if names == others and one.index.structure != other.index.structure:
        report.differences.append(Difference("", "structure"))
    if not structure:
        report.differences += _compare_objects(one, other, [fqn for fqn in alike if _is_object(one, fqn)])
        _compare_tensors(one, other, [fqn for fqn in alike if not _is_object(one, fqn)], report, observer)
    report.differences.sort(key=lambda difference: difference.fqn)
    report.same = len(names & others) - len({d.fqn for d in report.differences} & names & others - {""})
    return report


def kind_of(source: Source, fqn: str) -> str:
    """`float32 [1024, 16]`, or `object`."""
    table = source.index.tensors
    position = table.position(fqn)
    dtype = table.dtype[position]
    return dtype if dtype == OBJECT else f"{dtype} {shape_text(table.shape[position])}"


def _is_object(source: Source, fqn: str) -> bool:
    return kind_of(source, fqn) == OBJECT


def _declared(one: Source, other: Source, fqn: str) -> Difference | None:
    """Where they differ without a look at the data."""
    before, after = kind_of(one, fqn), kind_of(other, fqn)
    if before == after:
        return None
    what = "shape" if before.split()[0] == after.split()[0] else "dtype"
    return Difference(fqn, what, before, after)


def _compare_objects(one: Source, other: Source, names: list[str]) -> Iterator[Difference]:
    limits = [source.opened.config.window_bytes // 2 for source in (one, other)]
    for fqn in names:
        before, after = (source.read_object(fqn, limit) for source, limit in zip((one, other), limits, strict=True))
        if before != after:
            yield Difference(fqn, "value", _short(before), _short(after))


def _short(document: bytes) -> str:
    """The value of an object as it is stored, cut."""
    try:
        text = json.dumps(json.loads(document)["value"])
    except (ValueError, KeyError, TypeError, RecursionError):
        text = repr(document)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _compare_tensors(one: Source, other: Source, names: list[str], report: DiffReport, observer: Observer) -> None:
    """Part by part, in the order in which the first one is stored, so that each of its stripes is read about once."""
    limit = min(source.opened.config.window_bytes for source in (one, other)) // 4
    wholes = sorted((whole_box(one, fqn) for fqn in names), key=lambda box: _place(one, box))
    total = sum(box.nbytes for box in wholes)
    differing: dict[str, int] = {}
    parts = (part for whole in wholes for part in boxes_in(whole, limit))
    for batch in batches(parts, lambda part: part.nbytes, limit):
        for part, before, after in zip(batch, read_boxes(one, batch), read_boxes(other, batch), strict=True):
            if count := _differing(before, after, part):
                differing[part.fqn] = differing.get(part.fqn, 0) + count
        observer(Progress("diff", sum(part.nbytes for part in batch), total))
    report.compared = total
    for fqn, count in differing.items():
        kind = kind_of(one, fqn)
        report.differences.append(Difference(fqn, "bytes", kind, kind, count))


def _place(source: Source, box: Box) -> tuple[int, int, str]:
    """Where a tensor's first chunk is stored."""
    chunk = source.index.tensors[box.fqn].chunks[0]
    ((_, entry),) = source.locate([(box.fqn, chunk.offsets)])
    return chunk.shard, entry.offset, box.fqn


def _differing(before: Bytes, after: Bytes, part: Box) -> int:
    """How many elements have other bits."""
    if np.array_equal(before, after):
        return 0
    return int((before != after).reshape(-1, part.itemsize).any(axis=1).sum())
