"""What a report says first: how things are, in a sentence, and what to type next."""

import shlex
from collections.abc import Iterator, Sequence

from ckptstore.errors import CkptStoreError
from ckptstore.operations.health import VerifyReport
from ckptstore.operations.remedy import Remedy
from ckptstore.operations.report.content import Drills, Row, RunPart, Step, StoreReport
from ckptstore.wording import count

MEANING = {
    "lost": "not enough is left",
    "unknown": "targets out of reach decide",
    "degraded": "loads, but something is amiss",
    "changed": "deleted meanwhile",
}
"""What each state means, to one who hasn't met the word."""

WITHOUT_ANY = {
    VerifyReport.CODES["good"]: "there is no checkpoint yet",
    VerifyReport.CODES["changed"]: "every checkpoint was deleted while it was looked at",
}
"""The sentence for each exit code by which nothing is amiss, where no checkpoint is left to tell of."""

__all__ = ["after_error", "drill_step", "loads", "next_steps", "run_verdict", "store_verdict"]


def loads(rows: Sequence[Row]) -> list[Row]:
    """The live ones that load, oldest first."""
    return [row for row in rows if not row.deleted and row.state in {"good", "degraded"}]


def run_verdict(report: VerifyReport) -> str:
    """`2 of 3 checkpoints are good, 1 is LOST (not enough is left)`."""
    states = [health.state for health in report.checkpoints]
    good = states.count("good")
    parts = [f"{good} of {count(len(states), 'checkpoint')} {_are(good)} good" if states else "no live checkpoint"]
    parts += [
        f"{states.count(state)} {_are(states.count(state))} {state.upper() if state == 'lost' else state} ({meaning})"
        for state, meaning in MEANING.items()
        if state in states
    ]
    if report.amiss_beside:
        parts.append("something is amiss with what is deleted, or with notes beside the checkpoints")
    return ", ".join(parts)


def next_steps(remedy: Remedy, rows: Sequence[Row], options: str) -> Iterator[Step]:
    """What to type, and why. `options` name the run and the store."""
    if remedy.what == "name":
        yield Step(f"name {', '.join(remedy.targets)} in store.toml again", "checkpoints are on what it doesn't name")
        yield Step(f"ckpt repair{options}", "moves what is there onto targets of the store")
    elif remedy.what == "doctor":
        yield Step(f"ckpt doctor{options}", "says which targets don't answer, and why; bring them back, then repair")
    elif remedy.what in {"repair", "fall back"}:
        yield Step(f"ckpt repair{options}", "puts back what is missing or corrupt, as far as it can be rebuilt")
    elif remedy.what == "look":
        yield Step(f"ckpt ls{options}", "shows what is there now")
    if remedy.what == "fall back":
        yield _fall_back(rows, options)


def _fall_back(rows: Sequence[Row], options: str) -> Step:
    for row in reversed(loads(rows)):
        name = f"--step {row.step}" if row.step is not None else f"--name {shlex.quote(row.name)}"
        return Step(f"ckpt restore DEST {name}{options}", f"the newest that loads is {row.name}")
    return Step(f"ckpt ls --deleted{options}", "no live checkpoint loads; this lists what an undelete brings back")


def after_error(error: CkptStoreError, options: str) -> Step:
    """Where a run couldn't be looked at."""
    if error.hint:
        return Step(error.hint.removeprefix("run: "), "the run could not be looked at")
    return Step(f"ckpt doctor{options}", "says which targets don't answer, and why")


def drill_step(part: RunPart, drills: Drills, options: str) -> Step | None:
    """Where nothing else is to be done, or no drill was ever done."""
    done = [drill for drill in drills.found if drill.run == part.run]
    command = f"ckpt drill{options} --report-dir {drills.folder or 'reports'}"
    if done and done[-1].exit_code:
        return Step(command, "the last drill did not pass: do another once that is mended")
    if not done and loads(part.rows):
        why = "no drill is on record" if drills.folder else "no folder of drills was given"
        return Step(command, f"{why}: find out that checkpoints really come back")
    return None


def store_verdict(report: StoreReport) -> str:
    """All of a report in one sentence."""
    rows = [row for part in report.runs for row in part.live if row.state != "changed"]
    failed = sum(bool(part.error) for part in report.runs)
    lost, unknown = (sum(row.state == state for row in rows) for state in ("lost", "unknown"))
    total = count(len(rows), "checkpoint")
    if failed:
        return f"{failed} of {count(len(report.runs), 'run')} could not be looked at"
    if lost:
        return f"{lost} of {total} can't be loaded any more"
    if unknown:
        return f"whether {unknown} of {total} would load depends on targets that are out of reach"
    if not rows:
        return WITHOUT_ANY.get(report.exit_code, "something is amiss, and there is no checkpoint")
    few = sum(report.misses(row) for row in rows)
    told = _all_load(report, rows) + (f"; {few} would survive less than is promised" if few else "")
    return told + (f"; the newest of {', '.join(report.late)} is older than is promised" if report.late else "")


def _all_load(report: StoreReport, rows: Sequence[Row]) -> str:
    degraded = sum(row.state == "degraded" for row in rows)
    if degraded:
        return f"every checkpoint loads, but {degraded} of {count(len(rows), 'checkpoint')} {_are(degraded)} degraded"
    if report.exit_code not in WITHOUT_ANY:
        return "every checkpoint loads, but something beside them is amiss"
    return f"{'all ' * (len(rows) > 1)}{count(len(rows), 'checkpoint')} {_are(len(rows))} good"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
