"""`ckpt verify`: would every checkpoint come back, and how much more may be lost? Writes nothing.

Structure by default: every object that should be there is asked for by listing. `read_data` reads every byte (or
those of a `subset` of the stripes, another one each day) and checks its digest.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar

from ckptstore.errors import CorruptError, OutOfReach
from ckptstore.events import Observer, Progress, ignore
from ckptstore.load.documents import fetch_document, fetch_record
from ckptstore.load.plan import Shard
from ckptstore.opened import Opened, protocol_errors
from ckptstore.operations.survey import Counts, Finding, ShardSurvey, survey_document, survey_shard
from ckptstore.placement import Survives, full_tolerance, survives
from ckptstore.save.copies import copies_wanted
from ckptstore.selection import Selector, key_of, select_all
from ckptstore.tolerance import record_survives, stripe_survives, weakest
from manifests import Checkpoint, History, Index, ShardRecord, ShardReference, paths

__all__ = ["CheckpointHealth", "VerifyReport", "check", "verify"]


@dataclass
class CheckpointHealth:
    """One checkpoint: `state` is "good", "degraded" (loadable), "unknown" (what is out of reach decides) or "lost"."""

    run: str
    key: str
    name: str
    step: int | None
    state: str = "good"
    tolerance: Survives = Survives(0, 0)
    counts: Counts = field(default_factory=Counts)
    findings: list[Finding] = field(default_factory=list)
    shards: list[ShardSurvey] = field(default_factory=list)
    bad_indexes: dict[str, str] = field(default_factory=dict)


@dataclass
class VerifyReport:
    """Every checkpoint looked at; `exit_code` is the worst of theirs."""

    checkpoints: list[CheckpointHealth]

    CODES: ClassVar[dict[str, int]] = {"good": 0, "degraded": 3, "unknown": 5, "lost": 4}

    @property
    def exit_code(self) -> int:
        """0 good, 3 degraded, 5 unknown, 4 lost."""
        ranks = list(self.CODES)
        worst = max((health.state for health in self.checkpoints), key=ranks.index)
        return self.CODES[worst]

    @property
    def counts(self) -> Counts:
        """Objects expected and checked, over all."""
        each = [health.counts for health in self.checkpoints]
        return Counts(sum(c.expected for c in each), sum(c.checked for c in each))


def verify(
    opened: Opened,
    run: str,
    selector: Selector | None = None,
    *,
    read_data: bool = False,
    subset: float = 1.0,
    observer: Observer = ignore,
) -> VerifyReport:
    """Check one checkpoint of a run, or all. Raises `NotFoundError` where there is nothing to check."""
    fraction = subset if read_data else 0.0
    with protocol_errors():
        opened.group.refresh()  # what an open store knew of its targets may be old
        history = opened.group.history(run)
    chosen = select_all(history, selector)
    report = VerifyReport([])
    for checkpoint in chosen:
        report.checkpoints.append(check(opened, history, checkpoint, fraction))
        observer(Progress("verify", 1, len(chosen)))
    if selector is None:
        report.checkpoints += unreadable(history)
    return report


def unreadable(history: History) -> list[CheckpointHealth]:
    """Saves of which not one copy of the manifest can be read: lost, or, written by a newer release, unknown."""
    listed = {checkpoint.key for checkpoint in (*history.checkpoints, *history.deleted)}
    found = []
    for problem in history.problems:
        if problem.fatal and problem.save is not None and problem.save not in listed:
            key = paths.save_name(*problem.save)
            health = CheckpointHealth(history.run, key, key, None, tolerance=Survives(-1, -1))
            health.state = "unknown" if problem.newer else "lost"
            kind = "unreachable" if problem.newer else "corrupt"
            health.findings = [Finding(kind, "manifest", at, problem.name, problem.message) for at in problem.targets]
            found.append(health)
    return found


def check(opened: Opened, history: History, checkpoint: Checkpoint, fraction: float) -> CheckpointHealth:
    """Look at everything that one checkpoint consists of; read `fraction` of its stripes."""
    manifest = checkpoint.manifest
    key = key_of(checkpoint)
    health = CheckpointHealth(manifest.run, key, manifest.name or key, manifest.step)
    _check_votes(opened, history, checkpoint, health)
    reference = manifest.copies[0].index
    health.bad_indexes = survey_document(opened, "index", reference, Index, health.counts, health.findings)
    try:
        index = fetch_document(Index, reference, opened.targets)
        health.shards = [_shard(opened, health, shard, fraction) for shard in index.shards]
    except (CorruptError, OutOfReach) as error:
        health.state = "unknown" if isinstance(error, OutOfReach) else "lost"
        health.tolerance = Survives(-1, -1)
        return health
    _judge(opened, health, checkpoint, history.heard)
    return health


def _check_votes(opened: Opened, history: History, checkpoint: Checkpoint, health: CheckpointHealth) -> None:
    """Copies of the manifest that are missing or damaged, and commit targets that don't count."""
    own = [problem for problem in history.problems if problem.save == checkpoint.key]
    for problem in own:
        kind = "unreachable" if problem.newer else "corrupt"
        what = "mark" if problem.name.startswith("marks/") else "manifest"
        health.findings += [Finding(kind, what, name, problem.name, problem.message) for name in problem.targets]
    holding = {*checkpoint.seen_on, *(name for problem in own for name in problem.targets)}
    for name, standing in opened.group.standings.items():
        if name not in opened.group.members.targets:
            continue
        health.counts.expected += 1
        out_of_reach = standing.state in ("unreachable", "newer")
        health.counts.checked += not out_of_reach
        if out_of_reach:
            health.findings.append(Finding("unreachable", "manifest", name, paths.IDENTITY, standing.reason))
        elif standing.state != "valid":
            health.findings.append(Finding("missing", "manifest", name, paths.IDENTITY, standing.reason))
        elif name in history.heard and name not in holding:
            health.findings.append(Finding("missing", "manifest", name, health.key, "the target counts, and lacks it"))


