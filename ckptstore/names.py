"""Names that callers give to runs, checkpoints and tags: checked where they enter, before they are put anywhere."""

from collections.abc import Callable
from contextlib import suppress

from ckptstore.errors import UsageError
from manifests import UnsafeName, paths

RULE = "letters, digits, `.`, `_` and `-`, 64 at most, the first one a letter or a digit"

LONGEST_NAME = 255  # characters of a checkpoint's name: as many as a file's, for it may become one

__all__ = ["check_checkpoint", "check_chosen", "check_run", "check_tag", "is_run"]


def check_run(name: str) -> str:
    """`name` if a run can have it, else `UsageError`."""
    return _check(paths.check_run, name, "a run", f"a run's name is lower-case {RULE}: pretrain-7b")


def is_run(name: str) -> bool:
    """Whether a run can have this name: a person's own folders beside the runs are none."""
    try:
        paths.check_run(name)
    except UnsafeName:
        return False
    return True


def check_tag(name: str) -> str:
    """`name` if a tag can be called so, else `UsageError`."""
    return _check(paths.check_label, name, "a tag", f"a tag is {RULE}: best")


def check_checkpoint(name: str) -> str:
    """`name` if it can be read where it stands in a list, one line a checkpoint, else `UsageError`."""
    if not isinstance(name, str) or not (name.isprintable() and name.strip() and len(name) <= LONGEST_NAME):
        hint = f"a checkpoint's name is text of 1 to {LONGEST_NAME} printable characters: best"
        raise UsageError(f"{name!r:.80} can't be the name of a checkpoint", hint=hint, name=name)
    return name


def check_chosen(name: str) -> str:
    """`name` if it can be read and means nothing else where a checkpoint is asked for, else `UsageError`.

    Only for those that a person chose: under DCP they are folders, and `ckpt/1000` is found by its whole path.
    """
    meaning = _other_meaning(check_checkpoint(name))
    if meaning:
        message = f"{name!r:.80} can't be the name of a checkpoint: {meaning}"
        raise UsageError(message, hint="choose another: best, or step-7", name=name)
    return name


def _other_meaning(name: str) -> str:
    if name == "latest" or name.startswith("tag:"):
        return "asked for, it means another one"
    if name.isdecimal():
        return f"asked for, it means step {int(name)}; give that as the step"
    if "/" in name:
        return "only the last part of a path becomes one"
    with suppress(UnsafeName):
        paths.split_save(name)
        return "asked for, it means the save with that key"
    return ""


def _check(check: Callable[[str], str], name: str, what: str, rule: str) -> str:
    try:
        return check(name)
    except (UnsafeName, TypeError) as error:  # of what is no text
        raise UsageError(f"{name!r:.80} can't be the name of {what}", hint=rule, name=name) from error
