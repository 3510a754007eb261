"""A committed checkpoint, as the Python API and the commands show it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import manifests
from ckptstore.placement import Survives
from ckptstore.selection import key_of
from manifests import Manifest

__all__ = ["Checkpoint"]


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
    """"good", or "degraded": it survives less than with everything in its place. `ckpt verify` looks closer."""
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
