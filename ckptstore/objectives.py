"""What a store is to achieve, as `[objectives]` of store.toml says it; `ckpt drill` finds out whether it does."""

import msgspec

from ckptstore.arguments import check_types, is_number, is_whole
from ckptstore.durations import LONGEST, seconds_in
from ckptstore.errors import ConfigError

__all__ = ["Objectives", "parse_time"]


class Objectives(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What is promised to those whose training runs are stored here; nothing is, where it is left out.

    rpo              the newest checkpoint that comes back is no older: "1h"
    rto              it has come back after so long: "15m"
    survive          with so many targets lost, whichever they are
    survive_domains  with so many domains lost, whichever they are

    Durations are "90s", "15m", "1h30m", "2d" or a number of seconds, above 0. Raises `ConfigError` naming the key. What
    the layout can't keep is no error here, since old stores must open: `ckpt doctor` and `ckpt drill` say so.
    """

    rpo: str | float | None = None
    rto: str | float | None = None
    survive: int | None = None
    survive_domains: int | None = None

    def __post_init__(self) -> None:
        for key, time in (("rpo", self.rpo), ("rto", self.rto)):
            if time is not None:
                parse_time(time, f"objectives.{key}")
        for key, count in (("survive", self.survive), ("survive_domains", self.survive_domains)):
            if count is not None and not (is_whole(count) and count >= 0):
                message = f"objectives.{key} = {count!r}: a whole number, 0 or more, is wanted"
                raise ConfigError(message, key=f"objectives.{key}", hint=f"leave {key} out for no objective")
        check_types(self, "objectives.")

    @property
    def rpo_seconds(self) -> float | None:
        """How old the newest checkpoint that comes back may be, in seconds."""
        return None if self.rpo is None else parse_time(self.rpo, "objectives.rpo")

    @property
    def rto_seconds(self) -> float | None:
        """How long a restore may take, in seconds."""
        return None if self.rto is None else parse_time(self.rto, "objectives.rto")


def parse_time(time: str | float, key: str) -> float:
    """Seconds of `90s`, `15m`, `1h30m`, `2d`, or of a number of seconds. Raises `ConfigError` naming `key`."""
    seconds = float(time) if is_number(time) else seconds_in(time)
    if seconds is None or not 0 < seconds <= LONGEST:
        wanted = "a duration above 0 and at most 36500d is wanted, as in '90s', '15m', '1h30m', '2d', or seconds"
        raise ConfigError(f"{key} = {time!r:.80}: {wanted}", key=key, hint=f"{key.rpartition('.')[2]} = '15m', say")
    return seconds
