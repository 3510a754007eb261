"""Changing the members of a store.

While the members change, every vote needs Q, and every reading R, of the old *and* of the new set. The change
is stated on max(Q, R) targets of the old set first, so that each reader and each voter of the old set meets
it. Then the added targets learn all votes, everything is completed on the new set, and the new set is stated
alone. Each step can be done again by anybody: a change that was begun can only be finished, never taken back.
"""

from collections.abc import Sequence

import msgspec

from manifests import paths
from manifests.attempts import with_view
from manifests.errors import Conflict, NoQuorum, Unavailable
from manifests.heal import heal, list_runs
from manifests.membership import check_can_join, put_identity, put_token, readmit
from manifests.quorum import Scope, View, change_needed, no_quorum, survey
from manifests.registers import ATTEMPTS, Batch, Request, Steps, together
from manifests.schema import Members, Standing
from manifests.seal import seal


def change_members(scope: Scope, targets: Sequence[str], t: int) -> Steps[Members]:
    """Make `targets` the members, `t` of which may be lost; first finish any other change that was begun.

    While it lasts, a save needs targets that count in both sets: change few of them at a time. Raises NoQuorum,
    Conflict (another change got in between, or a target is another store's), Unavailable, NotConditional,
    NotUnderstood (a newer release uses an added target). After an error do it again: it goes on from where it was.
    """
    for _ in range(ATTEMPTS):
        view = yield from _view_to_change(scope)
        if view.members.old is not None:
            yield from _finish(scope, view)
        elif (view.members.targets, view.members.t) == (list(targets), t):
            return view.members
        else:
            yield from _propose(scope, view, targets, t)
    message = "other changes of the members keep getting in between; try again"
    raise Conflict(message, members=view.members.targets)


def _view_to_change(scope: Scope) -> Steps[View]:
    """Read a view with enough targets of the old set to state a change on."""
    view = yield from survey(scope)
    old = view.settled
    if sum(view.is_valid(name) for name in old.targets) < change_needed(old):
        raise no_quorum(view, "change the members", change_needed)
    return view


def _propose(scope: Scope, view: View, targets: Sequence[str], t: int) -> Steps[None]:
    """Give each added target a fresh token, for it may hold votes of an earlier membership; then state the change."""
    before = view.members
    added = [name for name in targets if name not in before.targets]
    if unknown := [name for name in added if name not in view.standings]:
        message = f"{', '.join(unknown)}: not among the targets that were opened"
        raise Unavailable(message, register=unknown[0], path="")
    for name in added:
        check_can_join(view.standings[name])
    yield from together([put_identity(name, view.store_id) for name in added])
    yield from together([put_token(view.standings[name], before, scope.random()) for name in added])
    after = Members(number=before.number + 1, targets=list(targets), t=t, old=before)
    yield from _state(view, after, before.targets)


def _state(view: View, members: Members, targets: Sequence[str]) -> Steps[None]:
    """State `members` on those of `targets` that count and state a lower number.

    Nobody's proposal is overwritten.
    """
    lanes = []
    for name in targets:
        standing = view.standings.get(name)
        if standing is None or standing.state != "valid" or standing.members is None:
            continue
        if standing.members.number < members.number:
            statement = Standing(incarnation=standing.incarnation, state="valid", members=members)
            path = paths.standing(standing.next_number)
            lanes.append([Request(name, "put_if_absent", path, seal(statement))])
    if lanes:
        yield Batch(lanes)


def _finish(scope: Scope, view: View) -> Steps[None]:
    """Bring the change that was begun to its end."""
    change, old = view.members, view.settled
    yield from _state(view, change, old.targets)
    view = yield from _view_to_change(scope)
    if view.members.number == change.number and not _is_chosen(view, change, old):
        yield from _next_round(view, old)
        return
    for name in change.targets:
        if name not in old.targets:
            yield from readmit(scope, name)
    view = yield from with_view(scope, None, lambda view: _complete_everything(view, change))
    after = msgspec.structs.replace(change, number=change.number + 1, old=None)
    yield from _state(view, after, change.targets)
    view = yield from survey(scope)
    stating = [name for name in change.targets if _states(view, name, after.number)]
    if len(stating) < change_needed(after):
        message = f"the change of members is stated on {len(stating)} of them only; do it again"
        raise NoQuorum(message, valid=len(stating), needed=change_needed(after), members=len(after.targets), reasons={})


def _states(view: View, name: str, number: int) -> bool:
    members = view.standings[name].members if view.is_valid(name) else None
    return members is not None and members.number >= number


def _is_chosen(view: View, change: Members, old: Members) -> bool:
    return _stating(view, change, old) >= change_needed(old)


def _stating(view: View, members: Members, old: Members) -> int:
    return sum(view.is_valid(name) and view.standings[name].members == members for name in old.targets)


def _next_round(view: View, old: Members) -> Steps[None]:
    """Propose the leading change again under a higher number, if no proposal of this number can be chosen any more."""
    proposals = (view.members, *view.rivals)
    open_ = sum(not view.is_valid(name) or view.standings[name].members not in proposals for name in old.targets)
    if any(_stating(view, members, old) + open_ >= change_needed(old) for members in proposals):
        raise no_quorum(view, "change the members", change_needed)
    again = msgspec.structs.replace(view.members, number=view.members.number + 1)
    yield from _state(view, again, old.targets)


def _complete_everything(view: View, change: Members) -> Steps[View | None]:
    """Complete every vote of every run on the old and the new set. None: do it again on a fresh view."""
    if view.members.number != change.number:
        return view
    runs = yield from list_runs(view, view.can_read)
    if runs is None:
        return None
    healed = yield from together([heal(view, run) for run in runs])
    return view if all(part is not None and not part.incomplete for part in healed) else None
