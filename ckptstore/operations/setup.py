"""`ckpt init`: targets become a store's. Every target is tried out first; doing it again changes nothing.

A target that belongs to another store is refused, and so is a commit target that can't put if absent: whether it can
is found out by doing it (`targets.probe`), never by its name.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import manifests
from ckptstore.config import NAME
from ckptstore.errors import (
    ConfigError,
    ConflictError,
    ObjectNotFound,
    TargetError,
    TargetUnavailable,
    TargetUnusable,
    UsageError,
)
from ckptstore.opened import Opened
from ckptstore.operations.promises import layout_survives
from ckptstore.operations.quorums import Quorums, quorums_of, tolerated
from ckptstore.placement import Survives
from ckptstore.protocolerrors import protocol_errors
from ckptstore.targets import Target, TargetRegister
from ckptstore.targets.base import Reason
from ckptstore.targets.probe import Capabilities, probe_target
from manifests import FormatError, Identity, paths

__all__ = ["InitReport", "init", "starter"]


@dataclass(frozen=True)
class InitReport:
    """The store: `created` now, or there already. `tolerance`: what a checkpoint on all targets survives."""

    store_id: str
    created: bool
    targets: tuple[str, ...]
    fragments_only: tuple[str, ...]
    quorums: Quorums
    tolerance: Survives


def init(opened: Opened, *, fresh: bool = False) -> InitReport:
    """Make the targets of the settings a store, or finish what an earlier call began.

    `fresh`: the settings were just written, so the targets are those of a store that is there, or of none.

    Raises `ConfigError` for a target that can't do what is asked of it, `ConflictError` for one of another store,
    `TargetError` for one that doesn't answer.
    """
    identities = _identities(opened)
    stores = sorted({identity.store_id for identity in identities.values() if identity})
    if len(stores) > 1:
        raise _two_stores(identities)
    commit = [spec.name for spec in opened.config.targets if spec.commit]
    if not commit:
        raise ConfigError("no target has commit = true: manifests would have no place", key="targets.commit")
    _refuse_strangers(commit, identities)
    created = _make(opened, commit, identities, fresh=fresh)
    _identify(opened, [name for name in opened.targets if name not in commit], identities)
    members = opened.group.members
    config = opened.config
    return InitReport(
        store_id=opened.group.store_id,
        created=created,
        targets=tuple(members.targets),
        fragments_only=tuple(name for name in opened.targets if name not in commit),
        quorums=quorums_of(config, len(members.targets), members.t),
        tolerance=layout_survives(config),
    )


def starter(file: Path, places: Sequence[str], code: str) -> str:
    """The text of a store.toml at `file` with one target for each of `places` (directories or URLs)."""
    names: list[str] = []
    for place in places:
        names.append(_name(place.rstrip("/").rpartition("/")[2], names, len(names)))
    lines = [f"name = {json.dumps(_name(file.resolve().parent.name, [], 0))}", f"code = {json.dumps(code)}"]
    for name, place in zip(names, places, strict=True):
        url = place if "://" in place or file.resolve().parent == Path.cwd() else os.path.abspath(place)  # noqa: PTH100 - links stay as the user named them
        lines += ["", "[[targets]]", f"name = {json.dumps(name)}", f"url = {json.dumps(url)}"]
        lines += ['# domain = "rack-1"    what this target fails together with; by default it fails alone']
    return "\n".join(lines) + "\n"


def _identities(opened: Opened) -> dict[str, Identity | None]:
    """Who each target says it is; None for one that nobody claimed.

    Directories are made only where no target is of a store yet: one that is gone may be a disk that isn't mounted.
    """
    replies = opened.on_targets(_identity)
    gone = {name: reply for name, reply in replies.items() if _is_gone(reply)}
    if gone and all(name in gone or reply is None for name, reply in replies.items()):
        opened.on_targets(lambda target: target.create_root(), gone)
        replies |= opened.on_targets(_identity, gone)
    found: dict[str, Identity | None] = {}
    for name, reply in replies.items():
        if isinstance(reply, TargetError):
            raise reply
        if reply is not None and reply.target != name:
            message = f"target {name} is where store {reply.store_id} keeps its target {reply.target}"
            hint = "mend the target's url or name in store.toml, or empty the place"
            raise ConflictError(message, hint=hint, target=name)
        found[name] = reply
    return found


def _is_gone(reply: object) -> bool:
    return isinstance(reply, TargetUnavailable) and reply.fields.get("reason") == Reason.GONE


def _identity(target: Target) -> Identity | None:
    try:
        return manifests.unseal(Identity, bytes(target.get(paths.IDENTITY)))
    except ObjectNotFound:
        return None
    except FormatError as error:
        message = f"{target.name}: {paths.IDENTITY} is damaged: {error}"
        raise TargetUnusable(message, target=target.name, hint="run: ckpt repair") from error


def _make(
    opened: Opened, commit: Sequence[str], identities: Mapping[str, Identity | None], *, fresh: bool = False
) -> bool:
    """Make the commit targets a store, or finish it; False where they are one."""
    try:
        opened.group.refresh()
    except (manifests.NotAStore, manifests.NoQuorum):
        _try_out(opened)
    else:
        if fresh and set(opened.group.members.targets) != set(commit):
            raise _taken(opened)
        _check_members(opened, commit, identities)
        if all(opened.group.standings[name].state == "valid" for name in commit):
            return False
    registers = [TargetRegister(opened.targets[name]) for name in commit]
    try:
        with protocol_errors():
            manifests.init_store(registers, t=tolerated(opened.config))
            opened.group.refresh()
    except ConflictError as error:
        hint = "where a target of this store was wiped or is new: ckpt repair"
        raise ConflictError(error.message, hint=hint, **error.fields) from error
    return True


def _taken(opened: Opened) -> ConflictError:
    members = ", ".join(opened.group.members.targets)
    message = f"there is a store here already, {opened.group.store_id}, whose commit targets are {members}"
    return ConflictError(message, hint="open it by its own store.toml, or name other, empty places")


def _try_out(opened: Opened) -> None:
    replies = opened.on_targets(probe_target)
    for spec in opened.config.targets:
        reply = replies[spec.name]
        if isinstance(reply, TargetError):
            raise reply
        _check_capabilities(reply, commit=spec.commit)


def _check_capabilities(found: Capabilities, *, commit: bool) -> None:
    told = "; ".join(found.problems.values())
    if not found.can_hold_fragments:
        message = f"target {found.target} can't hold a checkpoint: {told}"
        raise TargetUnusable(message, target=found.target, hint="take it out of store.toml, then: ckpt init")
    if commit and not found.can_commit:
        message = f"target {found.target} can't hold manifests: {told}"
        hint = (
            f"set commit = false for {found.target} in store.toml: it takes fragments, never manifests; then: ckpt init"
        )
        raise TargetUnusable(message, target=found.target, hint=hint)


def _check_members(opened: Opened, commit: Sequence[str], identities: Mapping[str, Identity | None]) -> None:
    members = opened.group.members.targets
    foreign = {s.target: s.reason for s in opened.group.standings.values() if s.state == "foreign"}
    if foreign:
        told = "; ".join(f"{name}: {reason}" for name, reason in foreign.items())
        raise ConflictError(f"these targets belong to something else: {told}", hint="mend their urls in store.toml")
    if set(members) < set(commit):
        _add_members(opened, commit)
    elif set(members) != set(commit):
        message = f"the store's commit targets are {', '.join(members)}; store.toml names {', '.join(commit)}"
        hint = "name those in store.toml, or put one in the place of another with: ckpt repair --replace OLD=NEW"
        raise ConflictError(message, hint=hint)
    wiped = sorted(name for name in members if identities[name] is None)
    if wiped:
        message = f"{', '.join(wiped)} of store {opened.group.store_id} lost what was there"
        raise ConflictError(message, hint="give back what belongs there with: ckpt repair", targets=wiped)


def _add_members(opened: Opened, commit: Sequence[str]) -> None:
    """Let commit targets that store.toml has more than the store be members too."""
    with protocol_errors():
        opened.group.change_members(commit, tolerated(opened.config))


def _refuse_strangers(commit: Sequence[str], identities: Mapping[str, Identity | None]) -> None:
    """A target without votes may belong to the store of the others, or to none."""
    ours = {identity.store_id for name in commit if (identity := identities[name])}
    for name, identity in identities.items():
        if name not in commit and identity and identity.store_id not in ours:
            message = f"target {name} belongs to another store, {identity.store_id}"
            raise ConflictError(message, hint="mend its url in store.toml, or empty the place", target=name)


def _identify(opened: Opened, names: Sequence[str], identities: Mapping[str, Identity | None]) -> None:
    """Targets without votes need only know whose they are."""
    store_id = opened.group.store_id
    for name in names:
        if identities[name] is None:
            opened.targets[name].put(paths.IDENTITY, manifests.seal(Identity(store_id=store_id, target=name)))


def _two_stores(identities: Mapping[str, Identity | None]) -> ConflictError:
    told = ", ".join(f"{name} of {identity.store_id}" for name, identity in identities.items() if identity)
    return ConflictError(f"the targets belong to several stores: {told}", hint="mend their urls in store.toml")


def _name(wish: str, taken: Sequence[str], number: int) -> str:
    """A name from the end of a path, as settings allow it."""
    plain = re.sub(r"[^a-z0-9._-]", "-", wish.lower()).strip("._-")[:60]
    found = plain if NAME.fullmatch(plain) else f"target-{number + 1}"
    if found in taken:
        found = f"{found}-{number + 1}"
    if not NAME.fullmatch(found) or found in taken:
        raise UsageError(f"no name for {wish!r}", hint="write store.toml by hand")
    return found
