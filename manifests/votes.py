"""The votes of a run: where they lie on a target, and reading them back.

Everything that is a vote lies under the incarnation of its target (`paths.commit_prefix`): one that was meant
for an incarnation since forgotten lands where nobody looks. Inside that prefix the names, and the bytes, are
the same on every target; here such an inner name is called `name`: `manifests/000001.x.000001/000001`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from manifests import paths
from manifests.errors import ManifestError, NotUnderstood, Unavailable
from manifests.format_errors import UnsafeName, WrongValue
from manifests.paths import SaveKey
from manifests.quorum import View
from manifests.registers import Batch, Request, Steps
from manifests.schema import Begun, Manifest, Mark, Session
from manifests.seal import seal, unseal
from manifests.stored import Document
from manifests.validation import check_understood


@dataclass(slots=True)
class Votes:
    """The votes of a run as they were read from `heard`.

    `holders`: by inner name, the targets that list it; `strange`: names that this release doesn't know.
    `copies`: by inner name and target, the document read there, or the error that says what is wrong with it.
    `data`: the sealed bytes of the good copy of each name. `collected`: the saves that are gone for good, nothing else
    that is said of them counts: known once `read_notes` has looked.
    """

    heard: frozenset[str]
    holders: dict[str, tuple[str, ...]]
    strange: tuple[str, ...] = ()
    copies: dict[str, dict[str, Document | ManifestError]] = field(default_factory=dict)
    data: dict[str, dict[str, bytes]] = field(default_factory=dict)
    collected: set[SaveKey] = field(default_factory=set)


def vote_path(view: View, target: str, run: str, name: str) -> str:
    """Return the full path of the vote `name` of `run` on `target`."""
    return paths.commit_prefix(run, view.incarnation(target)) + name


def list_votes(view: View, run: str) -> Steps[Votes]:
    """List the votes of a run on every target that counts: one request a target."""
    prefixes = [paths.commit_prefix(run, view.incarnation(target)) for target in view.valid]
    lanes = [[Request(target, "list", prefix)] for target, prefix in zip(view.valid, prefixes, strict=True)]
    replies = yield Batch(lanes)
    heard: list[str] = []
    holders: dict[str, tuple[str, ...]] = {}
    for target, prefix, (listing,) in zip(view.valid, prefixes, replies, strict=True):
        if isinstance(listing, tuple):
            heard.append(target)
            for path in listing:
                name = path.removeprefix(prefix)
                holders[name] = (*holders.get(name, ()), target)
    return Votes(frozenset(heard), holders, tuple(sorted(name for name in holders if not _is_known(name))))


def read_notes(view: View, run: str, votes: Votes) -> Steps[None]:
    """Find out which saves are gone for good: those with a note on enough targets, or with one that can be read.

    The name of a note says all, but on no more targets than may be lost it may be a misnamed file: those are read.
    """
    names = votes_in(votes, paths.COLLECTED)
    doubtful = [name for name in names if not view.is_complete(votes.holders[name])]
    yield from read_copies(view, run, votes, doubtful, set(doubtful))
    votes.collected |= {paths.save_of(name) for name in names if name not in doubtful or name in votes.data}


def read_copies(view: View, run: str, votes: Votes, names: Sequence[str], every: Collection[str]) -> Steps[None]:
    """Read a good copy of each of `names`, the whole set of copies of those in `every`, into `votes`.

    Each name is asked of one target, turn by turn so that the load spreads, and of the next where the copy is
    damaged. A target that gets out of reach meanwhile is taken out of `votes.heard`.
    """
    left = {name: _in_turn(votes.holders[name], i) for i, name in enumerate(names)}
    while left:
        asked = [
            (name, target) for name, holders in left.items() for target in (holders if name in every else holders[:1])
        ]
        replies = yield Batch([[Request(t, "get", vote_path(view, t, run, name))] for name, t in asked])
        for (name, target), (reply,) in zip(asked, replies, strict=True):
            if isinstance(reply, Unavailable):
                votes.heard -= {target}
            elif isinstance(reply, bytes):
                _take(votes, run, name, target, reply)
        left = {name: holders[1:] for name, holders in left.items() if _goes_on(votes, name, every, holders)}


def _in_turn(holders: tuple[str, ...], turn: int) -> tuple[str, ...]:
    first = turn % len(holders)
    return holders[first:] + holders[:first]


def _goes_on(votes: Votes, name: str, every: Collection[str], holders: tuple[str, ...]) -> bool:
    return name not in every and name not in votes.data and len(holders) > 1


def _take(votes: Votes, run: str, name: str, target: str, data: bytes) -> None:
    document: Document | ManifestError
    try:
        document = read_vote(run, name, data)
    except ManifestError as error:
        document = error
    votes.copies.setdefault(name, {})[target] = document
    if isinstance(document, NotUnderstood) or not isinstance(document, ManifestError):
        votes.data.setdefault(name, {})[target] = data  # what a newer release wrote is no damage


def seal_vote(run: str, name: str, document: Document) -> bytes:
    """Return the bytes of a vote, to be put under that inner name and no other."""
    return seal(document, _place(run, name))


def read_vote(run: str, name: str, data: bytes) -> Document:
    """Return the document under an inner name.

    Raises a FormatError where it is damaged or belongs elsewhere, NotUnderstood where a newer release is
    needed.
    """
    rest, place = paths.below_folder(name), _place(run, name)
    document: Document
    match paths.folder_of(name):
        case paths.MANIFESTS:
            document = manifest = unseal(Manifest, data, place)
            told = (manifest.session, manifest.ordinal, manifest.version)
            belongs = manifest.run == run and told == paths.split_manifest(rest)[:3]
        case paths.MARKS:
            document = mark = unseal(Mark, data, place)
            belongs = mark.of == paths.split_mark(rest)[:2]
        case paths.SESSIONS:
            document = opened = unseal(Session, data, place)
            belongs = opened.session == rest
        case _:
            document = begun = unseal(Begun, data, place)
            belongs = (begun.session, begun.ordinal) == paths.split_save(rest)
    if not belongs:
        raise WrongValue(f"what is under {name} says that it belongs elsewhere", field="", name=name)
    check_understood(document)
    return document


def _place(run: str, name: str) -> str:
    return f"{run}/{name}"


def votes_in(votes: Votes, *folders: str) -> list[str]:
    """Return the inner names in the given folders, in order, without the strange ones."""
    known = votes.holders.keys() - set(votes.strange)
    return sorted(name for name in known if paths.folder_of(name) in folders)


def votes_that_count(votes: Votes, *folders: str) -> list[str]:
    """Return the inner names in the given folders as `votes_in`, less what is left of saves that are gone for good.

    After `read_notes`.
    """
    return [name for name in votes_in(votes, *folders) if not _is_of(name, votes.collected)]


def _is_of(name: str, saves: Collection[SaveKey]) -> bool:
    return paths.folder_of(name) not in {paths.SESSIONS, paths.COLLECTED} and paths.save_of(name) in saves


def _is_known(name: str) -> bool:
    try:
        _PARSERS[paths.folder_of(name)](paths.below_folder(name))
    except (KeyError, UnsafeName):
        return False
    return True


_PARSERS: Mapping[str, Callable[[str], object]] = {
    paths.SESSIONS: paths.check_session,
    paths.BEGUN: paths.split_save,
    paths.VOIDING: paths.split_save,
    paths.MANIFESTS: paths.split_manifest,
    paths.MARKS: paths.split_mark,
    paths.COLLECTED: paths.split_save,
}
