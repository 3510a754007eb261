"""`python -m localstack`: servers of two kinds up, a store on them, down again."""

import subprocess
import sys

import pytest

from localstack.__main__ import main

pytestmark = [pytest.mark.servers]


def command(*arguments, folder):
    told = [sys.executable, "-m", "localstack", *arguments, "--folder", str(folder)]
    return subprocess.run(told, check=False, capture_output=True, text=True)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "servers"
    yield folder
    command("down", folder=folder)


def test_up_gives_a_store_of_several_services_and_down_ends_them(folder):
    told = command("up", "--seaweed", "1", "--gcs", "1", "--buckets", "2", "--code", "2+1", folder=folder)
    assert (told.returncode, told.stderr) == (0, "")
    assert "2 servers with 4 targets are up" in told.stdout
    assert (folder / "environment.sh").stat().st_mode & 0o077 == 0
    assert "AWS_SECRET" not in told.stdout + (folder / "store.toml").read_text()
    assert command("status", folder=folder).stdout.count("  up\n") == 2

    script = f". {folder}/environment.sh && {sys.executable} -m ckptstore init --store {folder}/store.toml"
    made = subprocess.run(["bash", "-c", script], check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert "code 2+1: a checkpoint survives 1 target, 0 domains" in made.stdout

    assert command("up", folder=folder).returncode == 1, "they are up already"
    assert command("down", folder=folder).returncode == 0
    assert command("status", folder=folder).returncode == 1


@pytest.mark.parametrize("wrong", [["--azurite", "2"], ["--seaweed", "1", "--buckets", "0"]])
def test_what_can_t_be_started_is_refused(wrong, tmp_path, capsys):
    assert main(["up", *wrong, "--folder", str(tmp_path / "x")]) == 2
    assert "at most" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
