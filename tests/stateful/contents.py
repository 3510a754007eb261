"""What registers hold, in the explorer: interned, so that each request on each contents is performed once."""

from actors import Node

from manifests.paths import IDENTITY, INCARNATIONS
from manifests.registers import Reply, Request, drive, perform
from manifests.standing import read_standings
from manifests.testing import MemoryRegister


def matter(request: Request) -> str:
    """Return what a request reads or writes, in the words of `Phase.writes`."""
    return f"standing of {request.target}" if request.path.startswith((INCARNATIONS, IDENTITY)) else "votes"


class Contents:
    """The numbers of contents and of requests, and what the ones make of the others."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.requests: list[Request] = []
        self._tables: list[dict[str, bytes]] = []
        self._interned: dict[frozenset[tuple[str, bytes]], int] = {}
        self._numbers: dict[Request, int] = {}
        self._applied: dict[tuple[int, int], tuple[Reply, int]] = {}
        self._valid: dict[tuple[str, int], bool] = {}

    def __len__(self) -> int:
        return len(self._tables)

    def intern(self, objects: dict[str, bytes]) -> int:
        """Return the number of these contents."""
        key = frozenset(objects.items())
        if key not in self._interned:
            self._interned[key] = len(self._tables)
            self._tables.append(objects)
        return self._interned[key]

    def numbers(self, node: Node, lane: int) -> tuple[int, ...]:
        """Return the numbers of the requests of a lane."""
        if not node.numbers:
            node.numbers = tuple(tuple(map(self._number, requests)) for requests in node.lanes)
        return node.numbers[lane]

    def _number(self, request: Request) -> int:
        if request not in self._numbers:
            self._numbers[request] = len(self.requests)
            self.requests.append(request)
        return self._numbers[request]

    def apply(self, contents: int, number: int) -> tuple[Reply, int]:
        """Perform a request on contents; return the reply and the new contents."""
        if (contents, number) not in self._applied:
            request = self.requests[number]
            register = MemoryRegister(request.target, dict(self._tables[contents]))
            reply = perform(request, {request.target: register})
            self._applied[contents, number] = reply, self.intern(register.objects)
        return self._applied[contents, number]

    def registers(self, contents: tuple[int, ...]) -> dict[str, MemoryRegister]:
        """Return registers that hold `contents`, to run further steps on."""
        return {
            name: MemoryRegister(name, dict(self._tables[number]))
            for name, number in zip(self.names, contents, strict=True)
        }

    def valid(self, contents: tuple[int, ...]) -> tuple[str, ...]:
        """Return the targets that count."""
        return tuple(n for n, number in zip(self.names, contents, strict=True) if self._is_valid(n, number))

    def _is_valid(self, name: str, contents: int) -> bool:
        if (name, contents) not in self._valid:
            registers = {name: MemoryRegister(name, dict(self._tables[contents]))}
            self._valid[name, contents] = drive(read_standings([name]), registers)[name].state == "valid"
        return self._valid[name, contents]
