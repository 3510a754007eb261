"""What could not be read of a run as it should."""

from collections.abc import Iterator
from dataclasses import dataclass

from manifests import paths
from manifests.errors import ManifestError, NotUnderstood, UnsafeName
from manifests.paths import SaveKey
from manifests.schema import Manifest
from manifests.stored import Document
from manifests.votes import Votes


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that couldn't be read as it should.

    `name`: the inner name of the vote; `save`: the save that it is about, None where the name tells none. `targets`
    hold a copy that couldn't be read. `fatal`: no copy could that settles what was voted; a void doesn't, beside a
    copy that may be the save. `newer`: a newer release wrote it, so the remedy is to upgrade ckptstore; otherwise the
    copies are damaged.
    """

    name: str
    message: str
    targets: tuple[str, ...]
    fatal: bool
    newer: bool
    save: SaveKey | None


def problems_in(votes: Votes) -> Iterator[Problem]:
    """Yield what couldn't be read as it should."""
    for name in votes.strange:
        message = f"{name} is not a name that this release knows"
        yield Problem(name, message, votes.holders[name], fatal=False, newer=False, save=_save_in(name))
    for name, copies in sorted(votes.copies.items()):
        errors = {target: copy for target, copy in copies.items() if isinstance(copy, ManifestError)}
        if errors:
            text = "; ".join(f"{target}: {error}" for target, error in errors.items())
            newer = any(isinstance(error, NotUnderstood) for error in errors.values())
            fatal = newer or not any(_settles(copy) for copy in copies.values())
            yield Problem(name, f"{name}: {text}", tuple(errors), fatal, newer, _save_in(name))


def refuse_newer(votes: Votes) -> None:
    """Raise NotUnderstood where a newer release wrote some of `votes`: then nothing may be written in the run."""
    for copies in votes.copies.values():
        for copy in copies.values():
            if isinstance(copy, NotUnderstood):
                raise NotUnderstood(copy.message, **copy.fields)


def _settles(copy: Document | ManifestError) -> bool:
    return not isinstance(copy, ManifestError) and not (isinstance(copy, Manifest) and copy.kind == "void")


def _save_in(name: str) -> SaveKey | None:
    try:
        return paths.save_of(name)
    except UnsafeName:
        return None
