"""`ckpt bench`: how fast this store is, on its own targets."""

from typing import TYPE_CHECKING, Annotated

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.wording import count, joined, size

if TYPE_CHECKING:
    from ckptstore.operations.bench import BenchReport

Size = Annotated[str, typer.Option("--size", metavar="SIZE", help="Bytes of state to save, as in 256MiB.")]
Rounds = Annotated[int, typer.Option("--rounds", metavar="N", help="How often; medians are told.")]
Clean = Annotated[
    bool, typer.Option("--clean", help="Only remove what benchmarks that were killed have left; none may be running.")
]

__all__ = ["bench"]


def bench(call: Call, size_: Size = "256MiB", rounds: Rounds = 3, clean: Clean = False) -> int:
    """Measure save, load, load with targets lost, and repair, on the targets of this store.

    By one process on this machine, which saves random bytes into runs of its own and takes them away again: at times
    the targets hold SIZE times the code's overhead more. What is read has just been written, so a machine's cache may
    be what is measured. Other runs are neither read nor changed.
    """
    from ckptstore.config import parse_size
    from ckptstore.operations.bench import bench as measure
    from ckptstore.operations.bench import clean as remove
    from ckptstore.operations.bench import leftovers, others

    if clean:
        left = leftovers(call.opened)
        failed = remove(call.opened)
        call.output.say(f"removed what {count(len(left), 'benchmark')} left")
        return _end(call, failed, removed=left)
    if running := others(call.opened):
        call.output.note(f"runs of other benchmarks: {joined(running)}; if they were killed: ckpt bench --clean")
    nbytes = parse_size(size_, "--size")
    with call.watching() as observer:
        report = measure(call.config, size=nbytes, rounds=rounds, observer=observer)
    _tell(call, report)
    timed = [{"what": t.what, "seconds": t.seconds, "bytes": t.bytes, "rate": t.rate} for t in report.timed]
    found = {"timed": timed, "left_out": report.left_out}
    return _end(call, report.failed, erasure_code=call.config.code, size=nbytes, rounds=rounds, **found)


def _tell(call: Call, report: "BenchReport") -> None:
    headings = ["", "seconds", "a second", "from", "to"]
    rows = [
        [t.what, f"{t.median:.3g}", size(int(t.rate)), f"{min(t.seconds):.3g}", f"{max(t.seconds):.3g}"]
        for t in report.timed
    ]
    call.output.table(headings, rows, right=headings[1:])
    for what, why in report.left_out.items():
        call.output.say(f"{what} was left out: {why}")
    save = report.timing("save")
    rounds = count(report.rounds, "round")
    call.output.say(f"{size(report.size)} of state in {rounds}, by one process; what was put is removed again")
    sent = save.rate * (call.config.k + call.config.m) / call.config.k
    call.output.note(f"next: ckpt plan --bandwidth {sent / 1e9:.3g}GB, times the processes that save at once")
    call.output.note("or: ckpt bench --json > bench.json, then: ckpt plan --bench bench.json --processes N")


def _end(call: Call, failed: dict[str, str], **fields: object) -> int:
    for place, why in failed.items():
        call.output.note(f"not removed: {place}: {why}")
    hint = "ckpt bench --clean" if failed else ""
    return call.output.summary(1 if failed else 0, store=call.config.name, failed=failed, hint=hint, **fields)
