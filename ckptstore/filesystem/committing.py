"""A directory becomes a checkpoint: what all processes have written below it, and what it had before.

Each file is a shard of its own, stored and noted when it was closed. The commit gathers the notes. Data of another
process belongs to a save that this one can't commit, so it is safe from prunes only while that save's register is open.
That is looked at twice: before the commit, and again when the commit is complete. A prune closes the register on every
commit target and reads the run again before it removes anything: either it sees this checkpoint, which names the data,
or the second look sees the closed register, and the checkpoint is taken back.
"""

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import msgspec
import numpy as np

from ckptstore.checkpoint import Checkpoint
from ckptstore.commit import About, Commit, check_about
from ckptstore.dtypes import OBJECT
from ckptstore.errors import CommitInDoubt, ConflictError, NotFoundError
from ckptstore.filesystem.contents import read_ranges
from ckptstore.filesystem.note import Intent, Written, find_notes, forget, put_note
from ckptstore.filesystem.staging import Staging
from ckptstore.filesystem.view import ALONE, Entry, View
from ckptstore.load.documents import fetch_record
from ckptstore.names import check_checkpoint
from ckptstore.opened import Opened
from ckptstore.operations.folder import FILES, StoredFile, files_to_bytes, whole_name
from ckptstore.placement import survives
from ckptstore.protocolerrors import protocol_errors
from ckptstore.save.copies import copies_wanted, put_copies
from ckptstore.save.shard import SavedShard
from ckptstore.save.stream import Piece, lay_out
from ckptstore.tolerance import weakest
from manifests import Manifest, Reference, TableBuilder, pack, paths
from manifests.history import order
from manifests.paths import SaveKey

MARKERS = frozenset({".metadata", "_SUCCESS", "latest"})
"""Names of the files that make a checkpoint of the directory that they are put in."""

MOST_DIGITS = 15  # of a step in a name, as for DCP's
_TRAILING_DIGITS = re.compile(r"(\d+)$")

__all__ = ["MARKERS", "commit_file", "commit_folder", "copy_file"]


def commit_folder(staging: Staging, folder: str) -> Checkpoint:
    """Commit a directory of a run: a checkpoint of that path, a new version where there is one.

    Raises `NotFoundError` where nothing waits below it, `ConflictError` where another process is committing it, or a
    prune has taken files that waited too long; `OutOfReach`, `CommitInDoubt`, `ToleranceError`. What is not committed
    stays staged.
    """
    about = _about(folder)
    check_about(staging.run, about)
    with _alone(staging, folder) as (commit, notes):
        view = View(staging)
        files = _gather(view, folder, notes)
        _carry_over(view, folder, files)
        return _commit(staging, commit, about, {path[len(folder) + 1 :]: file for path, file in files.items()})


def commit_file(staging: Staging, path: str) -> Checkpoint:
    """Commit one file that this process has written as a checkpoint of its own. Raises as `commit_folder`."""
    about = _about(path)
    check_about(staging.run, about)
    with _alone(staging, path) as (commit, _):
        view = View(staging)
        written = staging.files.get(path)
        if written is None:
            raise NotFoundError(f"{path} of run {staging.run} was committed by another process")
        _check_open(view.history.begun, staging, [written])
        return _commit(staging, commit, replace(about, user={ALONE: written.size}), {posixpath.basename(path): written})


def _about(path: str) -> About:
    name = posixpath.basename(path)
    check_checkpoint(name)
    digits = _TRAILING_DIGITS.search(name)
    return About(name, path, int(digits[1]) if digits and len(digits[1]) <= MOST_DIGITS else None)


# -- one at a time ----------------------------------------


@contextmanager
def _alone(staging: Staging, path: str) -> Iterator[tuple[Commit, list[Written]]]:
    """A save to commit in, and the files of other processes; no shard may become part of two checkpoints.

    Each says what it is about to commit before it looks who else is. Of two that see each other the one begun later
    goes on, when it has closed the other's register or found it committed. So does one that finds what a dead process
    left.
    """
    commit = staging.begin()
    opened, run, own = staging.opened, staging.run, (commit.session, commit.ordinal)
    intent = put_note(opened, run, commit.places, Intent(path, own))
    with staging.lock:
        known = [intent.note, *(written.note for written in staging.files.values())]
    try:
        notes = find_notes(opened, run, known)
        rivals = [note for note in notes if isinstance(note, Intent) and note.concerns(path)]
        for rival in rivals:
            _overtake(staging, own, rival)
        yield commit, [note for note in notes if isinstance(note, Written)]
    except CommitInDoubt:
        raise  # whoever comes next is to find out
    except BaseException:
        forget(opened, [intent.note])
        raise
    forget(opened, [intent.note, *(rival.note for rival in rivals)])


def _overtake(staging: Staging, own: SaveKey, rival: Intent) -> None:
    """Let another save commit no more. Raises `ConflictError` where it was begun later, `OutOfReach`."""
    with protocol_errors():
        if order(rival.key) > order(own):
            if rival.key not in staging.opened.group.history(staging.run).begun:
                return
            message = f"another process is committing {rival.path} of run {staging.run}"
            raise ConflictError(message, hint="let one process put the marker", run=staging.run)
        staging.opened.group.void(staging.run, *rival.key)


