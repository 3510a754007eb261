"""Events as OpenTelemetry spans: one for each piece of work, what went wrong meanwhile as its events.

With the API alone nothing is recorded: the SDK that the application sets up decides where spans go. A request to a
target gets no span: a save of a large job has tens of thousands.
"""

import threading
from typing import TYPE_CHECKING, Any

from ckptstore.events import Event, FragmentDamaged, TargetFailed, WorkBegan, WorkEnded
from ckptstore.redaction import redacted
from ckptstore.telemetry.extras import import_extra

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

READING = ("load", "verify_data")
"""The works that meet damaged fragments."""

__all__ = ["SpanObserver"]


class SpanObserver:
    """An `Observer` that opens a span `ckptstore.save`, `ckptstore.load` … and closes it. Thread-safe.

    A span's parent is the span that is current where the work begins; a background save begins in a thread of its own,
    and has none. Raises `UsageError` where `opentelemetry-api` isn't installed.
    """

    def __init__(self, provider: "TracerProvider | None" = None) -> None:
        self._trace = import_extra("opentelemetry.trace", "otel")
        self._tracer = self._trace.get_tracer("ckptstore", tracer_provider=provider)
        self._lock = threading.Lock()
        self._open: dict[int, tuple[str, Any]] = {}

    def __call__(self, event: Event) -> None:
        """Open or close a span, or note in the open ones what went wrong."""
        if isinstance(event, WorkBegan):
            self._begin(event)
        elif isinstance(event, WorkEnded):
            self._end(event)
        elif isinstance(event, TargetFailed):
            about = {"ckptstore.target": event.target, "ckptstore.reason": redacted(event.reason)}
            self._note("target failed", about, (event.work,))
        elif isinstance(event, FragmentDamaged):
            about = {"ckptstore.target": event.target, "ckptstore.path": event.path}
            self._note("fragment damaged", {**about, "ckptstore.reason": redacted(event.reason)}, READING)

    def _begin(self, event: WorkBegan) -> None:
        attributes: dict[str, Any] = {"ckptstore.run": event.run}
        if event.step is not None:
            attributes["ckptstore.step"] = event.step
        span = self._tracer.start_span(f"ckptstore.{event.work}", attributes=attributes)
        with self._lock:
            self._open[event.number] = event.work, span

    def _end(self, event: WorkEnded) -> None:
        with self._lock:
            _, span = self._open.pop(event.number, ("", None))
        if span is None:  # it began before anybody listened
            return
        span.set_attribute("ckptstore.bytes", event.bytes)
        span.set_attribute("ckptstore.outcome", event.outcome)
        if event.step is not None:
            span.set_attribute("ckptstore.step", event.step)
        if event.outcome != "ok":
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, event.message or event.outcome))
        span.end()

    def _note(self, name: str, attributes: dict[str, Any], works: tuple[str, ...]) -> None:
        with self._lock:
            spans = [span for work, span in self._open.values() if work in works]
        for span in spans:
            span.add_event(name, attributes)
