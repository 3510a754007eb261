"""What is in docs/nightly: the script runs, on bad nights too, and the manifests name what is there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

NIGHTLY = Path(__file__).parents[2] / "docs" / "nightly"


@pytest.fixture
def night(ckpt, tmp_path):
    """Run the script; returns its exit code and the names of what it left."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ckpt").write_text(f'#!/bin/sh\nexec {sys.executable} -m ckptstore "$@"\n')
    (programs / "ckpt").chmod(0o755)
    reports = tmp_path / "reports"
    environment = os.environ | {
        "PATH": f"{programs}:/usr/bin:/bin",
        "CKPT_STORE": str(ckpt.path),
        "CKPT_RUNS": "default",
        "CKPT_REPORTS": str(reports),
    }

    def run():
        ended = subprocess.run([NIGHTLY / "ckpt-nightly.sh"], env=environment, capture_output=True, check=False)
        return ended.returncode, sorted(path.name.partition("-")[0] + path.suffix for path in reports.iterdir())

    return run


LEFT = ["drill.html", "drill.json", "drill.xml", "report.html.html", "verify.jsonl"]


def test_a_bad_night_is_drilled_and_reported_like_any_other(ckpt, night):
    shutil.rmtree(ckpt.folder / "b" / "data")
    assert night() == (4, LEFT), "the worst: with two more lost it doesn't come back"


@pytest.mark.soak
def test_a_good_night_ends_well(night):
    assert night() == (0, LEFT)


def test_manifests_are_yaml_and_run_what_is_there():
    config, cron = yaml.safe_load_all((NIGHTLY / "kubernetes.yaml").read_text(encoding="utf-8"))
    job = cron["spec"]["jobTemplate"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    script = Path(container["command"][-1])
    assert (str(script.parent), config["metadata"]["name"]) == (mounted["store"], "ckpt-store")
    assert (NIGHTLY / script.name).exists()
    text = (NIGHTLY / script.name).read_text(encoding="utf-8")
    assert {each["name"] for each in container["env"]} == {"CKPT_STORE", "CKPT_RUNS", "CKPT_REPORTS"}
    assert all(f"${{{each['name']}:?}}" in text for each in container["env"])
    repair = yaml.safe_load((NIGHTLY / "kubernetes-repair.yaml").read_text(encoding="utf-8"))["spec"]
    (mender,) = repair["template"]["spec"]["containers"]
    assert f"/{repair['completions']} " in mender["command"][-1]
    unit = (NIGHTLY / "ckpt-nightly.service").read_text(encoding="utf-8")
    assert script.name in unit
    assert all(f"{name}=" in unit for name in ("CKPT_STORE", "CKPT_RUNS", "CKPT_REPORTS", "CKPT_METRICS_DIR"))
