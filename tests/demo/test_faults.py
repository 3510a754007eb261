"""The rank that dies does so by SIGKILL, half way through its shard and not before."""

import multiprocessing
import signal

from ckptstore.demo.faults import DieInSave
from ckptstore.events import Progress, TargetFailed


def upload(stripes, survived):
    observer = DieInSave()
    observer(TargetFailed("save", "b", "gone"))
    observer(Progress("load", 100, 100))
    for stripe in range(stripes):
        observer(Progress("save", 10, 100))
        survived.put(stripe)


def outcome(stripes):
    context = multiprocessing.get_context("spawn")
    survived = context.SimpleQueue()
    child = context.Process(target=upload, args=(stripes, survived))
    child.start()
    child.join(60)
    count = 0
    while not survived.empty():
        survived.get()
        count += 1
    return child.exitcode, count


def test_dies_at_half():
    assert outcome(4) == (0, 4)
    assert outcome(10) == (-signal.SIGKILL, 4)
