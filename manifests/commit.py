"""Saving: opening a session, beginning a save, committing it; repair versions, marks and voids.

Each save has a register of its own, version 1 of its manifest, so savers never contend for a name. The only
other writer of that name is a collector that closes the register of a save given up, by a void on *all*
members.
"""

from dataclasses import dataclass
from typing import Literal

from manifests import paths
from manifests.attempts import attempts, with_view
from manifests.casting import Tally, cast, complete_vote
from manifests.errors import Conflict, Fenced, InDoubt, ManifestError, NoQuorum, Voided
from manifests.quorum import Scope, View, no_quorum, read_view, votes_needed
from manifests.registers import Batch, Steps
from manifests.schema import Begun, Manifest, Mark, Session
from manifests.votes import list_votes, read_vote, seal_vote, votes_in


@dataclass(frozen=True, slots=True)
class Committed:
    """A save that is committed: its manifest, and the targets that were proved to hold it at one instant."""

    manifest: Manifest
    held: tuple[str, ...]


def open_session(scope: Scope, run: str, created: str, job: str = "") -> Steps[str]:
    """Open `run` for saving: put a session numbered one above the highest seen. Return its name.

    Sessions of one `job` don't fence each other: its processes may take turns at saving.
    Raises NoQuorum before anything was put, InDoubt after: open another one then.
    """
    newest = yield from with_view(scope, None, lambda view: newest_session(view, run))
    number = paths.split_session(newest)[0] + 1 if newest else 1
    session = paths.session_name(number, f"{job}-{scope.random()}" if job else scope.random())
    doubt = InDoubt(f"{run}: too few targets answered to open a session; open another", run=run, session=session)
    name = paths.session_vote(session)
    data = seal_vote(run, name, Session(session=session, created=created))
    yield from complete_vote(scope, run, name, data, doubt)
    return session


def newest_session(view: View, run: str, besides: str = "") -> Steps[str | None]:
    """Return the newest session of which anything was seen, other than those of the job `besides`; "" if none was.

    None: targets changed, read a new view.
    """
    votes = yield from list_votes(view, run)
    kept = yield from view.check(votes.heard)
    if not view.can_read(kept):
        return None
    sessions = {paths.below_folder(name) for name in votes_in(votes, paths.SESSIONS)}
    sessions |= {paths.save_of(name)[0] for name in votes_in(votes, paths.BEGUN, paths.MANIFESTS)}
    others = (session for session in sessions if not besides or paths.job_of(session) != besides)
    return max(others, key=paths.split_session, default="")


def begin(scope: Scope, run: str, session: str, ordinal: int, created: str) -> Steps[None]:
    """Say that a save begins, before any of its data is written.

    Raises NoQuorum, or InDoubt: begin again then.
    """
    name = paths.begun_name(session, ordinal)
    data = seal_vote(run, name, Begun(session=session, ordinal=ordinal, created=created))
    message = f"{run}: too few targets answered to begin save {ordinal} of session {session}"
    yield from complete_vote(scope, run, name, data, InDoubt(message, run=run, session=session, ordinal=ordinal))


def commit(scope: Scope, manifest: Manifest) -> Steps[Committed]:
    """Commit version 1 of a save, whose data must be durable by now.

    Raises Fenced where a newer session exists; NoQuorum where nothing was put anywhere; Voided where a void
    closed the register on all members; Conflict where another save took it; InDoubt where neither can be
    proved. Only after NoQuorum, Voided and Conflict is it certain that the save is not committed.
    """
    name = paths.manifest_name(manifest.session, manifest.ordinal, version=1)
    data = seal_vote(manifest.run, name, manifest)
    put, reasons = False, ""
    for pause in attempts():
        if pause:
            yield Batch((), pause)
        try:
            view = yield from _view_for_saving(scope, manifest, put=put)
        except NoQuorum:
            if not put:
                raise
            continue
        tally = yield from cast(view, manifest.run, name, data)
        if view.is_complete(tally.held):
            return Committed(manifest, tuple(sorted(tally.held)))
        if not put:
            tally.refuse(view)
        put = True
        yield from _refuse_closed(view, manifest, name, tally)
        reasons = tally.reasons
        if tally.is_hopeless(view):
            break
    message = (
        f"{_title(manifest)}: too few commit targets answered to prove that it is committed, or that it is not; "
        f"read the history before saving again{reasons}"
    )
    raise InDoubt(message, run=manifest.run, session=manifest.session, ordinal=manifest.ordinal)


