"""`ckpt metrics`: printed, written, served; and what commands leave for a textfile collector."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import pytest
from prometheus_client import parser


def samples_of(text):
    """Values by name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def of(samples, name, **labels):
    return samples.get((f"ckptstore_{name}", *sorted(labels.items())))


@contextmanager
def serving(ckpt, *options, **environment):
    """A `ckpt metrics --listen` on a free port: the process, and where it answers."""
    line = [sys.executable, "-m", "ckptstore.cli", "metrics", "--listen", "127.0.0.1:0", "--json", *options]
    environment = {**os.environ, "CKPT_STORE": str(ckpt.path), **environment}
    child = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        yield child, json.loads(child.stdout.readline())["url"]
    finally:
        child.kill()
        child.communicate()


def scrape(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return samples_of(answer.read().decode())


def wait_for(url, wanted, seconds=30):
    """Scrape until `wanted(samples)`; what was scraped last."""
    deadline = time.monotonic() + seconds
    while not wanted(found := scrape(url)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def test_metrics_are_printed_in_prometheus_format(ckpt):
    answer = ckpt("metrics")
    found = samples_of(answer.out)
    assert answer.code == 0
    assert of(found, "checkpoints", by="listing", run="default", state="good") == 1
    assert of(found, "checkpoint_survives_targets", run="default", by="listing") == 2
    assert of(found, "latest_checkpoint_step", run="default") == 7
    assert abs(of(found, "latest_checkpoint_timestamp_seconds", run="default") - time.time()) < 300
    assert of(found, "last_attempt_ok", run="default", work="verify") == 1
    requests = [key for key in found if key[0] == "ckptstore_target_requests_total"]
    assert {dict(key[1:])["target"] for key in requests} == set("abcdef")


def test_json_has_one_line_a_sample_and_the_same_values(ckpt):
    answer = ckpt("metrics", "--json")
    samples = [line for line in answer.lines if line["type"] == "sample"]
    assert answer.summary["store"] == "store"
    assert {
        "name": "ckptstore_checkpoints",
        "labels": {"by": "listing", "run": "default", "state": "good"},
        "value": 1.0,
    } in [{key: line[key] for key in ("name", "labels", "value")} for line in samples]
    assert [line["code"] for line in answer.lines if line["type"] == "run"] == [0]


def test_what_is_damaged_is_told_and_the_exit_code_stays_0(ckpt):
    ckpt.away("f")
    answer = ckpt("metrics")
    found = samples_of(answer.out)
    assert answer.code == 0
    assert of(found, "checkpoints", by="listing", run="default", state="degraded") == 1
    assert of(found, "checkpoint_survives_targets", run="default", by="listing") == 1
    assert of(found, "findings", by="listing", run="default", kind="unreachable") > 0


def test_a_store_out_of_reach_is_told_and_so_is_that_verify_failed(ckpt):
    assert of(samples_of(ckpt("metrics").out), "checkpoints", by="listing", run="default", state="good") == 1
    ckpt.away(*"abcdef")
    answer = ckpt("metrics")
    assert answer.code == 5
    assert "could not be looked at" in answer.err
    assert of(samples_of(answer.out), "checkpoints", by="listing", run="default", state="good") is None


def test_all_runs_are_looked_at(ckpt):
    for run in ("one", "two"):
        assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 1, "--run", run).code == 0
    found = samples_of(ckpt("metrics", "--all-runs").out)
    for run in ("default", "one", "two"):
        assert of(found, "checkpoints", by="listing", run=run, state="good") == 1
    only = samples_of(ckpt("metrics", "--run", "one").out)
    assert of(only, "checkpoints", by="listing", run="two", state="good") is None


def test_a_textfile_is_replaced_whole_and_keeps_the_last_success(ckpt):
    path = ckpt.folder / "ckptstore.prom"
    assert ckpt("metrics", "--textfile", path).out == f"wrote {path}\n"
    first = samples_of(path.read_text())
    success = of(first, "last_success_timestamp_seconds", run="default", work="verify")
    inode = path.stat().st_ino
    names = "abcdef"
    for name in names:  # in reach, and unreadable: a verify fails, and the run is still known
        sessions = ckpt.folder / name / "runs" / "default"
        sessions.rename(sessions.with_name("gone"))
    answer = ckpt("metrics", "--textfile", path, "--json")
    found = samples_of(path.read_text())
    assert answer.code == 10
    assert path.stat().st_ino != inode
    assert of(found, "last_attempt_ok", run="default", work="verify") == 0
    assert of(found, "last_success_timestamp_seconds", run="default", work="verify") == success
    assert of(found, "checkpoints", by="listing", run="default", state="good") is None
    assert [file.name for file in ckpt.folder.glob("*.prom*")] == ["ckptstore.prom"]


def test_where_the_runs_can_not_be_listed_the_old_textfile_stays(ckpt):
    """A file without them would silence every alert about them; this one grows old."""
    path = ckpt.folder / "ckptstore.prom"
    assert ckpt("metrics", "--all-runs", "--textfile", path).code == 0
    before = path.read_bytes()
    ckpt.away(*"abcdef")
    assert ckpt("metrics", "--all-runs", "--textfile", path).code == 5
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--textfile", "metrics.txt"], ".prom"),
        (["--every", "15m"], "--listen"),
        (["--listen", "127.0.0.1:0", "--textfile", "x.prom"], "--textfile"),
        (["--listen", "127.0.0.1:0", "--every", "soon"], "--every soon"),
        (["--listen", "127.0.0.1:0", "--every", "0"], "--every 0"),
        (["--listen", "nowhere"], "HOST:PORT"),
    ],
)
def test_options_that_can_not_be_are_refused(ckpt, options, named):
    answer = ckpt("metrics", *options, "--json")
    assert (answer.code, answer.summary["kind"]) == (2, "UsageError")
    assert named in answer.summary["message"]


