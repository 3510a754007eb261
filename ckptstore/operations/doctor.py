"""`ckpt doctor`: is every target there, the right one, and able to do what is asked of it; and what may still be lost.

Tries each target out with small objects of its own and removes them: nothing is left behind.
"""

import os
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

import manifests
from ckptstore.config import TargetConfig
from ckptstore.errors import (
    AccessDenied,
    ConflictError,
    DataLost,
    NotFoundError,
    ObjectNotFound,
    OutOfReach,
    TargetError,
    TargetUnusable,
)
from ckptstore.opened import Opened
from ckptstore.operations.doctor_report import DEGRADED, DoctorReport, TargetHealth
from ckptstore.operations.quorums import losses_saving_survives, quorums_of
from ckptstore.operations.runs import runs_on
from ckptstore.placement import Survives
from ckptstore.protocolerrors import protocol_errors
from ckptstore.targets import Target
from ckptstore.targets.probe import probe_target
from ckptstore.tolerance import weakest
from manifests import FormatError, Identity, paths

CLOCK_MARGIN = 300.0
"""Seconds by which a target's clock may differ before it is worth a word: people read its times, nothing is decided by
them."""

REPAIR = "ckpt repair"
WAIT = "ckpt repair, when what is out of reach is back or replaced in store.toml"
UNABLE = "set commit = false for it in store.toml: it takes fragments, never manifests"
UNFIT = "put another target in its place: it can't hold a checkpoint"
"""What is to be done."""

LOST, NOT_INITIALISED = 4, 10
"""Exit codes as docs/cli.md lists them: data lost, not found."""

__all__ = ["DoctorReport", "TargetHealth", "examine"]


def examine(opened: Opened) -> DoctorReport:
    """Look at every target at once, then at the store. Raises nothing that a target does wrong."""
    replies = opened.on_targets(lambda target: _examine(target, _spec(opened, target.name)))
    report = DoctorReport([reply for reply in replies.values() if isinstance(reply, TargetHealth)])
    _check_stores(report)
    try:
        with protocol_errors():
            opened.group.refresh()
    except NotFoundError:
        report.exit_code = NOT_INITIALISED
    except (OutOfReach, AccessDenied, DataLost) as error:
        codes = {health.code for health in report.targets if health.code}
        report.exit_code = AccessDenied.exit_code if codes == {AccessDenied.exit_code} else error.exit_code
    else:
        _judge(opened, report)
    report.exit_code = _worst(report)
    return report


def _spec(opened: Opened, name: str) -> TargetConfig:
    return next(spec for spec in opened.config.targets if spec.name == name)


def _examine(target: Target, spec: TargetConfig) -> TargetHealth:
    health = TargetHealth(target.name, target.url, spec.domain or spec.name, spec.commit)
    health.endpoint = str(spec.options.get("endpoint", ""))
    try:
        _identify(target, health)
        _try_out(target, health)
        health.clock_offset = _clock_offset(target)
    except TargetError as error:
        health.reachable = not error.transient
        advice = error.hint or (WAIT if error.transient else "")
        health.add(error.message.removeprefix(f"{target.name}: "), error.exit_code, advice)
    if health.clock_offset is not None and abs(health.clock_offset) > CLOCK_MARGIN:
        health.add(f"its clock differs by {health.clock_offset:.0f} s", DEGRADED, "set its clock, or this machine's")
    health.free = _free(target)
    return health


def _identify(target: Target, health: TargetHealth) -> None:
    began = time.monotonic()
    try:
        data = bytes(target.get(paths.IDENTITY))
    except ObjectNotFound:
        target.list_folders("")  # a directory that isn't there at all says so here
        health.add("no store is here: new, or wiped", DEGRADED, REPAIR)
        return
    health.latency = time.monotonic() - began
    try:
        found = manifests.unseal(Identity, data)
    except FormatError as error:
        health.add(f"{paths.IDENTITY} is damaged: {error}", DEGRADED, REPAIR)
        return
    health.store_id = found.store_id
    if found.target != target.name:
        message = f"it is where the store keeps target {found.target}"
        advice = f"mend the urls of {health.name} and {found.target} in store.toml: they point at each other's place"
        health.add(message, TargetUnusable.exit_code, advice)


def _try_out(target: Target, health: TargetHealth) -> None:
    found = probe_target(target)
    if not found.can_hold_fragments or (health.commit and not found.can_commit):
        for problem in found.problems.values():
            health.add(problem, TargetUnusable.exit_code, UNABLE if found.can_hold_fragments else UNFIT)


