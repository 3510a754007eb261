"""Every fault of a service, at one of three, under every operation: right or refused, and soon."""

import pytest

from ckptstore.errors import CkptStoreError
from localstack import faults
from tests.faults.support import ARRAYS, timed
from tests.support import assert_equal, random_bytes

BOUND = 12.0
"""Seconds for one operation where each request has half of one; votes are cast again for 6 s."""

STATUSES = {
    "404": 404,
    "409": 409,
    "412": 412,
    "429": 429,
    "500": 500,
}


def turn_by_turn(exchange):
    """Every refusal there is, one after the other."""
    number = exchange.request.number % len(STATUSES)
    faults.refuses([*STATUSES.values()][number], "AsTold")(exchange)


FAULTS = {
    "403": (faults.refuses(403, "AccessDenied"), "*"),
    "no such bucket": (faults.refuses(404, "NoSuchBucket"), "*"),
    "all refusals in turn": (turn_by_turn, "*"),
    "503": (faults.refuses(503, "SlowDown", retry_after=1), "*"),
    "full": (faults.full(), "PutObject"),
    "cut": (faults.cuts, "*"),
    "hang": (faults.hangs, "*"),
    "stall": (faults.stalls(10), "*"),
    "early end": (faults.ends_early(7), "GetObject"),
    "broken off": (faults.ends_early(7, honest=False), "*"),
    "range ignored": (faults.ignores_ranges, "GetObject"),
    "range shifted": (faults.shifts_ranges(3), "GetObject"),
    "replies lost": (faults.loses_replies, "PutObject"),
    "conditions dropped": (faults.drops_conditions, "PutObject"),
    "trailer kept": (faults.appends(b"x-amz-checksum-crc32:sOO8/Q==\r\n"), "PutObject"),
    "listing lags": (faults.lags(30), "ListObjectsV2"),
    "checksums refused": (faults.rejects_checksums, "*"),
}
SINGLE = {name: (faults.refuses(status, "AsTold"), "*") for name, status in STATUSES.items()} | {
    "done, and 500": (faults.performs_but_refuses(500, "InternalError"), "PutObject"),
}


def attempt(action):
    """What it gives, or the typed error that it raised, in bounded time."""

    def guarded():
        try:
            return action()
        except CkptStoreError as error:
            return error

    result, seconds = timed(guarded)
    assert seconds < BOUND
    return result


@pytest.mark.soak
@pytest.mark.parametrize("name", SINGLE)
def test_one_refusal_at_one_of_three_costs_nothing_but_that_target(three, name):
    check_fault(three, *SINGLE[name])


@pytest.mark.parametrize("name", FAULTS)
def test_one_faulty_target_of_three_costs_nothing_but_itself(three, name):
    check_fault(three, *FAULTS[name])


def check_fault(three, fault, operation):
    three.store.save(ARRAYS, step=1)
    rule = three.servers["a"].inject(fault, operation)
    faulty = three.reopen().store
    loaded = attempt(faulty.load)
    assert_equal(loaded, ARRAYS)
    health = attempt(lambda: faulty.verify(read_data=True))
    assert health.state in {"good", "degraded", "unknown"}
    newer = {"weights": random_bytes(100_000, seed=2)}
    saved = attempt(lambda: faulty.save(newer, step=2))
    attempt(faulty.repair)
    assert rule.hits
    three.heal()
    well = three.reopen().store
    steps = [checkpoint.manifest.step for checkpoint in well.opened.group.history("demo").checkpoints]
    assert steps in ([1], [1, 2])
    assert steps == [1, 2] or isinstance(saved, CkptStoreError)
    assert_equal(well.load(), newer if steps == [1, 2] else ARRAYS)
    well.repair()
    assert well.verify(read_data=True).state == "good"
