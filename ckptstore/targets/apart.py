"""Whether the targets of a store are places apart. Two in one place fail together, and mix up what they hold."""

from itertools import pairwise

from ckptstore.config import Config
from ckptstore.errors import ConfigError
from ckptstore.targets.opening import locate

HINT = "give each target a place of its own, on another disk or in another bucket: what is in one place fails together"

__all__ = ["check_apart"]


def check_apart(config: Config) -> None:
    """Raise `ConfigError` where two targets are one place, or one lies inside another. Asks no service.

    Directories are compared by where links lead now, buckets by service, name and prefix.
    """
    found = [(locate(spec.name, spec.url, spec.options, folder=config.folder), spec.name) for spec in config.targets]
    for (outer, first), (inner, second) in pairwise(sorted(found, key=lambda each: each[0])):
        # what lies inside a place is sorted behind it, before all else
        if outer.service == inner.service and outer.parts == inner.parts[: len(outer.parts)]:
            same = outer.parts == inner.parts
            what = f"{first} and {second} are one place" if same else f"{second} lies inside {first}"
            raise ConfigError(f"targets: {what}, {outer}", hint=HINT, key="targets.url", targets=[first, second])