def _clock_offset(target: Target) -> float:
    path = f"probe/{secrets.token_hex(8)}/clock"
    before = datetime.now(UTC)
    target.put(path, b"clock")
    after = datetime.now(UTC)
    try:
        modified = target.head(path).modified
    finally:
        with suppress(TargetError):
            target.delete([path])
    return (modified - before).total_seconds() - (after - before).total_seconds() / 2


def _free(target: Target) -> int | None:
    """Bytes left on a directory's file system."""
    scheme, _, path = target.url.partition("://")
    if scheme != "file":
        return None
    with suppress(OSError):
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize
    return None


def _check_stores(report: DoctorReport) -> None:
    """Targets of another store than most."""
    stores = [health.store_id for health in report.targets if health.store_id]
    report.store_id = max(sorted(set(stores)), key=stores.count, default=None)
    for health in report.targets:
        if health.store_id and health.store_id != report.store_id:
            health.add(
                f"it belongs to store {health.store_id}, the others to {report.store_id}",
                ConflictError.exit_code,
                "mend the url in store.toml",
            )


def _judge(opened: Opened, report: DoctorReport) -> None:
    group, config = opened.group, opened.config
    members = group.members
    standings = group.standings
    with_store = {health.name for health in report.targets if health.store_id}  # a new place has no checkpoint on it
    runs = _runs_on(opened, [name for name in standings if name not in members.targets and name in with_store])
    for health in report.targets:
        _judge_standing(health, standings.get(health.name), members.targets, runs.get(health.name, []))
    report.targets += [_unnamed(name) for name in members.targets if name not in opened.targets]
    report.quorums = quorums_of(config, len(members.targets), members.t)
    valid = sum(standings[name].state == "valid" for name in members.targets if name in standings)
    silent = sum(standings[name].state == "unreachable" for name in members.targets if name in standings)
    good = [place for place in config.places if not any(h.name == place.target and h.problems for h in report.targets)]
    report.tolerance = weakest([opened.votes_survive(), opened.reachable_tolerance(good)]) if good else Survives(-1, -1)
    report.loading_survives = max(valid - report.quorums.readings, -1)
    voters = [h for h in report.targets if h.name in members.targets and h.standing == "valid"]
    unwritable = sum(not health.takes_puts for health in voters)
    if report.tolerance.targets >= config.require_tolerance:
        report.saving_survives = losses_saving_survives(config, len(members.targets), valid, members.t, unwritable)
    if valid < report.quorums.readings:
        report.exit_code = OutOfReach.exit_code if valid + silent >= report.quorums.readings else LOST


def _runs_on(opened: Opened, names: Sequence[str]) -> dict[str, list[str]]:
    """As `runs_on`; where no target lists its runs, any may be on any."""
    try:
        return runs_on(opened, names)
    except TargetError:
        return {name: ["any run"] for name in names}


def _judge_standing(
    health: TargetHealth, standing: manifests.TargetStanding | None, members: Sequence[str], runs: Sequence[str]
) -> None:
    if standing is None:
        health.standing = "fragments only"
        return
    if health.name not in members:
        health.standing = "no member"
        others = f"or let it be one: ckpt init; or put it in another's place: ckpt repair --replace OLD={health.name}"
        advice = f"take {health.name} out of store.toml if it was replaced; {others}"
        problem = "no commit target of the store"
        if runs:
            problem = f"{problem}, and checkpoints of {', '.join(runs)} are on it"
            advice = f"move them, then take {health.name} out of store.toml: "
            advice += "; ".join(f"{REPAIR} --run {run}" for run in runs)
        health.advice.clear()  # what would bring it back is of no use
        health.add(problem, DEGRADED, advice)
        return
    health.standing = standing.state
    if health.standing != "valid" and not health.problems:
        problem = f"{health.standing}: {standing.reason or 'not among the commit targets of the store'}"
        health.add(problem, DEGRADED, REPAIR)


def _unnamed(name: str) -> TargetHealth:
    health = TargetHealth(name, "", "", commit=True, reachable=False)
    advice = f"name {name} in store.toml, or put another in its place: ckpt repair --replace {name}=NEW"
    health.add("a commit target of the store that store.toml doesn't name", DEGRADED, advice)
    return health


def _worst(report: DoctorReport) -> int:
    """What the store says comes first, then credentials, what can't be used, and last that something is amiss."""
    if report.exit_code:
        return report.exit_code
    codes = {health.code for health in report.targets}
    for code in (AccessDenied.exit_code, ConflictError.exit_code, TargetUnusable.exit_code):
        if code in codes:
            return code
    return DEGRADED if any(codes) else 0
