"""Events become metrics, and real work does: values from a real scrape of real saves, loads and verifies."""

import gc
import subprocess
import sys
import time
import urllib.request

import pytest
import torch
from prometheus_client import CollectorRegistry, parser

import ckptstore
from ckptstore import telemetry
from ckptstore.errors import CkptStoreError, UsageError
from ckptstore.events import FragmentDamaged, RequestEnded, RunListed, RunVerified, TargetFailed, WorkBegan, WorkEnded
from tests.support import RUN, make_store

STATE = {"model": {"w": torch.arange(100_000, dtype=torch.float32)}}
BYTES = 400_000


def value(metrics, name, **labels):
    return metrics.registry.get_sample_value(name, labels)


def scraped(address):
    """Samples by name and labels, as Prometheus would read them."""
    with urllib.request.urlopen(address, timeout=10) as answer:
        families = list(parser.text_string_to_metric_families(answer.read().decode()))
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in families for sample in family.samples
    }


def of(samples, name, **labels):
    return samples.get((name, *sorted(labels.items())))


def sum_of(samples, name, **labels):
    wanted = set(labels.items())
    return sum(number for (found, *its), number in samples.items() if found == name and wanted <= set(its))


@pytest.fixture
def run(tmp_path):
    store = make_store(tmp_path)
    with ckptstore.open(store.config) as opened:
        yield opened.run("r")


def test_a_save_a_load_and_a_verify_are_scraped_over_http(run, tmp_path):
    begun = time.time()
    metrics = telemetry.PrometheusObserver()
    with telemetry.serve(metrics.registry, "127.0.0.1:0") as server, telemetry.observe(metrics):
        run.save(STATE, step=1)
        handle = run.save_async(STATE, step=2)
        handle.result()
        run.load({"model": {"w": torch.zeros(100_000)}})
        run.verify()
        samples = scraped(f"http://127.0.0.1:{server.port}/metrics")
    assert of(samples, "ckptstore_save_seconds_count", run="r") == 2
    assert 0 < of(samples, "ckptstore_save_seconds_sum", run="r") < time.time() - begun
    assert of(samples, "ckptstore_stage_seconds_count", run="r") == 1
    assert of(samples, "ckptstore_load_seconds_count", run="r") == 1
    for work in ("save", "load", "verify"):
        assert begun <= of(samples, "ckptstore_last_success_timestamp_seconds", run="r", work=work) <= time.time()
        assert of(samples, "ckptstore_last_attempt_ok", run="r", work=work) == 1
        assert of(samples, "ckptstore_work_in_progress", run="r", work=work) == 0
    assert 2 * BYTES <= of(samples, "ckptstore_bytes_total", run="r", work="save") < 2.2 * BYTES
    assert BYTES <= of(samples, "ckptstore_bytes_total", run="r", work="load") < 1.1 * BYTES
    assert of(samples, "ckptstore_checkpoints", run="r", by="listing", state="good") == 2
    assert of(samples, "ckptstore_checkpoints", run="r", by="listing", state="lost") == 0
    assert of(samples, "ckptstore_checkpoint_survives_targets", run="r", by="listing") == 2
    expected = of(samples, "ckptstore_objects_expected", run="r", by="listing")
    assert expected == of(samples, "ckptstore_objects_checked", run="r", by="listing") > 0
    on_disk = {name: [file for file in (tmp_path / name).rglob("*") if file.is_file()] for name in "abcdef"}
    for name, files in on_disk.items():
        put = sum_of(samples, "ckptstore_target_bytes_total", target=name, verb="put")
        put += sum_of(samples, "ckptstore_target_bytes_total", target=name, verb="put_if_absent")
        assert put >= sum(file.stat().st_size for file in files if "data" in file.parts) > 0
        assert sum_of(samples, "ckptstore_target_requests_total", target=name, outcome="ok") > len(files)


def test_a_target_that_is_gone_shows_as_failing_requests_and_degraded_checkpoints(run, tmp_path):
    run.save(STATE, step=1)
    (tmp_path / "f").rename(tmp_path / "f.away")
    metrics = telemetry.PrometheusObserver()
    with telemetry.observe(metrics):
        run.verify()
    assert value(metrics, "ckptstore_checkpoints", run="r", by="listing", state="degraded") == 1
    assert value(metrics, "ckptstore_checkpoint_survives_targets", run="r", by="listing") == 1
    assert value(metrics, "ckptstore_findings", run="r", by="listing", kind="unreachable") > 0
    failing = [
        sample
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "ckptstore_target_requests_total" and sample.labels["outcome"] not in {"ok", "absent"}
    ]
    assert {sample.labels["target"] for sample in failing} == {"f"}


