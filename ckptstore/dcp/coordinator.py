"""Rank 0's part of a save: say that it begins, check that nothing planned is missing, write the index, commit."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch.distributed.checkpoint.metadata import STORAGE_TYPES, BytesStorageMetadata, Metadata
from torch.distributed.checkpoint.planner import SavePlan
from torch.distributed.checkpoint.storage import WriteResult

from ckptstore.commit import About, Commit
from ckptstore.dcp.naming import check_in_step
from ckptstore.dcp.pieces import address
from ckptstore.dcp.ranks import RankReport, report_of
from ckptstore.dcp.tensors import dtype_name
from ckptstore.dtypes import OBJECT
from ckptstore.errors import IncompleteSave, ReplicaMismatch
from ckptstore.save.shard import SavedShard
from ckptstore.source import Address
from manifests import Manifest, TableBuilder, TensorTable

Results = Sequence[Sequence[WriteResult]]
"""What each rank returned."""

Written = dict[str, dict[tuple[int, ...], int]]
"""Of each key, by offsets (none for a byte object), the shard that holds it as a position in the index."""

__all__ = ["Coordinator"]


@dataclass
class Coordinator:
    """One save, as rank 0 sees it."""

    commit: Commit
    about: About
    plans: Sequence[SavePlan] = ()

    def begin(self, plans: Sequence[SavePlan]) -> None:
        """Say that the save begins, before any rank writes."""
        self.plans = plans
        self.commit.begin()

    def finish(self, metadata: Metadata, results: Results, structure: Any) -> Manifest:
        """Commit what the ranks wrote.

        Raises `IncompleteSave`, `UsageError` where ranks call the save differently, `ReplicaMismatch`, and what a
        commit raises.
        """
        shards, tensors = self.gather(metadata, results, (structure or {}).get("aliases", {}))
        return self.commit.finish(
            shards,
            tensors,
            replace(self.about, world=len(results)),
            structure=structure,
            planner_data=[(fqn, list(path)) for fqn, path in (metadata.planner_data or {}).items()],
        )

    def gather(
        self, metadata: Metadata, results: Results, aliases: Mapping[str, str]
    ) -> tuple[list[SavedShard], TensorTable]:
        """All ranks' shards, and which holds what. `aliases`: {key: the key that its tensor is stored under}."""
        reports = [report_of(each) for each in results]
        written = _written(results, reports)
        for alias, name in aliases.items():
            written[alias] = written.get(name, {})
        self._check_complete(metadata, written, reports)
        present = [report for report in reports if report is not None]
        check_in_step([None if report is None else report.called for report in reports])
        _check_replicas(present)
        return [shard for report in present for shard in report.shards], _table(metadata, written)

    def _check_complete(self, metadata: Metadata, written: Written, reports: Sequence[RankReport | None]) -> None:
        """Raise `IncompleteSave` where something planned wasn't written, or a rank says nothing, naming the ranks."""
        lacking = [
            (fqn, offsets)
            for fqn, entry in metadata.state_dict_metadata.items()
            for offsets in _offsets(entry)
            if offsets not in written.get(fqn, {})
        ]
        silent = [rank for rank, report in enumerate(reports) if report is None]
        if lacking or silent:
            ranks = sorted({*silent, *self._owing(set(lacking))})
            names = ", ".join(repr(fqn) for fqn, _ in lacking[:5])
            message = (
                f"{len(lacking)} planned pieces were not written ({names}) by ranks {ranks}; nothing was committed"
            )
            raise IncompleteSave(message, ranks=ranks, keys=[fqn for fqn, _ in lacking])

    def _owing(self, lacking: set[Address]) -> set[int]:
        """Return the ranks that were to write what is lacking, as far as the plans that came here tell."""
        return {rank for rank, plan in enumerate(self.plans) for item in plan.items if address(item.index) in lacking}


def _written(results: Results, reports: Sequence[RankReport | None]) -> Written:
    written: Written = defaultdict(dict)
    first = 0
    for each, report in zip(results, reports, strict=True):
        for result in each:
            if not isinstance(result.storage_data, bytes):
                written[result.index.fqn][result.index.offset or ()] = first + result.storage_data
        first += len(report.shards) if report else 0
    return written


def _offsets(entry: STORAGE_TYPES) -> list[tuple[int, ...]]:
    return [()] if isinstance(entry, BytesStorageMetadata) else [chunk.offsets for chunk in entry.chunks]


def _check_replicas(reports: Sequence[RankReport]) -> None:
    first: dict[str, tuple[int, int]] = {}
    for report in reports:
        for fqn, digest in report.digests.items():
            rank, seen = first.setdefault(fqn, (report.rank, digest))
            if seen != digest:
                message = f"ranks {rank} and {report.rank} hold different values under {fqn!r}, which is stored once"
                hint = f"give each rank a key of its own, as in f'{fqn}.rank{{rank}}', or make the values equal"
                raise ReplicaMismatch(message, hint=hint, key=fqn, ranks=[rank, report.rank])


def _table(metadata: Metadata, written: Written) -> TensorTable:
    table = TableBuilder()
    for fqn, entry in metadata.state_dict_metadata.items():
        shards = written[fqn]
        if isinstance(entry, BytesStorageMetadata):
            table.add(fqn, OBJECT, [], [((), (), shards[()])])
        else:
            chunks = [(chunk.offsets, chunk.sizes, shards[chunk.offsets]) for chunk in entry.chunks]
            table.add(fqn, dtype_name(entry.properties.dtype), entry.size, chunks)
    return table.build()
