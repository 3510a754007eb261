"""Becoming a member: a new store, a wiped or new target, another set of targets.

A target that was wiped has forgotten its votes, so it must not vote before it has learned again whatever may
have been decided with its help. It gets a *joining token* (a new incarnation), then a copy of all votes read
from R valid targets *after* the token, then a `valid` statement, numbered right after the token: whoever
takes the re-admission over puts another token under that number, so that a late finish is refused.
"""

from collections.abc import Mapping, Sequence

from manifests import paths
from manifests.attempts import attempts, with_view
from manifests.errors import Conflict, NotConditional, NotUnderstood, Unavailable
from manifests.heal import Vote, list_runs, read_everything
from manifests.problems import Problem
from manifests.quorum import Scope, View, no_quorum, readings_needed, survey
from manifests.registers import Batch, Reply, Request, Steps, together
from manifests.schema import Identity, Members, Standing
from manifests.seal import seal
from manifests.standing import TargetStanding, read_standings


def init_store(scope: Scope, members: Members) -> Steps[str]:
    """Make a store on targets that have none, and return its id. Every member must be in reach.

    Raises Conflict where a target already has a standing, Unavailable, and NotConditional where a target is
    found not to put only if absent. Doing it again after a failure goes on under the id that was put first.
    """
    standings = yield from read_standings(members.targets)
    finished = yield from _finished(standings, members)
    for target, standing in standings.items():
        if standing.state == "unreachable":
            raise Unavailable(f"{target} is out of reach: {standing.reason}", register=target, path="")
        if standing.state not in {"absent", "joining"} and target not in finished:
            message = f"{target} can't take a new store: {standing.reason or 'it holds one already'}"
            raise Conflict(message, target=target, state=standing.state)
    begun = [standing.identity.store_id for standing in standings.values() if standing.identity]
    store_id = begun[0] if begun else scope.store_id or scope.random()
    yield from together([put_identity(target, store_id) for target in members.targets])
    waiting = [standing for standing in standings.values() if standing.target not in finished]
    tokens = yield from together([put_some_token(scope, standing, members) for standing in waiting])
    yield from together([put_valid(token, members) for token in tokens])
    return store_id


def _finished(standings: Mapping[str, TargetStanding], members: Members) -> Steps[frozenset[str]]:
    """Return the targets that a call which stopped half-way made valid.

    It can be taken for one only while nobody has voted: a target that isn't valid has no votes to have
    forgotten.
    """
    valid = [name for name, s in standings.items() if s.state == "valid" and s.members == members]
    if not valid or len(valid) == len(standings):
        return frozenset()
    replies = yield Batch([[Request(name, "list", paths.RUNS)] for name in valid])
    return frozenset(valid) if all(reply == () for (reply,) in replies) else frozenset()


def put_identity(target: str, store_id: str) -> Steps[None]:
    """Put `ckptstore.json`, and again: NotConditional is raised where the target takes it every time.

    It is put again where the target fails for the moment, as `put_valid`.
    Every put holds the same bytes, so that even such a target keeps what it had; and three more of them, because a
    put whose reply was lost may be reported as done once. Raises Conflict, Unavailable.
    """
    data = seal(Identity(store_id=store_id, target=target))
    put = Request(target, "put_if_absent", paths.IDENTITY, data)
    answers: list[Reply] = []
    found: Reply = None
    for pause in attempts():
        ((*puts, found),) = yield Batch([[*[put] * (4 - len(answers)), Request(target, "get", paths.IDENTITY)]], pause)
        answers += [reply for reply in puts if not isinstance(reply, Unavailable)]
        if not _is_passing(found):
            break
    _raise_unavailable(found)
    if all(answers):
        message = (
            f"{target} answered each of {len(answers)} puts-if-absent of {paths.IDENTITY} as if it had made it; it "
            "can't tell what was there before, so it can hold fragments, but no votes"
        )
        raise NotConditional(message, register=target)
    if found != data:
        raise Conflict(f"{target} holds the identity of another store, or a damaged one", target=target)


def put_token(standing: TargetStanding, members: Members, incarnation: str) -> Steps[TargetStanding]:
    """Put a joining token with a fresh incarnation, above every statement seen.

    Raises Conflict if another got there.
    """
    number = standing.next_number
    path = paths.standing(number)
    token = seal(Standing(incarnation=incarnation, state="joining", members=members))
    requests = [Request(standing.target, "put_if_absent", path, token), Request(standing.target, "get", path)]
    ((put, found),) = yield Batch([requests])
    _raise_unavailable(put, found)
    if found != token:
        message = f"{standing.target} is being re-admitted by another process; try again when that has ended"
        raise Conflict(message, target=standing.target)
    numbers = (*standing.numbers, number)
    return TargetStanding(standing.target, "joining", "", None, incarnation, numbers, number, token, members)


def put_some_token(scope: Scope, standing: TargetStanding, members: Members) -> Steps[TargetStanding]:
    """Put a joining token, and where the target fails for the moment another one above it: none is ever put twice."""
    for pause in attempts():
        if pause:
            yield Batch((), pause)
            standing = (yield from read_standings([standing.target]))[standing.target]
            if standing.state not in {"absent", "joining"}:
                break
        try:
            return (yield from put_token(standing, members, scope.random()))
        except Unavailable as error:
            failure = error
            if error.is_final:
                break
    raise failure


