"""What stands in a target where an object must be, and is none: no repair puts anything over it, people can remove it.

Known by its path alone, so that all of it is told at once: one after the other would take a repair for each.
"""

import re
from typing import NamedTuple

from ckptstore.errors import TargetError
from ckptstore.opened import Opened
from ckptstore.targets import Target
from manifests import paths

_RUN, _NAME, _NUMBER = "[a-z0-9][a-z0-9._-]*", "[A-Za-z0-9][A-Za-z0-9._-]*", "[0-9]{6,9}"
_VOTES = rf"runs/{_RUN}/commit/{_NAME}"
_MANY = (paths.MANIFESTS, paths.MARKS)
_OF_SAVES = "|".join(_MANY)  # several of each save, so each save has a folder there
_OTHERS = "|".join(folder for folder in paths.FOLDERS if folder not in _MANY)
_OBJECTS = (
    re.escape(paths.IDENTITY),
    rf"{paths.INCARNATIONS}{_NUMBER}\.json",
    rf"data/[0-9a-f]{{2}}/{_RUN}/{_NAME}/{_NUMBER}\.[0-9]{{3}}",
    rf"runs/{_RUN}/(index|shards)/{_NAME}",
    rf"{_VOTES}/({_OF_SAVES})/{_NAME}/{_NAME}",
    rf"{_VOTES}/({_OTHERS})/{_NAME}",
)
_FOLDERS = (
    paths.INCARNATIONS.rstrip("/"),
    rf"data(/[0-9a-f]{{2}}(/{_RUN}(/{_NAME})?)?)?",
    rf"runs(/{_RUN}(/(index|shards|commit))?)?",
    rf"{_VOTES}(/({_OTHERS}|({_OF_SAVES})(/{_NAME})?))?",
)
_OBJECT = re.compile("|".join(_OBJECTS))
_FOLDER = re.compile("|".join(_FOLDERS))

__all__ = ["Obstacle", "obstacles"]


class Obstacle(NamedTuple):
    """Something that must be removed: its `path` on the target, where that is on this machine, and what it is."""

    target: str
    path: str
    place: str
    kind: str


def obstacles(opened: Opened) -> list[Obstacle]:
    """All that stand in the way on targets in reach."""
    replies = opened.on_targets(_on).values()
    return [found for reply in replies if not isinstance(reply, TargetError) for found in reply]


def _on(target: Target) -> list[Obstacle]:
    root = target.url.removeprefix("file://")
    found = sorted((path, kind) for path, kind in target.kinds() if _is_in_the_way(path, kind))
    return [Obstacle(target.name, path, f"{root}/{path}", kind) for path, kind in found]


def _is_in_the_way(path: str, kind: str) -> bool:
    if kind == "a file":
        return _FOLDER.fullmatch(path) is not None
    if kind == "a folder":
        return _OBJECT.fullmatch(path) is not None
    return (_OBJECT.fullmatch(path) or _FOLDER.fullmatch(path)) is not None
