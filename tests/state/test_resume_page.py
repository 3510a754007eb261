"""docs/resume.md: its program is examples/resume/train.py, which goes on bit for bit, also after SIGKILL."""

import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ckptstore.config import Config
from ckptstore.opened import release
from ckptstore.state.text import from_text
from tests.cli.support import Ckpt
from tests.dcp.equality import same

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/resume/train.py"
DIES = """\
import os, runpy, signal, sys, torch
step = torch.optim.AdamW.step
def dies(self, *args, **options):
    dies.steps += 1
    if dies.steps == 11:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, *args, **options)
dies.steps = 0
torch.optim.AdamW.step = dies
sys.argv[1:] = sys.argv[2:]
runpy.run_path({path!r}, run_name="__main__")
"""


def test_the_page_shows_the_example():
    page = (ROOT / "docs/resume.md").read_text(encoding="utf-8")
    assert re.search(r"^```python\n([\s\S]*?)^```$", page, re.MULTILINE).group(1) == EXAMPLE.read_text(encoding="utf-8")


@pytest.fixture
def store(tmp_path):
    def make(name):
        (tmp_path / name).mkdir()
        ckpt = Ckpt(tmp_path / name)
        assert ckpt("init").code == 0
        made.append(ckpt.path)
        return str(ckpt.path)

    made = []
    yield make
    for path in made:
        release(Config.load(path))


def test_o64_the_example_goes_on_in_the_middle_of_an_epoch(store, capsys):
    main = runpy.run_path(str(EXAMPLE))["main"]
    main(store("straight"), 9)
    straight = capsys.readouterr().out
    broken = store("broken")
    main(broken, 5)
    state = main(broken, 9)
    assert capsys.readouterr().out == straight
    assert (state.step, state.loader.epoch, state.loader.batch) == (9, 1, 3)


@pytest.mark.soak
def test_o64_killed_in_the_11th_step_it_goes_on_from_the_10th_bit_for_bit(store):
    def train(where, *program):
        line = [sys.executable, *program, str(where), "20"]
        done = subprocess.run(
            line, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        return done.returncode, done.stdout.splitlines()

    unbroken = store("unbroken")
    code, straight = train(unbroken, str(EXAMPLE))
    assert (code, len(straight)) == (0, 20)
    broken = store("broken")
    code, before = train(broken, "-c", DIES.format(path=str(EXAMPLE)), "-")
    assert (code, before) == (-signal.SIGKILL, straight[:10])
    assert train(broken, str(EXAMPLE)) == (0, straight[10:])
    one, other = (main_state(path) for path in (broken, unbroken))
    assert same(one, other), "parameters, moments, schedule, order, torch's random numbers"


def main_state(store):
    """What the example ended with, without the generators that it never seeds."""
    state = runpy.run_path(str(EXAMPLE))["main"](store, 20).state_dict()
    return {**state, "rng": from_text(state["rng"]["rank0"], "rng")["torch"]}
