"""Files that somebody else's folder names: each is looked for inside that folder, and nowhere else."""

from pathlib import Path

from ckptstore.errors import UnsupportedValue

__all__ = ["check_inside", "file_named"]


def file_named(folder: Path, name: str, said_by: str) -> Path:
    """The file of a plain name in `folder`. Raises `UnsupportedValue` for a path that leads elsewhere or to nothing."""
    if name in {"", ".", ".."} or any(sign in name for sign in "/\\\0"):
        hint = "it names files beside it, by name alone"
        raise UnsupportedValue(f"{said_by} names {name!r:.100}, which is no file's name", key=name, hint=hint)
    path = folder / name
    check_inside(folder, path)
    if not path.is_file():
        hint = "fetch the whole folder again"
        raise UnsupportedValue(f"{said_by} names {name!r:.100}, and there is no such file", key=name, hint=hint)
    return path


def check_inside(folder: Path, path: Path) -> None:
    """Raise `UnsupportedValue` where a link on the way to `path` leads out of `folder`.

    A snapshot in the cache of the Hugging Face hub, `…/snapshots/<revision>`, holds links into `…/blobs`: those count
    as inside.
    """
    root, real = folder.resolve(), path.resolve()
    blobs = root.parent.parent / "blobs"
    in_cache = root.parent.name == "snapshots" and real.is_relative_to(blobs)
    if not (real.is_relative_to(root) or in_cache):
        hint = "put a copy of the file in its place"
        raise UnsupportedValue(f"{path} is a link that leads out of {folder}", key=path.name, hint=hint)
