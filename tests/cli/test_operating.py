"""docs/operating.md does what it shows: its commands run in order, each section after what its title says happened."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from safetensors.numpy import save_file

from tests.cli.support import Ckpt, tensors

TEXT = (Path(__file__).parent.parent.parent / "docs/operating.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"^    \$ ckpt (?P<line>.*?)(?:\s+\(exits (?P<code>\d+)\))?$", re.MULTILINE)
NAMES = "abcdef"


def sections():
    """Title and commands, each with the exit code that the page tells of."""
    for part in TEXT.split("\n## ")[1:]:
        title, _, body = part.partition("\n")
        yield title, [(shlex.split(found["line"]), int(found["code"] or 0)) for found in COMMAND.finditer(body)]


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Four checkpoints of one run, and another store to copy to."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CKPT_STORE", str(tmp_path / "store.toml"))
    found = Ckpt(tmp_path, NAMES)
    assert found("init").code == 0
    for step in (1, 2, 3, 4):
        save_file(tensors(step), tmp_path / "model.safetensors")
        assert found("save", tmp_path / "model.safetensors", "--step", step).code == 0
    (tmp_path / "elsewhere").mkdir()
    assert Ckpt(tmp_path / "elsewhere", "xyz", "2+1")("init").code == 0
    return found


def happens(title, store):
    """What the title of a section says has happened."""
    if title == "A disk has died, its replacement is empty":
        shutil.rmtree(store.folder / "b")
        (store.folder / "b").mkdir()
    if title == "A target will not come back":
        store.away("c")
        store.names += "g"
        store.write("4+2", "64KiB")
    if title == "When more is lost than may be":
        store.away("a", "b", "d")
    if title == "Room":
        store.names = store.names.replace("c", "")
        store.write("4+2", "64KiB")


def test_every_command_of_the_guide_exits_as_it_says(store):
    done = 0
    for title, commands in sections():
        happens(title, store)
        for words, code in commands:
            told = store(*words)
            assert told.code == code, (title, words, told.out + told.err)
            done += 1
    assert done >= 25
    assert list((store.folder / "reports").glob("drill-*.html"))


def test_every_command_that_an_operator_has_is_in_the_guide():
    named = {words[0] for _, commands in sections() for words, _ in commands}
    assert named >= {"verify", "drill", "doctor", "repair", "du", "prune", "undelete", "ls", "log", "show"}
    assert named >= {"diff", "cat", "tag", "copy", "plan", "bench"}
