"""Casting a vote on the targets that count."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from manifests.attempts import attempts
from manifests.errors import InDoubt, NoQuorum, Unavailable
from manifests.quorum import Scope, View, no_quorum, read_view, votes_needed
from manifests.registers import Batch, Request, Steps
from manifests.votes import vote_path


@dataclass(frozen=True, slots=True)
class Tally:
    """What casting a vote found: targets that `held` it at one instant, and `others`: what else is under its name.

    `failed`: the targets that did not answer, and why.
    """

    held: frozenset[str]
    others: Mapping[str, bytes]
    failed: Mapping[str, Unavailable] = field(default_factory=dict)

    def is_hopeless(self, view: View) -> bool:
        """Tell whether casting it again soon can't complete it: too few targets are left that might take it."""
        return not view.is_complete([t for t in view.valid if t not in self.failed or not self.failed[t].is_final])

    def refuse(self, view: View) -> None:
        """Raise NoQuorum where every target refused to take it: nothing was put, which is not in doubt."""
        if self.failed and set(self.failed) == set(view.valid) and all(e.is_refused for e in self.failed.values()):
            message = f"every commit target that counts refuses to be written to{self.reasons}"
            reasons = {target: str(error) for target, error in self.failed.items()}
            members = len(view.targets)
            raise NoQuorum(message, valid=0, needed=1, members=members, reasons=reasons, refused=True)

    @property
    def reasons(self) -> str:
        """Why targets failed, to end a message with."""
        told = "; ".join(sorted(str(error) for error in self.failed.values()))
        return f" ({told})" if told else ""


def cast(view: View, run: str, name: str, data: bytes, before: tuple[str, bytes] | None = None) -> Steps[Tally]:
    """Put a vote on every target that counts and find out where it counts.

    The vote is put if absent and read back; only when that has ended on all targets is each holder asked
    whether it still has the incarnation that the vote was put under. So there is an instant at which all of
    `held` had it. `before` is another vote (name and bytes), put on each target ahead of this one.
    """
    in_order = [before, (name, data)] if before else [(name, data)]
    lanes = []
    for target in view.valid:
        puts = [Request(target, "put_if_absent", vote_path(view, target, run, n), sealed) for n, sealed in in_order]
        lanes.append([*puts, Request(target, "get", vote_path(view, target, run, name))])
    replies = yield Batch(lanes)
    found = {t: lane[-1] for t, lane in zip(view.valid, replies, strict=True)}
    others = {t: reply for t, reply in found.items() if isinstance(reply, bytes) and reply != data}
    failed = {t: reply for t, reply in found.items() if isinstance(reply, Unavailable)}
    held = yield from view.check([t for t, reply in found.items() if reply == data])
    return Tally(held, others, failed)


def complete_vote(scope: Scope, run: str, name: str, data: bytes, doubt: InDoubt) -> Steps[frozenset[str]]:
    """Cast a vote under a random name of its own until it is complete; return the targets that held it at one instant.

    Raises `doubt`, with what was wrong added, where that can't be proved; NoQuorum before anything is put.
    """
    tally = Tally(frozenset(), {})
    for pause in attempts():
        if pause:
            yield Batch((), pause)
        view = yield from read_view(scope)
        if not view.is_complete(view.valid):
            if pause:
                continue
            raise no_quorum(view, "write", votes_needed)
        tally = yield from cast(view, run, name, data)
        if view.is_complete(tally.held):
            return tally.held
        if not pause:
            tally.refuse(view)
        if tally.is_hopeless(view):
            break
    raise InDoubt(doubt.message + tally.reasons, **doubt.fields)
