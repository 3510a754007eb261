"""Where the answer can't be written: one line says so, and the exit code; never a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")
LINES = {
    "ls": ["ls"],
    "verify --json": ["verify", "--json"],
    "an error, --json": ["ls", "--json", "--run", "No"],
    "--version": ["--version"],
    "nothing": [],
}


def shell(ckpt, arguments, redirection, **options):
    """Run one in a shell, which closes and redirects as a person would."""
    place = ["--store", str(ckpt.path)] if len(arguments) > 0 and arguments[0] != "--version" else []
    line = [sys.executable, "-m", "ckptstore.cli", *arguments, *place]
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *line], capture_output=True, text=True, check=False, **options
    )


@pytest.mark.skipif(not FULL.exists(), reason="a device of Linux")
@pytest.mark.parametrize("name", LINES)
def test_a_full_disk_is_told_in_one_line(ckpt, name):
    done = shell(ckpt, LINES[name], ">/dev/full")
    told = done.stderr.splitlines()
    assert done.returncode == 1
    assert told[-1] == "error: the output can't be written: No space left on device"
    assert "Traceback" not in done.stderr
    assert len(told) == (3 if "--json" in name and "," in name else 1)


@pytest.mark.parametrize("name", ["ls", "verify --json"])
def test_a_closed_output_is_told_in_one_line(ckpt, name):
    done = shell(ckpt, LINES[name], ">&-")
    assert (done.returncode, done.stderr) == (1, "error: the output can't be written: it is closed\n")


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_what_nobody_can_be_told_costs_no_answer(ckpt, redirection):
    (ckpt.folder / "f").rename(ckpt.folder / "f.away")  # a note
    done = shell(ckpt, ["ls", "--json"], redirection)
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert shell(ckpt, ["ls", "--run", "No"], redirection).returncode == 2


@pytest.mark.parametrize("name", ["ls", "an error, --json"])
def test_a_reader_that_has_seen_enough_is_no_error(ckpt, name):
    reading, writing = os.pipe()
    os.close(reading)
    line = [sys.executable, "-m", "ckptstore.cli", *LINES[name], "--store", str(ckpt.path)]
    done = subprocess.run(line, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.returncode == 1
    assert [line for line in done.stderr.splitlines() if "pipe" in line.lower() or "Traceback" in line] == []


def test_an_interrupted_command_ends_as_one_whatever_its_output(ckpt):
    script = (
        "import os, signal, sys; from ckptstore.operations import doctor; from ckptstore.cli import main\n"
        "doctor.examine = lambda opened: os.kill(os.getpid(), signal.SIGINT)\n"
        f"sys.argv[1:] = ['doctor', '--json', '--store', {str(ckpt.path)!r}]\n"
        "sys.exit(main())"
    )
    line = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", script]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
