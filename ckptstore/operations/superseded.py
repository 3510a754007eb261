"""The documents of versions that newer ones have taken the place of: they are kept as long as their checkpoint.

They count for nothing that a checkpoint survives. But a repair is to leave a store byte-equal to one that nothing
happened to, so their copies are looked at and put back like all others.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import msgspec

from ckptstore.errors import CkptStoreError
from ckptstore.load.documents import fetch_document, fetch_stored
from ckptstore.opened import Opened
from ckptstore.operations.health import CheckpointHealth, Superseded
from ckptstore.operations.subsets import Window
from ckptstore.operations.survey import survey_document
from manifests import Checkpoint, Index, Reference, ShardRecord

if TYPE_CHECKING:
    from ckptstore.operations.findings import Finding

__all__ = ["survey_superseded"]


def survey_superseded(opened: Opened, checkpoint: Checkpoint, health: CheckpointHealth, shards: Window) -> None:
    """Add copies that are missing or damaged to what was found, where a good one is left to put them back from.

    Of records those of `shards` only. Copies on what is out of reach, or is no target any more, are passed over.
    """
    known = {copy.index.path for copy in checkpoint.manifest.copies}
    known |= {shard.reference.record.path for shard in health.shards}
    places = {place.target for place in opened.places}
    for what, kind, reference in _older(opened, checkpoint, known, shards):
        there = [name for name in reference.targets if name in places]
        found: list[Finding] = []
        asked = msgspec.structs.replace(reference, targets=there)
        bad = survey_document(opened, what, asked, kind, health.counts, found)
        if bad and _is_left(opened, kind, reference):
            health.superseded.append(Superseded(kind, reference, bad))
            health.findings += [finding for finding in found if finding.target in bad]


def _older(
    opened: Opened, checkpoint: Checkpoint, known: Collection[str], chosen: Window
) -> Iterator[tuple[str, type[Index | ShardRecord], Reference]]:
    """What older versions name and the newest doesn't, each once."""
    seen = set(known)
    for reference in [copy.index for version in checkpoint.versions[:-1] for copy in version.copies]:
        if reference.path in seen:
            continue
        seen.add(reference.path)
        yield "index", Index, reference
        try:
            shards = fetch_document(Index, reference, opened.targets).shards
        except CkptStoreError:
            continue
        mine = [shard.record for shard in shards if chosen.holds(shard.shard_id)]
        for record in [record for record in mine if record.path not in seen]:
            seen.add(record.path)
            yield "record", ShardRecord, record


def _is_left(opened: Opened, kind: type[Index | ShardRecord], reference: Reference) -> bool:
    try:
        fetch_stored(kind, reference, opened.targets)
    except CkptStoreError:
        return False
    return True
