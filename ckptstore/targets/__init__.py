"""Targets: places that fail on their own, behind one set of verbs.

`base` says what a target is. `directory`, `memory`, `objectstore` (S3, GCS, Azure by obstore) and
`filesystem` (any fsspec filesystem) are targets; `retry`, `health`, `limit`, `fault` and `meter` are wrappers
with the same interface; `opening` puts them together from a URL, `apart` sees that no two are one place. `probe` finds
out what a service really does, `registers` fits a target to the commit protocol, and `testing` is the
conformance suite that every target passes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ckptstore.targets.base import Buffer, Entry, Reason, Target
from ckptstore.targets.directory import DirectoryTarget
from ckptstore.targets.memory import MemoryObjects, MemoryTarget
from ckptstore.targets.opening import open_target

if TYPE_CHECKING:
    from ckptstore.targets.apart import check_apart
    from ckptstore.targets.fault import FaultTarget
    from ckptstore.targets.limit import LimitTarget, RateLimit
    from ckptstore.targets.meter import MeterTarget
    from ckptstore.targets.probe import Capabilities, probe_target
    from ckptstore.targets.registers import TargetRegister

__all__ = [
    "Buffer",
    "Capabilities",
    "DirectoryTarget",
    "Entry",
    "FaultTarget",
    "LimitTarget",
    "MemoryObjects",
    "MemoryTarget",
    "MeterTarget",
    "RateLimit",
    "Reason",
    "Target",
    "TargetRegister",
    "check_apart",
    "open_target",
    "probe_target",
]

_LATER = {
    "Capabilities": "ckptstore.targets.probe",
    "FaultTarget": "ckptstore.targets.fault",
    "LimitTarget": "ckptstore.targets.limit",
    "MeterTarget": "ckptstore.targets.meter",
    "RateLimit": "ckptstore.targets.limit",
    "TargetRegister": "ckptstore.targets.registers",
    "check_apart": "ckptstore.targets.apart",
    "probe_target": "ckptstore.targets.probe",
}
"""Names whose modules a listing never needs: `ckpt ls` has little time to import."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