def test_an_unwritable_textfile_is_told(ckpt):
    answer = ckpt("metrics", "--textfile", ckpt.folder / "nowhere" / "x.prom", "--json")
    assert (answer.code, answer.summary["kind"]) == (1, "FileNotFoundError")


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.soak)])
def test_the_endpoint_looks_again_and_stops_cleanly(ckpt, number):
    with serving(ckpt, "--every", "1s") as (child, url):
        found = wait_for(url, lambda found: of(found, "checkpoints", by="listing", run="default", state="good"))
        assert of(found, "checkpoints", by="listing", run="default", state="good") == 1
        ckpt.away("f")
        found = wait_for(url, lambda found: of(found, "checkpoints", by="listing", run="default", state="degraded"))
        assert of(found, "checkpoints", by="listing", run="default", state="degraded") == 1
        assert of(found, "verify_seconds_count", run="default") >= 2
        child.send_signal(number)
        out, err = child.communicate(timeout=20)
    summary = json.loads(out.splitlines()[-1])
    assert (child.returncode, summary["code"]) == (0, 0), err
    assert summary["looks"] >= 2
    assert "Traceback" not in err


@pytest.mark.parametrize("options", [pytest.param([], marks=pytest.mark.soak), ["--all-runs"]])
def test_the_endpoint_lives_on_while_the_store_is_out_of_reach(ckpt, options):
    with serving(ckpt, "--every", "1s", *options) as (_child, url):
        wait_for(url, lambda found: of(found, "checkpoints", by="listing", run="default", state="good"))
        ckpt.away(*"abcdef")
        down = wait_for(url, lambda found: not of(found, "last_attempt_ok", run="default", work="verify"))
        assert of(down, "checkpoints", by="listing", run="default", state="good") is None
        assert of(down, "last_success_timestamp_seconds", run="default", work="verify") > 0
        ckpt.back(*"abcdef")
        well = wait_for(
            url, lambda found: of(found, "checkpoints", by="listing", run="default", state="good"), seconds=60
        )
        assert of(well, "checkpoints", by="listing", run="default", state="good") == 1


def test_no_secret_is_served_or_told(ckpt):
    secret = "known-secret-0000000000000000000000000001"
    tables = [
        f'[[targets]]\nname = "{name}"\nurl = "s3://bucket/{name}"\noptions = {{ deadline = 1 }}\n' for name in "abcdef"
    ]
    ckpt.path.write_text('name = "store"\ncode = "4+2"\n' + "\n".join(tables))
    known = {"AWS_SECRET_ACCESS_KEY": secret, "AWS_ACCESS_KEY_ID": "AKIAKNOWNKEY00000001"}
    answer = ckpt.child("metrics", "-v", **known, AWS_ENDPOINT_URL=f"http://user:{secret}@127.0.0.1:9")
    assert answer.code
    assert secret not in answer.out + answer.err


