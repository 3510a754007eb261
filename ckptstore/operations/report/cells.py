"""What a look at a checkpoint found, target by target: the rows of the heat map.

What a checkpoint has on a target is told by its manifest and records; whether that is as it should be, by the findings.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ckptstore.operations.findings import Finding
from ckptstore.operations.health import CheckpointHealth
from ckptstore.operations.report.content import Cell, Row
from ckptstore.operations.survey import ShardSurvey
from manifests import Checkpoint, Reference

WORST = {"corrupt": "corrupt", "short": "corrupt", "missing": "missing", "unreachable": "unreachable"}
"""The state of a cell by the kinds of what was found there, worst first. "retired" says where it is, not how."""

__all__ = ["row_of", "targets_in"]


def row_of(
    health: CheckpointHealth, checkpoint: Checkpoint | None, targets: Iterable[str], *, complete: bool, deleted: bool
) -> Row:
    """The row of a checkpoint, None where its manifest can't be read. `complete`: every one of its records could be."""
    holds = _holdings(health, checkpoint)
    found: dict[str, list[Finding]] = defaultdict(list)
    for finding in health.findings:
        found[finding.target].append(finding)
    manifest = checkpoint.manifest if checkpoint else None
    stored = _stored(health.shards, manifest.copies[0].index) if manifest and complete else None
    return Row(
        run=health.run,
        key=health.key,
        name=health.name,
        step=health.step,
        created=manifest.created if manifest else "",
        deleted=deleted,
        state=health.state,
        tolerance=health.tolerance,
        bytes=manifest.bytes if manifest else 0,
        stored=None if stored is None else stored.total(),
        stored_on=stored or {},
        cells=[_cell(name, holds.get(name, Counter()), found[name], complete=complete) for name in targets],
        findings=health.findings,
    )


def targets_in(healths: Iterable[CheckpointHealth]) -> set[str]:
    """Targets that these checkpoints are on, or that something was found on, whether store.toml has them or not."""
    found = set()
    for health in healths:
        found |= {finding.target for finding in health.findings if finding.target}
        for survey in health.shards:
            found |= {*_fragments(survey), *survey.reference.record.targets}
    return found


def _cell(target: str, holds: Mapping[str, int], findings: Sequence[Finding], *, complete: bool) -> Cell:
    kinds = {finding.kind for finding in findings}
    state = next((state for kind, state in WORST.items() if kind in kinds), "")
    if not state:
        state = "retired" if "retired" in kinds else "good" if holds else "nothing"
        state = state if complete or state == "retired" else "unknown"
    amiss = Counter(f"{finding.kind} {finding.what}" for finding in findings)
    return Cell(target, state, _in_words(holds), _in_words(amiss))


def _in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(what if count == 1 else f"{count} {what}s" for what, count in counts.items())


def _holdings(health: CheckpointHealth, checkpoint: Checkpoint | None) -> dict[str, Counter[str]]:
    """What is to be on each target: fragments, copies of records, of the index and of the manifest."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for survey in health.shards:
        for name, count in _fragments(survey).items():
            found[name]["fragment"] += count
        for name in survey.reference.record.targets:
            found[name]["record"] += 1
    if checkpoint is not None:
        for name in checkpoint.manifest.copies[0].index.targets:
            found[name]["index"] += 1
        for name in checkpoint.seen_on:
            found[name]["manifest"] += 1
    return found


def _fragments(survey: ShardSurvey) -> Counter[str]:
    """How many fragments of a shard each target is to hold."""
    return Counter(
        home
        for stripe in survey.stripes
        for fragment in range(stripe.want.shape.n)
        if stripe.want.shape.stored(fragment) and (home := stripe.home(fragment)) is not None
    )


def _stored(shards: Sequence[ShardSurvey], index: Reference) -> Counter[str]:
    """Bytes on each target: fragments that no older checkpoint brought, records and the index; not the manifests."""
    found: Counter[str] = Counter()
    for stripe in (stripe for survey in shards for stripe in survey.stripes if stripe.want.stripe.source is None):
        for fragment in range(stripe.want.shape.n):
            home = stripe.home(fragment)
            if home is not None:
                found[home] += stripe.want.shape.stored(fragment)
    for reference in (index, *(survey.reference.record for survey in shards)):
        for name in reference.targets:
            found[name] += reference.size
    return found