def test_a_load_that_fails_is_no_success(run):
    metrics = telemetry.PrometheusObserver()
    with telemetry.observe(metrics), pytest.raises(CkptStoreError):
        run.load({})
    assert value(metrics, "ckptstore_work_total", run="r", work="load", outcome="NotFoundError") == 1
    assert value(metrics, "ckptstore_last_attempt_ok", run="r", work="load") == 0
    assert value(metrics, "ckptstore_last_success_timestamp_seconds", run="r", work="load") is None
    assert value(metrics, "ckptstore_load_seconds_count", run="r") is None


def test_an_observer_of_one_call_is_told_of_that_call_only(run):
    metrics = telemetry.PrometheusObserver()
    run.save(STATE, step=1, observer=metrics)
    run.save(STATE, step=2)
    assert value(metrics, "ckptstore_save_seconds_count", run="r") == 1


def test_a_prune_and_a_repair_are_work_and_a_dry_run_is_none(run, tmp_path):
    run.save(STATE, step=1)
    fragment = next(path for path in (tmp_path / "a" / "data").rglob("*") if path.is_file())
    fragment.unlink()
    metrics = telemetry.PrometheusObserver()
    with telemetry.observe(metrics):
        run.repair(dry_run=True)
        run.prune(keep_last=1, dry_run=True)
        assert value(metrics, "ckptstore_repair_seconds_count", run="r") is None
        assert value(metrics, "ckptstore_prune_seconds_count", run="r") is None
        run.repair()
        run.prune(keep_last=1)
    assert value(metrics, "ckptstore_repair_seconds_count", run="r") == 1
    assert value(metrics, "ckptstore_prune_seconds_count", run="r") == 1
    assert value(metrics, "ckptstore_bytes_total", run="r", work="repair") > 0


@pytest.mark.parametrize(
    ("options", "work"),
    [({"step": 1}, "verify_one"), ({"read_data": True}, "verify_data"), ({}, "verify")],
)
def test_verifies_of_one_of_all_and_of_the_data_are_told_apart(run, options, work):
    run.save(STATE, step=1)
    metrics = telemetry.PrometheusObserver()
    with telemetry.observe(metrics):
        run.verify(**options)
    assert value(metrics, "ckptstore_work_total", run="r", work=work, outcome="ok") == 1
    told = {by: value(metrics, "ckptstore_checkpoints", run="r", by=by, state="good") for by in ("listing", "data")}
    assert told == {"listing": 1 if work == "verify" else None, "data": 1 if work == "verify_data" else None}


def test_what_only_reading_finds_is_told_until_bytes_are_read_again(tmp_path):
    store = make_store(tmp_path)
    metrics = telemetry.PrometheusObserver()
    with ckptstore.open(store.config) as opened, telemetry.observe(metrics):
        run = opened.run(RUN)
        run.save(STATE, step=1)
        for fragment in store.fragments(store.latest())[:3]:
            store.flip(fragment)
        run.verify(read_data=True)
        run.verify()
        told = {by: value(metrics, "ckptstore_checkpoints", run=RUN, by=by, state="lost") for by in ("listing", "data")}
    assert told == {"listing": 0, "data": 1}


def test_what_a_verify_found_is_forgotten_at_the_next_and_where_that_fails():
    metrics = telemetry.PrometheusObserver()
    metrics(RunVerified("r", {"good": 1, "lost": 1}, {"missing": 4}, -1, -1, 10, 6))
    metrics(RunVerified("other", {"good": 1}, {}, 2, 1, 5, 5))
    assert value(metrics, "ckptstore_findings", run="r", by="listing", kind="missing") == 4
    metrics(RunVerified("r", {"good": 2, "lost": 0}, {}, 2, 1, 10, 10))
    assert value(metrics, "ckptstore_findings", run="r", by="listing", kind="missing") is None
    assert value(metrics, "ckptstore_checkpoint_survives_targets", run="r", by="listing") == 2
    metrics(WorkBegan(1, "verify", "r", None))
    metrics(WorkEnded(1, "verify", "r", None, 1.0, 0, "OutOfReach", "no"))
    assert value(metrics, "ckptstore_checkpoints", run="r", by="listing", state="good") is None
    assert value(metrics, "ckptstore_checkpoint_survives_targets", run="other", by="listing") == 2


