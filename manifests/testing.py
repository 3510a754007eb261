"""An in-memory register with the faults that real targets have, for tests of whatever stands on registers."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from manifests import paths
from manifests.errors import Unavailable
from manifests.schema import Copy, Manifest, Reference, Tolerance
from manifests.stored import Document
from manifests.votes import seal_vote


def sealed_for(path: str, document: Document) -> bytes:
    """Return the bytes of a vote that lies under the full name `path` on a target."""
    _, run, _, _, name = path.split("/", 4)
    return seal_vote(run, name, document)


def save_manifest(run: str, session: str, ordinal: int, *, step: int | None = None, kind: str = "save") -> Manifest:
    """Return a manifest whose index is named but nowhere: the protocol never looks at what a manifest names."""
    index = Reference(path=paths.index(run, "0" * 32), size=1, raw_size=1, sha256="0" * 64, targets=["a"])
    return Manifest(
        kind=kind,
        run=run,
        session=session,
        ordinal=ordinal,
        step=step,
        tolerance=Tolerance(targets=1, domains=1),
        copies=[Copy(tier="t", index=index)],
    )


@dataclass
class MemoryRegister:
    """A register in memory, with faults.

    `down`, `failing`: out of reach. `lose_before`, `lose_after`: so many puts and deletes whose reply is lost before,
    or after, they took effect. `hold_late`: they are lost now and take effect when `land` is called. `refuse_empty`: so
    many put-if-absents are refused although nothing is there (a spurious 409). `conditional` False: put-if-absent
    overwrites and reports success, as a store does that ignores If-None-Match. `requests` counts the calls.
    """

    name: str
    objects: dict[str, bytes] = field(default_factory=dict)
    down: bool = False
    failing: bool = False
    lose_before: int = 0
    lose_after: int = 0
    hold_late: bool = False
    refuse_empty: int = 0
    conditional: bool = True
    late: list[Callable[[], object]] = field(default_factory=list)
    requests: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def get(self, path: str) -> bytes | None:
        """As `Register.get`."""
        with self._lock:
            self._reach(path)
            return self.objects.get(path)

    def list(self, prefix: str) -> list[str]:
        """As `Register.list`."""
        with self._lock:
            self._reach(prefix)
            return [path for path in self.objects if path.startswith(prefix)]

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """As `Register.put_if_absent`."""
        with self._lock:
            if self.refuse_empty and path not in self.objects:
                self.refuse_empty -= 1
                return False
            return bool(self._put(path, lambda: self._create(path, data)))

    def put(self, path: str, data: bytes) -> None:
        """As `Register.put`."""
        with self._lock:
            self._put(path, lambda: self.objects.__setitem__(path, data))

    def delete(self, path: str) -> None:
        """As `Register.delete`."""
        with self._lock:
            self._put(path, lambda: self.objects.pop(path, None) and None)

    def wipe(self) -> None:
        """Lose every object."""
        with self._lock:
            self.objects.clear()

    def damage(self, path: str, bit: int = 0) -> None:
        """Flip one bit of an object, counted from its end."""
        with self._lock:
            data = bytearray(self.objects[path])
            data[len(data) - 1 - bit // 8] ^= 1 << (bit % 8)
            self.objects[path] = bytes(data)

    def land(self) -> None:
        """Let every put that was held take effect."""
        with self._lock:
            held, self.late = self.late, []
            for effect in held:
                effect()

    def _create(self, path: str, data: bytes) -> bool:
        if path in self.objects and self.conditional:
            return False
        self.objects[path] = data
        return True

    def _reach(self, path: str) -> None:
        self.requests += 1
        if self.down or self.failing:
            raise Unavailable(f"{self.name}: down", register=self.name, path=path)

    def _put(self, path: str, effect: Callable[[], object]) -> object:
        self._reach(path)
        if self.hold_late:
            self.late.append(effect)
        elif self.lose_before:
            self.lose_before -= 1
        elif self.lose_after:
            self.lose_after -= 1
            effect()
        else:
            return effect()
        raise Unavailable(f"{self.name}: reply lost", register=self.name, path=path)
