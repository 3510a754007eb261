"""Which checkpoint is meant: latest, a step, a name, a tag, or a key; decided from a run's history alone."""

import os
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import manifests
from ckptstore.errors import (
    AccessDenied,
    CkptStoreError,
    CorruptError,
    DataLost,
    NotFoundError,
    OutOfReach,
    TargetError,
    UsageError,
)
from ckptstore.opened import Opened
from ckptstore.protocolerrors import protocol_errors
from manifests import Checkpoint, History, Manifest, Problem, paths
from manifests.paths import SaveKey

__all__ = [
    "Selector",
    "history_for",
    "history_of",
    "key_of",
    "live",
    "refuse_lost_votes",
    "select",
    "select_all",
    "select_deleted",
    "select_from",
    "select_tagged",
    "select_unreadable",
]

SEEN = 10
"""The newest of those seen, which an error names."""


@dataclass(frozen=True)
class Selector:
    """What is asked for; nothing set means the latest. A name that several live saves have means the newest of them."""

    step: int | None = None
    name: str | None = None
    tag: str | None = None
    key: str | None = None
    path: str | None = None

    @classmethod
    def of_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str] | None) -> "Selector":
        """DCP's way of naming one: the last component is the name; none, or "latest", is the latest.

        Where there is more than the name, all of it must be what the checkpoint was saved under: `a/step-1` is not
        `b/step-1`. One that was saved under its bare name is found by any path that ends in it.
        """
        if not isinstance(checkpoint_id, str | os.PathLike | None):
            raise UsageError(f"a checkpoint's name is text, not {type(checkpoint_id).__name__}", hint='name="best"')
        text = os.fspath(checkpoint_id).rstrip("/") if checkpoint_id is not None else ""
        selector = cls.parse(text.rpartition("/")[2] or "latest")
        return replace(selector, path=text) if "/" in text else selector

    @classmethod
    def parse(cls, text: str) -> "Selector":
        """`latest`, `tag:best`, a name, or a key (`000001.<random>.000007`)."""
        if text == "latest":
            return cls()
        if text.startswith("tag:"):
            return cls(tag=text.removeprefix("tag:"))
        return cls(name=text)

    def __str__(self) -> str:
        asked = {"step": self.step, "name": self.path or self.name, "tag": self.tag, "key": self.key}
        return ", ".join(f"{what} {value}" for what, value in asked.items() if value is not None) or "latest"


def select(opened: Opened, run: str, selector: Selector) -> Manifest:
    """Read the run's history and decide. Raises `NotFoundError`, naming what there is, and as `history_for`."""
    history = history_for(opened, run, selector)
    try:
        return select_from(history, selector).manifest
    except NotFoundError:
        refuse_lost_votes(opened, history)
        raise


def history_for(opened: Opened, run: str, selector: Selector) -> History:
    """What a run holds, to choose from. Raises `OutOfReach`, `AccessDenied`, and `DataLost` where votes are lost.

    Where too few commit targets answer to be sure, one that is asked for by step, name, tag or key is chosen from what
    is seen, with a warning: its data was durable before its manifest was put. The latest is not guessed at.
    """
    try:
        with protocol_errors():
            return opened.group.history(run)
    except (OutOfReach, AccessDenied, DataLost) as error:
        seen = _seen(opened, run, error)
        if seen is None or selector == Selector():
            raise
        warnings.warn(f"{error.message}: a newer {selector}, or that it was deleted, may not be seen", stacklevel=3)
        return seen


def history_of(opened: Opened, run: str) -> History:
    """What a run holds. Raises `OutOfReach`, `AccessDenied`, and `CorruptError` as `refuse_lost_votes`."""
    history = history_for(opened, run, Selector())
    refuse_lost_votes(opened, history)
    return history


def _seen(opened: Opened, run: str, error: CkptStoreError) -> History | None:
    """What is seen of a run that can't be read: the error's hint says so, for it can be loaded, and copied away."""
    with suppress(manifests.ManifestError):
        seen = opened.group.glimpse(run)
        names = [checkpoint.manifest.name or key_of(checkpoint) for checkpoint in seen.checkpoints[-SEEN:]]
        if names:
            error.hint = f"{error.hint}; what is seen loads, and is copied, by its name: {', '.join(names)}"
        return seen
    return None


def live(history: History) -> Sequence[Checkpoint]:
    """The live checkpoints, oldest first. Raises `CorruptError` where none can be read, and there is one: not none."""
    unreadable = [problem for problem in history.problems if problem.fatal]
    if unreadable and not history.checkpoints:
        raise _not_readable(history, Selector(), unreadable)
    return history.checkpoints


def refuse_lost_votes(opened: Opened, history: History) -> None:
    """Raise `CorruptError` where a run has indexes and records and not one vote: it is no run that never saved."""
    if _has_votes(history):
        return
    found = opened.on_targets(lambda target: target.list_folders(f"{paths.RUNS}{history.run}/"))
    holding = [n for n, names in found.items() if not isinstance(names, TargetError) and {"index", "shards"} & {*names}]
    with protocol_errors():  # a first save may have begun meanwhile: it votes before it writes
        holding = [] if holding and _has_votes(opened.group.history(history.run)) else holding
    if holding:
        message = f"run {history.run} has data on {', '.join(holding)}, but every record of its saves is gone"
        hint = f"put back what was removed below {paths.RUNS}{history.run}/commit/ on the commit targets"
        raise CorruptError(message, hint=hint, run=history.run)


