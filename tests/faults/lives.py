"""Processes that save, and end in every way there is: `python -m tests.faults.lives FOLDER`.

torch is imported once; each scenario then lives in a forked child with a store and files of its own, and goes on to the
end of this script. What became of them is in FOLDER/<scenario>/: out, err, and end.json with its exit status and the
seconds since its store was made.
"""

import atexit
import ctypes
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec

import ckptstore
from ckptstore.opened import THREADS, shared
from ckptstore.targets.fault import unavailable
from tests.support import RUN, LocalStore, make_store, reopen

if __name__ != "__mp_main__":  # children that are spawned import this file, and need no torch
    import torch

    from ckptstore.dcp import saver  # noqa: F401 - imported once, before the children are forked

GRACE = 30.0
HANG = 90.0
COUNT = 20_000


class Life:
    """A store in this process, with a checkpoint of step 1; its puts can be made slow or fail."""

    def __init__(self, folder: Path, *, save_timeout: float = 1800.0, fragment_size: str = "64KiB") -> None:
        made = make_store(folder / "targets", fragment_size=fragment_size)
        ckptstore.open(made.config).run(RUN).save(state(1), step=1)
        self.config = msgspec.structs.replace(made.config, save_timeout=save_timeout)
        self.run = ckptstore.open(self.config).run(RUN)
        self.targets: LocalStore = reopen(made.root, self.config)
        shared(self.config).targets = self.targets.opened.targets
        (folder / "began").touch()

    def slow(self, seconds: float) -> None:
        for fault in self.targets.faults.values():
            fault.inject("put", "data/*", seconds=seconds)

    def broken(self) -> None:
        for fault in self.targets.faults.values():
            fault.inject("put", "data/*", error=unavailable("the disk sulks"))


def state(step: int) -> "dict[str, torch.Tensor]":
    return {"w": torch.full((COUNT,), float(step))}


def sigterm(after: float = 0.0) -> None:
    """SIGTERM to this process, once a save has had time to be in the middle of its puts."""
    threading.Timer(0.3 + after, os.kill, (os.getpid(), signal.SIGTERM)).start()


# -- SIGTERM ----------------------------------------


def term_once_and_the_save_is_quick(folder: Path) -> None:
    ckptstore.finish_on_sigterm(GRACE)
    life = Life(folder)
    life.slow(1.0)
    sigterm()
    life.run.save_async(state(2), step=2)
    time.sleep(HANG)


def term_once_in_a_foreground_save(folder: Path) -> None:
    ckptstore.finish_on_sigterm(GRACE)
    life = Life(folder)
    life.slow(1.0)
    sigterm()
    life.run.save(state(2), step=2)
    time.sleep(HANG)


def term_once_and_the_save_hangs(folder: Path) -> None:
    ckptstore.finish_on_sigterm(1.0)
    life = Life(folder)
    life.slow(HANG)
    sigterm()
    life.run.save_async(state(2), step=2).result()


def term_twice(folder: Path) -> None:
    ckptstore.finish_on_sigterm(GRACE)
    life = Life(folder)
    life.slow(HANG)
    sigterm()
    sigterm(after=0.5)
    life.run.save_async(state(2), step=2).result()


def term_twice_while_the_main_thread_runs_no_python(folder: Path) -> None:
    ckptstore.finish_on_sigterm(GRACE)
    life = Life(folder)
    life.slow(HANG)
    life.run.save_async(state(2), step=2)
    sigterm()
    sigterm(after=0.5)
    mutex = ctypes.create_string_buffer(64)
    ctypes.CDLL(None).pthread_mutex_lock(mutex)
    ctypes.CDLL(None).pthread_mutex_lock(mutex)  # waits for ever, as a collective may


def term_with_nothing_in_flight(folder: Path) -> None:
    ckptstore.finish_on_sigterm(GRACE)
    Life(folder)
    sigterm()
    time.sleep(HANG)


def term_after_a_failure_that_nobody_asked_for(folder: Path) -> None:
    ckptstore.finish_on_sigterm(GRACE)
    life = Life(folder)
    life.broken()
    handle = life.run.save_async(state(2), step=2)
    while not handle.done():
        time.sleep(0.05)
    sigterm()
    time.sleep(HANG)


