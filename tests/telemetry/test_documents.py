"""The dashboard, the rules and docs/metrics.md name metrics and labels that real runs expose, and all of them."""

import json
import logging
import re
import shlex
from collections import defaultdict
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
import yaml
from prometheus_client import generate_latest, parser

import ckptstore
from ckptstore import listening, telemetry
from ckptstore.dcp import StoreWriter
from ckptstore.operations.telling import listed
from ckptstore.telemetry.metrics import TIMED
from tests.cli.support import Ckpt
from tests.support import make_store

DOCS = Path(__file__).parents[2] / "docs"
METRIC = re.compile(r"\bckptstore_[a-z_]+\b")
SELECTOR = re.compile(r"\b(ckptstore_[a-z_]+)(?:\{([^}]*)\})?")
GROUPING = re.compile(r"\b(?:by|on) \(([^)]*)\)")
FROM_PROMETHEUS = {"job", "instance", "le"}


def dashboard():
    return json.loads((DOCS / "monitoring" / "dashboard.json").read_text(encoding="utf-8"))


def rules():
    (group,) = yaml.safe_load((DOCS / "monitoring" / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    return group["rules"]


def expressions():
    found = {f"alert {rule['alert']}": rule["expr"] for rule in rules()}
    for panel in dashboard()["panels"]:
        found |= {f"panel {panel['title']} {target['refId']}": target["expr"] for target in panel["targets"]}
    for variable in dashboard()["templating"]["list"][1:]:
        found[f"variable {variable['name']}"] = variable["definition"]
    return found


@pytest.fixture(scope="module")
def exposed(tmp_path_factory):
    """Labels of every series that a process exposes which saved, loaded from a damaged store, verified and repaired."""
    store = make_store(tmp_path_factory.mktemp("store"))
    state = {"w": torch.arange(100_000, dtype=torch.float32)}
    metrics = telemetry.PrometheusObserver()
    with ckptstore.open(store.config) as opened, telemetry.observe(metrics):
        run = opened.run("demo")
        run.save(state, step=1)
        run.save_async(state, step=2).result()
        store.flip(store.fragments(store.latest())[0])
        run.load(state)
        run.verify(read_data=True)
        run.repair()
        run.prune(keep_last=1)
        run.verify()
        store.take_away(store.fragments(store.latest())[0].target)
        run.load(state)
        run.verify()
        metrics(listed(store.opened.group.history("demo")))
        with telemetry.work("drill", "demo"):
            pass
    labels = defaultdict(set)
    for family in parser.text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        for sample in family.samples:
            labels[sample.name] |= sample.labels.keys()
    return labels


@pytest.mark.parametrize("where", expressions())
def test_every_expression_names_metrics_and_labels_that_a_real_run_exposes(exposed, where):
    expression = expressions()[where]
    named = SELECTOR.findall(expression)
    assert named
    known = set()
    for name, selector in named:
        assert name in exposed, name
        assert set(re.findall(r"(\w+)\s*[!=]~?", selector)) <= exposed[name]
        known |= exposed[name]
    for labels in GROUPING.findall(expression):
        assert {label.strip() for label in labels.split(",")} <= known | FROM_PROMETHEUS


def test_the_page_explains_every_metric_and_no_other(exposed):
    text = (DOCS / "metrics.md").read_text(encoding="utf-8")
    suffixes = ("_bucket", "_count", "_sum", "_created")
    families = {name for name in exposed if not name.endswith(suffixes)}
    families |= {name.removesuffix("_count") for name in exposed if name.endswith("_count")}
    explained = set(re.findall(r"^\| `(ckptstore_[a-z_]+)", text, re.MULTILINE))
    assert explained == families
    assert {f"ckptstore_{work}_seconds" for work in TIMED} <= explained


def test_every_rule_is_explained_and_says_what_to_do_next():
    text = (DOCS / "metrics.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([A-Z][A-Za-z]+)` \|", text, re.MULTILINE)) == {rule["alert"] for rule in rules()}
    for rule in rules():
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert set(rule["annotations"]) == {"summary", "next"}


def test_the_dashboard_can_be_imported():
    found = dashboard()
    ids = [panel["id"] for panel in found["panels"]]
    assert len(ids) == len(set(ids)) > 10
    squares = set()
    for panel in found["panels"]:
        place = panel["gridPos"]
        assert panel["description"]
        assert panel["datasource"]["uid"] == "${datasource}"
        own = {(place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])}
        assert not own & squares
        assert all(x < 24 for x, _ in own)
        squares |= own


def test_what_a_rule_says_of_a_label_is_a_label_of_it(exposed):
    for rule in rules():
        for label in re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())):
            assert label in set().union(*(exposed[name] for name in METRIC.findall(rule["expr"])))


def test_the_page_s_snippets_and_commands_run(tmp_path, monkeypatch):
    """Its ports become free ones, and the collector's folder one of the test."""
    page = (DOCS / "metrics.md").read_text(encoding="utf-8").replace("/var/lib/node_exporter", str(tmp_path))
    ckpt = Ckpt(tmp_path)
    assert ckpt("init").code == 0
    monkeypatch.chdir(tmp_path)
    logger = logging.getLogger("ckptstore")
    names = {"state_dict": {"w": torch.arange(6.0)}, "StoreWriter": StoreWriter, "dcp": dcp}
    try:
        for block in re.findall(r"^```python\n([\s\S]*?)^```$", page, re.MULTILINE):
            exec(compile(re.sub(r'"0.0.0.0:9464"', '"127.0.0.1:0"', block), "metrics.md", "exec"), names)
        saved = names["metrics"].registry.get_sample_value("ckptstore_save_seconds_count", {"run": "pretrain-7b"})
        assert saved == 1
        assert [type(handler.formatter) for handler in logger.handlers] == [telemetry.JsonLines]
    finally:
        names["server"].close()
        listening._LISTENERS.clear()
        logger.handlers.clear()
        logger.propagate = True
    lines = re.findall(r"^    ckpt (metrics .*?)(?:  +#.*)?$", page, re.MULTILINE)
    assert len(lines) == 3
    for line in lines:
        if "--listen" not in line:  # tests/cli/test_metrics.py serves
            assert ckpt(*shlex.split(line.replace("--store store.toml", ""))).code == 0
    assert "pretrain-7b" in (tmp_path / "ckptstore.prom").read_text()
