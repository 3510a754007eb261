"""SIGINT and SIGTERM to a `ckpt` that restores: it ends with the shell's status and leaves nothing half-written."""

import json
import signal
import subprocess
import sys
import time

import pytest

from ckptstore.cli import coercion
from ckptstore.cli.failures import Terminated

SLOW = """
import sys, time
from ckptstore import cli
from ckptstore.targets.directory import DirectoryTarget
inner = DirectoryTarget.get_into
def slow(self, path, into, *, start=0):
    time.sleep(2 * path.startswith("data/"))
    inner(self, path, into, start=start)
DirectoryTarget.get_into = slow
sys.exit(cli.main())
"""


def restoring(ckpt, path):
    """A restore that has begun to write, and waits for its targets."""
    line = [sys.executable, "-c", SLOW, "restore", str(path), "--json", "--store", str(ckpt.path)]
    child = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while not list(path.parent.rglob("*.part*/*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    return child


@pytest.mark.parametrize(
    ("number", "kind", "code"), [(signal.SIGTERM, "Terminated", 143), (signal.SIGINT, "Interrupted", 130)]
)
def test_o46_a_signal_ends_a_restore_and_leaves_no_file(ckpt, tmp_path, number, kind, code):
    (tmp_path / "to").mkdir()
    child = restoring(ckpt, tmp_path / "to" / "out")
    child.send_signal(number)
    out, err = child.communicate(timeout=15)
    assert (child.returncode, json.loads(out)["kind"]) == (code, kind), err
    assert list((tmp_path / "to").iterdir()) == []
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("error", "kind", "code"), [(Terminated, "Terminated", 143), (KeyboardInterrupt, "Interrupted", 130)]
)
def test_a_signal_before_the_command_has_begun_is_told_too(ckpt, monkeypatch, error, kind, code):
    """While the command line is read: typer turns what it raises into an exit with 130, and says nothing."""

    def interrupted(_parameters):
        raise error

    monkeypatch.setattr(coercion, "_lighten", interrupted)
    answer = ckpt("ls", "--json")
    assert (answer.code, answer.summary["kind"]) == (code, kind)
    assert answer.err.startswith("error: ")


def test_a_signal_at_any_time_is_told_or_comes_before_anything_was_begun(ckpt):
    line = [sys.executable, "-m", "ckptstore.cli", "ls", "--store", str(ckpt.path)]
    for delay in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7):
        child = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(delay)
        child.send_signal(signal.SIGTERM)
        _, err = child.communicate(timeout=30)
        told = (143, True) if "terminated" in err else (-signal.SIGTERM, False)
        assert child.returncode in {0, told[0]}, (delay, child.returncode, err)
        assert "Traceback" not in err


@pytest.mark.parametrize("line", [["--help"], ["--version"], ["ls", "--help"]])
def test_help_exits_well(line):
    done = subprocess.run([sys.executable, "-m", "ckptstore.cli", *line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_what_fails_after_a_signal_is_told_as_the_signal(ckpt):
    """Threads that are told to end, or a cleaning up that fails, may raise in the place of what the signal raised."""
    script = (
        "import os, signal, sys; from ckptstore.operations import doctor; from ckptstore import cli\n"
        "def examine(opened):\n"
        "    try: os.kill(os.getpid(), signal.SIGTERM); signal.sigtimedwait([], 5)\n"
        "    except KeyboardInterrupt: raise RuntimeError('cannot schedule new futures after shutdown') from None\n"
        "doctor.examine = examine\n"
        f"sys.argv = ['ckpt', 'doctor', '--json', '--store', {str(ckpt.path)!r}]\n"
        "sys.exit(cli.main())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["kind"]) == (143, "Terminated"), done.stderr
