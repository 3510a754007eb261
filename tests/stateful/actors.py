"""Actors of the explorer: operations of the protocol, and the tree of all that may come of them.

Generators can't be copied, so where an actor stands is the list of replies it was given: its steps are run again from
the start for each new list, once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from manifests.errors import ManifestError
from manifests.paths import IDENTITY, INCARNATIONS
from manifests.quorum import Scope
from manifests.registers import Batch, Request, Steps

Partial = tuple[tuple[Any, ...], ...]
"""The replies so far to each lane of a batch."""

Fact = tuple[str, Any]
"""What an actor reported: ("committed", save), ("voided", save), ("deleted", save)."""


@dataclass(frozen=True)
class Phase:
    """One operation of an actor: makes its steps; `fact` turns the result or error into what is reported, if anything.

    `writes`: what it may put: "votes", and "standing of a" where it may change what target a counts for.
    """

    steps: Callable[[Scope], Steps[Any]]
    fact: Callable[[Any], Fact | None]
    writes: frozenset[str] = frozenset()


@dataclass
class Node:
    """Where an actor stands: the batch it waits for, or its outcome."""

    lanes: tuple[tuple[Request, ...], ...] = ()
    done: bool = False
    fact: Fact | None = None
    history: tuple[int, tuple[Any, ...]] = (0, ())
    shape: tuple[tuple[int, int], ...] = ()
    next: dict[Any, "Node"] = field(default_factory=dict)
    reads_standings: bool = False
    numbers: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        requests = [request for lane in self.lanes for request in lane]
        self.reads_standings = (
            len({request.verb for request in requests}) == 1
            and requests[0].verb in {"get", "list"}
            and all(request.path.startswith((INCARNATIONS, IDENTITY)) for request in requests)
        )


class Actor:
    """The tree of everything that an actor may come to, grown as it is explored.

    A *place* is a node and the replies so far to each lane of its batch; places are interned too.
    """

    def __init__(self, name: str, targets: tuple[str, ...], phases: list[Phase], *, coarse: bool) -> None:
        self.name, self.targets, self.phases, self.coarse = name, targets, phases, coarse
        self.places: list[tuple[Node, Partial]] = []
        self._interned: dict[tuple[int, Partial], int] = {}
        self.replays = 0
        self.writes = frozenset[str]().union(*(phase.writes for phase in phases))
        self.ended = self.place(Node(done=True), ())
        self.start = self.enter(self._node(0, ()))

    def place(self, node: Node, partial: Partial) -> int:
        """Return the number of a place."""
        key = id(node), partial
        if key not in self._interned:
            self._interned[key] = len(self.places)
            self.places.append((node, partial))
        return self._interned[key]

    def enter(self, node: Node) -> int:
        """Return the place at the start of a node's batch. All that have ended are at one place."""
        if node.done:
            return self.ended
        return self.place(node, tuple(() for _ in node.lanes))

    def after(self, node: Node, replies: Partial) -> Node:
        """Return the node that follows when the batch was answered by `replies`."""
        if replies not in node.next:
            phase, before = node.history
            node.next[replies] = self._node(phase, (*before, _reshape(node, replies)))
        return node.next[replies]

    def _node(self, phase: int, replies: tuple[Any, ...]) -> Node:
        """Run phase `phase` with these replies to its batches; go on to the next phase where it ends."""
        self.replays += 1
        count = iter(range(1000))
        scope = Scope(self.targets, "s", lambda: f"{self.name.lower()}{phase}x{next(count)}")
        steps = self.phases[phase].steps(scope)
        try:
            batch = _skip_pauses(steps, next(steps))
            for reply in replies:
                batch = _skip_pauses(steps, steps.send(reply))
        except StopIteration as stop:
            return self._ended(phase, self.phases[phase].fact(stop.value))
        except ManifestError as error:
            return self._ended(phase, self.phases[phase].fact(error))
        return self._waiting(batch, (phase, replies))

    def _waiting(self, batch: Batch, history: tuple[int, tuple[Any, ...]]) -> Node:
        """Return the node of a batch; where all is coarse, the lanes of one register become one."""
        if not self.coarse:
            return Node(tuple(map(tuple, batch.lanes)), history=history)
        merged: dict[str, list[Request]] = {}
        shape = []
        for lane in batch.lanes:
            requests = merged.setdefault(lane[0].target, [])
            shape.append(([*merged].index(lane[0].target), len(lane)))
            requests.extend(lane)
        return Node(tuple(map(tuple, merged.values())), history=history, shape=tuple(shape))

    def _ended(self, phase: int, fact: Fact | None) -> Node:
        if phase + 1 == len(self.phases):
            return Node(done=True, fact=fact)
        following = self._node(phase + 1, ())
        return replace(following, fact=fact, next={}, numbers=())


def _reshape(node: Node, replies: Partial) -> Partial:
    """Return the replies in the shape of the lanes before they were merged."""
    if not node.shape:
        return replies
    rest = [iter(lane) for lane in replies]
    return tuple(tuple(next(rest[lane]) for _ in range(length)) for lane, length in node.shape)


def _skip_pauses(steps: Steps[Any], batch: Batch) -> Batch:
    while not batch.lanes:
        batch = steps.send(())
    return batch
