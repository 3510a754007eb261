"""Events as log records of the logger `ckptstore`, and records as JSON lines. No credential gets into either."""

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

from ckptstore.events import Event, FragmentDamaged, RequestEnded, RunVerified, TargetFailed, WorkBegan, WorkEnded
from ckptstore.redaction import redacted

LOGGER = "ckptstore"

__all__ = ["JsonLines", "LogObserver", "log_json"]


class JsonLines(logging.Formatter):
    """A record as one line of JSON: `time` (UTC), `level`, `logger`, `message`, and the fields of the event if any."""

    def format(self, record: logging.LogRecord) -> str:
        """As one line, credentials redacted in every text."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "event_fields", {}),
        }
        if record.exc_info:
            line["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps({key: _safe(value) for key, value in line.items()})


class LogObserver:
    """An `Observer` that logs: the beginning and end of work (info; error where it failed), what a verify found.

    A target that stops answering and a damaged fragment are warnings, a request that fails is told at level debug. The
    fields are in `record.event_fields`, for other formatters than `JsonLines`.
    """

    def __init__(self) -> None:
        self._logger = logging.getLogger(LOGGER)

    def __call__(self, event: Event) -> None:
        """Log it, if it is worth a line."""
        if isinstance(event, WorkBegan):
            self._log(logging.INFO, f"{event.work} of run {event.run} begins", event)
        elif isinstance(event, WorkEnded):
            self._ended(event)
        elif isinstance(event, TargetFailed):
            self._log(logging.WARNING, f"target {event.target} stopped answering: {event.reason}", event)
        elif isinstance(event, FragmentDamaged):
            self._log(logging.WARNING, f"a fragment on {event.target} can't be used: {event.reason}", event)
        elif isinstance(event, RunVerified):
            well = event.states.get("good", 0) == sum(event.states.values()) and not event.findings
            states = ", ".join(f"{number} {state}" for state, number in event.states.items() if number)
            message = f"run {event.run} verified: {states or 'no live checkpoint'}"
            self._log(logging.INFO if well else logging.WARNING, message, event)
        elif isinstance(event, RequestEnded) and event.outcome not in {"ok", "absent"}:
            self._log(logging.DEBUG, f"{event.verb} on {event.target}: {event.outcome}", event)

    def _ended(self, event: WorkEnded) -> None:
        if event.outcome == "ok":
            self._log(logging.INFO, f"{event.work} of run {event.run} done in {event.seconds:.1f} s", event)
        else:
            message = f"{event.work} of run {event.run} ended after {event.seconds:.1f} s: {event.outcome}"
            self._log(logging.ERROR, f"{message}: {event.message}" if event.message else message, event)

    def _log(self, level: int, message: str, event: Event) -> None:
        if self._logger.isEnabledFor(level):
            names = type(event).__dataclass_fields__
            fields = {name: _safe(getattr(event, name)) for name in names if name not in {"number", "message"}}
            fields = {"event": type(event).__name__, **fields}
            self._logger.log(level, "%s", redacted(message), extra={"event_fields": fields})


def log_json(stream: TextIO | None = None, *, level: int = logging.INFO) -> logging.Handler:
    """Let the logger `ckptstore` write JSON lines to `stream` (stderr unless given), and pass nothing on to the root.

    Returns the handler, for `logging.getLogger("ckptstore").removeHandler`.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger(LOGGER)
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    return handler


def _safe(value: Any) -> Any:
    """What JSON can hold, without credentials."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, dict):
        return {str(key): _safe(each) for key, each in value.items()}
    return redacted(str(value))