def _shard(opened: Opened, health: CheckpointHealth, reference: ShardReference, fraction: float) -> ShardSurvey:
    bad = survey_document(opened, "record", reference.record, ShardRecord, health.counts, health.findings)
    record = fetch_record(reference, opened.targets)
    shard = Shard(health.run, record)
    chosen = _chosen_stripes(reference.shard_id, len(record.stripes), fraction)
    survey = survey_shard(opened, shard, reference, bad, health.counts, chosen=chosen)
    health.findings += survey.findings
    return survey


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
    wanted = copies_wanted(weakest(data).targets, opened.config.places)
    index = checkpoint.manifest.copies[0].index
    references = [("index", index), *(("record", shard.reference.record) for shard in health.shards)]
    for what, reference in references:
        if len(reference.targets) < wanted:
            detail = f"{len(reference.targets)} copies, {wanted} could be"
            yield Finding("scarce", what, "", reference.path, detail)


def _doubled(opened: Opened, health: CheckpointHealth) -> list[Finding]:
    """Whether fragments share targets though there are enough not to; told once for each shard."""
    found = []
    for shard in health.shards:
        for stripe in shard.stripes:
            homes = [stripe.home(fragment) for fragment in range(stripe.want.shape.n)]
            reached = stripe_survives(stripe.want.shape, homes, opened.domains).targets
            full = full_tolerance(stripe.code.k, stripe.code.m, opened.config.places).targets
            stored = [home for home in homes if home is not None]
            if reached < full and len(set(stored)) < len(stored):
                detail = f"fragments share targets: survives the loss of {reached}, could survive {full}"
                path = paths.shard_data_prefix(health.run, shard.shard.record.shard_id)
                found.append(Finding("doubled", "fragment", "", path, detail))
                break
    return found