def _has_votes(history: History) -> bool:
    return bool(history.sessions or history.begun or history.checkpoints or history.deleted or history.problems)


def select_from(history: History, selector: Selector) -> Checkpoint:
    """The newest live checkpoint that matches. Raises `NotFoundError`, and `CorruptError` where it may be unreadable.

    Where a later save than those that could be read may be the latest, and the latest is asked for, it is refused:
    `CorruptError`, or `UsageError` where a newer release wrote that save.
    """
    if selector == Selector() and history.latest_in_doubt is not None:
        raise _in_doubt(history, history.latest_in_doubt)
    matching = [checkpoint for checkpoint in history.checkpoints if _matches(checkpoint, selector)]
    if matching:
        return matching[-1]
    raise _not_found(history, selector)


def select_deleted(history: History, selector: Selector) -> Checkpoint:
    """The newest deleted checkpoint that matches. Raises `NotFoundError`."""
    matching = [checkpoint for checkpoint in history.deleted if _matches(checkpoint, selector)]
    if matching:
        return matching[-1]
    message = f"run {history.run} has no deleted checkpoint {selector}"
    raise NotFoundError(message, hint=f"see what was deleted: ckpt ls --deleted --run {history.run}", run=history.run)


def select_unreadable(history: History, selector: Selector) -> SaveKey | None:
    """The save with that key of which no manifest can be read, or None."""
    keys = [key for key in history.unreadable if paths.save_name(*key) in (selector.key, selector.name)]
    return keys[0] if keys else None


def select_tagged(history: History, tag: str) -> Checkpoint:
    """The checkpoint with a tag, a live one before a deleted one. Raises `NotFoundError`."""
    deleted = [checkpoint for checkpoint in history.deleted if tag in checkpoint.tags]
    if deleted and tag not in history.tags:
        return deleted[-1]
    return select_from(history, Selector(tag=tag))


def select_all(history: History, selector: Selector | None) -> list[Checkpoint]:
    """All live checkpoints where nothing is asked for, else the one that is. Raises `NotFoundError` where none is."""
    if selector is not None:
        return [select_from(history, selector)]
    if not history.checkpoints:
        raise _not_found(history, Selector())
    return list(history.checkpoints)


def key_of(saved: Checkpoint | Manifest) -> str:
    """A checkpoint's name inside its run, that no other save ever has."""
    return paths.save_name(saved.session, saved.ordinal)


def _matches(checkpoint: Checkpoint, selector: Selector) -> bool:
    manifest = checkpoint.manifest
    return (
        selector.step in (None, manifest.step)
        and selector.name in (None, manifest.name, key_of(checkpoint))
        and (selector.tag is None or selector.tag in checkpoint.tags)
        and selector.key in (None, key_of(checkpoint))
        and (selector.path is None or _is_saved_under(manifest, selector.path))
    )


def _is_saved_under(manifest: Manifest, path: str) -> bool:
    saved = (manifest.checkpoint_id or "").rstrip("/")
    return saved == path or "/" not in saved


def _in_doubt(history: History, problem: Problem) -> CkptStoreError:
    assert problem.save is not None, "it is about the save that may be the latest"
    key = paths.save_name(*problem.save)
    older = [checkpoint.manifest for checkpoint in history.checkpoints if checkpoint.key != problem.save]
    message = f"whether save {key} of run {history.run} is the latest can't be told: {problem.message}"
    instead = f"; or load an older one: {_named(older[-1])}" if older else ""
    fields = {"run": history.run, "key": key}
    if problem.newer:
        return UsageError(message, hint=f"upgrade ckptstore: a newer release wrote it{instead}", **fields)
    return CorruptError(message, hint=f"run: ckpt repair{instead}", **fields)


def _named(manifest: Manifest) -> str:
    return f"--name {key_of(manifest)}" if manifest.step is None else f"--step {manifest.step}"


def _not_found(history: History, selector: Selector) -> CkptStoreError:
    names = [checkpoint.manifest.name or key_of(checkpoint) for checkpoint in history.checkpoints]
    deleted = [c for c in history.deleted if _matches(c, selector)]
    there = f"it holds {', '.join(names[-5:])}" if names else "it holds none"
    asked = "checkpoints" if selector == Selector() else f"checkpoint {selector}"
    message = f"run {history.run} has no {asked}: {there}"
    if deleted:
        hint = f"it is marked deleted; take the mark back: ckpt undelete {key_of(deleted[-1])} --run {history.run}"
        return NotFoundError(message, hint=hint, run=history.run)
    if unreadable := [problem for problem in history.problems if problem.fatal]:
        return _not_readable(history, selector, unreadable)
    look = f"ckpt ls --run {history.run}" if names else "ckpt ls --all-runs"
    if history.begun:
        message += f"; {len(history.begun)} begun and not committed"
        look = look if names else f"ckpt log --run {history.run}"
    return NotFoundError(message, hint=f"run: {look}", run=history.run)


def _not_readable(history: History, selector: Selector, unreadable: Sequence[Problem]) -> CkptStoreError:
    """What is asked for may be there: it is no reason to start anew."""
    causes = "; ".join(problem.message for problem in unreadable[:3])
    message = f"whether run {history.run} has {selector} can't be told, not all of it is readable: {causes}"
    if any(problem.newer for problem in unreadable):
        return UsageError(message, hint="upgrade ckptstore: a newer release wrote it", run=history.run)
    return CorruptError(message, hint=f"run: ckpt repair --run {history.run}", run=history.run)
