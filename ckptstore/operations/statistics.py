"""What is to be said of a stored tensor's numbers, a part at a time."""

from ckptstore.operations.slices import Box, boxes_in, read_boxes
from ckptstore.operations.values import Stats, numbers_of
from ckptstore.source import Source

PART = 16 * 2**20
"""Bytes that are looked at together: arithmetic takes a few times as much memory."""

__all__ = ["stats_of"]


def stats_of(source: Source, box: Box) -> Stats:
    """Of a box of a tensor. Raises `UsageError` for a dtype without numbers, and as `Source.read`."""
    table = source.index.tensors
    dtype = table.dtype[table.position(box.fqn)]
    stats = Stats()
    for part in boxes_in(box, min(PART, source.opened.config.window_bytes // 4)):
        stats.add(numbers_of(read_boxes(source, [part])[0], dtype))
    return stats
