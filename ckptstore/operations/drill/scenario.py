"""Scenario files: several rounds of a drill, written down in TOML.

name = "what we fear"

[[rounds]]
name = "a region is gone"
lose_domains = ["us-east-1"]

[[rounds]]
name = "a disk is gone, another rots, and a third is slow"
lose_targets = ["a"]
corrupt = ["b"]
slow = { c = "0.5s" }
"""

import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from ckptstore.config import Config
from ckptstore.errors import ConfigError
from ckptstore.operations.drill.rounds import Naming, Round, check_round

__all__ = ["Scenario", "read_scenario"]


class Scenario(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A file's content: its name, for people, and the rounds in their order."""

    name: str = ""
    rounds: list[Round]


def read_scenario(path: Path, config: Config) -> Scenario:
    """Read and check a scenario. Raises `ConfigError` or `UsageError` naming the file and the field."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = "docs/drills.md has one to begin with"
        raise ConfigError(f"no scenario file at {path}", hint=hint, key="--scenario") from None
    except (ValueError, OSError) as error:
        raise ConfigError(f"scenario {path} can't be read as TOML: {error}", key="--scenario") from error
    _check_fields(path, "", values, Scenario)
    rounds = values.get("rounds")
    for number, each in enumerate(rounds if isinstance(rounds, list) else []):
        _check_fields(path, f"rounds[{number}].", each if isinstance(each, dict) else {}, Round)
    try:
        scenario = msgspec.convert(values, Scenario)
    except (msgspec.ValidationError, ConfigError) as error:
        raise ConfigError(f"{path}: {error}", hint="the fields are listed in docs/drills.md") from error
    if not scenario.rounds:
        raise ConfigError(f"{path}: rounds: one [[rounds]] table at least is wanted", key="rounds")
    for number, asked in enumerate(scenario.rounds):
        check_round(asked, config, _naming(path, number))
    return scenario


def _naming(path: Path, number: int) -> Naming:
    return lambda field: f"{path}: rounds[{number}].{field}"


def _check_fields(path: Path, where: str, values: dict[str, Any], kind: type[msgspec.Struct]) -> None:
    """A slip of the pen is told with what was probably meant."""
    known = kind.__struct_fields__
    for field in values:
        if field not in known:
            close = get_close_matches(field, known, 1)
            meant = f"; did you mean {close[0]}?" if close else ""
            message = f"{path}: {where}{field}: there is no such field{meant}"
            raise ConfigError(message, hint=f"there are {', '.join(known)}", key=f"{where}{field}")
