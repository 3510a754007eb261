"""What a round of a drill does to the store, as it is asked for: by options, by a scenario file, or in Python."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from ckptstore.arguments import check_types, is_whole
from ckptstore.config import Config, parse_size
from ckptstore.errors import ConfigError, UsageError
from ckptstore.objectives import parse_time

__all__ = ["Naming", "Round", "check_round"]

Naming = Callable[[str], str]
"""How a field was given: as an option, or as a key of a file."""


class Round(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One round: all of it is done to the store at once, then the checkpoints are restored.

    name          for people
    lose          so many targets are out of reach: the set that leaves least, or one drawn if `random`
    lose_any_domains  likewise so many whole domains
    lose_targets, lose_domains  these are out of reach
    empty         these answer, and have nothing: replaced disks
    corrupt       everything read from these has flipped bits
    slow          seconds that each request to these takes longer: {c = "0.5s"}
    throttle      bytes a second that these give: {d = "10MiB"}
    """

    name: str = ""
    lose: int | None = None
    lose_any_domains: int | None = None
    random: bool = False
    lose_targets: list[str] = []
    lose_domains: list[str] = []
    empty: list[str] = []
    corrupt: list[str] = []
    slow: dict[str, str | float] = {}
    throttle: dict[str, str | int] = {}

    def __post_init__(self) -> None:
        check_types(self)


def check_round(asked: Round, config: Config, name: Naming = str) -> None:
    """Raise `UsageError` for what isn't of this store or can't be, naming the field as `name` has it."""
    if not isinstance(asked, Round):
        raise UsageError(f"a round of a drill is a Round, not a {type(asked).__name__}", hint="rounds=[Round(lose=2)]")
    targets = [place.target for place in config.places]
    domains = sorted({place.domain for place in config.places})
    for field in ("lose_targets", "empty", "corrupt", "slow", "throttle"):
        _check_known(getattr(asked, field), targets, "target", name(field))
    _check_known(asked.lose_domains, domains, "domain", name("lose_domains"))
    _check_count(asked.lose, len(targets), "targets", name("lose"))
    _check_count(asked.lose_any_domains, len(domains), "domains", name("lose_any_domains"))
    _check_amounts(asked, name)
    _check_together(asked, config, name)


def _check_known(named: Iterable[str], known: Sequence[str], what: str, field: str) -> None:
    unknown = sorted(set(named) - set(known))
    if unknown:
        message = f"{field}: the store has no {what} {unknown[0]!r:.80}; it has {', '.join(known)}"
        raise UsageError(message, hint="its targets and domains: ckpt doctor", key=field)


def _check_count(count: int | None, most: int, what: str, field: str) -> None:
    if count is not None and not (is_whole(count) and 0 <= count <= most):
        raise UsageError(f"{field} = {count}: 0 to {most} are wanted, the store has {most} {what}", key=field)


def _check_amounts(asked: Round, name: Naming) -> None:
    try:
        for target, seconds in asked.slow.items():
            parse_time(seconds, f"{name('slow')} {target}")
        rates = {target: parse_size(rate, f"{name('throttle')} {target}") for target, rate in asked.throttle.items()}
    except ConfigError as error:
        raise UsageError(error.message, hint=error.hint or "as in a = '10MiB'", **error.fields) from error
    for target, rate in rates.items():
        if rate < 1:
            raise UsageError(f"{name('throttle')} {target} = {rate}: 1 byte a second or more is wanted", key="throttle")


def _check_together(asked: Round, config: Config, name: Naming) -> None:
    """A target can't be two things at once, and of several ways to choose a set one is wanted."""
    if asked.lose is not None and asked.lose_any_domains is not None:
        message = f"{name('lose')} and {name('lose_any_domains')} choose two sets"
        raise UsageError(message, hint="make two rounds of it", key=name("lose"))
    if asked.random and asked.lose is None and asked.lose_any_domains is None:
        message = f"{name('random')} says how to choose, and not how many"
        raise UsageError(message, hint=f"say {name('lose')} too", key=name("random"))
    in_domains = {place.target for place in config.places if place.domain in asked.lose_domains}
    states = {
        "lose_targets": {*asked.lose_targets, *in_domains},
        "empty": {*asked.empty},
        "corrupt": {*asked.corrupt},
        "slow": {*asked.slow, *asked.throttle},
    }
    seen: dict[str, str] = {}
    for field, names in states.items():
        for target in sorted(names):
            if target in seen:
                message = f"{target} can't be under {name(seen[target])} and {name(field)} at once"
                raise UsageError(message, hint="make two rounds of it, or leave one out", key=name(field))
            seen[target] = field
