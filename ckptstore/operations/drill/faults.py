"""A store opened once more, its targets made to fail: what a drill looks at. Nothing can be written through it."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from ckptstore.config import Config
from ckptstore.events import Event, FragmentDamaged, Observer, TargetFailed
from ckptstore.opened import Opened
from ckptstore.targets import FaultTarget, Target
from ckptstore.targets.base import Reason
from ckptstore.targets.fault import unavailable
from ckptstore.targets.pretend import EmptyTarget, ReadOnlyTarget, ThrottledTarget, rot

__all__ = ["Drilled", "Faults", "domains_lost", "open_with"]


@dataclass(frozen=True)
class Faults:
    """What is done to which targets. `slow` in seconds a request, `throttle` in bytes a second.

    `how`: in words, how those `lost` were chosen.
    """

    lost: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    corrupt: tuple[str, ...] = ()
    slow: Mapping[str, float] = field(default_factory=dict)
    throttle: Mapping[str, int] = field(default_factory=dict)
    how: str = ""

    @property
    def gone(self) -> frozenset[str]:
        """The targets of which nothing good can be read."""
        return frozenset({*self.lost, *self.empty, *self.corrupt})


@dataclass(frozen=True)
class Drilled:
    """The store as a drill sees it; `readers` count the bytes really read of each target."""

    opened: Opened
    readers: Mapping[str, ReadOnlyTarget]
    faults: Faults

    def tell(self, observer: Observer) -> Observer:
        """`observer`, told of no target that fails because it is to."""

        def told(event: Event) -> None:
            if not (isinstance(event, TargetFailed | FragmentDamaged) and event.target in self.faults.gone):
                observer(event)

        return told

    @property
    def bytes_read(self) -> int:
        """Bytes that the targets really gave, so far."""
        return sum(reader.bytes_read for reader in self.readers.values())


@contextmanager
def open_with(config: Config, faults: Faults) -> Iterator[Drilled]:
    """The store with `faults`, in clients and threads of its own; closed at the end."""
    opened = Opened(config)
    try:
        readers = {name: ReadOnlyTarget(target) for name, target in opened.targets.items()}
        opened.targets = {name: _made_to_fail(reader, faults) for name, reader in readers.items()}
        yield Drilled(opened, readers, faults)
    finally:
        opened.close()


def domains_lost(config: Config, gone: Collection[str]) -> tuple[int, int]:
    """How many domains have lost all of their targets, and how many any."""
    domains: dict[str, set[str]] = {}
    for place in config.places:
        domains.setdefault(place.domain, set()).add(place.target)
    lost = [len(targets & {*gone}) for targets in domains.values()]
    whole = sum(count == len(targets) for count, targets in zip(lost, domains.values(), strict=True))
    return whole, sum(map(bool, lost))


def _made_to_fail(reader: ReadOnlyTarget, faults: Faults) -> Target:
    name = reader.name
    if name in faults.empty:
        return EmptyTarget(reader)
    inner = ThrottledTarget(reader, rate=faults.throttle[name]) if name in faults.throttle else reader
    failing = FaultTarget(inner)
    if name in faults.lost:
        failing.inject(error=unavailable(f"{name} is lost in this drill", target=name, reason=Reason.GONE))
    if name in faults.corrupt:
        failing.inject("get", damage=rot)
        failing.inject("get_into", damage=rot)
    if name in faults.slow:
        failing.inject(seconds=faults.slow[name])
    return failing
