"""An exhaustive explorer of the commit protocol: the code that runs in production, request by request.

A *world* is the contents of every register, the puts still in flight, and where each actor stands. From a
world, every actor's next request (of any lane of its batch) may be performed, fail, or lose its reply before
or after it takes effect; a put in flight may land; a target may be wiped; an actor may die. All worlds that
can be reached within the budgets of a scenario are visited once, and the promises are checked in each of
them.

Generators can't be copied, so where an actor stands is the list of replies it was given: it is run again from
the start for each new list, once (`Actor.node`). Contents are interned, so a world is a small tuple of
numbers.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

from manifests.errors import ManifestError, Unavailable
from manifests.paths import IDENTITY, INCARNATIONS
from manifests.quorum import Scope
from manifests.registers import Batch, Reply, Request, Steps, drive, perform
from manifests.standing import read_standings
from manifests.testing import MemoryRegister

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


class Budget(NamedTuple):
    """How often each fault may happen in one run of a scenario."""

    wipes: int = 0
    failures: int = 0
    lost: int = 0
    late: int = 0
    crashes: int = 0


class Violation(AssertionError):
    """A promise was broken; holds the steps that led there."""


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


class World(NamedTuple):
    """Everything that what may happen next depends on: numbers of interned things."""

    contents: tuple[int, ...]
    flight: tuple[tuple[int, int], ...]
    actors: tuple[int, ...]
    budget: Budget
    facts: frozenset[Fact]


class Explorer:
    """Visits every world of a scenario. `look` reads the saves seen through a set of targets; see `check`."""

    def __init__(
        self,
        t: int,
        registers: Mapping[str, Mapping[str, bytes]],
        actors: Mapping[str, list[Phase]],
        budget: Budget,
        facts: frozenset[Fact] = frozenset(),
        *,
        coarse: bool = False,
        max_worlds: int = 10_000_000,
    ) -> None:
        self.names = tuple(registers)
        self.index = {name: k for k, name in enumerate(self.names)}
        self.coarse = coarse
        self.t = t
        self.tables: list[dict[str, bytes]] = []
        self._interned: dict[frozenset[tuple[str, bytes]], int] = {}
        self._valid: dict[tuple[str, int], bool] = {}
        self._applied: dict[tuple[int, int], tuple[Reply, int]] = {}
        self._numbers: dict[Request, int] = {}
        self.down = {name: Unavailable(f"{name}: no reply", register=name, path="") for name in self.names}
        self.actors = [Actor(name, self.names, phases, coarse=coarse) for name, phases in actors.items()]
        self.requests: list[Request] = []
        contents = tuple(self.intern(dict(objects)) for objects in registers.values())
        self.first = World(contents, (), tuple(actor.start for actor in self.actors), budget, facts)
        self.max_worlds = max_worlds
        self.worlds = 0
        self.ended = 0
        self.outcomes: Counter[frozenset[Fact]] = Counter()
        self.check: Callable[[Explorer, World], str | None] = lambda explorer, world: None
        self.check_end: Callable[[Explorer, World], str | None] = lambda explorer, world: None

    # -- registers -----------------------------------------------------------------------------------------

    def intern(self, objects: dict[str, bytes]) -> int:
        """Return the number of these contents."""
        key = frozenset(objects.items())
        if key not in self._interned:
            self._interned[key] = len(self.tables)
            self.tables.append(objects)
        return self._interned[key]

    def number(self, request: Request) -> int:
        """Return the number of a request."""
        if request not in self._numbers:
            self._numbers[request] = len(self.requests)
            self.requests.append(request)
        return self._numbers[request]

    def _numbered(self, node: Node, lane: int) -> tuple[int, ...]:
        if not node.numbers:
            node.numbers = tuple(tuple(map(self.number, requests)) for requests in node.lanes)
        return node.numbers[lane]

    def apply(self, contents: int, number: int) -> tuple[Reply, int]:
        """Perform a request on contents; return the reply and the new contents."""
        if (contents, number) not in self._applied:
            request = self.requests[number]
            register = MemoryRegister(request.target, dict(self.tables[contents]))
            reply = perform(request, {request.target: register})
            self._applied[contents, number] = reply, self.intern(register.objects)
        return self._applied[contents, number]

    def registers(self, contents: tuple[int, ...]) -> dict[str, MemoryRegister]:
        """Return registers that hold `contents`, to run further steps on."""
        return {
            name: MemoryRegister(name, dict(self.tables[number]))
            for name, number in zip(self.names, contents, strict=True)
        }

    # -- what may happen -----------------------------------------------------------------------------------

    def moves(self, world: World) -> Iterator[tuple[Any, World]]:
        """Yield everything that may happen next, with what says what it is.

        Where some lane only reads what nothing else can change any more, nothing but that lane: whatever else
        may happen can as well happen after it (a persistent set; Godefroid, Partial-Order Methods, 1996).
        """
        for i, place in enumerate(world.actors):
            for lane in self._open_lanes(i, place):
                if self._is_undisturbed(world, i, lane):
                    yield from self._lane(world, i, lane)
                    return
        for i, place in enumerate(world.actors):
            for lane in self._open_lanes(i, place):
                yield from self._lane(world, i, lane)
            if world.budget.crashes and not self.actors[i].places[place][0].done:
                actors = _put(world.actors, i, self.actors[i].ended)
                yield (i, "dies"), world._replace(actors=actors, budget=_less(world.budget, "crashes"))
        for j, (k, number) in enumerate(world.flight):
            _, after = self.apply(world.contents[k], number)
            flight = world.flight[:j] + world.flight[j + 1 :]
            contents = _put(world.contents, k, after)
            yield ("late", self.requests[number]), world._replace(contents=contents, flight=flight)
        if world.budget.wipes:
            yield from self._wipes(world)

    def _open_lanes(self, i: int, place: int) -> list[int]:
        """Return the lanes of an actor's batch that have not ended; the first only where all are performed at once."""
        node, partial = self.actors[i].places[place]
        if self.coarse and node.reads_standings:
            return [0]
        return [lane for lane, requests in enumerate(node.lanes) if len(partial[lane]) < len(requests)]

    def _is_undisturbed(self, world: World, i: int, lane: int) -> bool:
        if world.budget.wipes:
            return False
        node, _ = self.actors[i].places[world.actors[i]]
        reads = set[str]()
        for requests in node.lanes if self.coarse and node.reads_standings else [node.lanes[lane]]:
            for request in requests:
                if request.verb not in {"get", "list"}:
                    return False
                reads.add(_matter(request))
        return not any(reads & writes for writes in self._still_written(world, i))

    def _still_written(self, world: World, i: int) -> Iterator[frozenset[str]]:
        for j, (actor, place) in enumerate(zip(self.actors, world.actors, strict=True)):
            if j != i and not actor.places[place][0].done:
                yield actor.writes
        for _, number in world.flight:
            yield frozenset({_matter(self.requests[number])})

    def _lane(self, world: World, i: int, lane: int) -> Iterator[tuple[Any, World]]:
        """Perform the next request of a lane, or the whole lane where the scenario is coarse; with every fault."""
        node, partial = self.actors[i].places[world.actors[i]]
        if self.coarse and node.reads_standings:
            yield (i, "reads the standings"), self._read_standings(world, i)
            return
        first = len(partial[lane])
        requests = node.lanes[lane][first : None if self.coarse else first + 1]
        k = self.index[requests[0].target]
        given: tuple[Reply, ...] = ()
        for request, number in zip(requests, self._numbered(node, lane)[first:], strict=False):
            reply, after = self.apply(world.contents[k], number)
            for text, faulty in self._faults(world, k, number, after):
                yield (i, request, text), self._answered(faulty, i, lane, (*given, self.down[request.target]))
            if after != world.contents[k]:
                world = world._replace(contents=_put(world.contents, k, after))
            given = (*given, reply)
        yield (i, *requests[: len(given)], given[-1]), self._answered(world, i, lane, given)

    def _faults(self, world: World, k: int, number: int, after: int) -> Iterator[tuple[str, World]]:
        budget = world.budget
        if budget.failures:
            yield "fails", world._replace(budget=_less(budget, "failures"))
        if after == world.contents[k]:
            return
        if budget.lost:
            contents = _put(world.contents, k, after)
            yield "done, reply lost", world._replace(contents=contents, budget=_less(budget, "lost"))
        if budget.late:
            flight = tuple(sorted((*world.flight, (k, number))))
            yield "in flight", world._replace(flight=flight, budget=_less(budget, "late"))

    def _read_standings(self, world: World, i: int) -> World:
        """Answer whole batches at one instant, as long as they do nothing but read the standings."""
        node, _ = self.actors[i].places[world.actors[i]]
        while node.reads_standings:
            for lane, requests in enumerate(node.lanes):
                k = self.index[requests[0].target]
                replies = tuple(self.apply(world.contents[k], n)[0] for n in self._numbered(node, lane))
                world = self._answered(world, i, lane, replies)
            node, _ = self.actors[i].places[world.actors[i]]
        return world

    def _answered(self, world: World, i: int, lane: int, given: tuple[Reply, ...]) -> World:
        actor = self.actors[i]
        node, partial = actor.places[world.actors[i]]
        replies = (*partial[lane], *given)
        if isinstance(given[-1], Unavailable):
            replies += (given[-1],) * (len(node.lanes[lane]) - len(replies))
        partial = _put(partial, lane, replies)
        if any(len(replies) < len(lane) for replies, lane in zip(partial, node.lanes, strict=True)):
            return world._replace(actors=_put(world.actors, i, actor.place(node, partial)))
        following = actor.after(node, partial)
        facts = world.facts | {following.fact} if following.fact else world.facts
        return world._replace(actors=_put(world.actors, i, actor.enter(following)), facts=facts)

    def _wipes(self, world: World) -> Iterator[tuple[Any, World]]:
        empty = self.intern({})
        for k, name in enumerate(self.names):
            contents = _put(world.contents, k, empty)
            if world.contents[k] != empty and len(self.names) - len(self.valid(contents)) <= self.t:
                yield (name, "is wiped"), world._replace(contents=contents, budget=_less(world.budget, "wipes"))

    def valid(self, contents: tuple[int, ...]) -> tuple[str, ...]:
        """Return the targets that count."""
        return tuple(n for n, number in zip(self.names, contents, strict=True) if self._is_valid(n, number))

    def _is_valid(self, name: str, contents: int) -> bool:
        key = name, contents
        if key not in self._valid:
            registers = {name: MemoryRegister(name, dict(self.tables[contents]))}
            self._valid[key] = drive(read_standings([name]), registers)[name].state == "valid"
        return self._valid[key]

    # -- the search ----------------------------------------------------------------------------------------

    def run(self) -> None:
        """Visit every world. Raises Violation with the way to the first world that breaks a promise."""
        seen = {self.first}
        stack = [self.moves(self.first)]
        way: list[Any] = []
        while stack:
            for text, after in stack[-1]:
                if after in seen:
                    continue
                seen.add(after)
                way.append(text)
                self._visit(after, way)
                stack.append(self.moves(after))
                break
            else:
                stack.pop()
                if way:
                    way.pop()

    def _visit(self, world: World, way: list[Any]) -> None:
        self.worlds += 1
        if self.worlds > self.max_worlds:
            raise MemoryError(f"more than {self.max_worlds} worlds")
        ended = all(actor.places[place][0].done for actor, place in zip(self.actors, world.actors, strict=True))
        broken = self.check(self, world)
        if ended:
            self.ended += 1
            self.outcomes[world.facts] += 1
            broken = broken or self.check_end(self, world)
        if broken:
            raise Violation(f"{broken}\nafter {len(way)} steps:\n  " + "\n  ".join(map(self._line, way)))

    def _line(self, move: tuple[Any, ...]) -> str:
        who, *what = move
        name = self.actors[who].name if isinstance(who, int) else who
        return f"{name}: {' '.join(map(_text, what))}"


def _matter(request: Request) -> str:
    """Return what a request reads or writes, in the words of `Phase.writes`."""
    return f"standing of {request.target}" if request.path.startswith((INCARNATIONS, IDENTITY)) else "votes"


def _put(items: tuple[Any, ...], i: int, item: Any) -> tuple[Any, ...]:
    return (*items[:i], item, *items[i + 1 :])


@cache
def _less(budget: Budget, name: str) -> Budget:
    return budget._replace(**{name: getattr(budget, name) - 1})


def _text(item: Any) -> str:
    if isinstance(item, Request):
        return f"{item.verb} {item.target}:{item.path},"
    return f"= {len(item)} bytes" if isinstance(item, bytes) else f"= {item}"
