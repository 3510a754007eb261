"""Targets that were wiped, or are new in the place of another: they become the store's targets again.

A commit target that lost its standing has forgotten its votes, and counts for nothing until it has learned again
what was decided without it: `manifests.Group.readmit`. One that holds fragments only needs its identity.
"""

from collections.abc import Mapping

import manifests
from ckptstore.errors import CkptStoreError, ObjectNotFound
from ckptstore.opened import Opened
from ckptstore.protocolerrors import protocol_errors
from ckptstore.targets import Target
from manifests import FormatError, Identity, paths

LOST_STANDINGS = ("absent", "joining", "damaged")

__all__ = ["lost_standings", "readmit_targets"]


def lost_standings(opened: Opened) -> set[str]:
    """The targets that lost their standing, as the store was read last: they count for nothing until re-admitted."""
    return {name for name, standing in opened.group.standings.items() if standing.state in LOST_STANDINGS}


def readmit_targets(opened: Opened, replace: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Re-admit whatever can be. Returns the names of the targets re-admitted, and what went wrong with others."""
    done: list[str] = []
    failed: list[str] = []
    for name in sorted(set(replace.values())):
        try:
            opened.targets[name].create_root()
        except CkptStoreError as error:
            failed.append(error.message)
    with protocol_errors():
        opened.group.refresh()
    for step in (_replace_members, _readmit_members, _identify):
        step(opened, replace, done, failed)
    return sorted(set(done)), failed


def _replace_members(opened: Opened, replace: Mapping[str, str], done: list[str], failed: list[str]) -> None:
    commits = {spec.name for spec in opened.config.targets if spec.commit}
    members = opened.group.members.targets
    changes = {old: new for old, new in replace.items() if old in members and new in commits and new not in members}
    if not changes and opened.group.members.old is None:
        return
    try:
        with protocol_errors():
            opened.group.change_members([changes.get(name, name) for name in members], opened.group.members.t)
    except CkptStoreError as error:
        failed.append(error.message)
    else:
        done += changes.values()


def _readmit_members(opened: Opened, _replace: Mapping[str, str], done: list[str], failed: list[str]) -> None:
    for name, standing in opened.group.standings.items():
        if name in opened.group.members.targets and standing.state in LOST_STANDINGS:
            try:
                with protocol_errors():
                    opened.group.readmit(name)
            except CkptStoreError as error:
                failed.append(error.message)
            else:
                done.append(name)


def _identify(opened: Opened, replace: Mapping[str, str], done: list[str], failed: list[str]) -> None:
    """Put the identity of targets without votes that lost it; one that is being replaced is a target no more.

    A commit target that is no member isn't made one here: `ckpt init` does that.
    """
    for spec in opened.config.targets:
        name, target = spec.name, opened.targets[spec.name]
        if spec.commit or name in replace:
            continue
        try:
            if not _has_identity(target):
                target.put(paths.IDENTITY, manifests.seal(Identity(store_id=opened.group.store_id, target=name)))
                done.append(name)
        except CkptStoreError as error:
            failed.append(error.message)


def _has_identity(target: Target) -> bool:
    """Whether its identity can be read: whose it is, is for whoever writes to it to see."""
    try:
        manifests.unseal(Identity, bytes(target.get(paths.IDENTITY)))
    except (ObjectNotFound, FormatError):
        return False
    return True
