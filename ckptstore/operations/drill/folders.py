"""The folders that a drill writes to: never in a target, nor over anything that is there."""

import os
from pathlib import Path

from ckptstore.config import Config
from ckptstore.errors import UsageError
from ckptstore.targets.opening import locate

__all__ = ["make_folders"]


def make_folders(config: Config, scratch: Path | None, report_dir: Path | None) -> None:
    """Make the folders, so that a drill of an hour doesn't end with an error about them.

    Raises `UsageError` where they are inside a target, or where the scratch folder holds anything.
    """
    for key, folder in (("scratch", scratch), ("report_dir", report_dir)):
        if folder is None:
            continue
        _check_outside(config, key, folder)
        folder.mkdir(parents=True, exist_ok=True)
        if key == "scratch" and any(folder.iterdir()):
            message = f"scratch folder {folder} holds something already"
            raise UsageError(message, hint="name an empty folder, or one that isn't there yet", key=key)


def _check_outside(config: Config, key: str, folder: Path) -> None:
    inside = Path(os.path.realpath(folder)).parts
    for spec in config.targets:
        place = locate(spec.name, spec.url, spec.options, folder=config.folder)
        if place.service == ("file",) and inside[: len(place.parts)] == place.parts:
            message = f"{key} {folder} is inside target {spec.name}, {place}: a drill changes no target"
            raise UsageError(message, hint="name a folder outside all targets", key=key)
