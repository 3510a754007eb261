"""Whether a target is the one that the store knows under its name, and whether it takes what a save puts."""

import manifests
from ckptstore.errors import TargetError, TargetUnusable
from ckptstore.targets import Target
from manifests import FormatError, Identity, paths

__all__ = ["why_no_puts", "why_not"]


def why_not(target: Target, store_id: str) -> TargetError | None:
    """What keeps a target from being written to; None where nothing does."""
    name = target.name
    try:
        found = manifests.unseal(Identity, bytes(target.get(paths.IDENTITY)))
    except FormatError as error:
        return TargetUnusable(f"{name}: {paths.IDENTITY} is damaged: {error}", target=name, hint="run: ckpt repair")
    if found.store_id != store_id:
        message = f"target {name} belongs to store {found.store_id}, not to {store_id}"
        return TargetUnusable(message, target=name, hint="mend the target's url in store.toml")
    if found.target != name:
        message = f"target {name} is where the store keeps target {found.target}"
        return TargetUnusable(message, target=name, hint="mend the target's url in store.toml")
    return None


def why_no_puts(target: Target, store_id: str, *, votes: bool) -> TargetError | None:
    """Why a target takes no puts, by a put-if-absent of its identity, which is there: it leaves nothing behind.

    Credentials that may only read are refused, and so is any put to what is full. A service that ignores the condition
    says that it has put it: such a one can't hold `votes`. One that is busy tells nothing.
    """
    if not target.can_put_if_absent:
        return None
    identity = manifests.seal(Identity(store_id=store_id, target=target.name))
    try:
        overwritten = target.put_if_absent(paths.IDENTITY, identity)
    except TargetError as error:
        return None if error.transient else error
    if overwritten and votes:
        message = f"{target.name}: a put-if-absent of what was there overwrote it, so it can't hold manifests"
        return TargetUnusable(message, target=target.name, hint="set commit = false for this target in store.toml")
    return None
