"""What `ckpt bench --json` measured, as a plan takes it."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckptstore.arguments import is_number
from ckptstore.errors import UsageError
from ckptstore.planning.layout import Layout

_HINT = "make one with: ckpt bench --json > bench.json"

__all__ = ["Measured", "read_bench"]


@dataclass(frozen=True)
class Measured:
    """Bytes a second of one process: `write` of fragments to all targets, so state times overhead; `read` of state."""

    write: float
    read: float


def read_bench(file: Path) -> Measured:
    """The last summary in a file of JSON lines. Reading is as slow as it was at its slowest, with targets lost.

    Raises `UsageError` for what is no such file, with `key` "bench".
    """
    found = _summary(file)
    timed = _of_type(found.get("timed"), list, file, "timed")
    rates = {each.get("what"): each.get("rate") for each in timed if isinstance(each, dict)}
    loads = [_rate(file, what, rate) for what, rate in rates.items() if str(what).startswith("load")]
    if "save" not in rates or not loads:
        raise _wrong(file, "no save or no load is in its 'timed'")
    code = _of_type(found.get("erasure_code"), str, file, "erasure_code")
    try:
        overhead = Layout.parse(code).overhead
    except UsageError as error:
        raise _wrong(file, f"erasure_code: {error.message}") from error
    return Measured(_rate(file, "save", rates["save"]) * overhead, min(loads))


def _summary(file: Path) -> dict[str, Any]:
    try:
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except OSError as error:
        raise _wrong(file, error.strerror or str(error)) from error
    except ValueError as error:
        raise _wrong(file, f"no JSON: {error}") from error
    summaries = [line for line in lines if isinstance(line, dict) and line.get("type") == "summary"]
    if not summaries or summaries[-1].get("command") != "bench":
        raise _wrong(file, "no summary of ckpt bench is in it")
    return dict(summaries[-1])


def _of_type(value: Any, kind: type, file: Path, name: str) -> Any:
    if not isinstance(value, kind):
        raise _wrong(file, f"{name!r} is {value!r:.40}")
    return value


def _rate(file: Path, what: object, rate: object) -> float:
    if not (is_number(rate) and 0 < rate < math.inf):  # type: ignore[operator]
        raise _wrong(file, f"the rate of {what!r} is {rate!r:.40}: bytes a second are wanted")
    return float(rate)  # type: ignore[arg-type]


def _wrong(file: Path, why: str) -> UsageError:
    return UsageError(f"{str(file)!r} is nothing that ckpt bench wrote: {why}", hint=_HINT, key="bench")
