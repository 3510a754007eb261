"""Events as Prometheus metrics. Their meaning is in docs/metrics.md; the names follow Prometheus' conventions.

Labels are runs, targets, verbs and words of ours: never a step, a path or a message, of which there is no end.
"""

import time
from typing import TYPE_CHECKING, Any

from ckptstore.events import (
    Event,
    FragmentDamaged,
    RequestEnded,
    RunListed,
    RunVerified,
    TargetFailed,
    WorkBegan,
    WorkEnded,
)
from ckptstore.telemetry.extras import import_extra

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

TIMED = ("save", "stage", "load", "verify", "verify_data", "repair", "prune", "drill")
"""Works with a histogram of their own: a save of seconds and a verify of hours make no sense in one."""
FAILING = ("save", "load")
"""Works in whose middle a target may stop answering."""
WORK_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000)
REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
RUN = ["run"]
VERIFIED = ["run", "by"]
BY = {"verify": "listing", "verify_data": "data"}

__all__ = ["PrometheusObserver"]


class PrometheusObserver:
    """An `Observer` that counts in `registry`: the one given, else one of its own. Thread-safe.

    A registry takes one of them only. Raises `UsageError` where `prometheus-client` isn't installed.
    """

    def __init__(self, registry: "CollectorRegistry | None" = None) -> None:
        self._client = import_extra("prometheus_client", "metrics")
        self.registry: CollectorRegistry = self._client.CollectorRegistry() if registry is None else registry
        self._make_work()
        self._make_targets()
        self._make_run()
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            WorkBegan: self._began,
            WorkEnded: self._ended,
            RequestEnded: self._request,
            TargetFailed: lambda event: self._failures.labels(event.target, event.work).inc(),
            FragmentDamaged: lambda event: self._damaged.labels(event.target).inc(),
            RunVerified: self._verified,
            RunListed: self._listed,
        }
        self._of_request: dict[tuple[str, str, str], tuple[Any, Any, Any]] = {}

    def __call__(self, event: Event) -> None:
        """Count one event; those that no metric is made of are left alone."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def _make_work(self) -> None:
        self._seconds = {
            work: self._histogram(f"{work}_seconds", f"Duration of each {work} that ended well.", RUN, WORK_BUCKETS)
            for work in TIMED
        }
        labels = ["work", "run"]
        self._works = self._counter("work", "Pieces of work that ended, by how.", [*labels, "outcome"])
        self._running = self._gauge("work_in_progress", "Pieces of work under way in this process.", labels)
        self._bytes = self._counter("bytes", "Bytes of state that work moved.", labels)
        self._success = self._gauge("last_success_timestamp_seconds", "When work last ended well.", ["run", "work"])
        self._ok = self._gauge("last_attempt_ok", "Whether the last piece of work ended well.", ["run", "work"])

    def _make_targets(self) -> None:
        text = "Requests to a target, each try on its own."
        self._requests = self._counter("target_requests", text, ["target", "verb", "outcome"])
        text = "Duration of requests to a target."
        self._request_seconds = self._histogram("target_request_seconds", text, ["target", "verb"], REQUEST_BUCKETS)
        self._target_bytes = self._counter("target_bytes", "Bytes got from or put to a target.", ["target", "verb"])
        text = "Times that a target stopped answering in the middle of work."
        self._failures = self._counter("target_failures", text, ["target", "work"])
        self._damaged = self._counter("damaged_fragments", "Fragments that a load could not use.", ["target"])

    def _make_run(self) -> None:
        """What a verify found of a run, and when it was saved last."""
        self._checkpoints = self._gauge(
            "checkpoints", "Live checkpoints by what the last verify found.", [*VERIFIED, "state"]
        )
        self._findings = self._gauge("findings", "Findings of the last verify, by kind.", [*VERIFIED, "kind"])
        text = "Losses of {} that the worst live checkpoint survives; -1: it doesn't load."
        self._targets = self._gauge("checkpoint_survives_targets", text.format("targets"), VERIFIED)
        self._domains = self._gauge("checkpoint_survives_domains", text.format("domains"), VERIFIED)
        self._expected = self._gauge("objects_expected", "Objects that a run's checkpoints should have.", VERIFIED)
        self._checked = self._gauge("objects_checked", "Objects that the last verify could look at.", VERIFIED)
        text = "When the latest checkpoint was saved, by the saver's clock."
        self._saved = self._gauge("latest_checkpoint_timestamp_seconds", text, RUN)
        self._step = self._gauge("latest_checkpoint_step", "Step of the latest checkpoint.", RUN)
        self._size = self._gauge("latest_checkpoint_bytes", "Bytes of the latest checkpoint's state.", RUN)
        text = "Usual time between saves: the median of the last ten intervals."
        self._interval = self._gauge("save_interval_seconds", text, RUN)
        self._found = (self._checkpoints, self._findings, self._targets, self._domains, self._expected, self._checked)

    def _began(self, event: WorkBegan) -> None:
        self._running.labels(event.work, event.run).inc()

    def _ended(self, event: WorkEnded) -> None:
        well = event.outcome == "ok"
        self._running.labels(event.work, event.run).dec()
        self._works.labels(event.work, event.run, event.outcome).inc()
        if event.bytes:
            self._bytes.labels(event.work, event.run).inc(event.bytes)
        self._ok.labels(event.run, event.work).set(well)
        if well:
            self._success.labels(event.run, event.work).set(time.time())
            if event.work in self._seconds:
                self._seconds[event.work].labels(event.run).observe(event.seconds)
        elif event.work in BY:
            self._forget(event.run, BY[event.work])  # what was found before says nothing of now

    def _request(self, event: RequestEnded) -> None:
        key = (event.target, event.verb, event.outcome)
        children = self._of_request.get(key)
        if children is None:  # `labels` takes longer than all the rest
            of_verb = (event.target, event.verb)
            children = (
                self._requests.labels(*key),
                self._request_seconds.labels(*of_verb),
                self._target_bytes.labels(*of_verb),
            )
            self._of_request[key] = children
            self._at_zero(event.target)
        requests, seconds, moved = children
        requests.inc()
        seconds.observe(event.seconds)
        if event.bytes:
            moved.inc(event.bytes)

    def _at_zero(self, target: str) -> None:
        """What may go wrong is exposed before it does: `increase` doesn't see a series begin at 1."""
        self._damaged.labels(target)
        for work in FAILING:
            self._failures.labels(target, work)

    def _verified(self, event: RunVerified) -> None:
        self._forget(event.run, event.by)
        for state, number in event.states.items():
            self._checkpoints.labels(event.run, event.by, state).set(number)
        for kind, number in event.findings.items():
            self._findings.labels(event.run, event.by, kind).set(number)
        values = (event.targets, event.domains, event.expected, event.checked)
        for gauge, told in zip(self._found[2:], values, strict=True):
            if told is not None:
                gauge.labels(event.run, event.by).set(told)

    def _listed(self, event: RunListed) -> None:
        self._set(self._saved, event.run, event.saved)
        self._set(self._step, event.run, event.step)
        self._set(self._size, event.run, event.bytes)
        self._set(self._interval, event.run, event.interval)

    def _forget(self, run: str, by: str) -> None:
        for gauge in self._found:
            gauge.remove_by_labels({"run": run, "by": by})

    def _set(self, gauge: Any, run: str, value: float | None) -> None:
        """No series where there is no value: a 0 would be one."""
        if value is None:
            gauge.remove_by_labels({"run": run})
        else:
            gauge.labels(run).set(value)

    def _gauge(self, name: str, text: str, labels: list[str]) -> Any:
        return self._client.Gauge(f"ckptstore_{name}", text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, labels: list[str]) -> Any:
        return self._client.Counter(f"ckptstore_{name}_total", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, labels: list[str], buckets: tuple[float, ...]) -> Any:
        return self._client.Histogram(f"ckptstore_{name}", text, labels, registry=self.registry, buckets=buckets)
