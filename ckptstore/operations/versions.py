"""Versions of a checkpoint that several repairs put at once, each with the shards that it moved: brought together."""

from collections.abc import Sequence

from ckptstore.errors import CkptStoreError
from ckptstore.load.documents import fetch_document
from ckptstore.opened import Opened
from ckptstore.protocolerrors import protocol_errors
from manifests import Checkpoint, Index, ShardReference

__all__ = ["find_now", "indexes_of", "newest_references"]


def find_now(opened: Opened, checkpoint: Checkpoint) -> Checkpoint | None:
    """The checkpoint with every version that was put by now; None where it is gone."""
    with protocol_errors():
        return opened.group.history(checkpoint.manifest.run).find(*checkpoint.key)


def indexes_of(opened: Opened, checkpoint: Checkpoint) -> list[Index]:
    """The index of each version, in their order; older ones that can't be read are left out.

    Raises as `fetch_document` where that of the version that counts can't.
    """
    found = []
    for version in checkpoint.versions[:-1]:
        try:
            found.append(fetch_document(Index, version.copies[0].index, opened.targets))
        except CkptStoreError:
            continue
    return [*found, fetch_document(Index, checkpoint.manifest.copies[0].index, opened.targets)]


def newest_references(indexes: Sequence[Index]) -> list[ShardReference]:
    """Of each shard the reference that was the last to come up: every record has its own path, and none comes back.

    So a version that was made without knowing of another one takes nothing away from it.
    """
    seen: set[str] = set()
    newest: dict[str, ShardReference] = {}
    for shard in (shard for index in indexes for shard in index.shards):
        if shard.record.path not in seen:
            seen.add(shard.record.path)
            newest[shard.shard_id] = shard
    return [newest[shard.shard_id] for shard in indexes[-1].shards]
