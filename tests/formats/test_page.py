"""docs/formats.md does what it shows: its code runs in order."""

import re
from pathlib import Path

import torch
from safetensors.torch import save_file

from tests.formats.support import all_bits, make_place, names_in

PAGE = (Path(__file__).parents[2] / "docs/formats.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n([\s\S]*?)^```$", PAGE, re.MULTILINE)


def test_the_code_of_the_page_runs_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    Path("llama").mkdir()
    save_file({"w": torch.ones(3)}, "llama/model.safetensors")
    Path("llama/config.json").write_text("{}")
    names = {"run": make_place(tmp_path).run, "model": model, "optimizer": optimizer, "torch": torch}
    for block in BLOCKS:
        exec(compile(block, "docs/formats.md", "exec"), names)
    assert len(BLOCKS) == 4
    assert names_in("llama-again") == names_in("llama")
    assert names_in("model") == ["model.safetensors"]
    assert all_bits(names["state"]["model"]) == all_bits(dict(model.state_dict()))
    assert [c.step for c in names["run"].checkpoints()] == [0, 100, 101, 102]
