"""Which runs a store holds, and which of them are on a target.

Members are the store's, checkpoints are each run's: once a repair of one run has put a new member in the place of an
old one, the checkpoints of all other runs are where they were.
"""

from collections.abc import Collection

from ckptstore.errors import CkptStoreError, CorruptError, NotFoundError, TargetError
from ckptstore.load.documents import fetch_document, fetch_record
from ckptstore.names import is_run
from ckptstore.opened import Opened
from ckptstore.operations.health import recoverable
from ckptstore.selection import history_of
from ckptstore.tolerance import homes_of
from manifests import Checkpoint, History, Index, paths

__all__ = ["list_runs", "runs_on", "targets_of"]


def list_runs(opened: Opened) -> list[str]:
    """The names of all runs that any target in reach holds. Raises `TargetError` where none answers."""
    found = opened.on_targets(lambda target: target.list_folders(paths.RUNS))
    errors = [names for names in found.values() if isinstance(names, TargetError)]
    if len(errors) == len(found):
        raise errors[0]
    listed = {name for names in found.values() if not isinstance(names, TargetError) for name in names}
    return sorted(name for name in listed if is_run(name))


def runs_on(opened: Opened, names: Collection[str]) -> dict[str, list[str]]:
    """Which runs have checkpoints on each of the targets named: live ones, or such as could be undeleted.

    A run of which that can't be told is taken to be on all of them. Targets that none is on are left out. Raises as
    `list_runs`.
    """
    found: dict[str, list[str]] = {}
    for run in list_runs(opened) if names else ():
        for name in _of_these(opened, run, names):
            found.setdefault(name, []).append(run)
    return found


def _of_these(opened: Opened, run: str, names: Collection[str]) -> Collection[str]:
    try:
        on, certain = targets_of(opened, history_of(opened, run))
    except NotFoundError:
        return ()
    except CkptStoreError:
        return names
    return [name for name in names if name in on or not certain]


def targets_of(opened: Opened, history: History) -> tuple[set[str], bool]:
    """The targets that a run's checkpoints are on, as their newest versions say; and whether those are all.

    What is damaged beyond reading is lost, wherever its fragments are, and on none.
    """
    found: set[str] = set()
    certain = not any(problem.newer for problem in history.problems)
    for checkpoint in (*history.checkpoints, *recoverable(history)):
        try:
            _add_targets(opened, checkpoint, found)
        except CorruptError:
            continue
        except CkptStoreError:
            certain = False
    return found, certain


def _add_targets(opened: Opened, checkpoint: Checkpoint, found: set[str]) -> None:
    for copy in checkpoint.manifest.copies:
        index = fetch_document(Index, copy.index, opened.targets)
        found.update(copy.index.targets)
        for shard in index.shards:
            found |= homes_of(fetch_record(shard, opened.targets))
            found.update(shard.record.targets)
