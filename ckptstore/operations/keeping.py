"""Which checkpoints of a run the rules keep, and why. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ckptstore.errors import NotFoundError, UsageError
from ckptstore.retention import Retention, parse_duration
from manifests import Checkpoint
from manifests.paths import SaveKey

_KEEP_SOME = (
    "keep some, as with --keep-last 1; to delete all that has no tag: --unsafe-allow-remove-all, in Python "
    "unsafe_allow_remove_all=True"
)

__all__ = ["Choice", "choose"]


@dataclass(frozen=True)
class Choice:
    """One live checkpoint: kept for `reasons`, or to be deleted where there are none. `counts`: for `keep_last`."""

    checkpoint: Checkpoint
    reasons: tuple[str, ...]
    counts: bool = False

    @property
    def keep(self) -> bool:
        """Whether it stays."""
        return bool(self.reasons)


def choose(
    checkpoints: Sequence[Checkpoint],
    rules: Retention,
    ages: Mapping[SaveKey, float],
    used: Collection[SaveKey] = (),
    lost: Collection[SaveKey] = (),
    *,
    allow_nothing: bool = False,
    strict_tags: bool = True,
) -> list[Choice]:
    """Apply the rules to the live checkpoints of a run, oldest first; `ages` are their seconds since the commit.

    `used`: saves whose data others use. `lost`: saves that are kept and don't count. Tags pin, and don't use up
    `keep_last`. The latest is always kept, but by rules that can keep nothing: those take `allow_nothing`, and raise
    `UsageError` without. `NotFoundError` for a tag that no checkpoint has, if `strict_tags`.
    """
    if not (rules.can_keep or allow_nothing):
        raise UsageError("these rules can keep nothing, whatever there is", hint=_KEEP_SOME)
    if strict_tags:
        _refuse_unknown_tags(checkpoints, rules)
    free = [c.key for c in checkpoints if not c.tags and c.key not in lost]
    newest = set(free[-rules.keep_last :]) if rules.keep_last else set()
    reasons = {c.key: _reasons(c, rules, newest, ages[c.key]) for c in checkpoints}
    if checkpoints and rules.can_keep:
        reasons[checkpoints[-1].key] = reasons[checkpoints[-1].key] or ["the latest"]
    for keys, reason in ((used, "its data is used by another"), (lost, "lost: counts for no rule, see ckpt verify")):
        for key in reasons.keys() & keys:
            reasons[key].append(reason)
    return [Choice(c, tuple(reasons[c.key]), c.key in newest) for c in checkpoints]


def _refuse_unknown_tags(checkpoints: Sequence[Checkpoint], rules: Retention) -> None:
    tags = {tag for checkpoint in checkpoints for tag in checkpoint.tags}
    if unknown := sorted(set(rules.keep_tags) - tags):
        there = ", ".join(sorted(tags)) or "none"
        message = f"no checkpoint has the tag {', '.join(unknown)}; there are: {there}"
        raise NotFoundError(message, hint="see them: ckpt ls")


def _reasons(checkpoint: Checkpoint, rules: Retention, newest: Collection[SaveKey], age: float) -> list[str]:
    found = [f"tag {tag}" for tag in checkpoint.tags]
    step = checkpoint.manifest.step
    if checkpoint.key in newest:
        found.append(f"one of the last {rules.keep_last}")
    if rules.keep_every is not None and step is not None and step % rules.keep_every == 0:
        found.append(f"step {step} is a multiple of {rules.keep_every}")
    if rules.keep_within is not None and age <= parse_duration(rules.keep_within, "keep_within"):
        found.append(f"not older than {rules.keep_within}")
    return found
