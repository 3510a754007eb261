"""From the options of `ckpt plan` to what is compared and judged; what can't be is told as it was typed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptstore.cli.call import Call
from ckptstore.errors import UsageError

if TYPE_CHECKING:
    from ckptstore.objectives import Objectives
    from ckptstore.planning import Job, Layout, Near
    from ckptstore.prices import Prices

DEFAULTS = ("4+2", "8+4@4", "1+1@2", "1+2@3")
BANDWIDTH = "500GB"
OPTIONS = {
    **{name: f"--{name}" for name in ("gpus", "state", "bandwidth", "stall", "restart", "interval", "bench")},
    **{f"objectives.{name}": f"--{name.replace('_', '-')}" for name in ("rpo", "rto", "survive", "survive_domains")},
    "kept": "--keep",
    "near.bandwidth": "--near-bandwidth",
    "near.interval": "--near-interval",
    "near.beyond": "--near-loss",
}
"""The option of each field that Python may refuse."""

__all__ = ["as_typed", "job_asked", "layouts_asked", "near_asked", "objectives_asked", "prices_asked"]


@contextmanager
def as_typed() -> Iterator[None]:
    """A block in which an error about an argument of Python's names the option as well."""
    try:
        yield
    except UsageError as error:
        option = OPTIONS.get(error.fields.get("key", ""))
        if option is None:
            raise
        raise type(error)(f"{option}: {error.message}", hint=error.hint, **error.fields) from error


def layouts_asked(call: Call, names: Sequence[str]) -> "list[Layout]":
    """Those named; without any some, after that of the store if one is named."""
    from ckptstore.planning import Layout

    if names:
        return [Layout.parse(name) for name in names]
    found = [Layout.parse(name) for name in DEFAULTS]
    if call.store is not None:
        from ckptstore.operations.promises import layout_survives

        config = call.config
        votes = layout_survives(config)
        found.insert(0, Layout.of_places(config.name, config.k, config.m, config.places, votes))
    return found


def objectives_asked(call: Call, **given: Any) -> "Objectives":
    """The store's, and in their place what the options say."""
    import msgspec

    from ckptstore.objectives import Objectives

    own = Objectives() if call.store is None else call.config.objectives
    with as_typed():
        return msgspec.structs.replace(own, **{name: value for name, value in given.items() if value is not None})


def prices_asked(call: Call, pairs: Sequence[str]) -> "Prices":
    """The store's, and in their place what `--price FIELD=USD` says; the list's where nobody says anything."""
    import msgspec

    from ckptstore.prices import Prices

    own = Prices() if call.store is None else call.config.prices
    return msgspec.structs.replace(own, **dict(_price(pair) for pair in pairs)).or_list()


def _price(pair: str) -> tuple[str, float]:
    from ckptstore.prices import FIELDS, check_price

    name, _, text = pair.partition("=")
    if name not in FIELDS:
        raise UsageError(f"--price {pair}: FIELD=USD is wanted, FIELD one of {', '.join(FIELDS)}", key="--price")
    try:
        price = float(text)
    except ValueError:
        raise UsageError(f"--price {pair}: {text!r} is no number of dollars", key=f"prices.{name}") from None
    return name, check_price(price, f"--price {name}")


def job_asked(*, state: str, bandwidth: str | None, bench: Path | None, processes: int, **given: Any) -> "Job":
    """The job, as fast as it is said to be or as was measured."""
    from ckptstore.config import parse_size
    from ckptstore.planning import Job, read_bench

    if bench is not None and bandwidth is not None:
        raise UsageError("--bandwidth: --bench says how fast it is", hint="leave one of them out", key="--bandwidth")
    if processes < 1:
        raise UsageError(f"--processes = {processes}: 1 or more are wanted", key="--processes")
    with as_typed():
        fast = parse_size(bandwidth or BANDWIDTH, "--bandwidth")
        job = Job(state=parse_size(state, "--state"), bandwidth=fast, **given)
        if bench is None:
            return job
        measured = read_bench(bench)
        return replace(job, bandwidth=measured.write * processes, read_bandwidth=measured.read * processes)


def near_asked(
    job: "Job", layout: str | None, bandwidth: str | None, interval: float | None, beyond: float | None
) -> "Near | None":
    """The near tier, if one is asked for. Its store is saved to at an interval that must be said."""
    from ckptstore.config import parse_size
    from ckptstore.planning import Layout, Near

    if layout is None:
        more = {"--near-bandwidth": bandwidth, "--near-interval": interval, "--near-loss": beyond}
        for option, value in more.items():
            if value is not None:
                raise UsageError(f"{option}: --near is wanted with it", hint="--near 3+1, say", key=option)
        return None
    if job.interval is None:
        message = "--near: --interval is wanted with it: how often the layouts behind it are saved to"
        raise UsageError(message, hint="--interval 3600, say", key="--interval")
    with as_typed():
        fast = job.bandwidth if bandwidth is None else parse_size(bandwidth, "--near-bandwidth")
        return Near(Layout.parse(layout), fast, interval, beyond)
