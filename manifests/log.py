"""What happened in a run, told by what is stored of it: nothing was ever overwritten.

Of a save that has ended and was cleared away nothing is left but the note that says so.

Times are what the writers' clocks said, for people only. Nothing is decided by them, so an event stands where the
protocol says it must: no session before those it numbers itself after, no commit before its save began.
"""

from dataclasses import dataclass, replace

from manifests import paths
from manifests.heal import Vote, read_everything
from manifests.history import order
from manifests.paths import SaveKey
from manifests.quorum import View
from manifests.registers import Steps
from manifests.schema import Begun, Manifest, Mark, Session
from manifests.votes import read_vote

_KINDS = {"save": "committed", "repair": "repaired", "copy": "copied", "void": "voided"}
_MARKS = {
    "delete": "deleted",
    "undelete": "undeleted",
    "tag": "tagged",
    "untag": "untagged",
    "collect": "collecting",
}
_RANKS = ("opened", "begun", "committed", "voided")
_LAST = "collected"
"""Of what has no time of its own, or the same: the order in which it can happen."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. `at`: ISO 8601, "" where no time is stored (repairs keep the time of the save)."""

    kind: str
    at: str
    session: str
    ordinal: int | None = None
    name: str | None = None
    step: int | None = None
    version: int | None = None
    tag: str | None = None

    @property
    def save(self) -> SaveKey:
        """The save it is about; ordinal 0 for an opening, which comes before all its saves."""
        return self.session, self.ordinal or 0


def read_log(view: View, run: str) -> Steps[tuple[Event, ...] | None]:
    """Read all events of a run. None: targets changed meanwhile; read a new view."""
    found = yield from read_everything(view, run)
    kept = yield from view.check(found.heard)
    if kept != found.heard or not view.can_read(kept):
        return None
    return log_of(found.votes)


def log_of(votes: tuple[Vote, ...]) -> tuple[Event, ...]:
    """Make the log out of the votes that were read. Pure."""
    events = _named([event for vote in votes for event in _events(vote)])
    times: dict[SaveKey, str] = {}
    for event in sorted(events, key=lambda event: (order(event.save), _rank(event), event.version or 0)):
        times[event.save] = max(times.get(event.save, ""), event.at)
    for event in events:  # a note has no time: where it is all that is left, it stands below its session
        times[event.save] = times[event.save] or times.get((event.session, 0), "")
    return tuple(sorted(events, key=lambda e: (e.at or times[e.save], order(e.save), _rank(e), e.version or 0)))


def _named(events: list[Event]) -> list[Event]:
    """Give all events of a save the name and the step that it was committed with."""
    saved = {event.save: event for event in events if event.version is not None}
    return [replace(e, name=saved[e.save].name, step=saved[e.save].step) if e.save in saved else e for e in events]


def _rank(event: Event) -> int:
    return _RANKS.index(event.kind) if event.kind in _RANKS else len(_RANKS) + (event.kind == _LAST)


def _events(vote: Vote) -> list[Event]:
    document = read_vote(vote.run, vote.name, vote.data)
    match document:
        case Session():
            return [Event("opened", document.created, document.session)]
        case Begun() if paths.folder_of(vote.name) == paths.BEGUN:
            return [Event("begun", document.created, document.session, document.ordinal)]
        case Begun() if paths.folder_of(vote.name) == paths.COLLECTED:
            return [Event("collected", "", document.session, document.ordinal)]
        case Mark():
            name = _MARKS.get(document.kind, document.kind)
            return [Event(name, document.created, *document.of, tag=document.tag)]
        case Manifest():
            return [_manifest_event(document)]
    return []


def _manifest_event(manifest: Manifest) -> Event:
    return Event(
        _KINDS.get(manifest.kind, manifest.kind),
        manifest.created if manifest.version == 1 else "",
        manifest.session,
        manifest.ordinal,
        name=manifest.name,
        step=manifest.step,
        version=manifest.version,
    )
