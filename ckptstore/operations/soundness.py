"""Whether what a prune keeps is worth keeping: the latest as it was saved, the others not lost.

What is out of reach is taken to be whole, for a target that is down for a night must not stop retention; but it is
told, and where it decides between loadable and lost nothing is deleted.
"""

from typing import Literal

from ckptstore.errors import CkptStoreError, CorruptError, OutOfReach, ToleranceError
from ckptstore.load.documents import fetch_document, fetch_record
from ckptstore.load.plan import Shard
from ckptstore.opened import Opened
from ckptstore.operations.findings import Counts
from ckptstore.operations.health import CheckpointHealth
from ckptstore.operations.survey import survey_shard
from ckptstore.placement import Survives, survives
from ckptstore.tolerance import record_survives, weakest
from manifests import Checkpoint, Index

__all__ = ["fault_of_latest", "outlook", "silent_targets"]


def outlook(opened: Opened, checkpoint: Checkpoint) -> Literal["loadable", "unknown", "lost"]:
    """What its structure says, for few requests: an index, a record a shard, and a listing a shard and target."""
    run = checkpoint.manifest.run
    undecided = False
    try:
        for reference in fetch_document(Index, checkpoint.manifest.copies[0].index, opened.targets).shards:
            shard = Shard(run, fetch_record(reference, opened.targets))
            stripes = survey_shard(opened, shard, reference, {}, Counts(), chosen=()).stripes
            if any(stripe.lost for stripe in stripes):
                return "lost"
            undecided |= any(stripe.undecided for stripe in stripes)
    except OutOfReach:
        return "unknown"
    except CorruptError:
        return "lost"
    return "unknown" if undecided else "loadable"


def fault_of_latest(
    opened: Opened, checkpoint: Checkpoint, health: CheckpointHealth, *, whole: bool
) -> CkptStoreError | None:
    """Why nothing may be deleted beside it; with `whole` also where it survives less than as it was written."""
    latest = f"{health.name} of run {health.run}, the latest to be kept,"
    verify = f"ckpt verify {health.key} --run {health.run}"
    if health.state == "unknown":
        message = f"{latest} may not load, targets out of reach decide: nothing was deleted"
        return OutOfReach(message, hint=f"run: ckpt doctor, then: {verify}")
    if health.state not in {"good", "degraded"}:
        return CorruptError(f"{latest} is {health.state}: nothing was deleted", hint=f"run: {verify}")
    if not (whole and _is_hurt(health)):
        return None
    now, written = _now_and_written(opened, checkpoint, health)
    if now.targets >= written.targets and now.domains >= written.domains:
        return None
    message = f"{latest} survives {_loss(now)}, as it was written {_loss(written)}: nothing was deleted"
    hint = f"run: ckpt repair {health.key} --run {health.run}, then prune again; if it needs room: ckpt prune --sweep"
    return ToleranceError(message, hint=hint, reached=now.targets, required=written.targets)


def silent_targets(health: CheckpointHealth) -> list[str]:
    """The targets out of reach that hold some of it."""
    return sorted({finding.target for finding in health.findings if finding.kind == "unreachable" and finding.target})


def _loss(tolerance: Survives) -> str:
    targets, domains = max(tolerance.targets, 0), max(tolerance.domains, 0)
    return f"the loss of {targets} of its targets ({domains} of its domains)" if targets else "no loss"


def _is_hurt(health: CheckpointHealth) -> bool:
    """Whether anything of it is known to be missing or damaged."""
    stripes = (stripe for shard in health.shards for stripe in shard.stripes)
    records = (shard.bad_records for shard in health.shards)
    return bool(health.bad_indexes) or any(records) or any(stripe.bad for stripe in stripes)


def _now_and_written(opened: Opened, checkpoint: Checkpoint, health: CheckpointHealth) -> tuple[Survives, Survives]:
    """What its data, records and index survive, what is silent taken to be whole; and did when they were written."""
    domains = opened.domains
    copies = [(checkpoint.manifest.copies[0].index.targets, health.bad_indexes)]
    copies += [(shard.reference.record.targets, shard.bad_records) for shard in health.shards]
    data = [record_survives(shard.shard.record, domains) for shard in health.shards]
    written = weakest([*data, *(survives(homes, 1, domains) for homes, _ in copies)])
    left = [survives([home for home in homes if home not in bad], 1, domains) for homes, bad in copies if bad]
    hurt = [stripe for shard in health.shards for stripe in shard.stripes if stripe.bad]
    return weakest([written, *left, *(stripe.survives(domains, trusting=True) for stripe in hurt)]), written
