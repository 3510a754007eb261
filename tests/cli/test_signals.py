"""SIGINT and SIGTERM to a `ckpt` that restores: it ends with the shell's status and leaves nothing half-written."""

import json
import signal
import subprocess
import sys
import time

import pytest

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
