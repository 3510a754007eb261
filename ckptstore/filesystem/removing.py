"""Taking files away: at once what waits to be committed; of a checkpoint, a file by its next version, all by a mark."""

from ckptstore.filesystem.view import View, path_of
from ckptstore.protocolerrors import protocol_errors

__all__ = ["remove_file", "remove_tree"]


def remove_file(view: View, path: str) -> None:
    """A file. One of a committed directory is gone for this process, and for all with that directory's next version.

    Raises `OutOfReach`, `CommitInDoubt` where a checkpoint is to be deleted.
    """
    view.staging.take_back([path])
    left = view.entry(path)
    if left is None or left.save is None:
        return
    if path_of(left.save) == path:
        _delete(view, path)
    else:
        with view.staging.lock:
            view.staging.removed.add(path)


def remove_tree(view: View, path: str) -> None:
    """A directory and all below it: its checkpoint, and those below, get delete marks. Raises as `remove_file`."""
    staging = view.staging
    with staging.lock:
        waiting = [each for each in staging.files if each.startswith(f"{path}/")]
    staging.take_back(waiting)
    _delete(view, path)
    above = View(staging)  # what is left lies in a checkpoint of a directory above
    with staging.lock:
        staging.folders = {each for each in staging.folders if each != path and not each.startswith(f"{path}/")}
        staging.removed = {each for each in staging.removed if not each.startswith(f"{path}/")}
        staging.removed |= {each for each, entry in above.entries(path).items() if not entry.is_folder}


def _delete(view: View, path: str) -> None:
    """Mark every checkpoint at a path or below it: an older version would show where only the newest went."""
    for save in view.history.checkpoints:
        place = path_of(save)
        if place == path or place.startswith(f"{path}/"):
            with protocol_errors():
                view.opened.group.delete(view.staging.run, save.session, save.ordinal)
