"""The probe: finds out what a service does, whatever it says."""

import pytest

from ckptstore.errors import AccessDenied, ObjectNotFound, TargetUnavailable
from ckptstore.targets import FaultTarget, MemoryTarget, Reason, open_target, probe_target
from ckptstore.targets.fault import flip_bit, unavailable
from localstack.faults import drops_conditions
from localstack.servers import RcloneServer


@pytest.mark.servers
def test_o02_rclone_ignores_conditions_and_is_refused(monkeypatch):
    """A real server that answers 200 to a conditional put over an object."""
    with RcloneServer(buckets=["bucket"]) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        target = open_target("r", "s3://bucket/p", options={"endpoint": server.endpoint})
        found = probe_target(target)
        assert not found.can_commit
        assert found.problems["put-if-absent"] == "put-if-absent overwrites: a second writer was not refused"
        assert list(target.list("")) == []


def test_o02_a_store_that_drops_the_condition_is_refused(server):
    """Until its author mends it, whoever they are: the same by a server of our own."""
    server.inject(drops_conditions, "PutObject")
    target = open_target("s", "s3://bucket", options={"endpoint": server.endpoint})
    assert target.put_if_absent("a", b"1") is target.put_if_absent("a", b"2") is True  # two winners
    found = probe_target(target)
    assert not found.can_commit
    assert found.can_hold_fragments
    assert set(server.objects) == {"a"}
    server.heal()
    assert target.put_if_absent("a", b"3") is False
    assert probe_target(target).can_commit


def test_o02_looking_before_writing_is_not_enough():
    """A service that refuses the second writer when asked politely, and lets racing ones both win."""

    class LooksThenWrites(MemoryTarget):
        def put_if_absent(self, path, data):
            try:
                self.head(path)
            except ObjectNotFound:
                self.barrier.wait(0.2)
                self.put(path, data)
                return True
            return False

    import threading

    class Pause:
        def __init__(self):
            self.event = threading.Event()

        def wait(self, seconds):
            self.event.wait(seconds)

    LooksThenWrites.barrier = Pause()
    found = probe_target(LooksThenWrites("l"))
    assert not found.can_commit
    assert "racing writers win" in found.problems["put-if-absent"]


@pytest.mark.parametrize(
    ("verb", "fault", "capability"),
    [
        ("get", {"damage": flip_bit}, "read after write"),
        ("get", {"error": ObjectNotFound("not yet")}, "read after write"),
        ("put_if_absent", {"error": AccessDenied("no such operation")}, "put-if-absent"),
    ],
)
def test_each_broken_promise_is_found(verb, fault, capability):
    faults = FaultTarget(MemoryTarget("m"))
    faults.inject(verb, "probe/*", **fault)
    found = probe_target(faults)
    assert capability in found.problems
    assert not found.can_commit
    faults.heal()
    assert list(faults.list("")) == []


@pytest.mark.parametrize(("verb", "answer", "capability"), [("list", iter([]), "listing"), ("delete", {}, "delete")])
def test_a_verb_that_does_nothing_is_found(verb, answer, capability):
    target = MemoryTarget("m")
    setattr(target, verb, lambda *_: answer)
    found = probe_target(target)
    assert capability in found.problems
    assert not found.can_hold_fragments


@pytest.mark.parametrize("skip", [0, 1, 4])
@pytest.mark.parametrize("after", [False, True], ids=["request lost", "reply lost"])
def test_a_lost_put_if_absent_is_no_judgement(skip, after):
    """Of the first writer, the second, or one that races: the check begins again."""
    faults = FaultTarget(MemoryTarget("m"))
    fault = faults.inject("put_if_absent", error=unavailable("lost"), after=after, skip=skip, times=1)
    assert probe_target(faults).can_commit
    assert fault.hits == 1
    assert list(faults.list("")) == []


def test_a_race_that_nobody_wins_is_run_again():
    """S3 may answer 409 to every writer of a race; SeaweedFS does."""
    faults = FaultTarget(MemoryTarget("m"))
    fault = faults.inject("put_if_absent", "probe/*race", error=unavailable("409", reason=Reason.BUSY), times=4)
    assert probe_target(faults).can_commit
    assert fault.hits == 4


def test_a_service_that_never_answers_a_put_if_absent_can_t_be_judged():
    faults = FaultTarget(MemoryTarget("m"))
    fault = faults.inject("put_if_absent", error=unavailable("503", reason=Reason.BUSY))
    with pytest.raises(TargetUnavailable):
        probe_target(faults)
    assert fault.hits == 4


def test_a_target_out_of_reach_can_t_be_judged():
    faults = FaultTarget(MemoryTarget("m"))
    faults.inject(error=unavailable("down"))
    with pytest.raises(TargetUnavailable):
        probe_target(faults)
