"""Names that callers give to runs and tags: checked where they enter, before they become part of an object's name."""

from collections.abc import Callable

from ckptstore.errors import UsageError
from manifests import UnsafeName, paths

RULE = "letters, digits, `.`, `_` and `-`, 64 at most, the first one a letter or a digit"

__all__ = ["check_run", "check_tag", "is_run"]


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


def _check(check: Callable[[str], str], name: str, what: str, rule: str) -> str:
    try:
        return check(name)
    except (UnsafeName, TypeError) as error:  # of what is no text
        raise UsageError(f"{name!r:.80} can't be the name of {what}", hint=rule, name=name) from error
