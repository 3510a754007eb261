"""Work becomes spans: of the caller's where it is called, with what went wrong as their events."""

import pytest
import torch
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import ckptstore
from ckptstore import telemetry
from ckptstore.errors import NotFoundError
from ckptstore.events import FragmentDamaged, TargetFailed, WorkBegan, WorkEnded
from tests.support import make_store


@pytest.fixture
def traces():
    """A provider, and what it exported."""
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


def test_a_save_and_a_load_that_fails_are_spans_of_the_caller_s(traces, tmp_path):
    provider, exporter = traces
    store = make_store(tmp_path)
    with ckptstore.open(store.config) as opened, telemetry.observe(telemetry.SpanObserver(provider)):
        run = opened.run("r")
        with provider.get_tracer("training").start_as_current_span("epoch") as epoch:
            run.save({"w": torch.arange(10.0)}, step=5)
            with pytest.raises(NotFoundError):
                run.load({}, step=6)
    save, load, _ = exporter.get_finished_spans()
    assert (save.name, load.name) == ("ckptstore.save", "ckptstore.load")
    assert save.parent.span_id == epoch.get_span_context().span_id
    assert dict(save.attributes) == {
        "ckptstore.run": "r",
        "ckptstore.step": 5,
        "ckptstore.bytes": save.attributes["ckptstore.bytes"],
        "ckptstore.outcome": "ok",
    }
    assert save.attributes["ckptstore.bytes"] >= 40
    assert save.status.status_code == StatusCode.UNSET
    assert (load.status.status_code, load.attributes["ckptstore.outcome"]) == (StatusCode.ERROR, "NotFoundError")


def test_what_went_wrong_meanwhile_is_noted_in_the_span_that_met_it(traces):
    provider, exporter = traces
    observer = telemetry.SpanObserver(provider)
    observer(WorkBegan(1, "save", "r", 1))
    observer(WorkBegan(2, "load", "r", None))
    observer(TargetFailed("save", "a", "at http://user:known-password@host"))
    observer(FragmentDamaged("b", "data/x", "corrupt"))
    observer(WorkEnded(1, "save", "r", 1, 1.0, 5, "ok", ""))
    observer(WorkEnded(2, "load", "r", 9, 1.0, 5, "ok", ""))
    save, load = exporter.get_finished_spans()
    assert [(event.name, event.attributes["ckptstore.target"]) for event in save.events] == [("target failed", "a")]
    assert [(event.name, event.attributes["ckptstore.path"]) for event in load.events] == [
        ("fragment damaged", "data/x")
    ]
    assert load.attributes["ckptstore.step"] == 9
    assert "known" not in str(save.events[0].attributes)


def test_an_end_without_a_beginning_is_nothing(traces):
    provider, exporter = traces
    telemetry.SpanObserver(provider)(WorkEnded(7, "save", "r", 1, 1.0, 5, "ok", ""))
    assert exporter.get_finished_spans() == ()


def test_without_an_sdk_nothing_happens():
    observer = telemetry.SpanObserver()
    observer(WorkBegan(1, "save", "r", 1))
    observer(WorkEnded(1, "save", "r", 1, 1.0, 5, "OutOfReach", "no"))
