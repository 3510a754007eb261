"""Removing objects from targets: index first, then records, then fragments, so that no reader begins what can't end."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ckptstore.errors import CkptStoreError, CorruptError, TargetError
from ckptstore.opened import Opened
from ckptstore.operations.inventory import Named, entries_of, orphans_on
from ckptstore.source import batches
from ckptstore.targets import Entry, Target
from manifests import Checkpoint

_AT_ONCE = 1000
"""Objects that one request of S3 deletes at most."""

__all__ = ["Removal"]


@dataclass
class Removal:
    """What was removed, or in a dry run would be: objects and bytes; and by place what couldn't be, and why."""

    dry_run: bool = False
    objects: int = 0
    bytes: int = 0
    failed: dict[str, str] = field(default_factory=dict)

    def remove_checkpoints(self, opened: Opened, run: str, checkpoints: Sequence[Checkpoint]) -> None:
        """Remove what checkpoints name, on whichever target it is: each target is listed once for all of them.

        Where no good copy of an index is left, damaged or removed by another prune, the shards that it named are named
        by nothing from then on: they go with the orphans.
        """
        if not checkpoints:
            return
        named = Named()
        for checkpoint in checkpoints:
            try:
                named.add(opened, checkpoint)
            except CorruptError:
                continue
            except CkptStoreError as error:
                self.failed[f"{checkpoint.session}.{checkpoint.ordinal:06d}"] = error.message
        self._remove(opened, lambda target: entries_of(target, run, named))

    def remove_orphans(self, opened: Opened, run: str, named: Named, before: Mapping[str, datetime]) -> None:
        """Remove what was put before the time given for its target, and isn't named; from those targets alone."""
        standings = opened.group.standings
        counting = {name: s.incarnation for name, s in standings.items() if s.state == "valid"}
        self._remove(
            opened,
            lambda target: orphans_on(target, run, named, counting.get(target.name), before[target.name]),
            before,
        )

    def _remove(
        self, opened: Opened, find: Callable[[Target], Iterable[Entry]], names: Iterable[str] | None = None
    ) -> None:
        for name, reply in opened.on_targets(lambda target: self._remove_from(target, find(target)), names).items():
            if isinstance(reply, TargetError):
                self.failed[name] = reply.message
                continue
            removed, failed = reply
            self.objects += len(removed)
            self.bytes += sum(entry.size for entry in removed)
            self.failed |= {f"{name}: {path}": error.message for path, error in failed.items()}

    def _remove_from(self, target: Target, found: Iterable[Entry]) -> tuple[list[Entry], dict[str, TargetError]]:
        """What was removed from one target, and what couldn't be. Raises `TargetError` where it can't be asked."""
        removed: list[Entry] = []
        failed: dict[str, TargetError] = {}
        for entries in batches(found, lambda _: 1, _AT_ONCE):
            if not self.dry_run:
                failed |= target.delete([entry.path for entry in entries])
            removed += [entry for entry in entries if entry.path not in failed]
        return removed, failed
