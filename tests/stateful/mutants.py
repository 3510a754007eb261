"""The protocol with one rule left out each.

The checkers must find every one of them, or they would prove nothing.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

from manifests import casting, collect, commit, heal, marks, membership, paths, quorum, reading, standing, votes
from manifests.attempts import with_view
from manifests.casting import Tally
from manifests.errors import InDoubt
from manifests.quorum import Scope, View
from manifests.registers import Batch, Request, Steps
from manifests.schema import Mark


def _unchecked(view: View, names: Collection[str]) -> Steps[frozenset[str]]:
    return frozenset(names)
    yield Batch(())


@contextmanager
def votes_are_not_checked_again() -> Iterator[None]:
    """Count a vote that was read back, without asking again whether the target was wiped meanwhile."""
    with mock.patch.object(View, "check", _unchecked):
        yield


@contextmanager
def votes_lie_outside_the_incarnation() -> Iterator[None]:
    """Put votes under names that a wiped and re-admitted target shares with what it was before."""
    with mock.patch.object(paths, "commit_prefix", lambda run, incarnation: f"runs/{run}/commit/x/"):
        yield


@contextmanager
def votes_are_checked_one_by_one() -> Iterator[None]:
    """Ask each target for its incarnation right after its own vote: there may be no instant at which all held."""

    def cast(view: View, run: str, name: str, data: bytes, before: tuple[str, bytes] | None = None) -> Steps[Tally]:
        ahead = [before] if before else []
        lanes = []
        for target in view.valid:
            path, at = votes.vote_path(view, target, run, name), view.standings[target]
            lanes.append(
                [
                    *(
                        Request(target, "put_if_absent", votes.vote_path(view, target, run, n), d)
                        for n, d in (*ahead, (name, data))
                    ),
                    Request(target, "get", path),
                    Request(target, "list", paths.INCARNATIONS),
                    Request(target, "get", paths.standing(at.token)),
                ]
            )
        replies = dict(zip(view.valid, (yield Batch(lanes)), strict=True))
        own = {t for t, lane in replies.items() if lane[-3] == data and lane[-1] == view.standings[t].sealed}
        others = {t: lane[-3] for t, lane in replies.items() if isinstance(lane[-3], bytes) and lane[-3] != data}
        return Tally(frozenset(own), others)

    with mock.patch("manifests.commit.cast", cast), mock.patch.object(casting, "cast", cast):
        yield


@contextmanager
def a_void_needs_only_a_quorum() -> Iterator[None]:
    """Call a save voided when the void is on Q members, and begin where not all members count."""
    with mock.patch.object(View, "is_everyone", View.is_complete):
        yield


@contextmanager
def a_copy_prefers_voids() -> Iterator[None]:
    """Teach a re-admitted target a void where the others disagree."""

    def good_copy(found: votes.Votes, name: str) -> bytes | None:
        copies = found.data.get(name, {})
        return max(copies.values(), key=lambda data: b'"void"' in data, default=None)

    with mock.patch.object(heal, "good_copy", good_copy):
        yield


@contextmanager
def a_target_joins_without_a_token() -> Iterator[None]:
    """Copy first, then make the target valid: nothing keeps an older re-admission from finishing."""

    def readmit(scope: Scope, target: str) -> Steps[Any]:
        view = yield from membership.view_to_copy(scope)
        if view.is_valid(target):
            return ()
        standing_before = membership._readmissible(view, target)
        members, found, problems = yield from with_view(
            scope, None, membership._read_everything, membership.view_to_copy
        )
        token = yield from membership.put_token(standing_before, view.members, scope.random())
        yield from membership._put_identity_again(standing_before, view.store_id)
        yield from membership._copy(token, found)
        yield from membership.put_valid(token, members)
        return problems

    with mock.patch.object(membership, "readmit", readmit):
        yield


@contextmanager
def a_valid_statement_needs_no_token() -> Iterator[None]:
    """Believe a `valid` statement though the target has lost the token below it."""
    judge = standing._judge_statements

    def believing(target: str, identity: Any, numbers: Any, statements: Mapping[int, Any]) -> Any:
        found = judge(target, identity, numbers, statements)
        if found.state == "absent" and statements:
            top = numbers[-1]
            document = standing.unseal(standing.schema.Standing, statements[top])
            return standing.TargetStanding(
                target, "valid", "", identity, document.incarnation, numbers, top, statements[top], document.members
            )
        return found

    with mock.patch.object(standing, "_judge_statements", believing):
        yield


@contextmanager
def a_vote_needs_one_less() -> Iterator[None]:
    """Call a vote complete on t targets."""
    with mock.patch.object(quorum, "votes_needed", lambda members: max(1, members.t)):
        yield


@contextmanager
def a_reading_needs_one_less() -> Iterator[None]:
    """Read from N - t - 1 targets."""
    with mock.patch.object(quorum, "readings_needed", lambda members: max(1, len(members.targets) - members.t - 1)):
        yield


@contextmanager
def a_mark_counts_on_one_target() -> Iterator[None]:
    """Complete a mark on one target only."""
    with mock.patch("manifests.commit.complete_vote", _on_one):
        yield


def _on_one(scope: Scope, run: str, name: str, data: bytes, doubt: InDoubt) -> Steps[Any]:
    view = yield from quorum.read_view(scope)
    tally = yield from casting.cast(view, run, name, data)
    if not tally.held:
        raise doubt
    return tally.held


@contextmanager
def an_undelete_does_not_look_again() -> Iterator[None]:
    """Report an undelete done when its mark is, whoever began to collect meanwhile."""
    with mock.patch.object(marks, "_refuse_collecting"):
        yield


@contextmanager
def a_tagger_does_not_look_again() -> Iterator[None]:
    """Report a save tagged when the mark is put, whoever deleted it meanwhile."""
    with mock.patch.object(marks, "_refuse_deleted"):
        yield


@contextmanager
def a_pruner_does_not_look_again() -> Iterator[None]:
    """Report a save deleted when the mark is put, whoever gave it a tag meanwhile."""

    def retire_at_once(scope: Scope, run: str, saves: Any, created: str) -> Steps[dict[Any, str]]:
        (of,) = saves
        _, checkpoint = yield from marks.find(scope, run, of)
        if checkpoint.tags:
            return {of: "tagged"}
        yield from commit.put_mark(scope, run, Mark(kind="delete", of=of, created=created))
        return {of: "deleted"}

    with mock.patch.object(marks, "retire", retire_at_once):
        yield


@contextmanager
def a_collector_does_not_look_again() -> Iterator[None]:
    """End a save as soon as it is said that its delete mark is being carried out."""

    def collect_at_once(scope: Scope, run: str, of: Any, deletes: Collection[str], created: str) -> Steps[str]:
        _, checkpoint = yield from marks.find(scope, run, of)
        if not checkpoint.deletes:
            return "kept"
        mark = Mark(kind="collect", of=of, undoes=checkpoint.deletes[0], created=created)
        yield from commit.put_mark(scope, run, mark)
        yield from collect._put_note(scope, run, of)
        return "collected"

    with mock.patch.object(collect, "collect", collect_at_once):
        yield


@contextmanager
def a_vote_that_vanished_is_not_missed() -> Iterator[None]:
    """Read on where a vote was listed and is gone, as if it had never been there."""

    def shrugging(*_: object) -> Steps[bool]:
        return True
        yield Batch(())

    with mock.patch.object(reading, "_find_collected", shrugging):
        yield


@contextmanager
def votes_are_cleared_on_one_note() -> Iterator[None]:
    """Clear what is left of a save of which a single target says that it has ended."""
    with (
        mock.patch.object(collect, "complete_vote", _on_one),
        mock.patch.object(View, "is_complete", return_value=True),
    ):
        yield


Mutant = Callable[[], Any]
