"""docs/filesystem.md does what it shows."""

import re
from pathlib import Path

import fsspec
import torch

PAGE = (Path(__file__).parent.parent.parent / "docs" / "filesystem.md").read_text(encoding="utf-8")


def test_the_page_s_code_runs_in_order(place):
    model = {"w": torch.arange(6.0)}
    names = {"url": place.url, "state_dict": {"w": torch.arange(4.0)}, "model": model, "torch": torch}
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, "docs/filesystem.md", "exec"), names)
    assert [c.name for c in place.run.checkpoints()] == [f"step-{n}" for n in (100, 200, 300, 400)]
    assert names["checkpoint"].tolerance.targets == 2
    assert torch.equal(names["model"]["w"], model["w"])
    fs = fsspec.filesystem("ckpt")
    fs.rm(f"{place.url}/step-100", recursive=True)
    assert place.run.checkpoints()[0].name == "step-200"
    place.run.undelete("step-100")
    assert fs.exists(f"{place.url}/step-100/.metadata")
