"""README.md does what it shows: its commands and snippets run in order, on directories."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

from ckptstore.config import Config
from tests.cli.support import Ckpt

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n([\s\S]*?)^```$|^((?:    \$ .*\n)+)", re.MULTILINE)


def blocks():
    """(language, text) of every fenced block and every run of `$` lines, in order."""
    for found in BLOCK.finditer(README):
        language, fenced, lines = found.groups()
        yield (language, fenced) if language else ("sh", re.sub(r"^    \$ ", "", lines, flags=re.MULTILINE))


def run_shell(text, folder):
    """As a person would type it; `ckpt` is the one of this checkout."""
    ckpt = f'ckpt() {{ {shlex.quote(sys.executable)} -m ckptstore.cli "$@"; }}\n'
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CKPT_")}
    script = ckpt + text.replace("/mnt/", f"{folder}/mnt/")
    line = ["/bin/sh", "-ec", script]
    done = subprocess.run(line, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_readme_s_commands_and_snippets_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for letter in "abcdef":
        (tmp_path / "mnt" / letter).mkdir(parents=True)
    state = {"model": {"w": torch.arange(6.0)}, "step": 200}
    names = {"state_dict": state}
    shell = ""
    for language, text in blocks():
        if language == "python":
            exec(compile(text, "README.md", "exec"), names)
        elif language == "sh":
            shell += run_shell(text, tmp_path)
    assert all(name in shell for name in ("step-100", "step-200", "step-300"))
    assert (tmp_path / "out.safetensors").is_file()
    assert torch.equal(state["model"]["w"], torch.arange(6.0))


def test_the_readme_has_a_block_of_each_kind():
    assert [language for language, _ in blocks()] == ["sh", "toml", "python", "python", "sh"]


def test_the_readme_s_settings_are_settings(tmp_path):
    """With five more targets like the one it shows."""
    (text,) = [text for language, text in blocks() if language == "toml"]
    settings = tomllib.loads(text)
    (target,) = settings["targets"]
    settings["targets"] = [{**target, "name": name, "url": f"s3://ckpt-{name}/prefix"} for name in "abcdef"]
    config = Config.from_dict({**settings, "folder": str(tmp_path)}, origin="README.md")
    assert (config.code, len(config.places)) == ("4+2", 6)


@pytest.mark.parametrize("run", ["other", None])
def test_ckpt_run_names_the_run(tmp_path, monkeypatch, run):
    ckpt = Ckpt(tmp_path)
    assert ckpt("init").code == 0
    (tmp_path / "in").mkdir()
    (tmp_path / "in/x").write_text("x")
    monkeypatch.setenv("CKPT_RUN", "pretrain-7b")
    assert ckpt("save", tmp_path / "in", "--step", 1, *(["--run", run] if run else [])).code == 0
    assert ckpt("ls", "--all-runs", "--json").summary["checkpoints"][0]["run"] == (run or "pretrain-7b")
