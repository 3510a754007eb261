"""Memory: an import or an export adds the window, a piece of what it moves and a little, however much that is.

Measured in a process of its own, as the highest resident size while it works against the size before.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

MIB = 1 << 20
WINDOW = 24 * MIB
PIECE = 8 * MIB
SCRIPT = """
import json, sys, threading, time
from pathlib import Path
import torch
from tests.formats.support import make_place

root, pieces, each, window = Path(sys.argv[1]), *map(int, sys.argv[2:])

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

def added_by(work):
    before = highest = resident()
    going = True
    def watch():
        nonlocal highest
        while going:
            highest = max(highest, resident())
            time.sleep(0.002)
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        work()
    finally:
        going = False
        thread.join()
    return highest - before

place = make_place(root, window=window, fragment_size=f"{window // 12}B")
small = {"w": torch.ones(1000)}
torch.save(small, root / "warm.pt")
place.run.import_from(root / "warm.pt", step=1)
for kind, path in (("hf", "warm"), ("dcp", "warm-dcp"), ("torch", "warm-out.pt")):
    place.run.export(root / path, step=1, format=kind)
    place.run.import_from(root / path, step=1)

state = {f"t{at}": torch.full((each // 8,), at, dtype=torch.int64) for at in range(pieces)}
torch.save(state, root / "in.pt")
del state
added = {"import torch": added_by(lambda: place.run.import_from(root / "in.pt", step=2))}
for kind, path in (("hf", "out"), ("dcp", "out-dcp"), ("torch", "out.pt")):
    shard = {"max_shard_size": 4 * each} if kind == "hf" else {}
    added[f"export {kind}"] = added_by(lambda: place.run.export(root / path, step=2, format=kind, **shard))
    if kind != "torch":
        added[f"import {kind}"] = added_by(lambda: place.run.import_from(root / path, step=3))
found = torch.load(root / "out.pt", mmap=True)
assert all(bool((found[f"t{at}"] == at).all()) for at in range(pieces))
print(json.dumps(added))
"""


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident size is read from /proc")
def test_o39_128_mib_through_a_window_of_24_mib_into_and_out_of_each_format(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), "16", str(PIECE), str(WINDOW)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    added = json.loads(done.stdout.splitlines()[-1])
    print({work: f"{size / MIB:.0f} MiB" for work, size in added.items()})  # noqa: T201 - for whoever runs it with -s
    assert len(added) == 6
    for work, size in added.items():
        assert size <= WINDOW + 2 * PIECE + 32 * MIB, f"{work}: {size / MIB:.0f} MiB"
