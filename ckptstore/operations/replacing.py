"""Targets that give way to others: whether they can, and which runs are on them still.

Members are the store's, checkpoints are each run's: once a repair of one run has put a new member in the place of an
old one, the checkpoints of all other runs are where they were.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from ckptstore.errors import CkptStoreError, CorruptError, NotFoundError, TargetError, UsageError
from ckptstore.load.documents import fetch_document, fetch_record
from ckptstore.names import is_run
from ckptstore.opened import Opened
from ckptstore.operations.health import recoverable
from ckptstore.placement import Place, full_tolerance
from ckptstore.protocolerrors import protocol_errors
from ckptstore.selection import history_of
from ckptstore.tolerance import homes_of
from manifests import Checkpoint, History, Index, paths

NEW = "add a target to store.toml, and name that one: ckpt repair --replace {}=NEW"

__all__ = ["check_replacements", "list_runs", "runs_on"]


def check_replacements(opened: Opened, run: str, replace: Mapping[str, str]) -> None:
    """Raise `UsageError` where a target can't give way to the one named, before anything is written."""
    if not replace:
        return
    _check_pairs(replace)
    unknown = sorted(set(replace.values()) - set(opened.targets))
    if unknown:
        message = f"{', '.join(unknown)}: not among the store's targets {', '.join(opened.targets)}"
        raise UsageError(message, hint="add it to store.toml first, and give its name")
    with protocol_errors():
        opened.group.refresh()
    _check_known(opened, run, replace)
    for old, new in replace.items():
        _check_votes(opened, old, new)
    _check_room(opened, replace)


def _check_pairs(replace: Mapping[str, str]) -> None:
    """Each target that goes has one of its own in its place, which stays."""
    taken = Counter(replace.values())
    for old, new in replace.items():
        if old == new:
            raise UsageError(f"--replace {old}={new}: {old} can't take its own place", hint=NEW.format(old))
        if new in replace:
            message = f"--replace {old}={new}: {new} is to go itself (--replace {new}={replace[new]})"
            raise UsageError(message, hint=f"name for {old} a target that stays: ckpt repair --replace {old}=NEW")
        if taken[new] > 1:
            olds = [name for name, each in replace.items() if each == new]
            told = " ".join(f"--replace {name}={new if name == olds[0] else 'NEW'}" for name in olds)
            message = f"{', '.join(olds)}: only one of them can give way to {new}"
            raise UsageError(message, hint=f"name another target for each: ckpt repair {told}")


def _check_known(opened: Opened, run: str, replace: Mapping[str, str]) -> None:
    strange = set(replace) - {*opened.targets, *opened.group.members.targets}
    if not strange:
        return
    with protocol_errors():
        used = _targets_of(opened, opened.group.history(run))[0]
    if strange - used:
        known = sorted({*opened.targets, *opened.group.members.targets, *used})
        message = f"{', '.join(sorted(strange - used))}: no target of the store to replace; it has {', '.join(known)}"
        raise UsageError(message, hint="see the targets: ckpt doctor")


def _check_votes(opened: Opened, old: str, new: str) -> None:
    """What takes a member's place must be able to vote; a new member needs one that makes room for it."""
    members = opened.group.members.targets
    votes = {spec.name: spec.commit for spec in opened.config.targets}[new]
    if old in members and not votes:
        message = f"--replace {old}={new}: {new} has commit = false, and can't take the place of a commit target"
        raise UsageError(message, hint=f"take that out of store.toml for {new}, or name another: --replace {old}=NEW")
    if old not in members and votes and new not in members:
        message = f"--replace {old}={new}: {new} is no commit target of the store, and {old} leaves it no vote"
        raise UsageError(message, hint=f"name one that is, of {', '.join(members)}; or make it one first: ckpt init")


def _check_room(opened: Opened, replace: Mapping[str, str]) -> None:
    """What one target less could not keep as safe stays where it is: onto one that the store has nothing is gained."""
    now = opened.places
    fresh = [place for place in opened.config.places if place in now or place.target in replace.values()]
    after = [place for place in fresh if place.target not in replace]
    before, left = _survived(opened, now), _survived(opened, after)
    if left < before:
        olds = ", ".join(sorted(replace))
        message = (
            f"without {olds} what is saved survives the loss of {left} of {len(after)} targets, "
            f"now of {before} of {len(now)}: nothing was moved"
        )
        onto = next(old for old, new in replace.items() if new in {place.target for place in now})
        raise UsageError(message, hint=NEW.format(onto))


def _survived(opened: Opened, places: Sequence[Place]) -> int:
    return full_tolerance(opened.config.k, opened.config.m, places).targets if places else -1


def list_runs(opened: Opened) -> list[str]:
    """The names of all runs that any target in reach holds. Raises `TargetError` where none answers."""
    found = opened.on_targets(lambda target: target.list_folders(paths.RUNS))
    errors = [names for names in found.values() if isinstance(names, TargetError)]
    if len(errors) == len(found):
        raise errors[0]
    listed = {name for names in found.values() if not isinstance(names, TargetError) for name in names}
    return sorted(name for name in listed if is_run(name))


def runs_on(opened: Opened, names: Collection[str], runs: Collection[str]) -> dict[str, list[str]]:
    """Which of the runs have checkpoints on each of the targets named: live ones, or such as could be undeleted.

    A run of which that can't be told is taken to be on all of them. Targets that none is on are left out.
    """
    found: dict[str, list[str]] = {}
    for run in sorted(runs) if names else ():
        try:
            history = history_of(opened, run)
        except NotFoundError:
            continue
        except CkptStoreError:
            on, certain = set(names), False
        else:
            on, certain = _targets_of(opened, history)
        for name in names:
            if name in on or not certain:
                found.setdefault(name, []).append(run)
    return found


def _targets_of(opened: Opened, history: History) -> tuple[set[str], bool]:
    """The targets that a run's checkpoints are on, as their newest versions say; and whether those are all.

    What is damaged beyond reading is lost, wherever its fragments are, and on none.
    """
    found: set[str] = set()
    certain = not any(problem.newer for problem in history.problems)
    for checkpoint in (*history.checkpoints, *recoverable(history)):
        try:
            _add_targets(opened, checkpoint, found)
        except CorruptError:
            continue
        except CkptStoreError:
            certain = False
    return found, certain


def _add_targets(opened: Opened, checkpoint: Checkpoint, found: set[str]) -> None:
    for copy in checkpoint.manifest.copies:
        index = fetch_document(Index, copy.index, opened.targets)
        found.update(copy.index.targets)
        for shard in index.shards:
            found |= homes_of(fetch_record(shard, opened.targets))
            found.update(shard.record.targets)
