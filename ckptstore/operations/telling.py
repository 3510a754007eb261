"""What a look at a run found, as the events that metrics and logs listen for."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median

from ckptstore.events import RunListed, RunVerified
from ckptstore.operations.health import VerifyReport
from manifests import Checkpoint, History

RECENT = 11
"""Saves that the usual interval is taken from: ten intervals, of which a few may be long from an interruption."""

__all__ = ["listed", "verified"]


def verified(run: str, report: VerifyReport, *, read_data: bool) -> RunVerified:
    """What `verify` found in all of a run. States that can be and aren't are counted as 0."""
    states = dict.fromkeys(VerifyReport.CODES, 0) | Counter(health.state for health in report.checkpoints)
    tolerances = [health.tolerance for health in report.checkpoints if health.state != "changed"]
    return RunVerified(
        run,
        states,
        Counter(finding.kind for finding in report.findings),
        min((tolerance.targets for tolerance in tolerances), default=None),
        min((tolerance.domains for tolerance in tolerances), default=None),
        report.counts.expected,
        report.counts.checked,
        "data" if read_data else "listing",
    )


def listed(history: History) -> RunListed:
    """The latest live checkpoint of a run, and how often it saves."""
    if not history.checkpoints:
        return RunListed(history.run, None, None, None, None)
    latest = history.checkpoints[-1]
    interval = _interval([*history.checkpoints, *history.deleted])
    return RunListed(history.run, _saved(latest), latest.manifest.step, latest.manifest.bytes, interval)


def _interval(saves: Sequence[Checkpoint]) -> float | None:
    """The median of the latest; deleted ones count, for what a prune thins out would look like longer intervals."""
    times = [time for save in saves if (time := _saved(save)) is not None]
    gaps = [later - earlier for earlier, later in pairwise(sorted(times)[-RECENT:])]
    return median(gaps) if gaps else None


def _saved(save: Checkpoint) -> float | None:
    """When its first version was made: later ones are repairs. None where that is no time, which nothing refuses."""
    try:
        return datetime.fromisoformat(save.versions[0].created).timestamp()
    except ValueError:
        return None
