"""Settings of a store: `store.toml`, or the same made in Python, checked before anything is opened.

config = Config.load("store.toml")
config = Config(name="pretrain-7b", code="4+2", targets=[TargetConfig(name="a", url="/ckpt/a"), …])
"""

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from ckptstore.arguments import check_types
from ckptstore.errors import ConfigError, UsageError
from ckptstore.objectives import Objectives
from ckptstore.placement import Place, full_tolerance
from ckptstore.prices import Prices
from ckptstore.retention import Retention

SIZE_UNITS = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([A-Za-z]*)")
CODE = re.compile(r"([0-9]{1,3})\+([0-9]{1,3})")
MOST_FRAGMENTS = 255  # symbols of GF(2^8), less zero
SMALLEST_FRAGMENT = 4096  # below this a request costs more than its bytes
LONGEST_TIMEOUT = 1_000_000  # seconds; torch keeps time-outs in milliseconds and refuses what overflows them
LARGEST_FRAGMENT = 1 << 30  # `docs/format.md`: a reader refuses larger ones, for it must allocate them

__all__ = ["Config", "TargetConfig", "check_config", "parse_size"]


class TargetConfig(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One target: the name that manifests know it by, and where it is now.

    `commit = false` keeps manifests and marks away from it: for a service without put-if-absent.
    """

    name: str
    url: str
    domain: str = ""
    commit: bool = True
    options: dict[str, Any] = {}

    def __post_init__(self) -> None:
        check_types(self, "targets.")


class Config(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A store's settings. Raises `ConfigError` naming the key and what it may be."""

    name: str
    code: str = "4+2"
    fragment_size: str | int = "16MiB"
    window: str | int = "512MiB"
    require_tolerance: int = 1
    save_timeout: float = 1800.0
    retention: Retention = Retention()
    objectives: Objectives = Objectives()
    prices: Prices = Prices()
    targets: list[TargetConfig]
    folder: str = "."
    """Where relative target paths start: the folder of `store.toml`."""

    def __post_init__(self) -> None:
        check_types(self)
        _check_names(self)
        _check_sizes(self)
        _check_tolerance(self)
        _check_priced(self)
        if not 0 < self.save_timeout < LONGEST_TIMEOUT:
            message = f"save_timeout = {self.save_timeout}: seconds above 0, below {LONGEST_TIMEOUT}"
            raise ConfigError(message, key="save_timeout")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Config":
        """Read a `store.toml`: a regular file, for nothing may come out of a pipe, ever."""
        if not isinstance(path, str | os.PathLike):
            raise ConfigError(f"a store is opened by the path of its store.toml or a Config, not by {path!r:.80}")
        file = Path(path)
        try:
            if not stat.S_ISREG(file.stat().st_mode):
                raise ConfigError(f"{file} is no regular file", hint="name a store.toml with --store or CKPT_STORE")
            values = tomllib.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            hint = "name an existing store.toml with --store or CKPT_STORE, or make one with: ckpt init"
            raise ConfigError(f"no store file at {file}", hint=hint) from None
        except (ValueError, OSError) as error:  # of TOML, of UTF-8, and of a path with a null byte in it
            raise ConfigError(f"store file {str(file)!r} can't be read as TOML: {error}") from error
        if "folder" in values:
            raise ConfigError(f"{file}: unknown key 'folder'")
        return cls.from_dict({**values, "folder": str(file.resolve().parent)}, origin=str(file))

    @classmethod
    def from_dict(cls, values: dict[str, Any], *, origin: str = "config") -> "Config":
        """Check plain values, as TOML gives them."""
        try:
            return msgspec.convert(values, cls)
        except ConfigError as error:
            raise ConfigError(f"{origin}: {error.message}", hint=error.hint, **error.fields) from error
        except msgspec.ValidationError as error:
            raise ConfigError(f"{origin}: {error}", hint="the keys are listed in docs/configuration.md") from error

    @property
    def k(self) -> int:
        """Data fragments of a stripe."""
        return int(self.code.split("+")[0])

    @property
    def m(self) -> int:
        """Parity fragments of a stripe."""
        return int(self.code.split("+")[1])

    @property
    def fragment_bytes(self) -> int:
        """Largest fragment, in bytes."""
        return parse_size(self.fragment_size, "fragment_size")

    @property
    def window_bytes(self) -> int:
        """Memory that a save or load may hold in stripes, in bytes."""
        return parse_size(self.window, "window")

    @property
    def places(self) -> list[Place]:
        """The targets as placement sees them."""
        return [Place(target.name, target.domain or target.name) for target in self.targets]


def check_config(config: object) -> None:
    """Raise `UsageError` for what is no `Config`."""
    if not isinstance(config, Config):
        message = f"a Config is wanted, not {type(config).__name__}"
        raise UsageError(message, hint='ckptstore.open("store.toml"), or Config.load("store.toml")')


def parse_size(value: str | int, key: str) -> int:
    """Bytes of `16MiB`, `64 KiB`, `1GB` or a plain number."""
    if isinstance(value, int):
        return value
    match = SIZE.fullmatch(value.strip())
    unit = (match[2] or "B") if match else ""
    if match is None or unit not in SIZE_UNITS:
        raise ConfigError(
            f"{key} = {value!r}: a number with one of {', '.join(SIZE_UNITS)} is wanted, as in '16MiB'",
            key=key,
        )
    whole, _, part = match[1].partition(".")  # a float would round large numbers
    return int(int(whole + part) * SIZE_UNITS[unit] // 10 ** len(part))


def _check_names(config: Config) -> None:
    if not config.targets:
        raise ConfigError("targets: at least one [[targets]] table is wanted", key="targets")
    names = [target.name for target in config.targets]
    for key, name in [("name", config.name), *[("targets.name", name) for name in names]]:
        if not NAME.fullmatch(name):
            raise ConfigError(
                f"{key} = {name!r}: 1 to 64 of a-z 0-9 . _ - are wanted, a letter or digit first", key=key
            )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ConfigError(f"targets.name: {', '.join(repeated)} stands more than once", key="targets.name")


def _check_sizes(config: Config) -> None:
    match = CODE.fullmatch(config.code)
    if match is None or not 1 <= int(match[1]) <= int(match[1]) + int(match[2]) <= MOST_FRAGMENTS:
        allowed = f"'k+m' with k >= 1, m >= 0 and k + m <= {MOST_FRAGMENTS} is wanted, as in '4+2'"
        raise ConfigError(f"code = {config.code!r}: {allowed}", key="code")
    if not SMALLEST_FRAGMENT <= config.fragment_bytes <= LARGEST_FRAGMENT:
        message = f"fragment_size = {config.fragment_size!r}: {SMALLEST_FRAGMENT} to {LARGEST_FRAGMENT} bytes"
        raise ConfigError(message, key="fragment_size")
    stripe = (config.k + config.m) * config.fragment_bytes
    if config.window_bytes < stripe:
        message = f"window = {config.window!r}: one stripe of {config.code} takes {stripe} bytes"
        raise ConfigError(message, key="window", hint="make window larger or fragment_size smaller")


def _check_tolerance(config: Config) -> None:
    reached = full_tolerance(config.k, config.m, config.places).targets
    if config.require_tolerance < 0:
        raise ConfigError(
            f"require_tolerance = {config.require_tolerance}: 0 or more is wanted", key="require_tolerance"
        )
    commits = sum(target.commit for target in config.targets)
    if min(reached, commits - 1) < config.require_tolerance:
        message = (
            f"code {config.code} over {len(config.targets)} targets survives the loss of {reached}, {commits} commit "
            f"targets that of {commits - 1}; require_tolerance asks for {config.require_tolerance}"
        )
        hint = "add targets (commit = true), choose a code with more parity, or set require_tolerance lower"
        raise ConfigError(message, key="require_tolerance", hint=hint)


def _check_priced(config: Config) -> None:
    """Prices are of targets and domains that there are: a slip of the pen would leave one without."""
    domains, targets = {place.domain for place in config.places}, {place.target for place in config.places}
    job = [config.prices.job] if config.prices.job is not None else []
    for key, names, known in (
        ("prices.job", job, domains),
        ("prices.domains", config.prices.domains, domains),
        ("prices.targets", config.prices.targets, targets),
    ):
        unknown = sorted({*names} - known)
        if unknown:
            message = f"{key}: {', '.join(unknown)} is none of {', '.join(sorted(known))}"
            raise ConfigError(message, key=key, hint="name it as [[targets]] does")
