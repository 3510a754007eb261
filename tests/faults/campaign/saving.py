"""A save whose targets store something else than they were given, after the digest of it was taken.

What is flipped *before* its digest is taken can't be told from what was meant, by anybody.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from ckptstore.errors import CkptStoreError
from ckptstore.targets.base import Buffer, Target, as_buffers
from ckptstore.targets.wrapper import T, Wrapper
from tests.faults.campaign.injections import BEYOND, HARMS, Writes
from tests.faults.campaign.world import Truth, World, facts, kind_of
from tests.support import RUN

Harm = Callable[[bytes], bytes | None]

LIED_ABOUT = {"fragment": 6, "record": 2, "index": 2, "manifests": 2, "begun": 1, "sessions": 1}
"""What is stored wrongly, and how often."""

STEP = 4
"""Of the save that is lied about."""

NAMED = ("fragment", "record", "index")
"""What a checkpoint names together with its place."""


@dataclass(frozen=True)
class LyingSave:
    """`truth`: what should be stored now, None where the save was refused; `writes`: what is stored instead.

    `noticed`: the checkpoint's key, where the save read back what was kept, and put some of it elsewhere or nowhere.
    """

    what: str
    kind: str
    truth: Truth | None
    writes: Writes
    noticed: str = ""


class LyingTarget(Wrapper):
    """Answers that it stored what it was given; `meant` has by path what it was given, `stored` what it holds."""

    def __init__(self, inner: Target, lies: Callable[[str], bool], harm: Harm) -> None:
        super().__init__(inner)
        self.meant: dict[str, bytes] = {}
        self.stored: dict[str, bytes | None] = {}
        self._lies = lies
        self._harm = harm

    def call(self, verb: str, path: str, operation: Callable[[], T]) -> T:
        return operation()

    def put(self, path: str, data: Buffer | Sequence[Buffer]) -> None:
        lie = self._lie(path, b"".join(as_buffers(data)))
        if lie is not None:
            self.inner.put(path, lie)

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        lie = self._lie(path, bytes(data))
        return True if lie is None else self.inner.put_if_absent(path, lie)

    def _lie(self, path: str, data: bytes) -> bytes | None:
        if not self._lies(path):
            return data
        self.meant[path] = data
        if path not in self.stored:
            self.stored[path] = self._harm(data)
        return self.stored[path]


def save_with_lies(world: World, rng: Random) -> LyingSave:
    """Save once more, on targets that lie about some of it; again, where these were given nothing to lie about."""
    while True:
        save = _save(world, rng)
        if save.truth is None or save.writes:
            return save
        world.restore()


def _save(world: World, rng: Random) -> LyingSave:
    what = rng.choices(list(LIED_ABOUT), list(LIED_ABOUT.values()))[0]
    kind = rng.choice(list(HARMS))
    beyond = rng.random() < BEYOND
    liars = _liars(world, rng, what, lambda data: HARMS[kind](rng, data), beyond=beyond)
    honest = world.store.opened.targets
    world.store.opened.targets = {name: liars.get(name, target) for name, target in honest.items()}
    try:
        manifest = world.save(STEP)
    except CkptStoreError:
        return LyingSave(what, kind, None, {})
    finally:
        world.store.opened.targets = honest
        world.forget()
    writes = {(name, path): data for name, liar in liars.items() for path, data in liar.stored.items()}
    _put_what_was_meant(world, liars)
    saved = world.describe(manifest)
    truth = Truth(world.objects(), [*world.truth.live, saved], facts(world.store.opened.group.history(RUN)))
    if what in NAMED and not writes.keys() <= set(saved.positions):
        for place, data in writes.items():
            world.put(place, data)
        return LyingSave(what, kind, truth, writes, saved.key)
    return LyingSave(what, kind, truth, writes)


def _liars(world: World, rng: Random, what: str, harm: Harm, *, beyond: bool) -> dict[str, LyingTarget]:
    """Of fragments, some numbers of each stripe are stored wrongly; of all else, what some of the targets hold."""
    every = world.names
    if what == "fragment":
        chosen = {f".{number:03d}" for number in rng.sample(range(len(every)), _count(world, rng, beyond=beyond))}
        return {
            name: LyingTarget(target, lambda path: path.startswith("data/") and path[-4:] in chosen, harm)
            for name, target in world.store.opened.targets.items()
        }
    names = rng.sample(every, _count(world, rng, beyond=beyond))
    return {
        name: LyingTarget(world.store.opened.targets[name], lambda path: kind_of(path) == what, harm) for name in names
    }


def _count(world: World, rng: Random, *, beyond: bool) -> int:
    return rng.randint(world.m + 1, len(world.names)) if beyond else rng.randint(1, world.m)


def _put_what_was_meant(world: World, liars: dict[str, LyingTarget]) -> None:
    """Store what should be stored, to be looked at until the lies are put back."""
    for name, liar in liars.items():
        for path, data in liar.meant.items():
            world.put((name, path), data)