def term_after_a_failure_that_was_told(folder: Path) -> None:
    ckptstore.finish_on_sigterm(GRACE)
    life = Life(folder)
    life.broken()
    handle = life.run.save_async(state(2), step=2)
    with suppress(ckptstore.CkptStoreError):
        handle.result()
    with suppress(ckptstore.CkptStoreError):
        life.run.save(state(3), step=3)
    sigterm()
    time.sleep(HANG)


def term_with_a_handler_of_the_users(folder: Path) -> None:
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    with ckptstore.finish_on_sigterm(GRACE):
        life = Life(folder)
        life.slow(0.5)
        sigterm()
        life.run.save_async(state(2), step=2)
        while not told.is_set():
            time.sleep(0.05)  # a step of training
        life.run.save(state(3), step=3)  # the last words of a job that knows
    told.clear()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.05)
    assert told.is_set(), "put back as it was"


def term_of_a_forked_worker_is_not_the_trainers(folder: Path) -> None:
    with ckptstore.finish_on_sigterm(GRACE):
        life = Life(folder)
        worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(HANG,))
        worker.start()
        worker.terminate()
        worker.join()
        assert worker.exitcode == -signal.SIGTERM
        time.sleep(0.3)
        life.run.save(state(2), step=2)


def killed_in_a_save(folder: Path) -> None:
    life = Life(folder)
    life.slow(HANG)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
    life.run.save(state(2), step=2)


# -- the interpreter's exit ----------------------------------------


def pending(folder: Path) -> Life:
    life = Life(folder)
    life.slow(0.5)
    life.run.save_async(state(2), step=2)
    return life


def falls_off_the_end(folder: Path) -> None:
    pending(folder)


def sys_exit(folder: Path) -> None:
    pending(folder)
    sys.exit(3)


def exception(folder: Path) -> None:
    pending(folder)
    raise ZeroDivisionError


def failed_and_nobody_asked(folder: Path) -> None:
    atexit.register(print, "the user's own exit ran", flush=True)
    life = Life(folder)
    life.broken()
    life.run.save_async(state(2), step=2)


def failed_and_somebody_asked(folder: Path) -> None:
    life = Life(folder)
    life.broken()
    handle = life.run.save_async(state(2), step=2)
    try:
        handle.result()
    except ckptstore.CkptStoreError as error:
        print(error.kind)  # noqa: T201


def failed_in_a_process_of_multiprocessing(folder: Path) -> None:
    child = multiprocessing.get_context("fork").Process(target=failed_and_nobody_asked, args=(folder,))
    child.start()
    child.join()
    sys.exit(child.exitcode)


def hangs_at_exit(folder: Path) -> None:
    life = Life(folder, save_timeout=2.0)
    life.slow(HANG)
    life.run.save_async(state(2), step=2)


def outlived_by_a_thread_that_saves(folder: Path) -> None:
    life = Life(folder)

    def train() -> None:
        while not ending():
            time.sleep(0.01)
        say_what_is_raised(life)

    threading.Thread(target=train).start()


def saved_in_atexit(folder: Path) -> None:
    atexit.register(say_what_is_raised, Life(folder))


def ending() -> bool:
    """Whether thread pools take no more work."""
    try:
        ThreadPoolExecutor(1).submit(int).result()
    except RuntimeError:
        return True
    return False


def say_what_is_raised(life: Life) -> None:
    run = life.run
    loaded = {"w": torch.zeros(COUNT)}
    for work in (
        lambda: run.save(state(2), step=2),
        lambda: run.save_async(state(2), step=2),
        lambda: run.load(loaded),
        run.checkpoints,
        run.verify,
        lambda: run.tag(1, "best"),
    ):
        try:
            work()
        except ckptstore.CkptStoreError as error:
            print(error.kind, "thread.join()" in (error.hint or ""), flush=True)  # noqa: T201


# -- children that read ----------------------------------------


def read(config: ckptstore.Config) -> None:
    loaded = state(0)
    ckptstore.open(config).run(RUN).load(loaded)
    assert torch.equal(loaded["w"], state(1)["w"])


def verify(config: ckptstore.Config) -> None:
    assert ckptstore.open(config).run(RUN).verify(read_data=True).exit_code == 0


def four_forked_children_read(folder: Path) -> None:
    children(folder, "fork", read)


