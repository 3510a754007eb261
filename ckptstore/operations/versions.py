"""Versions of a checkpoint that several repairs put at once, each with the shards that it moved: brought together."""

from collections.abc import Sequence

from ckptstore.errors import CkptStoreError
from ckptstore.load.documents import fetch_document
from ckptstore.opened import Opened
from ckptstore.protocolerrors import protocol_errors
from manifests import Checkpoint, Index, ShardReference

__all__ = ["find_now", "indexes_of", "records_of"]


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


def records_of(indexes: Sequence[Index]) -> dict[str, dict[str, ShardReference]]:
    """Of each shard its references by the path of their record, in the order in which those came up.

    Every record has its own path, and none comes back: the last of them is the newest, whatever a version says that was
    made without knowing of it.
    """
    found: dict[str, dict[str, ShardReference]] = {}
    for shard in (shard for index in indexes for shard in index.shards):
        found.setdefault(shard.shard_id, {}).setdefault(shard.record.path, shard)
    return found
