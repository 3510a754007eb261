"""What a process does with its stores, as metrics, spans and logs.

    from ckptstore import telemetry
    metrics = telemetry.PrometheusObserver()
    telemetry.observe(metrics, telemetry.LogObserver())
    telemetry.log_json()
    server = telemetry.serve(metrics.registry, "127.0.0.1:9464")

`metrics` needs `pip install 'ckptstore[metrics]'`, `spans` the extra `[otel]`; logs need the standard library only.
What each metric means, and what to alert on, is in docs/metrics.md.
"""

from ckptstore.telemetry.exposing import Server, serve, write_textfile
from ckptstore.telemetry.logs import JsonLines, LogObserver, log_json
from ckptstore.telemetry.metrics import PrometheusObserver
from ckptstore.telemetry.observing import Observation, observe
from ckptstore.telemetry.spans import SpanObserver
from ckptstore.work import work

__all__ = [
    "JsonLines",
    "LogObserver",
    "Observation",
    "PrometheusObserver",
    "Server",
    "SpanObserver",
    "log_json",
    "observe",
    "serve",
    "work",
    "write_textfile",
]
