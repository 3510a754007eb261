"""One checkpoint's repair.

Its documents get their copies back, its shards their fragments, and where something moved, it gets a new version
of its manifest.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from ckptstore.errors import TargetError
from ckptstore.load.documents import fetch_document, fetch_record, fetch_stored
from ckptstore.opened import Opened
from ckptstore.operations.health import CheckpointHealth
from ckptstore.operations.rebuild import StripePlan, carry_out, plan_rebuild
from ckptstore.operations.repair_report import RepairResult
from ckptstore.operations.subsets import Part
from ckptstore.operations.survey import ShardSurvey
from ckptstore.operations.versions import find_now, indexes_of, records_of
from ckptstore.placement import Place, Survives, survives
from ckptstore.protocolerrors import protocol_errors
from ckptstore.save.copies import copies_wanted, put_copies
from ckptstore.tolerance import record_survives, weakest
from manifests import Checkpoint, Copy, Index, Manifest, Reference, ShardRecord, ShardReference, Tolerance, pack, paths

TRIES = 16
"""Versions that one repair puts of a manifest: so many others would have to come in between."""

__all__ = ["Mender"]


class Mender:
    """Repairs one checkpoint, or says what that would take."""

    def __init__(
        self,
        opened: Opened,
        checkpoint: Checkpoint,
        health: CheckpointHealth,
        replace: Mapping[str, str],
        places: Sequence[Place],
        result: RepairResult,
        *,
        part: Part,
        dry_run: bool,
    ) -> None:
        self.opened = opened
        self.checkpoint = checkpoint
        self.health = health
        self.replace = replace
        self.result = result
        self.part = part
        self.dry_run = dry_run
        self.run = health.run
        self.places = places
        self.writable = {place.target for place in self.places}
        stay = {place.target for place in [*opened.places, *places]}
        self.domains = {name: domain for name, domain in opened.domains.items() if name in stay}
        self._survived = len(self.places)  # losses that every shard seen so far survives

    def mend(self) -> None:
        """Mend the newest version, then what older ones keep."""
        self._mend_newest()
        for old in self.health.superseded:
            self._restore(old.reference, old.kind, old.bad)

    def _mend_newest(self) -> None:
        """Documents first, then fragments, then, where something moved, a new version of the manifest."""
        if self.health.state in ("lost", "unknown") and not self.health.shards:
            return
        reference = self.checkpoint.manifest.copies[0].index
        index = fetch_document(Index, reference, self.opened.targets)
        self._restore(reference, Index, self.health.bad_indexes)
        renewed = {survey.reference.shard_id: self._repair_shard(survey) for survey in self.health.shards}
        mine = [shard for shard in index.shards if self.part.shards.holds(shard.shard_id)]
        if len(renewed) < len(mine):
            self.result.failed.append(f"{len(mine) - len(renewed)} shards have no record that can be read")
        elif (any(renewed.values()) or self._index_needs_copies(reference)) and not self.dry_run:
            self._supersede({shard_id: new for shard_id, new in renewed.items() if new is not None})

    def _restore(self, reference: Reference, kind: type[Index | ShardRecord], bad: Mapping[str, str]) -> None:
        """Put a good copy's bytes back on the targets whose copy is missing or damaged.

        The very bytes: packed again by another zlib, they would not be those that are referred to.
        """
        if not bad:
            return
        _, data = fetch_stored(kind, reference, self.opened.targets)
        for name in sorted(set(bad) & self.writable):
            self.result.restored += 1
            if self.dry_run:
                self.result.traffic.write(name, reference.size)
            else:
                try:
                    self.opened.targets[name].put(reference.path, data)
                except TargetError as error:
                    self.result.failed.append(error.message)

    def _repair_shard(self, survey: ShardSurvey) -> ShardReference | None:
        """Returns a reference to a new record where fragments moved."""
        self._restore(survey.reference.record, ShardRecord, survey.bad_records)
        plans = self._plans(survey)
        if self.dry_run:
            self.result.moved += sum(plan.moved for plan in plans)
            self.result.rebuilt += sum(len(plan.writes) - plan.moved for plan in plans)
            self.result.bytes += sum(plan.bytes for plan in plans)
            for plan in plans:
                plan.count_reads(self.result.traffic)
                plan.count_writes(self.result.traffic)
            return None
        done = carry_out(self.opened, survey, plans)
        self.result.rebuilt += done.rebuilt
        self.result.moved += done.moved
        self.result.bytes += done.bytes
        self.result.failed += done.failed
        record = done.record or survey.shard.record
        reached = record_survives(record, self.opened.domains)
        self._survived = min(self._survived, reached.targets)
        if done.record is None and not self._needs_copies(survey.reference.record, reached.targets):
            return None
        return self._put_record(survey.reference, record, reached.targets)

    def _plans(self, survey: ShardSurvey) -> list[StripePlan]:
        """What to write of a shard; what can't be, or had better not be, is told."""
        plans = plan_rebuild(survey, self.places, self.replace, self.domains)
        lost = [plan for plan in plans if plan.survey.lost or plan.survey.undecided]
        self.result.failed += [f"stripe {plan.survey.want.number}: too few good fragments" for plan in lost]
        kept = [plan for plan in plans if plan.kept and plan not in lost]
        if kept:
            onto = ", ".join(place.target for place in self.places)
            message = f"{len(kept)} stripes stay where they are, for on {onto} they would survive fewer losses"
            self.result.failed.append(f"{message}: bring back what is out of reach, or add a target to store.toml")
        return [plan for plan in plans if plan.writes and plan not in lost]

    def _needs_copies(self, reference: Reference, survived: int) -> bool:
        """Whether a document lies on a target that is gone for good, or survives less than the data it describes."""
        return self._is_on_gone(reference) or len(reference.targets) < copies_wanted(survived, self.places)

    def _is_on_gone(self, reference: Reference) -> bool:
        return any(name in self.replace or name not in self.domains for name in reference.targets)

    def _index_needs_copies(self, reference: Reference) -> bool:
        """A part of the work doesn't see what all of the data survives: the first does it, and only where it must."""
        if self.part.whole:
            return self._needs_copies(reference, self._survived)
        return self.part.leads and self._is_on_gone(reference)

    def _put_record(self, reference: ShardReference, record: ShardRecord, survived: int) -> ShardReference:
        data, measures = pack(record)
        path = paths.record(self.run, reference.shard_id, paths.new_token())
        holding = self._copies(path, data, survived)
        return msgspec.structs.replace(reference, record=Reference(path=path, targets=holding, **measures))

    def _copies(self, path: str, data: bytes, survived: int) -> list[str]:
        """Put a document on one target more than its data may lose. Raises `ToleranceError` where fewer take it."""
        count = copies_wanted(survived, self.places)
        holding, _ = put_copies(path, data, count, self.places, self.opened.targets, self.opened.executor, least=count)
        return holding

    def _supersede(self, renewed: Mapping[str, ShardReference]) -> None:
        """A new index and a new version of the manifest; the old ones stay, and keep what they name.

        Other repairs put versions of this manifest meanwhile: go on until the one that counts has what all renewed.
        Whoever puts last reads afterwards what all others have put, so no one's shards are left out.
        """
        known = {path for each in records_of(indexes_of(self.opened, self.checkpoint)).values() for path in each}
        for _ in range(TRIES):
            found = find_now(self.opened, self.checkpoint)
            if found is None:
                return  # deleted meanwhile
            indexes = indexes_of(self.opened, found)
            records = records_of(indexes)
            references = [self._renewed(records[old.shard_id], renewed, known) for old in indexes[-1].shards]
            reference = found.manifest.copies[0].index
            if references == indexes[-1].shards and not self._index_needs_copies(reference):
                return
            if not self._put_version(found.manifest, indexes[-1], references, self._reached(found, indexes[-1])):
                return
        self.result.failed.append("other repairs of this checkpoint kept putting new versions: repair it again")

    def _renewed(
        self, records: Mapping[str, ShardReference], renewed: Mapping[str, ShardReference], known: Collection[str]
    ) -> ShardReference:
        """What is to count of a shard: what this repair made of it, unless another one has moved it meanwhile.

        The other one may have ended, and said that all is well: what it made is put back where this one's came over it.
        Two that both see it let the other one's be, and both say so.
        """
        newest = list(records.values())[-1]
        mine = renewed.get(newest.shard_id)
        if mine is None:
            return newest
        others = [each for path, each in records.items() if path not in known and path != mine.record.path]
        if not others:
            return mine
        message = f"shard {newest.shard_id} was moved by another repair meanwhile: repair it again"
        if message not in self.result.failed:
            self.result.failed.append(message)
        return others[-1]

    def _reached(self, found: Checkpoint, index: Index) -> Survives:
        """What the version that counts survives: as it was found, else, by others or in part, as it says itself."""
        if self.part.whole and found.manifest == self.checkpoint.manifest:
            return self.health.tolerance
        return self._tolerance(found.manifest.copies[0].index, index.shards)

    def _put_version(
        self, manifest: Manifest, index: Index, references: Sequence[ShardReference], reached: Survives
    ) -> bool:
        """Put a version of `manifest` with these shards. False: it would survive less than what stands, `reached`."""
        data, measures = pack(msgspec.structs.replace(index, shards=list(references)))
        path = paths.index(self.run, paths.new_token())
        reference = Reference(path=path, targets=self._copies(path, data, self._survived), **measures)
        tolerance = self._tolerance(reference, references)
        if tolerance.targets < reached.targets:
            self.result.failed.append(f"a new version would survive {tolerance.targets} losses, what stands more")
            return False
        newer = msgspec.structs.replace(
            manifest,
            kind="repair",
            copies=[Copy(tier=manifest.copies[0].tier, index=reference)],
            tolerance=Tolerance(targets=max(tolerance.targets, 0), domains=max(tolerance.domains, 0)),
            missing=manifest.missing if self.result.failed or self._others_miss(manifest, tolerance) else [],
        )
        with protocol_errors():
            self.opened.group.supersede(newer)
        return True

    def _others_miss(self, manifest: Manifest, tolerance: Survives) -> bool:
        """Whether what a target failed to get may be another part's, and is missing still."""
        planned = manifest.planned
        return not self.part.whole and (planned is None or tolerance.targets < planned.targets)

    def _tolerance(self, index: Reference, shards: Sequence[ShardReference]) -> Survives:
        """What a version survives, counted from what it says."""
        domains = self.opened.domains
        each = [self.opened.votes_survive(), survives(index.targets, 1, domains)]
        for shard in shards:
            each.append(survives(shard.record.targets, 1, domains))
            each.append(record_survives(fetch_record(shard, self.opened.targets), domains))
        return weakest(each)
