"""Paths of the file system: `<store.toml>!<run>/<path>`, as docs/decisions/0012-file-paths.md settles them.

A path without its protocol is what fsspec hands about. It is absolute and in its shortest form, so that joining,
normalising and stripping it again give the same one. What stands before the `!` names the store; nothing before it, the
store of CKPT_STORE.
"""

import os
import posixpath
from typing import NamedTuple

from ckptstore.errors import UsageError
from ckptstore.names import check_run

PROTOCOL = "ckpt"
FORM = "ckpt:///path/to/store.toml!run/step-100"
LONGEST_COMPONENT = 255  # bytes: a checkpoint's files may be restored to a folder

__all__ = ["PROTOCOL", "Location", "parent_of", "stripped"]


class Location(NamedTuple):
    """`store`: the path of store.toml, or "". `run`: "" is the store itself. `path`: in the run; "" is the run."""

    store: str
    run: str
    path: str

    @classmethod
    def of(cls, path: str) -> "Location":
        """Take apart what `stripped` gives. Raises `UsageError` for what is no path of this file system."""
        store, mark, rest = path.partition("!")
        if not mark:
            raise UsageError(f"{path!r:.200} names no run of a store: there is no ! in it", hint=f"write {FORM}")
        run, _, inside = rest.partition("/")
        return cls(store, check_run(run) if run else "", inside)

    def __str__(self) -> str:
        return f"{self.store}!{self.run}/{self.path}".rstrip("/")

    def beside(self, path: str) -> "Location":
        """Another path of the same run."""
        return self._replace(path=path)

    def check_writable(self) -> "Location":
        """Itself, if a file can have this path. Raises `UsageError`."""
        if not (self.run and self.path):
            raise UsageError(f"{self} is no place for a file", hint=f"name a path below a run: {FORM}/model.pt")
        long = next((p for p in self.path.split("/") if len(os.fsencode(p)) > LONGEST_COMPONENT), None)
        if long or "\0" in self.path or not _is_text(self.path):
            raise UsageError(
                f"{self.path!r:.200} can't be the path of a file", hint="shorter names, in UTF-8, without NUL"
            )
        return self


def stripped(path: str) -> str:
    """A path without protocol, in its one form. What has no `!` is only freed of its protocol."""
    bare = path
    for prefix in (f"{PROTOCOL}://", f"{PROTOCOL}::"):
        bare = bare.removeprefix(prefix)
    bare = bare.removeprefix(f"{PROTOCOL}:") if bare.startswith(f"{PROTOCOL}:/") else bare  # as normpath leaves it
    store, mark, rest = bare.partition("!")
    if not mark:
        return bare.rstrip("/")
    run, _, inside = rest.lstrip("/").partition("/")
    inside = posixpath.normpath(f"/{inside}").lstrip("/")
    where = os.path.abspath(os.path.expanduser(store)) if store else ""  # noqa: PTH100, PTH111 - links are the user's
    return f"{where}!{run}/{inside}".rstrip("/")


def parent_of(path: str) -> str:
    """What a path is in: the run's is the store, whose path ends in the `!`; a store's is itself."""
    store, mark, rest = path.partition("!")
    return f"{store}{mark}{rest.rpartition('/')[0]}"


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
