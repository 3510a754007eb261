"""What each target counts for, read from the target itself.

A target says who it is in `ckptstore.json` (Identity) and what it counts for in `incarnations/<number>.json`.
Those are numbered and only ever put if absent; the highest number decides. A `joining` statement is the
*token* of a new incarnation: it lands at most once, so as long as it is there, the target has not been wiped
since. A `valid` statement counts only above the token of its own incarnation: put on a target that was wiped
meanwhile, it says nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from manifests import paths, schema
from manifests.errors import ManifestError, NotUnderstood, Unavailable
from manifests.format_errors import UnsafeName
from manifests.registers import Batch, Reply, Request, Steps
from manifests.schema import Identity, Members
from manifests.seal import unseal
from manifests.stored import Document
from manifests.validation import check_understood

State = Literal["valid", "joining", "absent", "foreign", "damaged", "newer", "unreachable"]


@dataclass(frozen=True, slots=True)
class TargetStanding:
    """What one target counts for, and why.

    `valid`: its votes count. `joining`: it is being re-admitted. `absent`: it has no standing (new or wiped).
    `foreign`: of another store, or under another name. `damaged`: its standing can't be read. `newer`: only a newer
    release understands its standing, so nothing may be put over it. `unreachable`.
    `numbers` are those of all its statements, `token` that of the joining token of `incarnation`, `sealed`
    the token's bytes. `identity` is None where `ckptstore.json` is missing or damaged. `refused`: it is `unreachable`
    because it refuses us, which doesn't pass by itself.
    """

    target: str
    state: State
    reason: str
    identity: Identity | None = None
    incarnation: str = ""
    numbers: tuple[int, ...] = ()
    token: int = 0
    sealed: bytes = b""
    members: Members | None = None
    refused: bool = False

    @property
    def next_number(self) -> int:
        """The number that the next statement about this target has to take."""
        return max(self.numbers, default=0) + 1


def read_standings(targets: Sequence[str]) -> Steps[dict[str, TargetStanding]]:
    """Read what each of `targets` counts for. Two batches; whatever is out of reach is `unreachable`."""
    listings = yield Batch([[Request(target, "list", paths.INCARNATIONS)] for target in targets])
    standings: dict[str, TargetStanding] = {}
    wanted: list[tuple[str, list[int]]] = []
    for target, (listing,) in zip(targets, listings, strict=True):
        if isinstance(listing, tuple):
            wanted.append((target, _numbers(listing)))
        else:
            standings[target] = _unreachable(target, listing)
    lanes = [[Request(target, "get", path)] for target, numbers in wanted for path in _documents(numbers)]
    replies = iter((yield Batch(lanes)) if lanes else ())
    for target, numbers in wanted:
        identity = next(replies)[0]
        statements = {number: next(replies)[0] for number in numbers}
        standings[target] = _judge(target, identity, statements)
    return {target: standings[target] for target in targets}


def unchanged(standings: Iterable[TargetStanding]) -> Steps[frozenset[str]]:
    """Return the names of the targets that still have the standing given.

    The list comes first: a token that is still there after it means that the target was not wiped before the
    list, and the list says that no other statement was made by then.
    """
    before = list(standings)
    lanes = [
        (Request(s.target, "list", paths.INCARNATIONS), Request(s.target, "get", paths.standing(s.token)))
        for s in before
    ]
    replies = (yield Batch(lanes)) if lanes else ()
    return frozenset(
        standing.target
        for standing, (listing, token) in zip(before, replies, strict=True)
        if token == standing.sealed and isinstance(listing, tuple) and tuple(_numbers(listing)) == standing.numbers
    )


def as_foreign(standing: TargetStanding, reason: str) -> TargetStanding:
    """Return the standing of a target that belongs to another store."""
    return replace(standing, state="foreign", reason=reason)


def _documents(numbers: Sequence[int]) -> list[str]:
    return [paths.IDENTITY, *map(paths.standing, numbers)]


def _numbers(listing: Iterable[str]) -> list[int]:
    """Return the numbers of the statements listed. Other names (a probe's, a person's) say nothing."""
    numbers = []
    for path in listing:
        try:
            numbers.append(paths.parse_standing(path))
        except UnsafeName:
            continue
    return sorted(numbers)


def _unreachable(target: str, reply: Reply) -> TargetStanding:
    refused = isinstance(reply, Unavailable) and reply.is_refused
    return TargetStanding(target, "unreachable", str(reply), refused=refused)


def _judge(target: str, identity: Reply, statements: Mapping[int, Reply]) -> TargetStanding:
    """Decide what a target counts for, from its identity and all its statements by number."""
    for reply in (identity, *statements.values()):
        if isinstance(reply, Unavailable):
            return _unreachable(target, reply)
    numbers = tuple(sorted(statements))
    name = _read(Identity, identity)
    if isinstance(name, Identity) and name.target != target:
        reason = f"it says it is {name.target!r} of store {name.store_id}, not {target!r}"
        return TargetStanding(target, "foreign", reason, name, numbers=numbers)
    if isinstance(name, NotUnderstood):
        return TargetStanding(target, "newer", f"{paths.IDENTITY}: {name}", numbers=numbers)
    known = name if isinstance(name, Identity) else None
    if not statements:
        return TargetStanding(target, "absent", "it has no standing: new, or wiped", known)
    judged = _judge_statements(target, known, numbers, statements)
    if known is None and judged.state != "newer":
        reason = f"{paths.IDENTITY} is missing or damaged"
        return TargetStanding(target, "damaged", reason, numbers=numbers)
    return judged


DocumentT = TypeVar("DocumentT", bound=Document)


def _read(cls: type[DocumentT], data: Reply) -> DocumentT | ManifestError:
    """Return the document, or the error that says what is wrong with it: NotUnderstood where that is its age."""
    try:
        document = unseal(cls, data if isinstance(data, bytes) else b"")
        check_understood(document)
    except ManifestError as error:
        return error
    return document


def _judge_statements(
    target: str, identity: Identity | None, numbers: tuple[int, ...], statements: Mapping[int, Reply]
) -> TargetStanding:
    """The highest statement that means anything decides; one that can't be read might be it."""
    valid: dict[str, schema.Standing] = {}
    for number in reversed(numbers):
        data = statements[number]
        statement = _read(schema.Standing, data)
        if isinstance(statement, ManifestError):
            return _undecided(target, identity, numbers, {n: statements[n] for n in numbers if n <= number})
        if statement.state == "valid":
            valid.setdefault(statement.incarnation, statement)
            continue
        assert isinstance(data, bytes)
        standing = TargetStanding(
            target, "joining", "being re-admitted", identity, statement.incarnation, numbers, number, data
        )
        if latest := valid.get(statement.incarnation):
            return replace(standing, state="valid", reason="", members=latest.members)
        return standing
    return TargetStanding(target, "absent", "its statements lost their token: wiped", identity, numbers=numbers)


def _undecided(
    target: str, identity: Identity | None, numbers: tuple[int, ...], statements: Mapping[int, Reply]
) -> TargetStanding:
    """Tell why the highest of `statements` says nothing: damage is mended over, unless a newer release spoke too."""
    read = {number: _read(schema.Standing, data) for number, data in statements.items()}
    newer = {number: error for number, error in read.items() if isinstance(error, NotUnderstood)}
    highest = max(newer or read)
    state: State = "newer" if newer else "damaged"
    reason = f"{paths.standing(highest)} can't be read: {read[highest]}"
    return TargetStanding(target, state, reason, identity, numbers=numbers)