# -- which files ----------------------------------------


def _gather(view: View, folder: str, notes: Iterable[Written]) -> dict[str, Written]:
    """What waits below a directory, of all processes; of two files with one path that of the later save."""
    staging = view.staging
    with staging.lock:
        own = list(staging.files.values())
    taken = view.shards_in(folder)
    waiting: dict[str, Written] = {}
    for written in sorted([*own, *notes], key=lambda w: (order(w.key), w.order)):
        if written.path.startswith(f"{folder}/") and written.saved.reference.shard_id not in taken:
            waiting[written.path] = written
    if not waiting:
        message = f"nothing waits to be committed below {folder} of run {staging.run}"
        raise NotFoundError(message, hint="write its files first; what is committed already needs no commit")
    _check_open(view.history.begun, staging, waiting.values())
    return waiting


def _check_open(begun: Collection[SaveKey], staging: Staging, files: Iterable[Written]) -> None:
    gone = [written.path for written in files if written.key not in begun]
    if gone:
        staging.renew()
        message = (
            f"{', '.join(gone[:3])} of run {staging.run} waited longer than a prune's grace period, and may be gone"
        )
        raise ConflictError(message, hint="write them again, then put the marker", run=staging.run, files=gone)


def _carry_over(view: View, folder: str, files: dict[str, Written]) -> None:
    """Write again what the directory's checkpoint has that was neither written over nor taken away."""
    save = view.saves.get(folder)
    if save is None or ALONE in (save.manifest.user or {}):
        return
    with view.staging.lock:
        removed = set(view.staging.removed)
    for name in view.contents(save).files:
        path = f"{folder}/{name}"
        if path not in files and path not in removed:
            files[path] = copy_file(view, Entry(path, 0, save), view.staging, path)


def copy_file(view: View, entry: Entry, staging: Staging, path: str) -> Written:
    """Write a file's bytes again, in this run or another, a stripe at a time. Raises as a load and a save."""
    contents, file = view.open(entry)
    source = contents.source()
    writer = staging.open_file(path)
    try:
        for start in range(0, file.size, writer.stripe_bytes):
            end = min(start + writer.stripe_bytes, file.size)
            data = np.frombuffer(read_ranges(source, [(file, start, end)])[0], np.uint8)
            if end < file.size:
                writer.append(data)
            else:
                writer.finish(data)
        if not file.size:
            writer.finish(np.empty(0, np.uint8))
    except BaseException:
        writer.abandon()
        raise
    return writer.stage()


# -- the commit ----------------------------------------


def _commit(staging: Staging, commit: Commit, about: About, files: Mapping[str, Written]) -> Checkpoint:
    """Raises as `commit_folder`."""
    saved = [_called(staging.opened, commit, written, whole_name(name)) for name, written in files.items()]
    table = TableBuilder()
    for number, (name, written) in enumerate(files.items()):
        table.add(whole_name(name), "uint8", [written.size], [((0,), (written.size,), number)])
    table.add(FILES, OBJECT, (), [((), (), len(saved))])
    saved.append(_list_of_files(staging, commit, files))
    manifest = commit.finish(saved, table.build(), about)
    _check_kept(staging, manifest, files)
    staging.forget(files.values())
    with staging.lock:
        place = about.checkpoint_id
        staging.removed = {path for path in staging.removed if not path.startswith(f"{place}/")}
    return Checkpoint.of(manifest)


def _called(opened: Opened, commit: Commit, written: Written, fqn: str) -> SavedShard:
    """The shard of a file, with a record that calls the file so. Its stream calls it as it was written."""
    if written.fqn == fqn:
        return written.saved
    saved = written.saved
    record = fetch_record(saved.reference, opened.targets)
    renamed = msgspec.structs.replace(record, tensors=[msgspec.structs.replace(record.tensors[0], fqn=fqn)])
    data, measures = pack(renamed)
    path = paths.record(commit.run, record.shard_id, paths.new_token())
    count, least = copies_wanted(saved.survives.targets, commit.places), opened.config.require_tolerance + 1
    holding, _ = put_copies(path, data, count, commit.places, opened.targets, opened.executor, least=least)
    reference = msgspec.structs.replace(saved.reference, record=Reference(path=path, targets=holding, **measures))
    return replace(saved, reference=reference, survives=weakest([saved.survives, survives(holding, 1, opened.domains)]))


def _list_of_files(staging: Staging, commit: Commit, files: Mapping[str, Written]) -> SavedShard:
    """What makes it a checkpoint that was saved from files: see `operations.folder`."""
    data = files_to_bytes([StoredFile(name, {}, None) for name in files])
    piece = Piece(FILES, FILES, OBJECT, [len(data)], len(data))
    return staging.saver(commit).save(lay_out([piece]), lambda _: np.frombuffer(data, np.uint8), rank=0)


def _check_kept(staging: Staging, manifest: Manifest, files: Mapping[str, Written]) -> None:
    """The second look. Raises `ConflictError`, and then the checkpoint is deleted."""
    with protocol_errors():
        begun = staging.opened.group.history(staging.run).begun
    try:
        _check_open(begun, staging, files.values())
    except ConflictError:
        with protocol_errors():
            staging.opened.group.delete(staging.run, manifest.session, manifest.ordinal)
        raise
