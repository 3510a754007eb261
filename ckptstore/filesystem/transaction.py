"""A transaction of fsspec: what is written in its block shows when that ends well, and is committed then."""

import posixpath
from typing import TYPE_CHECKING

from fsspec.transaction import Transaction

from ckptstore.filesystem.location import Location

if TYPE_CHECKING:
    from collections import deque

    from ckptstore.filesystem.file import UnfinishedFile

__all__ = ["CommittingTransaction"]


class CommittingTransaction(Transaction):  # type: ignore[misc]
    """One file becomes a checkpoint by itself; of several, each directory that they lie in does, markers or not.

    Directories below others of them belong to those. Each directory is committed as a whole, one after another.
    """

    files: "deque[UnfinishedFile]"

    def complete(self, commit: bool = True) -> None:
        """Commit or discard all. Raises as `commit_folder`; what is not committed then stays staged."""
        fs, files = self.fs, list(self.files)
        try:
            shown = [file.path for file in files if commit and file.stage()]
        finally:
            super().complete(commit=False)  # takes back what isn't shown
        if len(shown) == 1 and not fs.is_marker(shown[0]):
            fs.commit(shown[0])
            return
        for folder in _outermost({_folder(path) for path in shown}):
            fs.commit(folder)


def _folder(path: str) -> str:
    """Of a file that lies in the run itself, the file: it is a checkpoint of its own."""
    place = Location.of(path)
    return str(place.beside(posixpath.dirname(place.path) or place.path))


def _outermost(folders: set[str]) -> list[str]:
    return sorted(f for f in folders if not any(f.startswith(f"{other}/") for other in folders))