def test_a_run_without_checkpoints_has_no_latest_one():
    metrics = telemetry.PrometheusObserver()
    metrics(RunListed("r", 1000.0, 7, 50, 60.0))
    assert value(metrics, "ckptstore_save_interval_seconds", run="r") == 60
    metrics(RunListed("r", None, None, None, None))
    for name in ("save_interval_seconds", "latest_checkpoint_step", "latest_checkpoint_timestamp_seconds"):
        assert value(metrics, f"ckptstore_{name}", run="r") is None


def test_what_may_go_wrong_with_a_target_is_exposed_at_zero_before_it_does():
    metrics = telemetry.PrometheusObserver()
    metrics(RequestEnded("a", "put", 5, 0.1, "ok"))
    assert value(metrics, "ckptstore_damaged_fragments_total", target="a") == 0
    for work in ("save", "load"):
        assert value(metrics, "ckptstore_target_failures_total", target="a", work=work) == 0


def test_no_label_grows_without_end():
    metrics = telemetry.PrometheusObserver()
    for step in range(50):
        metrics(WorkBegan(step, "save", "r", step))
        metrics(WorkEnded(step, "save", "r", step, 1.0, 5, "ok", f"message {step}"))
        metrics(RequestEnded("a", "put", 5, 0.1, "ok"))
        metrics(TargetFailed("save", "a", f"reason {step}"))
        metrics(FragmentDamaged("a", f"data/{step}", f"reason {step}"))
        metrics(RunListed("r", float(step), step, 5, 1.0))
    for family in metrics.registry.collect():
        assert len({tuple(sorted(sample.labels.items())) for sample in family.samples}) < 20, family.name
    assert value(metrics, "ckptstore_damaged_fragments_total", target="a") == 50


def test_a_registry_may_be_given_and_holds_one_observer():
    registry = CollectorRegistry()
    assert telemetry.PrometheusObserver(registry).registry is registry
    with pytest.raises(ValueError, match="Duplicated"):
        telemetry.PrometheusObserver(registry)
    assert telemetry.PrometheusObserver().registry is not telemetry.PrometheusObserver().registry


@pytest.mark.parametrize(
    ("module", "made", "extra"),
    [("prometheus_client", "PrometheusObserver", "metrics"), ("opentelemetry", "SpanObserver", "otel")],
)
def test_where_an_extra_is_not_installed_it_is_named(module, made, extra):
    script = (
        f"import sys; sys.modules[{module!r}] = None\n"
        f"from ckptstore import telemetry\nfrom ckptstore.errors import UsageError\n"
        f"try: telemetry.{made}()\n"
        f"except UsageError as error: print(error.hint)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"pip install 'ckptstore[{extra}]'"


@pytest.mark.parametrize("address", ["9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "", "a:b:1"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(UsageError, match="HOST:PORT"):
        telemetry.serve(CollectorRegistry(), address)


def test_a_port_in_use_is_told_and_a_closed_one_is_free_again():
    server = telemetry.serve(CollectorRegistry(), "127.0.0.1:0")
    address = f"127.0.0.1:{server.port}"
    with pytest.raises(UsageError, match="can't be listened on"):
        telemetry.serve(CollectorRegistry(), address)
    server.close()
    telemetry.serve(CollectorRegistry(), address).close()


def test_counting_a_request_costs_microseconds():
    """Against a put of a fragment, which takes milliseconds. Generous: the machine may be busy."""
    metrics = telemetry.PrometheusObserver()
    event = RequestEnded("a", "put", 5, 0.1, "ok")
    rounds = 2000
    gc.disable()
    try:
        begun = time.thread_time()
        for _ in range(rounds):
            metrics(event)
        each = (time.thread_time() - begun) / rounds
    finally:
        gc.enable()
    assert value(metrics, "ckptstore_target_requests_total", target="a", verb="put", outcome="ok") == rounds
    assert each < 200e-6
