"""Which targets count, and how many of them are enough.

With N members of which t may be lost, a vote is complete on Q = t + 1 of them and a reading on R = N - t: Q +
R > N, so whatever is complete is seen. While the members change, both are needed of the old and of the new
set.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from manifests.errors import NoQuorum, NotAStore
from manifests.registers import Steps
from manifests.schema import Members
from manifests.standing import TargetStanding, as_foreign, read_standings, unchanged


def votes_needed(members: Members) -> int:
    """Q = t + 1: on so many of `members` a vote is complete, for t losses leave one."""
    return members.t + 1


def readings_needed(members: Members) -> int:
    """R = N - t: so many of `members` are heard with t of them lost, and R + Q > N."""
    return len(members.targets) - members.t


def change_needed(members: Members) -> int:
    """max(Q, R): a change of members on so many is met by every voter and every reader."""
    return max(votes_needed(members), readings_needed(members))


@dataclass(frozen=True, slots=True)
class View:
    """The members of a store and the standing of every target asked, as they were read.

    `rivals`: other changes of members that were proposed under the same number; one at most can win.
    """

    store_id: str
    members: Members
    standings: Mapping[str, TargetStanding]
    rivals: tuple[Members, ...] = ()

    @property
    def sets(self) -> tuple[Members, ...]:
        """The sets of members whose quorums count: one, or the new and the old while they change."""
        stated = (self.members, *self.rivals)
        return (*stated, *(() if self.members.old is None else (self.members.old,)))

    @property
    def settled(self) -> Members:
        """The set that everything complete is on: before a change of members has ended, the old one."""
        return self.members.old or self.members

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of all members."""
        return tuple(dict.fromkeys(name for members in self.sets for name in members.targets))

    @property
    def valid(self) -> tuple[str, ...]:
        """The members whose votes count."""
        return tuple(name for name in self.targets if self.is_valid(name))

    def is_valid(self, name: str) -> bool:
        """Tell whether the votes of target `name` count."""
        return name in self.standings and self.standings[name].state == "valid"

    def incarnation(self, name: str) -> str:
        """Return the incarnation of target `name`, below which its votes are."""
        return self.standings[name].incarnation

    def can_read(self, names: Collection[str]) -> bool:
        """Tell whether hearing from `names` is enough to have seen whatever is complete."""
        return self.has(names, readings_needed)

    def can_copy(self, names: Collection[str]) -> bool:
        """Tell whether hearing from `names` is enough to teach a new member whatever is complete."""
        return self._count(self.settled, names) >= readings_needed(self.settled)

    def is_complete(self, names: Collection[str]) -> bool:
        """Tell whether a vote on `names` is complete."""
        return self.has(names, votes_needed)

    def has(self, names: Collection[str], needed: Callable[[Members], int]) -> bool:
        """Tell whether `names` are as many as `needed` says, of each set."""
        return all(self._count(members, names) >= needed(members) for members in self.sets)

    def is_everyone(self, names: Collection[str]) -> bool:
        """Tell whether `names` are all the members."""
        return set(self.targets) <= set(names)

    def check(self, names: Collection[str]) -> Steps[frozenset[str]]:
        """Return those of `names` that still have the standing they had in this view."""
        return (yield from unchanged([self.standings[name] for name in names]))

    def reasons(self) -> dict[str, str]:
        """Say of every member that doesn't count why it doesn't."""
        unknown = "not among the targets that were opened"
        return {
            name: self.standings[name].reason if name in self.standings else unknown
            for name in self.targets
            if not self.is_valid(name)
        }

    @staticmethod
    def _count(members: Members, names: Collection[str]) -> int:
        return len(set(members.targets) & set(names))


@dataclass(frozen=True, slots=True)
class Scope:
    """What an operation works on: the targets opened, and the source of random names."""

    targets: Sequence[str]
    store_id: str | None
    random: Callable[[], str]


def read_view(scope: Scope) -> Steps[View]:
    """Read members and standings. Raises NotAStore, or NoQuorum where fewer than R targets count."""
    view = yield from survey(scope)
    if not view.can_read(view.valid):
        raise no_quorum(view, "read", readings_needed)
    return view


def survey(scope: Scope) -> Steps[View]:
    """Read members and standings, however few count.

    Raises NotAStore where no target shows that it is one of this store; NoQuorum where nobody knows the members.
    """
    standings = yield from read_standings(scope.targets)
    store_id = scope.store_id or _most_common_store(standings)
    for name, standing in standings.items():
        if store_id and standing.identity and standing.identity.store_id != store_id:
            reason = f"it belongs to store {standing.identity.store_id}, not {store_id}"
            standings[name] = as_foreign(standing, reason)
    known = [s.members for s in standings.values() if s.state == "valid" and s.members is not None]
    if not known:
        raise _nobody_counts(standings)
    assert store_id is not None
    first, *rivals = _newest(known)
    return View(store_id, first, standings, tuple(rivals))


def no_quorum(view: View, verb: str, needed: Callable[[Members], int]) -> NoQuorum:
    """Return the error that says how many targets count, how many must, and what is wrong with the others."""
    reasons = view.reasons()
    need = max(needed(members) for members in view.sets)
    others = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    message = f"{len(view.valid)} of {len(view.targets)} commit targets count; to {verb}, {need} must ({others})"
    fields = _refused(view.standings, lambda names: view.has(names, needed))
    if not view.has([n for n, s in view.standings.items() if s.state in {"valid", "unreachable"}], needed):
        fields["lost"] = True
    return NoQuorum(message, valid=len(view.valid), needed=need, members=len(view.targets), reasons=reasons, **fields)


def _refused(standings: Mapping[str, TargetStanding], is_enough: Callable[[Collection[str]], bool]) -> dict[str, bool]:
    """The field `refused`, where targets refuse us and the others would be too few if all came back."""
    refused = [name for name, standing in standings.items() if standing.refused]
    others = [n for n, s in standings.items() if s.state == "valid" or (s.state == "unreachable" and not s.refused)]
    return {"refused": True} if refused and not is_enough(others) else {}


def _newest(known: Sequence[Members]) -> list[Members]:
    """Return the distinct members of the highest number, those that most targets state first."""
    number = max(members.number for members in known)
    newest = [members for members in known if members.number == number]
    distinct = [members for i, members in enumerate(newest) if members not in newest[:i]]
    return sorted(distinct, key=lambda members: (-newest.count(members), members.targets, members.t))


def _most_common_store(standings: Mapping[str, TargetStanding]) -> str | None:
    stores = [s.identity.store_id for s in standings.values() if s.identity and s.state == "valid"]
    return max(sorted(set(stores)), key=stores.count, default=None)


def _nobody_counts(standings: Mapping[str, TargetStanding]) -> NoQuorum | NotAStore:
    reasons = {name: standing.reason for name, standing in standings.items()}
    text = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    if all(s.state == "foreign" or (s.state == "absent" and s.identity is None) for s in standings.values()):
        return NotAStore(f"there is no store on these targets ({text})", reasons=reasons)
    message = f"no commit target counts ({text})"
    return NoQuorum(message, valid=0, needed=1, members=len(standings), reasons=reasons, **_refused(standings, bool))