def _view_for_saving(scope: Scope, manifest: Manifest, *, put: bool) -> Steps[View]:
    """Read a view on which a commit can succeed.

    Raises NoQuorum; Fenced if the session is not the newest any more.
    """
    view = yield from read_view(scope)
    if not view.is_complete(view.valid):
        raise no_quorum(view, "save", votes_needed)
    job = paths.job_of(manifest.session)
    newest = yield from with_view(scope, view, lambda view: newest_session(view, manifest.run, besides=job))
    if newest and paths.split_session(newest) > paths.split_session(manifest.session):
        message = f"{_title(manifest)}: session {newest} has been opened since; this saver has been replaced" + (
            "; the save may yet be completed, as one of an old session" if put else ""
        )
        raise Fenced(message, run=manifest.run, session=manifest.session, newest=newest, put=put)
    return view


def _refuse_closed(view: View, manifest: Manifest, name: str, tally: Tally) -> Steps[None]:
    """Raise Voided or Conflict where other bytes have the name on so many targets that these can't be complete."""
    if not tally.others:
        return
    kept = yield from view.check(sorted(tally.others))
    others = {target: _read_other(manifest.run, name, data) for target, data in tally.others.items() if target in kept}
    voids = [target for target, other in others.items() if other is not None and other.kind == "void"]
    saves = [target for target, other in others.items() if other is not None and other.kind != "void"]
    where = {"run": manifest.run, "session": manifest.session, "ordinal": manifest.ordinal, "name": name}
    if view.is_everyone(voids):
        message = f"{_title(manifest)}: closed by a collector; its session counts, save again as the next ordinal"
        raise Voided(message, targets=sorted(voids), **where)
    if view.is_complete(saves):
        message = f"{_title(manifest)}: another save was committed under this session and ordinal"
        raise Conflict(message, targets=sorted(saves), **where)


def _read_other(run: str, name: str, data: bytes) -> Manifest | None:
    try:
        document = read_vote(run, name, data)
    except ManifestError:
        return None
    assert isinstance(document, Manifest), "that is what lies under a manifest's name"
    return document


def supersede(scope: Scope, manifest: Manifest) -> Steps[Committed]:
    """Put a new version of a save's manifest (repair, copy), as `manifest.version`, which must be 2 or more.

    Its name has a random part, so nobody contends for it; the highest (version, random) counts. Raises
    NoQuorum, InDoubt.
    """
    name = paths.manifest_name(manifest.session, manifest.ordinal, manifest.version, scope.random())
    doubt = InDoubt(f"{_title(manifest)}: version {manifest.version} is in doubt; repair again", run=manifest.run)
    held = yield from complete_vote(scope, manifest.run, name, seal_vote(manifest.run, name, manifest), doubt)
    return Committed(manifest, tuple(sorted(held)))


def put_mark(scope: Scope, run: str, mark: Mark) -> Steps[str]:
    """Put a delete, undelete, tag or untag mark.

    Return its id. Raises NoQuorum, or InDoubt: do it again then.
    """
    random = scope.random()
    name = paths.mark_name(*mark.of, random)
    message = f"{run}: too few targets answered to {mark.kind} save {mark.of[1]} of session {mark.of[0]}; try again"
    doubt = InDoubt(message, run=run, session=mark.of[0], ordinal=mark.of[1], mark=mark.kind)
    yield from complete_vote(scope, run, name, seal_vote(run, name, mark), doubt)
    return random


def void(scope: Scope, run: str, session: str, ordinal: int, created: str) -> Steps[Literal["voided", "saved"]]:
    """Close the register of a save that was given up, so that it can never be committed.

    "voided": a void was proved to be on *all* members at one instant. "saved": a manifest was met on some
    member; the save is not voided, and its data must be kept. Raises NoQuorum where a member is out of reach
    or doesn't count, and InDoubt where that happens on the way: the save may then be committed or voided by
    somebody later.
    """
    name = paths.manifest_name(session, ordinal, version=1)
    data = seal_vote(run, name, Manifest(kind="void", run=run, session=session, ordinal=ordinal))
    note = paths.voiding_name(session, ordinal)
    voiding = note, seal_vote(run, note, Begun(session=session, ordinal=ordinal, created=created))
    for pause in attempts():
        if pause:
            yield Batch((), pause)
        view = yield from read_view(scope)
        if not view.is_everyone(view.valid):
            raise no_quorum(view, "void a save", lambda members: len(members.targets))
        tally = yield from cast(view, run, name, data, before=voiding)
        if view.is_everyone(tally.held):
            return "voided"
        if tally.others:
            return "saved"
        if any(error.is_final for error in tally.failed.values()):
            break
    raise InDoubt(f"{run}: save {ordinal} of session {session} could not be voided on all members", run=run)


def _title(manifest: Manifest) -> str:
    return f"{manifest.run}: save {manifest.ordinal} of session {manifest.session}"
