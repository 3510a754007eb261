"""`ckpt verify`: would every checkpoint come back, and how much more may be lost? Writes nothing.

Structure by default: every object that should be there is asked for by listing. `read_data` reads every byte (or
those of a `subset` of the stripes, another one each day) and checks its digest.
"""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from ckptstore.arguments import check_observer, is_number
from ckptstore.errors import CkptStoreError, CorruptError, OutOfReach, UsageError
from ckptstore.events import Observer, Progress, ignore
from ckptstore.load.documents import fetch_document, fetch_record
from ckptstore.load.plan import Shard
from ckptstore.opened import Opened
from ckptstore.operations.findings import Finding
from ckptstore.operations.health import (
    CheckpointHealth,
    VerifyReport,
    beside,
    recoverable,
    strangers,
    to_check,
    told,
    unreadable,
)
from ckptstore.operations.superseded import survey_superseded
from ckptstore.operations.survey import survey_document, survey_shard
from ckptstore.placement import Survives, full_tolerance, survives
from ckptstore.protocolerrors import protocol_errors
from ckptstore.save.copies import copies_wanted
from ckptstore.selection import Selector, key_of, refuse_lost_votes
from ckptstore.tolerance import homes_of, record_survives, stripe_survives, weakest
from manifests import Checkpoint, History, Index, ManifestError, ShardRecord, ShardReference, paths

LOOKS = 3  # at a checkpoint that gets a new version each time

__all__ = ["CheckpointHealth", "VerifyReport", "check", "check_subset", "verify"]


def verify(
    opened: Opened,
    run: str,
    selector: Selector | None = None,
    *,
    read_data: bool = False,
    subset: float = 1.0,
    observer: Observer = ignore,
) -> VerifyReport:
    """Check one checkpoint of a run, or all and those that could be undeleted. `subset`: the part that is read.

    Raises `NotFoundError` where there is none, `CorruptError` where there is data and not one record of a save,
    `UsageError` for what is no subset.
    """
    check_observer(observer)
    fraction = check_subset(subset) if read_data else 0.0
    if not read_data and subset != 1:
        raise UsageError(f"subset = {subset!r} of the data, and read_data is not set", hint="read_data=True")
    with protocol_errors():
        opened.group.refresh()  # what an open store knew of its targets may be old
        history = opened.group.history(run, every_copy=True)
    refuse_lost_votes(opened, history)
    chosen = to_check(history, selector)
    report = VerifyReport([])
    for checkpoint in chosen:
        report.checkpoints.append(_check_as_it_stands(opened, history, checkpoint, fraction))
        observer(Progress("verify", 1, len(chosen)))
    if selector is None:
        report.checkpoints += unreadable(history)
        report.history, report.strange = beside(history), strangers(history)
        looked_at = [_check_as_it_stands(opened, history, checkpoint, fraction) for checkpoint in recoverable(history)]
        report.deleted = [health for health in looked_at if health.state != "changed"]
    return report


def check_subset(subset: float) -> float:
    """`subset` if it is a part of the data, else `UsageError`: of none of it nothing could be said."""
    if not (is_number(subset) and 0 < subset <= 1):
        message = f"subset = {subset!r}: a number above 0 and at most 1, which is all of the data, is wanted"
        raise UsageError(message, hint="subset=0.1 reads a tenth")
    return float(subset)


def _check_as_it_stands(opened: Opened, history: History, checkpoint: Checkpoint, fraction: float) -> CheckpointHealth:
    """Check it; where something is amiss, see whether it was repaired or deleted meanwhile: that is no damage.

    Of a deleted one, whether it is being removed.
    """
    health = check(opened, history, checkpoint, fraction)
    for _ in range(LOOKS):
        if health.state == "good":
            break
        try:
            history = opened.group.history(history.run, every_copy=True)
        except ManifestError:
            break  # too few targets answer now: what was found stands
        now = history.find(*checkpoint.key)
        if now is None or (now not in recoverable(history) if checkpoint.deleted else now.deleted):
            return _changed(health)
        if now.manifest == checkpoint.manifest:
            break
        checkpoint, health = now, check(opened, history, now, fraction)
    return health


def _changed(health: CheckpointHealth) -> CheckpointHealth:
    health.state, health.tolerance, health.shards = "changed", Survives(-1, -1), []
    health.findings = [Finding("changed", "manifest", "", health.key, "deleted while it was being looked at")]
    return health


def check(opened: Opened, history: History, checkpoint: Checkpoint, fraction: float) -> CheckpointHealth:
    """Look at everything that one checkpoint consists of; read `fraction` of its stripes."""
    manifest = checkpoint.manifest
    key = key_of(checkpoint)
    health = CheckpointHealth(manifest.run, key, manifest.name or key, manifest.step)
    _check_votes(opened, history, checkpoint, health)
    reference = manifest.copies[0].index
    health.bad_indexes = survey_document(opened, "index", reference, Index, health.counts, health.findings)
    unread: list[CkptStoreError] = []
    try:
        for shard in fetch_document(Index, reference, opened.targets).shards:
            _look_at_shard(opened, health, shard, fraction, unread)
    except (CorruptError, OutOfReach) as error:
        unread.append(error)
    survey_superseded(opened, checkpoint, health)
    if unread:
        lost = any(stripe.lost for survey in health.shards for stripe in survey.stripes)
        health.state = "unknown" if all(isinstance(e, OutOfReach) for e in unread) and not lost else "lost"
        health.tolerance = Survives(-1, -1)
    else:
        _judge(opened, health, checkpoint, history.heard)
    return health