def left(folder):
    return {path.name: samples_of(path.read_text()) for path in folder.iterdir()}


@pytest.fixture
def folder(ckpt, monkeypatch):
    """Where commands leave how they ended."""
    folder = ckpt.folder / "collector"
    folder.mkdir()
    monkeypatch.setenv("CKPT_METRICS_DIR", str(folder))
    return folder


def test_commands_leave_how_they_ended_and_no_series_twice(ckpt, folder):
    assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 8).code == 0
    for line in (["verify"], ["verify", "--read-data"], ["repair"], ["prune", "--keep-last", 5], ["ls"]):
        assert ckpt(*line).code == 0
    found = left(folder)
    works = ("save", "verify", "verify_data", "repair", "prune")
    assert sorted(found) == sorted(f"ckptstore_store_default_{work}.prom" for work in works)
    for work in works:
        samples = found[f"ckptstore_store_default_{work}.prom"]
        assert of(samples, "last_attempt_ok", run="default", work=work) == 1
        assert abs(of(samples, "last_success_timestamp_seconds", run="default", work=work) - time.time()) < 300
        assert of(samples, f"{work}_seconds_sum", run="default") > 0
    series = [key for samples in found.values() for key in samples]
    assert len(series) == len(set(series))


def test_a_failure_keeps_the_time_of_the_last_success(ckpt, folder):
    name = "ckptstore_store_default_save.prom"
    assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 8).code == 0
    success = of(left(folder)[name], "last_success_timestamp_seconds", run="default", work="save")
    ckpt.away("d", "e", "f")
    assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 9).code == 5
    found = left(folder)[name]
    assert of(found, "last_attempt_ok", run="default", work="save") == 0
    assert of(found, "last_success_timestamp_seconds", run="default", work="save") == success
    assert of(found, "work_total", run="default", work="save", outcome="failed") == 1


def test_what_a_verify_finds_is_no_failure_to_verify(ckpt, folder):
    ckpt.fragments("a")[0].unlink()
    assert ckpt("verify").code == 3
    (samples,) = left(folder).values()
    assert of(samples, "last_attempt_ok", run="default", work="verify") == 1


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (["verify", "7"], 0),
        (["repair", "--dry-run"], 0),
        (["repair", "7"], 0),
        (["ls"], 0),
        (["metrics"], 0),
        (["save", "in.safetensors"], 2),
        (["verify", "--run", "../up"], 2),
        (["verify", "--store", "nowhere.toml"], 2),
    ],
)
def test_what_is_no_work_on_a_run_leaves_nothing(ckpt, folder, line, code):
    assert ckpt(*line).code == code
    assert left(folder) == {}


def test_a_command_that_is_stopped_is_no_success(ckpt, folder, monkeypatch):
    from ckptstore.cli.failures import Terminated
    from ckptstore.operations import verify

    def stopped(*_arguments, **_options):
        raise Terminated

    monkeypatch.setattr(verify, "verify", stopped)
    assert ckpt("verify").code == 143
    (samples,) = left(folder).values()
    assert of(samples, "work_total", run="default", work="verify", outcome="interrupted") == 1
    assert of(samples, "last_attempt_ok", run="default", work="verify") == 0


def test_without_the_extra_it_is_named_and_other_commands_go_on(ckpt, folder):
    script = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from ckptstore.cli.entry import run\n"
        f"sys.exit(run([*sys.argv[1:], '--json', '--store', {str(ckpt.path)!r}]))"
    )
    told = {}
    for command in ("metrics", "verify"):
        line = [sys.executable, "-c", script, command]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        told[command] = done.returncode, "pip install 'ckptstore[metrics]'" in done.stderr
    assert told == {"metrics": (2, True), "verify": (0, True)}


def test_a_folder_that_is_gone_fails_no_command(ckpt, folder):
    folder.rmdir()
    answer = ckpt("verify", "--json")
    assert (answer.code, answer.summary["states"]["good"]) == (0, 1)
    assert "CKPT_METRICS_DIR" in answer.err
