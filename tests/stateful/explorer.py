"""An exhaustive explorer of the commit protocol: the code that runs in production, request by request.

A *world* is the contents of every register, the puts still in flight, and where each actor stands. From a
world, every actor's next request (of any lane of its batch) may be performed, fail, or lose its reply before
or after it takes effect; a put in flight may land; a target may be wiped; an actor may die. All worlds that
can be reached within the budgets of a scenario are visited once, and the promises are checked in each of
them.

Where an actor stands (`actors`) and what a register holds (`contents`) are numbered, so a world is a small tuple.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from actors import Actor, Fact, Phase
from contents import Contents, matter

from manifests.errors import Unavailable
from manifests.registers import Reply, Request


class Budget(NamedTuple):
    """How often each fault may happen in one run of a scenario."""

    wipes: int = 0
    failures: int = 0
    lost: int = 0
    late: int = 0
    crashes: int = 0


class Violation(AssertionError):
    """A promise was broken; holds the steps that led there."""


class World(NamedTuple):
    """Everything that what may happen next depends on: numbers of interned things."""

    contents: tuple[int, ...]
    flight: tuple[tuple[int, int], ...]
    actors: tuple[int, ...]
    budget: Budget
    facts: frozenset[Fact]


class Explorer:
    """Visits every world of a scenario.

    `check` is asked in every world, and `check_end` where all actors have ended, for the promise that is broken.
    """

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
        self.tables = Contents(self.names)
        self.down = {name: Unavailable(f"{name}: no reply", register=name, path="") for name in self.names}
        self.actors = [Actor(name, self.names, phases, coarse=coarse) for name, phases in actors.items()]
        contents = tuple(self.tables.intern(dict(objects)) for objects in registers.values())
        self.first = World(contents, (), tuple(actor.start for actor in self.actors), budget, facts)
        self.max_worlds = max_worlds
        self.worlds = 0
        self.ended = 0
        self.outcomes: Counter[frozenset[Fact]] = Counter()
        self.check: Callable[[Explorer, World], str | None] = lambda explorer, world: None
        self.check_end: Callable[[Explorer, World], str | None] = lambda explorer, world: None

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
            _, after = self.tables.apply(world.contents[k], number)
            flight = world.flight[:j] + world.flight[j + 1 :]
            contents = _put(world.contents, k, after)
            yield ("late", self.tables.requests[number]), world._replace(contents=contents, flight=flight)
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
                reads.add(matter(request))
        return not any(reads & writes for writes in self._still_written(world, i))

    def _still_written(self, world: World, i: int) -> Iterator[frozenset[str]]:
        for j, (actor, place) in enumerate(zip(self.actors, world.actors, strict=True)):
            if j != i and not actor.places[place][0].done:
                yield actor.writes
        for _, number in world.flight:
            yield frozenset({matter(self.tables.requests[number])})

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
        for request, number in zip(requests, self.tables.numbers(node, lane)[first:], strict=False):
            reply, after = self.tables.apply(world.contents[k], number)
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
        if self.tables.requests[number].verb not in {"put", "put_if_absent", "delete"}:
            return
        if budget.lost and after != world.contents[k]:
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
                replies = tuple(self.tables.apply(world.contents[k], n)[0] for n in self.tables.numbers(node, lane))
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
        empty = self.tables.intern({})
        for k, name in enumerate(self.names):
            contents = _put(world.contents, k, empty)
            if world.contents[k] != empty and len(self.names) - len(self.tables.valid(contents)) <= self.t:
                yield (name, "is wiped"), world._replace(contents=contents, budget=_less(world.budget, "wipes"))

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


def _put(items: tuple[Any, ...], i: int, item: Any) -> tuple[Any, ...]:
    return (*items[:i], item, *items[i + 1 :])


@cache
def _less(budget: Budget, name: str) -> Budget:
    return budget._replace(**{name: getattr(budget, name) - 1})


def _text(item: Any) -> str:
    if isinstance(item, Request):
        return f"{item.verb} {item.target}:{item.path},"
    return f"= {len(item)} bytes" if isinstance(item, bytes) else f"= {item}"