def _check_votes(opened: Opened, history: History, checkpoint: Checkpoint, health: CheckpointHealth) -> None:
    """Copies of the manifest that are missing or damaged, and commit targets that don't count."""
    for problem in history.problems:
        if problem.save == checkpoint.key and problem.kind != "strange":
            health.findings += told(problem)
    for name, standing in opened.group.standings.items():
        if name not in opened.group.members.targets:
            continue
        health.counts.expected += 1
        out_of_reach = standing.state in ("unreachable", "newer")
        health.counts.checked += not out_of_reach
        if out_of_reach:
            health.findings.append(Finding("unreachable", "manifest", name, paths.IDENTITY, standing.reason))
        elif standing.state != "valid":
            kind = "corrupt" if standing.state in ("damaged", "foreign") else "missing"
            health.findings.append(Finding(kind, "manifest", name, paths.IDENTITY, standing.reason))


def _look_at_shard(
    opened: Opened, health: CheckpointHealth, reference: ShardReference, fraction: float, unread: list[CkptStoreError]
) -> None:
    """One shard. Where its record can't be read, why goes to `unread`: the other shards are looked at all the same."""
    bad = survey_document(opened, "record", reference.record, ShardRecord, health.counts, health.findings)
    try:
        record = fetch_record(reference, opened.targets)
    except (CorruptError, OutOfReach) as error:
        unread.append(error)
        return
    chosen = _chosen_stripes(reference.shard_id, len(record.stripes), fraction)
    survey = survey_shard(opened, Shard(health.run, record), reference, bad, health.counts, chosen=chosen)
    health.findings += survey.findings
    health.shards.append(survey)


def _chosen_stripes(shard_id: str, count: int, fraction: float) -> Iterator[int]:
    """All, none, or a draw that changes from day to day."""
    today = datetime.now(UTC).date().isoformat()
    for stripe in range(count):
        draw = hashlib.sha256(f"{today}/{shard_id}/{stripe}".encode()).digest()
        if int.from_bytes(draw[:4], "big") < fraction * 2**32:
            yield stripe


def _judge(opened: Opened, health: CheckpointHealth, checkpoint: Checkpoint, heard: Sequence[str]) -> None:
    stripes = [stripe for shard in health.shards for stripe in shard.stripes]
    silent = {finding.target for finding in health.findings if finding.kind == "unreachable"}
    each = [stripe.survives(opened.domains) for stripe in stripes]
    each.append(_copies(opened, checkpoint.manifest.copies[0].index.targets, health.bad_indexes, silent))
    each += [_copies(opened, s.reference.record.targets, s.bad_records, silent) for s in health.shards]
    each.append(_copies(opened, checkpoint.seen_on, {}, silent))
    each.append(opened.votes_survive(heard))
    health.tolerance = weakest(each)
    health.findings += [*_doubled(opened, health), *_scarce(opened, health, checkpoint)]
    health.findings += _retired(opened, health, checkpoint)
    if any(stripe.lost for stripe in stripes):
        health.state = "lost"
    elif any(stripe.undecided for stripe in stripes):
        health.state = "unknown"
    elif health.findings:
        health.state = "degraded"


def _copies(opened: Opened, holding: Sequence[str], bad: dict[str, str], silent: set[str]) -> Survives:
    left = [name for name in holding if name not in bad and name not in silent and name in opened.targets]
    return survives(left, 1, opened.domains)


def _scarce(opened: Opened, health: CheckpointHealth, checkpoint: Checkpoint) -> Iterator[Finding]:
    """Documents with so few copies that they survive less than the data that they describe."""
    data = [record_survives(shard.shard.record, opened.domains) for shard in health.shards]
    if not data:
        return
    wanted = copies_wanted(weakest(data).targets, opened.places)
    index = checkpoint.manifest.copies[0].index
    references = [("index", index), *(("record", shard.reference.record) for shard in health.shards)]
    for what, reference in references:
        if len(reference.targets) < wanted:
            detail = f"{len(reference.targets)} copies, {wanted} could be"
            yield Finding("scarce", what, "", reference.path, detail)


def _retired(opened: Opened, health: CheckpointHealth, checkpoint: Checkpoint) -> Iterator[Finding]:
    """What is on targets that another has taken the place of: they are not to be, so they may be taken away any day."""
    gone = opened.targets.keys() - {place.target for place in opened.places}
    index = checkpoint.manifest.copies[0].index
    held = [("index", index.path, set(index.targets))]
    for shard in health.shards:
        record = shard.shard.record
        held.append(("record", shard.reference.record.path, set(shard.reference.record.targets)))
        held.append(("fragment", paths.shard_data_prefix(health.run, record.shard_id), homes_of(record)))
    for what, path, names in held:
        for name in sorted(names & gone):
            yield Finding("retired", what, name, path, "no target of the store any more")


def _doubled(opened: Opened, health: CheckpointHealth) -> list[Finding]:
    """Whether fragments share targets though there are enough not to; told once for each shard."""
    found = []
    for shard in health.shards:
        for stripe in shard.stripes:
            homes = [stripe.home(fragment) for fragment in range(stripe.want.shape.n)]
            reached = stripe_survives(stripe.want.shape, homes, opened.domains).targets
            full = full_tolerance(stripe.code.k, stripe.code.m, opened.places).targets
            stored = [home for home in homes if home is not None]
            if reached < full and len(set(stored)) < len(stored):
                detail = f"fragments share targets: survives the loss of {reached}, could survive {full}"
                path = paths.shard_data_prefix(health.run, shard.shard.record.shard_id)
                found.append(Finding("doubled", "fragment", "", path, detail))
                break
    return found
