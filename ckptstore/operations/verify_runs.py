"""`ckpt verify --all-runs`: every run of a store in one pass. One that can't be read doesn't stop the others."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Unpack

from ckptstore.errors import CkptStoreError, NotFoundError
from ckptstore.events import Observer, ignore
from ckptstore.opened import Opened
from ckptstore.operations.findings import Counts
from ckptstore.operations.health import WORSE, VerifyReport, recoverable, to_check
from ckptstore.operations.pacing import How, paced
from ckptstore.operations.runs import list_runs
from ckptstore.operations.verify import Looking, begun, read_votes
from ckptstore.protocolerrors import protocol_errors
from manifests import Checkpoint, History

__all__ = ["RunsReport", "verify_runs"]


@dataclass
class RunsReport:
    """`runs`: what was found of each. `failed`: why others couldn't be read. `empty`: those that hold nothing."""

    runs: dict[str, VerifyReport] = field(default_factory=dict)
    failed: dict[str, CkptStoreError] = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """The worst of all runs; 10 where no run holds anything."""
        codes = [report.exit_code for report in self.runs.values()]
        codes += [error.exit_code for error in self.failed.values()]
        return max(codes, key=WORSE.index, default=NotFoundError.exit_code)

    @property
    def counts(self) -> Counts:
        """Objects expected and checked, over all runs that could be read."""
        each = [report.counts for report in self.runs.values()]
        return Counts(sum(c.expected for c in each), sum(c.checked for c in each))


def verify_runs(
    opened: Opened,
    *,
    read_data: bool = False,
    subset: float | str = 1.0,
    observer: Observer = ignore,
    **how: Unpack[How],
) -> RunsReport:
    """Check every checkpoint of every run that a target in reach holds. `subset`: of the data of all of them.

    Raises `UsageError` as `verify`, `TargetError` where no target answers.
    """
    looking = Looking.of(read_data=read_data, subset=subset, observer=observer, how=how)
    report = RunsReport()
    with paced(opened, limit_rate=looking.limit_rate, jobs=looking.jobs) as view:
        with protocol_errors():
            view.group.refresh()  # where there is no store, or none in reach, that is so for every run
        found = _read_all(view, report)
        each = [checkpoint for checkpoints in found.values() for checkpoint in _all_of(*checkpoints)]
        with begun(view, looking, None, None, each) as this:
            for run, (history, chosen) in found.items():
                try:
                    report.runs[run] = this.look_at(history, chosen, everything=True, total=len(each))
                except CkptStoreError as error:
                    report.failed[run] = error
    return report


def _read_all(opened: Opened, report: RunsReport) -> Mapping[str, tuple[History, list[Checkpoint]]]:
    """The votes of every run, and the live checkpoints of each, before any is looked at: how much there is decides."""
    found = {}
    for run in list_runs(opened):
        try:
            history = read_votes(opened, run)
            found[run] = history, to_check(history, None)
        except NotFoundError:
            report.empty.append(run)
        except CkptStoreError as error:
            report.failed[run] = error
    return found


def _all_of(history: History, chosen: list[Checkpoint]) -> list[Checkpoint]:
    return [*chosen, *recoverable(history)]
