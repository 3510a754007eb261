"""The demo as a newcomer starts it."""

import subprocess
import sys

import pytest


@pytest.mark.soak
@pytest.mark.parametrize(
    "places", [pytest.param([], id="directories"), pytest.param(["--s3"], id="s3", marks=pytest.mark.servers)]
)
def test_all_of_it_holds(tmp_path, places):
    command = [sys.executable, "-m", "ckptstore.demo", "--folder", str(tmp_path / "demo-run"), *places]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All of it held" in done.stdout.splitlines()[-1]
    assert done.stderr == ""


def test_refuses_a_folder_that_is_not_its_own(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    command = [sys.executable, "-m", "ckptstore.demo", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "not empty" in done.stderr
    assert (tmp_path / "thesis.tex").read_text() == "precious"
