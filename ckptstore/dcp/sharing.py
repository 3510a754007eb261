"""State that every rank wants alike (DDP) is read from the store once, and passed on by the process group.

    plan (rank 0: who reads what) → each rank reads its part → one word of how it went → broadcasts, in one order

The bytes that travel are those that were read and verified. What a rank receives comes to its tensors only after it has
matched a CRC32C as well: the network is one more thing that may be wrong.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.planner import ReadItem

import erasure
from ckptstore.buffers import Bytes
from ckptstore.errors import CorruptError

PART = 16 << 20
"""Bytes that are passed on, checked and copied at a time."""

__all__ = ["Key", "Owners", "Sharing", "digest_of", "key_of_item", "share_out", "sharing_group"]

Key = tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Of a read: the tensor's key, the chunk's offsets, and the box within the chunk."""

Owners = dict[Key, int]
"""Of each read that all ranks want, the rank that does it. In the order of the broadcasts."""


def key_of_item(item: ReadItem) -> Key:
    """What two ranks want alike has one key, wherever each puts it."""
    index = item.storage_index
    return index.fqn, tuple(index.offset or ()), tuple(item.storage_offsets), tuple(item.lengths)


def digest_of(key: Key) -> bytes:
    """16 bytes that stand for a key where ranks tell one another what they read: two keys never share them."""
    return hashlib.blake2b(repr(key).encode(), digest_size=16).digest()


def share_out(common: Mapping[bytes, Key], ranks: int) -> dict[bytes, int]:
    """Give each tensor read that all ranks do to one of them, largest first to whoever has least. Objects stay."""
    loads = [0] * ranks
    owners: dict[bytes, int] = {}
    for digest, key in sorted(common.items(), key=lambda item: (-_elements(item[1]), item[1])):
        rank = loads.index(min(loads))
        loads[rank] += _elements(key)
        owners[digest] = rank
    return owners


@dataclass
class Sharing:
    """One load's exchange. Nothing is shared where there is no `group`."""

    group: dist.ProcessGroup | None = None
    owners: Owners = field(default_factory=dict)
    _sent: dict[Key, list[int]] = field(default_factory=dict)
    """The CRC32C of each part of what is to be passed on next, as its owners have it."""

    def is_shared(self, item: ReadItem) -> bool:
        """Whether one rank reads it for all."""
        return key_of_item(item) in self.owners

    def is_mine(self, item: ReadItem) -> bool:
        """Whether this rank is that one."""
        return self.owners[key_of_item(item)] == dist.get_rank(self.group)

    def tell(self, failure: Exception) -> None:
        """Let the others know that this rank won't take part: they would wait for it."""
        if self.owners:
            self.agree({}, failure)

    def agree(self, buffers: dict[Key, Bytes], failure: Exception | None) -> bool:
        """Whether every rank has read its part of `buffers`; False where one failed (`failure` says so here)."""
        rank = dist.get_rank(self.group)
        mine = {key: _digests(buffer) for key, buffer in buffers.items() if self.owners[key] == rank}
        answers: list[dict[Key, list[int]] | None] = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(answers, None if failure else mine, group=self.group)
        self._sent = {key: digests for answer in answers for key, digests in (answer or {}).items()}
        return None not in answers

    def pass_on(self, buffers: dict[Key, Bytes]) -> None:
        """Fill what others have read. Raises `CorruptError` where what came isn't what was sent."""
        beside = np.empty(min(PART, max((buffer.size for buffer in buffers.values()), default=0)), np.uint8)
        wrong = [key[0] for key, buffer in buffers.items() if not self._pass_on(key, buffer, beside)]
        if wrong:
            told = ", ".join(map(repr, wrong[:5]))
            message = f"rank {dist.get_rank(self.group)} received other bytes of {told} than were sent"
            raise CorruptError(message, hint="load again; if it lasts, look at the memory and network of its host")

    def _pass_on(self, key: Key, buffer: Bytes, beside: Bytes) -> bool:
        """Whether all of it is right. Whatever came wrong is left out, and the rest still received: others wait."""
        assert self.group is not None, "nothing is shared without a group"
        source = dist.get_global_rank(self.group, self.owners[key])
        is_mine = self.owners[key] == dist.get_rank(self.group)
        right = True
        for (start, length), digest in zip(erasure.cut(buffer.size, PART), self._sent[key], strict=True):
            part = buffer[start : start + length]
            moved = part if is_mine else beside[:length]
            dist.broadcast(torch.from_numpy(moved), src=source, group=self.group)
            if is_mine:
                continue
            if erasure.crc32c(moved) == digest:
                part[:] = moved
            else:
                right = False
        return right


def sharing_group(group: dist.ProcessGroup | None) -> dist.ProcessGroup | None:
    """A group of the same ranks that moves CPU memory; None where there is none, or one rank only."""
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size(group) == 1:
        return None
    chosen = group or dist.group.WORLD
    return chosen if "cpu" in dist.get_backend_config(chosen) else None


def _digests(buffer: Bytes) -> list[int]:
    return [erasure.crc32c(buffer[start : start + length]) for start, length in erasure.cut(buffer.size, PART)]


def _elements(key: Key) -> int:
    return int(np.prod(key[3], dtype=np.int64))
