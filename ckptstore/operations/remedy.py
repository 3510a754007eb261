"""What to do about what verify found of a run: decided here, told by the command line and by the report's page."""

from typing import NamedTuple

from ckptstore.opened import Opened
from ckptstore.operations.health import VerifyReport

BY_STATE = {"changed": "look", "good": "", "degraded": "repair", "unknown": "doctor", "lost": "fall back"}

__all__ = ["BY_STATE", "Remedy", "remedy_for"]


class Remedy(NamedTuple):
    """What to do first.

    `what`: "" (nothing), "look" (again, at what is there now), "repair", "doctor" (targets don't answer), "name" (put
    `targets` into store.toml again, which it doesn't name any more, then repair), or "fall back" (repair what can be,
    and to an older checkpoint).
    """

    what: str
    targets: tuple[str, ...] = ()


def remedy_for(opened: Opened, report: VerifyReport) -> Remedy:
    """The first thing to do. Where all that is amiss is out of reach, a repair would write what may well be there."""
    findings = report.findings
    known = {*opened.targets, *opened.group.members.targets}
    dropped = tuple(sorted({finding.target for finding in findings} - known - {""}))
    if dropped and report.state == "unknown":
        return Remedy("name", dropped)
    if not dropped and {finding.kind for finding in findings} == {"unreachable"}:
        return Remedy("doctor")
    return Remedy(BY_STATE[report.state])
