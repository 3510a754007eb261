"""Which checkpoints a run keeps, and for how long what was deleted can be taken back: the settings."""

import re

import msgspec

from ckptstore.errors import ConfigError

__all__ = ["Retention", "parse_duration"]

_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*(s|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class Retention(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Rules of what to keep: a checkpoint that any of them names is kept, and so is every one that has a tag.

    keep_last    so many of the newest without a tag
    keep_every   those whose step is a multiple of this
    keep_within  those committed so long ago or less: "7d"; s, m, h, d, w
    keep_tags    those with one of these tags
    grace        for how long a deleted checkpoint keeps its data, by the clocks of the targets
    automatic    prune after every save by these rules

    Raises `ConfigError` naming the key.
    """

    keep_last: int | None = None
    keep_every: int | None = None
    keep_within: str | None = None
    keep_tags: list[str] = []
    grace: str = "24h"
    automatic: bool = False

    def __post_init__(self) -> None:
        for key, number, least in (("keep_last", self.keep_last, 0), ("keep_every", self.keep_every, 1)):
            if number is not None and number < least:
                raise ConfigError(f"retention.{key} = {number}: {least} or more is wanted", key=f"retention.{key}")
        parse_duration(self.grace, "retention.grace")
        if self.keep_within is not None:
            parse_duration(self.keep_within, "retention.keep_within")
        if self.automatic and not self.has_rules:
            message = "retention.automatic: there is no rule of what to keep"
            raise ConfigError(message, key="retention.automatic", hint="set keep_last, keep_every or keep_within")

    @property
    def has_rules(self) -> bool:
        """Whether anything is said of what to keep: without, nothing is ever deleted."""
        return bool(self.keep_tags) or (self.keep_last, self.keep_every, self.keep_within) != (None, None, None)

    @property
    def grace_seconds(self) -> float:
        """The grace period in seconds."""
        return parse_duration(self.grace, "retention.grace")


def parse_duration(text: str, key: str) -> float:
    """Seconds of `90s`, `30m`, `24h`, `7d`, `2w`, or `0`."""
    if text.strip() == "0":
        return 0.0
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        message = f"{key} = {text!r}: a number with one of {', '.join(_SECONDS)} is wanted, as in '24h'"
        raise ConfigError(message, key=key)
    return float(match[1]) * _SECONDS[match[2]]