def four_spawned_children_read(folder: Path) -> None:
    children(folder, "spawn", verify)  # which reads every byte, and imports no torch


def children(folder: Path, method: str, work: Callable[[ckptstore.Config], None]) -> None:
    life = Life(folder)
    life.slow(0.2)
    saving = life.run.save_async(state(1), step=2)  # threads hold locks while the children are made
    read(life.config)
    context = multiprocessing.get_context(method)
    made = [context.Process(target=work, args=(life.config,)) for _ in range(4)]
    began = time.monotonic()
    for child in made:
        child.start()
    for child in made:
        child.join(30)
    assert [child.exitcode for child in made] == [0] * 4
    assert time.monotonic() - began < 30
    assert saving.result().step == 2
    read(life.config)


# -- many saves ----------------------------------------


def fifty_small_saves(folder: Path) -> None:
    fifty_saves(folder, 1 << 18)


def fifty_large_saves(folder: Path) -> None:
    fifty_saves(folder, 64 << 20)


def fifty_saves(folder: Path, size: int) -> None:
    """What this process holds after save 5 and after save 50."""
    life = Life(folder, fragment_size="1MiB")
    start_all_threads(life)
    weights = {"w": torch.rand(size // 4)}
    held = {}
    for step in range(1, 51):
        weights["w"] += 1
        life.run.save_async(weights, step=step).result()
        if step in {5, 50}:
            held[step] = {
                "rss": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE"),
                "threads": lasting_threads(),
                "descriptors": len(list(Path("/proc/self/fd").iterdir())),
            }
        for target in life.targets.raw.values():
            target.delete([entry.path for entry in target.list("data/")])  # a disk is not what is measured
    (folder / "held.json").write_text(json.dumps(held))


def lasting_threads() -> int:
    """The fewest within half a second: Python's `join` may return a moment before the system's thread is gone."""
    counts = []
    for _ in range(10):
        counts.append(len(list(Path("/proc/self/task").iterdir())))
        time.sleep(0.05)
    return min(counts)


def start_all_threads(life: Life) -> None:
    """How many of a pool's threads have been needed by save 5 is chance; that there are never more is not."""
    together = threading.Barrier(THREADS)
    list(shared(life.config).executor.map(lambda _: together.wait(), range(THREADS)))


SCENARIOS = [
    term_once_and_the_save_is_quick,
    term_once_in_a_foreground_save,
    term_once_and_the_save_hangs,
    term_twice,
    term_twice_while_the_main_thread_runs_no_python,
    term_with_nothing_in_flight,
    term_after_a_failure_that_nobody_asked_for,
    term_after_a_failure_that_was_told,
    term_with_a_handler_of_the_users,
    term_of_a_forked_worker_is_not_the_trainers,
    killed_in_a_save,
    falls_off_the_end,
    sys_exit,
    exception,
    failed_and_nobody_asked,
    failed_and_somebody_asked,
    failed_in_a_process_of_multiprocessing,
    hangs_at_exit,
    outlived_by_a_thread_that_saves,
    saved_in_atexit,
    four_forked_children_read,
    four_spawned_children_read,
    fifty_small_saves,
]
SOAK = [fifty_large_saves]


def start(scenario: Callable[[Path], None], root: Path) -> int:
    """Returns in the parent; the child goes on to the end of the script."""
    folder = root / scenario.__name__
    folder.mkdir()
    pid = os.fork()
    if pid == 0:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), number)
        scenario(folder)
    return pid


def bury(living: dict[int, Path]) -> None:
    """Wait for one, and write down how it ended."""
    pid, status = os.wait()
    folder = living.pop(pid)
    seconds = time.time() - (folder / "began").stat().st_mtime
    end = {"status": os.waitstatus_to_exitcode(status), "seconds": seconds}
    (folder / "end.json").write_text(json.dumps(end))


def live(root: Path, scenarios: list[Callable[[Path], None]], at_once: int = 8) -> None:
    living: dict[int, Path] = {}
    for scenario in scenarios:
        pid = start(scenario, root)
        if pid == 0:
            return
        living[pid] = root / scenario.__name__
        if len(living) == at_once:
            bury(living)
    while living:
        bury(living)


if __name__ == "__main__":
    torch.set_num_threads(1)
    live(Path(sys.argv[1]), SOAK if "soak" in sys.argv else SCENARIOS)
