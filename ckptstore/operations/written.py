"""Whether a shard written anew holds the bytes that its original held, before it is committed.

Both are compared by what was recorded of them: the CRC32C of a stream follows from those of its blocks, however it is
cut. The original's were taken when it was saved, the copy's as it was encoded; between the two every byte was moved.
"""

from collections.abc import Iterator
from dataclasses import replace

import erasure
from ckptstore.errors import CorruptError, ToleranceError
from ckptstore.load.documents import fetch_record
from ckptstore.load.plan import Shard
from ckptstore.opened import Opened
from ckptstore.operations.findings import Counts
from ckptstore.operations.survey import survey_shard
from ckptstore.save.shard import SavedShard
from ckptstore.tolerance import weakest
from manifests import ShardRecord

__all__ = ["check_written", "stream_crc"]


def stream_crc(record: ShardRecord) -> int:
    """The CRC32C of a shard's stream, as the digests of its data fragments say. Reads nothing."""
    crc = 0
    for value, nbytes in _data_blocks(record):
        crc = erasure.crc32c_joined(crc, value, nbytes)
    return crc


def check_written(opened: Opened, run: str, original: ShardRecord, saved: SavedShard, *, read_back: bool) -> SavedShard:
    """Look at a shard on its targets: its record, that all of it is there, and with `read_back` every byte.

    Returns it with what it survives by that look. Raises `CorruptError` where a target doesn't hold what it took, or
    the bytes are others than the original's, and `ToleranceError` where targets went out of reach since.
    """
    record = fetch_record(saved.reference, opened.targets)
    if record.tensors != original.tensors or stream_crc(record) != stream_crc(original):
        message = f"shard {record.shard_id} holds other bytes than {original.shard_id}, whose copy it is"
        raise CorruptError(f"{message}; nothing was committed", hint="copy again; if it stays so, check the memory")
    chosen = range(len(record.stripes)) if read_back else ()
    survey = survey_shard(opened, Shard(run, record), saved.reference, {}, Counts(), chosen=chosen)
    wrong = [finding for finding in survey.findings if finding.target and finding.kind != "unreachable"]
    if wrong:
        message = f"{wrong[0].target} took {wrong[0].path} and now it is {wrong[0].kind} ({len(wrong)} such objects)"
        raise CorruptError(f"{message}; nothing was committed", hint="run: ckpt doctor --store of the other store")
    reached = weakest([saved.survives, *(stripe.survives(opened.domains) for stripe in survey.stripes)])
    required = opened.config.require_tolerance
    if reached.targets < required:
        message = f"what was written survives the loss of {reached.targets} targets by now, {required} required"
        raise ToleranceError(message, hint="run: ckpt doctor", reached=reached.targets, required=required)
    return replace(saved, survives=reached)


def _data_blocks(record: ShardRecord) -> Iterator[tuple[int, int]]:
    """The digest and the length of every block of data, in the order of the stream."""
    for stripe in record.stripes:
        code = record.codes[stripe.code]
        shape = erasure.StripeShape(code.k, code.m, stripe.length, record.digest.block)
        for fragment in range(code.k):
            for block in range(shape.blocks(fragment)):
                start, stop = shape.block_range(fragment, block)
                at = 4 * shape.crc_index(fragment, block)
                yield int.from_bytes(stripe.crc[at : at + 4], "little"), stop - start
