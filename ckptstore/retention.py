"""Which checkpoints a run keeps, and for how long what was deleted can be taken back: the settings."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypedDict

import msgspec

from ckptstore.arguments import check_types, is_whole
from ckptstore.durations import LONGEST, seconds_in
from ckptstore.errors import ConfigError, UsageError

__all__ = ["Keep", "Retention", "parse_duration", "rules_for"]


class Retention(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Rules of what to keep: a checkpoint that any of them names is kept, and so is every one that has a tag.

    keep_last    so many of the newest without a tag
    keep_every   those whose step is a multiple of this
    keep_within  those committed so long ago or less: "7d", "1h30m"; w, d, h, m, s
    keep_tags    those with one of these tags; alone: those with any tag, and no other
    grace        for how long a deleted checkpoint keeps its data, by the clocks of the targets
    automatic    prune after every save by these rules
    read_data    before anything is deleted read every byte of what will be the latest, not only a sample

    Raises `ConfigError` naming the key.
    """

    keep_last: int | None = None
    keep_every: int | None = None
    keep_within: str | None = None
    keep_tags: list[str] = []
    grace: str = "24h"
    automatic: bool = False
    read_data: bool = False

    def __post_init__(self) -> None:
        for key, number, least in (("keep_last", self.keep_last, 0), ("keep_every", self.keep_every, 1)):
            if number is not None and not (is_whole(number) and number >= least):
                raise _wrong(key, number, f"a whole number, {least} or more, is wanted", f"leave {key} out for no rule")
        if type(self.keep_tags) is not list:
            raise _wrong("keep_tags", self.keep_tags, "a list of tags is wanted", "keep_tags = ['best'], say")
        parse_duration(self.grace, "grace")
        if self.keep_within is not None:
            parse_duration(self.keep_within, "keep_within")
        check_types(self, "retention.")
        if self.automatic and not self.can_keep:
            message = "retention.automatic: there is no rule that keeps anything"
            raise ConfigError(message, key="retention.automatic", hint="set keep_last, keep_every or keep_within")

    @property
    def has_rules(self) -> bool:
        """Whether anything is said of what to keep: without, nothing is ever deleted."""
        return bool(self.keep_tags) or (self.keep_last, self.keep_every, self.keep_within) != (None, None, None)

    @property
    def can_keep(self) -> bool:
        """Whether there is a rule that some checkpoint may meet. `keep_last = 0` alone is none."""
        within = self.keep_within is not None and parse_duration(self.keep_within, "keep_within") > 0
        return bool(self.keep_last or self.keep_every or self.keep_tags or within)

    @property
    def grace_seconds(self) -> float:
        """The grace period in seconds."""
        return parse_duration(self.grace, "grace")


class Keep(TypedDict, total=False):
    """Rules as keywords: those of `Retention`, for one prune."""

    keep_last: int | None
    keep_every: int | None
    keep_within: str | None
    keep_tags: Sequence[str]
    grace: str | None


def rules_for(settings: Retention, rules: Retention | None, keep: Keep, *, sweep_only: bool = False) -> Retention:
    """What is to count for one prune: the rules given, as a whole or by keywords, else the settings'.

    A `grace` alone changes that of the settings. Raises `UsageError` for what can't be a rule: it is the caller's slip.
    """
    given: dict[str, Any] = {key: value for key, value in keep.items() if value not in (None, [], ())}
    if isinstance(given.get("keep_tags"), tuple):
        given["keep_tags"] = list(given["keep_tags"])
    named = sorted(given.keys() - {"grace"})
    _refuse_contradictions(rules, given, named, sweep_only=sweep_only)
    if rules is not None:
        return rules
    if not named:
        given = {key: getattr(settings, key) for key in Keep.__optional_keys__} | given
    return _made_of({"grace": settings.grace, **given})


def _refuse_contradictions(
    rules: Retention | None, given: Collection[str], named: Sequence[str], *, sweep_only: bool
) -> None:
    if rules is not None and not isinstance(rules, Retention):
        raise UsageError(f"the rules are a {type(rules).__name__}: a Retention is wanted", hint=_EXAMPLE)
    if rules is not None and given:
        raise UsageError(f"a Retention is given and {', '.join(given)} beside it", hint=_EXAMPLE)
    if sweep_only and (named or (rules is not None and rules.has_rules)):
        message = f"sweep_only deletes nothing that is live, {' and '.join(named) or 'a Retention with rules'} would"
        raise UsageError(message, hint="leave one of them out", conflict=named)


def _made_of(given: Mapping[str, Any]) -> Retention:
    try:
        return Retention(**given)
    except TypeError as error:
        message = f"{', '.join(sorted(given))}: the rules are {', '.join(sorted(Keep.__optional_keys__))}"
        raise UsageError(message, hint=_EXAMPLE) from error
    except ConfigError as error:
        told = error.fields.keys() >= {"setting", "value", "wanted"}
        message = f"{error.setting} = {error.value!r}: {error.wanted}" if told else error.message
        raise UsageError(message, hint=error.hint, **error.fields) from error


_EXAMPLE = "run.prune(keep_last=3), or run.prune(ckptstore.Retention(keep_last=3)); see docs/configuration.md"


def parse_duration(text: str, key: str) -> float:
    """Seconds of `90s`, `1h30m`, `24h`, `7d`, `2w`, or `0`. Raises `ConfigError` for the key of `[retention]`."""
    seconds = 0.0 if isinstance(text, str) and text.strip() == "0" else seconds_in(text)
    if seconds is None:
        raise _wrong(key, text, "a number with one of s, m, h, d, w is wanted, as in '24h'", f"{key} = '7d', say")
    if seconds > LONGEST:
        raise _wrong(key, text, "at most 36500d (100 years) is wanted", f"{key} = '3650d', say")
    return seconds


def _wrong(key: str, value: object, wanted: str, hint: str) -> ConfigError:
    message = f"retention.{key} = {value!r}: {wanted}"
    return ConfigError(message, hint=hint, key=f"retention.{key}", setting=key, value=value, wanted=wanted)
