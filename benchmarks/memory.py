"""How much memory a save, a load and a repair add: `python -m benchmarks memory`. 2 GiB through the default window."""

from benchmarks.sections import Line, Section, Table
from benchmarks.setting import MIB, scratch
from tests.test_memory import measure as measure_memory

WINDOW = 512 * MIB
ROOM = 64 * MIB  # beside the window

TEXT = """2 GiB in 64 MiB tensors, six directories at 4+2 whose puts each take 50 ms longer than they must, so that the
window fills. The highest resident size of a process of its own while it works, less the size before."""

__all__ = ["measure"]


def measure() -> Section:
    """Save, load, load without m targets, verify, repair."""
    with scratch("/dev/shm") as folder:
        found = measure_memory(folder, tensors=32, each=64 * MIB, window=WINDOW, slow=0.05)
    rows = [[work, f"{added / MIB:.0f}"] for work, added in found["added"].items()]
    return Section(
        title="Memory",
        text=TEXT,
        command="python -m benchmarks memory",
        tables=[Table("memory added", [["", "MiB"], *rows])],
        lines=[
            Line(f"{work}: MiB added", added / MIB, (WINDOW + ROOM) / MIB) for work, added in found["added"].items()
        ],
    )
