"""The options of commands that may have to leave room for others: `--limit-rate`, `--jobs`."""

from typing import Annotated, Any

import typer

from ckptstore.errors import ConfigError, UsageError

LimitRate = Annotated[
    str | None,
    typer.Option(
        "--limit-rate", metavar="SIZE", help="Move at most so many bytes a second, as 100MiB.", show_default=False
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", help="How many requests at once; 16 unless told.", show_default=False),
]

__all__ = ["Jobs", "LimitRate", "pace"]


def pace(limit_rate: str | None, jobs: int | None) -> dict[str, Any]:
    """The arguments that these options stand for. Raises `UsageError` that names the option."""
    from ckptstore.operations.pacing import MOST_JOBS

    if jobs is not None and not 1 <= jobs <= MOST_JOBS:
        raise UsageError(f"--jobs {jobs}: from 1 to {MOST_JOBS} requests at once", hint="--jobs 8")
    return {"limit_rate": None if limit_rate is None else _rate(limit_rate), "jobs": jobs}


def _rate(text: str) -> int:
    from ckptstore.config import parse_size

    try:
        rate = parse_size(text, "--limit-rate")
    except ConfigError as error:
        raise UsageError(error.message, hint="--limit-rate 100MiB") from error
    if rate < 1:
        raise UsageError(f"--limit-rate {text}: more than 0 bytes a second are wanted", hint="--limit-rate 100MiB")
    return rate
