"""One checkpoint looked at: its votes, its index and records, every fragment; and what may still be lost of it."""

from collections.abc import Iterator, Sequence

from ckptstore.errors import CkptStoreError, CorruptError, OutOfReach
from ckptstore.load.documents import fetch_document, fetch_record
from ckptstore.load.plan import Shard
from ckptstore.opened import Opened
from ckptstore.operations.findings import Finding
from ckptstore.operations.health import CheckpointHealth, told
from ckptstore.operations.subsets import ALL, Window
from ckptstore.operations.superseded import survey_superseded
from ckptstore.operations.survey import survey_document, survey_shard
from ckptstore.placement import Survives, full_tolerance, survives
from ckptstore.save.copies import copies_wanted
from ckptstore.selection import key_of
from ckptstore.tolerance import homes_of, record_survives, stripe_survives, weakest
from manifests import Checkpoint, History, Index, ShardRecord, ShardReference, paths

__all__ = ["check", "look_at_votes", "new_health"]


def check(
    opened: Opened, history: History, checkpoint: Checkpoint, read: Window, *, shards: Window = ALL
) -> CheckpointHealth:
    """Look at everything that one checkpoint consists of; read the stripes in `read`.

    Of its shards only those in `shards`: what is said of it is then said of them.
    """
    health = new_health(checkpoint)
    look_at_votes(opened, history, checkpoint, health)
    reference = checkpoint.manifest.copies[0].index
    health.bad_indexes = survey_document(opened, "index", reference, Index, health.counts, health.findings)
    unread: list[CkptStoreError] = []
    try:
        for shard in fetch_document(Index, reference, opened.targets).shards:
            if shards.holds(shard.shard_id):
                _look_at_shard(opened, health, shard, read, unread)
    except (CorruptError, OutOfReach) as error:
        unread.append(error)
    survey_superseded(opened, checkpoint, health, shards)
    if unread:
        lost = any(stripe.lost for survey in health.shards for stripe in survey.stripes)
        health.state = "unknown" if all(isinstance(e, OutOfReach) for e in unread) and not lost else "lost"
        health.tolerance = Survives(-1, -1)
    else:
        _judge(opened, health, checkpoint, history.heard)
    return health


def new_health(checkpoint: Checkpoint) -> CheckpointHealth:
    """Of a checkpoint that nobody has looked at yet."""
    manifest, key = checkpoint.manifest, key_of(checkpoint)
    return CheckpointHealth(manifest.run, key, manifest.name or key, manifest.step)


def look_at_votes(opened: Opened, history: History, checkpoint: Checkpoint, health: CheckpointHealth) -> None:
    """Copies of the manifest that are missing or damaged, and commit targets that don't count."""
    for problem in history.problems:
        if problem.save == checkpoint.key and problem.kind != "strange":
            health.findings += told(problem)
    for name, standing in opened.group.standings.items():
        if name not in opened.group.members.targets:
            continue
        health.counts.expected += 1
        heard = name in history.heard  # how it stands by now may be another matter: other runs were read meanwhile
        out_of_reach = not heard and standing.state in ("unreachable", "newer", "valid")
        health.counts.checked += not out_of_reach
        if out_of_reach:
            reason = standing.reason or "did not answer when the votes were read"
            health.findings.append(Finding("unreachable", "manifest", name, paths.IDENTITY, reason))
        elif not heard:
            kind = "corrupt" if standing.state in ("damaged", "foreign") else "missing"
            health.findings.append(Finding(kind, "manifest", name, paths.IDENTITY, standing.reason))


def _look_at_shard(
    opened: Opened, health: CheckpointHealth, reference: ShardReference, read: Window, unread: list[CkptStoreError]
) -> None:
    """One shard. Where its record can't be read, why goes to `unread`: the other shards are looked at all the same."""
    bad = survey_document(opened, "record", reference.record, ShardRecord, health.counts, health.findings)
    try:
        record = fetch_record(reference, opened.targets)
    except (CorruptError, OutOfReach) as error:
        unread.append(error)
        return
    chosen = read.stripes(reference.shard_id, len(record.stripes))
    survey = survey_shard(opened, Shard(health.run, record), reference, bad, health.counts, chosen=chosen)
    health.findings += survey.findings
    health.shards.append(survey)


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
