"""A committed checkpoint, as the Python API and the commands show it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import manifests
from ckptstore.errors import UsageError
from ckptstore.placement import Survives
from ckptstore.selection import Selector, key_of
from manifests import Manifest, paths

__all__ = ["Checkpoint", "Which", "selector_of", "the_one"]


@dataclass(frozen=True)
class Checkpoint:
    """A committed checkpoint, as its manifest describes it."""

    run: str
    key: str
    name: str
    step: int | None
    session: str
    ordinal: int
    created: str
    world: int
    bytes: int
    tolerance: Survives
    state: str
    """"good"; "degraded": it survives less than with everything in its place; "lost": no manifest of it can be read.
    `ckpt verify` looks closer."""
    tags: tuple[str, ...] = ()
    user: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, manifest: Manifest, tags: Sequence[str] = ()) -> "Checkpoint":
        """As a manifest describes it."""
        tolerance = manifest.tolerance or manifests.Tolerance(targets=0, domains=0)
        planned = manifest.planned or tolerance
        key = key_of(manifest)
        return cls(
            run=manifest.run,
            key=key,
            name=manifest.name or key,
            step=manifest.step,
            session=manifest.session,
            ordinal=manifest.ordinal,
            created=manifest.created,
            world=manifest.world,
            bytes=manifest.bytes,
            tolerance=Survives(tolerance.targets, tolerance.domains),
            state="degraded" if tolerance.targets < planned.targets or manifest.missing else "good",
            tags=tuple(tags),
            user=manifest.user,
        )

    @classmethod
    def lost(cls, run: str, session: str, ordinal: int) -> "Checkpoint":
        """One of which nothing is known but its key."""
        key = paths.save_name(session, ordinal)
        return cls(run, key, key, None, session, ordinal, "", 0, 0, Survives(-1, -1), "lost")


Which = int | str | Selector | Checkpoint
"""A checkpoint by its step, by its name, "latest" or "tag:best", or itself: then no other of that step is meant."""


def selector_of(which: Which | None, name: str | None = None) -> Selector:
    """What is asked for; the latest where nothing is. Raises `UsageError` for what names no checkpoint, or two."""
    if name is not None and not (isinstance(name, str) and name):
        raise UsageError(f"name = {name!r:.80}: text is wanted", hint='name="best"')
    if name is not None and isinstance(which, str | Selector | Checkpoint):
        asked = which.key if isinstance(which, Checkpoint) else which
        raise UsageError(f"one checkpoint is named in two ways: {asked}, {name}", hint="name it once")
    if isinstance(which, Selector):
        return which
    if isinstance(which, Checkpoint):
        return Selector(key=which.key)
    return Selector.parse(which) if isinstance(which, str) and which else Selector(step=_step(which), name=name)


def the_one(which: Which) -> Selector:
    """What is asked for, where that must be said: no mark is put on a checkpoint that nobody named."""
    if which is None:
        raise UsageError("which checkpoint?", hint="name one: its step, its name, or run.latest()")
    return selector_of(which)


def _step(which: object) -> int | None:
    """A whole number, of numpy or torch too."""
    if which is None:
        return None
    try:
        if not isinstance(which, bool):
            return index(which)  # type: ignore[arg-type]
    except TypeError:
        pass
    message = f"a checkpoint is asked for by its step, a name or a Checkpoint, not by {_shown(which)}"
    raise UsageError(message, hint='step=100, "latest", "tag:best", or one of run.checkpoints()')


def _shown(which: object) -> str:
    return repr(which) if isinstance(which, bool | str) else f"a {type(which).__name__}"
