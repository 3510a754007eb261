"""Whether targets can give way to others."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from ckptstore.errors import UsageError
from ckptstore.opened import Opened
from ckptstore.operations.runs import targets_of
from ckptstore.placement import Place, full_tolerance
from ckptstore.protocolerrors import protocol_errors

NEW = "add a target to store.toml, and name that one: ckpt repair --replace {}=NEW"

__all__ = ["check_replacements", "places_with"]


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
        used = targets_of(opened, opened.group.history(run))[0]
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
    after = [place for place in places_with(opened, replace.values()) if place.target not in replace]
    before, left = _survived(opened, now), _survived(opened, after)
    if left < before:
        olds = ", ".join(sorted(replace))
        message = (
            f"without {olds} what is saved survives the loss of {left} of {len(after)} targets, "
            f"now of {before} of {len(now)}: nothing was moved"
        )
        onto = next(old for old, new in replace.items() if new in {place.target for place in now})
        raise UsageError(message, hint=NEW.format(onto))


def places_with(opened: Opened, new: Collection[str]) -> list[Place]:
    """Where what is stored is to be once these targets of the config have taken the place of others too."""
    now = opened.places
    return [place for place in opened.config.places if place in now or place.target in new]


def _survived(opened: Opened, places: Sequence[Place]) -> int:
    return full_tolerance(opened.config.k, opened.config.m, places).targets if places else -1
