"""From the options of `ckpt drill` to what is to be done to the store; what can't be is told as it was typed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptstore.errors import UsageError

if TYPE_CHECKING:
    from ckptstore.config import Config
    from ckptstore.operations.drill import Round

OPTIONS = {
    "lose": "--lose",
    "random": "--random",
    "lose_targets": "--lose-target",
    "lose_domains": "--lose-domain",
    "empty": "--empty",
    "corrupt": "--corrupt",
    "slow": "--slow",
    "throttle": "--throttle",
    "sample": "--sample",
    "scratch": "--scratch",
    "report_dir": "--report-dir",
}
"""The option of each field of a round, and of what else may be wrong."""

__all__ = ["OPTIONS", "rounds_asked", "sample_asked"]


def rounds_asked(
    config: "Config",
    named: Mapping[str, Sequence[str] | None],
    amounts: Mapping[str, Sequence[str] | None],
    *,
    lose: int | None,
    worst: bool,
    random: bool,
    scenario: Path | None,
) -> "list[Round] | None":
    """The rounds of a scenario, or one that the options describe; None where nothing is asked for.

    `named`: options that list targets or domains; `amounts`: those that give each an amount. Raises `UsageError`.
    """
    from ckptstore.operations.drill import Round, read_scenario
    from ckptstore.operations.drill.rounds import check_round

    given = [option for option, value in {**named, **amounts}.items() if value]
    others = [OPTIONS[option] for option in given]
    others += [option for option, on in (("--lose", lose is not None), ("--worst", worst), ("--random", random)) if on]
    if scenario is not None:
        if others:
            raise UsageError(f"--scenario says it all, and {', '.join(others)} beside it", hint="leave one of them out")
        return read_scenario(scenario, config).rounds
    if worst and random:
        raise UsageError("--worst and --random choose in two ways", hint="leave one of them out")
    if not others:
        return None
    if lose is None and (worst or random):
        lose = min(config.m if config.objectives.survive is None else config.objectives.survive, len(config.targets))
    fields: dict[str, Any] = {option: _names(values or ()) for option, values in named.items()}
    fields |= {option: _amounts(OPTIONS[option], values or ()) for option, values in amounts.items()}
    asked = Round(lose=lose, random=random, **fields)
    check_round(asked, config, lambda field: OPTIONS.get(field, field))
    return [asked]


def sample_asked(text: str | None) -> float:
    """The part of the bytes that `10%` is; all where nothing is asked for."""
    if text is None:
        return 1.0
    number, percent, rest = text.partition("%")
    try:
        part = float(number) / 100
    except ValueError:
        part = 0.0
    if percent and not rest and 0 < part <= 1:
        return part
    raise UsageError(f"--sample {text}: more than 0% and at most 100% is wanted, as in 10%", key="--sample")


def _names(values: Sequence[str]) -> list[str]:
    return [name for value in values for name in value.split(",")]


def _amounts(option: str, values: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for value in _names(values):
        name, equals, amount = value.partition("=")
        if not (name and equals and amount) or name in found:
            raise UsageError(f"{option} {value}: a target and an amount are wanted, as in a=0.5s", key=option)
        found[name] = amount
    return found
