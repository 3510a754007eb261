"""Memory: a save or a load adds the window and a little, however large the state and however slow the targets.

Measured in a process of its own, as the highest resident size while it works against the size before.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

MIB = 1 << 20
SCRIPT = """
import ctypes, json, sys, threading, time
from pathlib import Path
import numpy as np
from tests.support import make_store, reopen, whole
from ckptstore.targets.fault import unavailable

root, tensors, each, window, slow = Path(sys.argv[1]), *map(int, sys.argv[2:5]), float(sys.argv[5])
PAGE = 4096

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE

class Peak:
    def __enter__(self):
        ctypes.CDLL(None).malloc_trim(0)  # what was freed before is not to hide what is taken now
        self.before = self.highest = resident()
        self.going = True
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self
    def watch(self):
        while self.going:
            self.highest = max(self.highest, resident())
            time.sleep(0.002)
    def __exit__(self, *exc):
        self.going = False
        self.thread.join()
        self.added = self.highest - self.before

store = make_store(root, fragment_size=str(min(16 << 20, window // 12)) + "B", window=window)
store.save({"warm": np.zeros(1 << 16, np.uint8)})
store.load()
store = reopen(root, store.config)
rng = np.random.default_rng(1)
state = {f"t{i}": rng.integers(0, 1 << 62, each // 8, np.int64) for i in range(tensors)}
for fault in store.faults.values():
    if slow:
        fault.inject("put", "data/*", seconds=slow)
added = {}
begun = time.monotonic()
with Peak() as peak:
    store.save(state, step=1)
added["save"] = peak.added
seconds = {"save": time.monotonic() - begun}
store.heal()
source = reopen(root, store.config).source()
table = source.index.tensors
places = source.locate([(fqn, (0,)) for fqn in table])
requests = [whole(*place) for place in places]
begun = time.monotonic()
with Peak() as peak:
    source.read(requests)
added["load"] = peak.added
seconds["load"] = time.monotonic() - begun
assert all(np.array_equal(r.into.view(np.int64), state[f]) for r, f in zip(requests, table))
store = reopen(root, store.config)
for name in "ab":
    store.faults[name].inject("get_into", error=unavailable("down", target=name))
source = store.source()
requests = [whole(*place) for place in source.locate([(fqn, (0,)) for fqn in table])]
with Peak() as peak:
    source.read(requests)
added["load without m targets"] = peak.added
del requests, source
store = later = reopen(root, store.config)
with Peak() as peak:
    assert later.verify(read_data=True).state == "good"
added["verify"] = peak.added
manifest = later.latest()
for stripe in range(len(later.record(manifest).stripes)):
    later.remove(later.fragment(manifest, stripe % 6, stripe))
store = later = reopen(root, store.config)
begun = time.monotonic()
with Peak() as peak:
    assert later.repair().exit_code == 0
added["repair"] = peak.added
seconds["repair"] = time.monotonic() - begun
print(json.dumps({"added": added, "seconds": seconds}))
"""


def measure(root: Path, *, tensors: int, each: int, window: int, slow: float) -> dict:
    command = [sys.executable, "-c", SCRIPT, str(root), str(tensors), str(each), str(window), str(slow)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def assert_bounded(found: dict, window: int) -> None:
    print(found)  # noqa: T201 - the numbers, for whoever runs it with -s
    for work, added in found["added"].items():
        assert added <= window + 64 * MIB, f"{work}: {added / MIB:.0f} MiB"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident size is read from /proc")
def test_o39_192_mib_through_a_window_of_24_mib(tmp_path):
    found = measure(tmp_path, tensors=24, each=8 * MIB, window=24 * MIB, slow=0.0)
    assert_bounded(found, 24 * MIB)


@pytest.mark.soak
def test_o39_2_gib_of_64_mib_tensors_through_the_default_window(tmp_path):
    found = measure(tmp_path, tensors=32, each=64 * MIB, window=512 * MIB, slow=0.05)
    assert_bounded(found, 512 * MIB)