def put_valid(token: TargetStanding, members: Members) -> Steps[None]:
    """Make a joining target valid, by the statement numbered right after its token.

    It is put again where a target fails for the moment: one that lands late, above another token, says nothing.
    Raises Conflict if taken over, Unavailable.
    """
    target, path = token.target, paths.standing(token.token + 1)
    data = seal(Standing(incarnation=token.incarnation, state="valid", members=members))
    found = yield from _put_and_get(target, path, data)
    if found != data:
        raise Conflict(f"the re-admission of {target} was taken over by another process", target=target)


def readmit(scope: Scope, target: str) -> Steps[tuple[Problem, ...]]:
    """Make a member that was wiped, or whose standing is damaged, valid again; do nothing to one that is valid.

    Whoever began to re-admit it before is replaced. Returns what could not be copied for want of a good copy.
    Raises NoQuorum (fewer than R others count), Conflict (not a member, another store's, or taken over),
    NotUnderstood (a newer release's standing), Unavailable, NotConditional.
    """
    view = yield from view_to_copy(scope)
    if view.is_valid(target):
        return ()
    standing = _readmissible(view, target)
    token = yield from put_token(standing, view.members, scope.random())
    yield from _put_identity_again(standing, view.store_id)
    members, votes, problems = yield from with_view(scope, None, _read_everything, view_to_copy)
    yield from _copy(token, votes)
    yield from put_valid(token, members)
    return problems


def view_to_copy(scope: Scope) -> Steps[View]:
    """Read a view on which a new member can learn everything.

    Raises NoQuorum; Conflict where changes compete.
    """
    view = yield from survey(scope)
    if not view.can_copy(view.valid):
        raise no_quorum(view, "re-admit a target", readings_needed)
    if view.rivals:
        raise Conflict("two changes of members compete: end one of them first", members=view.members.targets)
    return view


def _readmissible(view: View, target: str) -> TargetStanding:
    if target not in view.targets or target not in view.standings:
        message = f"{target} is not a member of this store ({', '.join(view.targets)})"
        raise Conflict(message, target=target, members=view.targets)
    check_can_join(view.standings[target])
    return view.standings[target]


def check_can_join(standing: TargetStanding) -> None:
    """Require a target on which a token may be put. Raises Unavailable, Conflict, NotUnderstood."""
    target = standing.target
    message = f"{target} can't become a member: {standing.reason}"
    match standing.state:
        case "unreachable":
            raise Unavailable(message, register=target, path="")
        case "foreign":
            raise Conflict(message, target=target)
        case "newer":
            raise NotUnderstood(message, target=target, unknown=[])


def _put_identity_again(standing: TargetStanding, store_id: str) -> Steps[None]:
    """Put the identity, over a damaged one: the statements with it show that the target was this store's.

    It comes after the token. Put before, it could make a target valid whose identity was lost, and the token
    would then invalidate a target that counts.
    """
    if standing.identity is None and standing.numbers:
        data = seal(Identity(store_id=store_id, target=standing.target))
        yield Batch([[Request(standing.target, "put", paths.IDENTITY, data)]])
    yield from put_identity(standing.target, store_id)


def _read_everything(view: View) -> Steps[tuple[Members, list[Vote], tuple[Problem, ...]] | None]:
    """Read a good copy of every vote of every run, and the newest members.

    None: targets changed meanwhile.
    """
    runs = yield from list_runs(view, view.can_copy)
    if runs is None:
        return None
    found = yield from together([read_everything(view, run) for run in runs])
    kept = yield from view.check(view.valid)
    if not view.can_copy(kept) or not all(view.can_copy(part.heard) for part in found):
        return None
    votes = [vote for part in found for vote in part.votes]
    return view.members, votes, tuple(problem for part in found for problem in part.problems)


def _copy(token: TargetStanding, votes: Sequence[Vote]) -> Steps[None]:
    """Put votes on a joining target, under its new incarnation, and read each back."""
    prefixes = [paths.commit_prefix(vote.run, token.incarnation) for vote in votes]
    puts = [_put_and_get(token.target, p + vote.name, vote.data) for p, vote in zip(prefixes, votes, strict=True)]
    for vote, found in zip(votes, (yield from together(puts)), strict=True):
        if found != vote.data:
            message = f"{token.target} does not hold what was put on it under {vote.name}"
            raise Unavailable(message, register=token.target, path=vote.name)


def _put_and_get(target: str, path: str, data: bytes) -> Steps[Reply]:
    """Put if absent and read back, again for some seconds where the target fails for the moment. Raises Unavailable."""
    found: Reply = None
    for pause in attempts():
        ((_, found),) = yield Batch(
            [[Request(target, "put_if_absent", path, data), Request(target, "get", path)]], pause
        )
        if not _is_passing(found):
            break
    _raise_unavailable(found)
    return found


def _is_passing(reply: Reply) -> bool:
    """Tell a failure after which another try may succeed. What follows a failure in its lane is answered by it."""
    return isinstance(reply, Unavailable) and not reply.is_final


def _raise_unavailable(*replies: Reply) -> None:
    for reply in replies:
        if isinstance(reply, Unavailable):
            raise reply
