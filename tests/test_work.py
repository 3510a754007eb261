"""Work is told to the caller's observer and to all who listen, once each, however it ends."""

import logging

import pytest

from ckptstore.errors import OutOfReach, UsageError
from ckptstore.events import Progress, TargetFailed, WorkBegan, WorkEnded
from ckptstore.listening import tell
from ckptstore.telemetry import observe
from ckptstore.work import work
from tests.support import Listener


def test_both_ends_are_told_to_the_caller_s_observer_and_to_listeners():
    own, all_of_it = Listener(), Listener()
    with observe(all_of_it), work("save", "r", 7, own) as under_way:
        under_way.observe(Progress("save", 30, 50))
        under_way.observe(Progress("save", 20, 50))
    assert own.events == all_of_it.events
    began, *_, ended = own.events
    assert (began.work, began.run, began.step) == ("save", "r", 7)
    assert (ended.number, ended.bytes, ended.outcome, ended.message) == (began.number, 50, "ok", "")
    assert ended.seconds >= 0


def test_an_observer_that_listens_to_all_anyway_is_told_once():
    listener = Listener()
    with observe(listener), work("save", "r", observer=listener):
        pass
    assert [type(event) for event in listener.events] == [WorkBegan, WorkEnded]


def test_progress_in_checkpoints_is_no_bytes():
    listener = Listener()
    with work("verify", "r", observer=listener) as under_way:
        under_way.observe(Progress("verify", 1, 3))
    assert listener.events[-1].bytes == 0


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(OutOfReach("no"), "OutOfReach"), (ValueError("no"), "error"), (KeyboardInterrupt("no"), "interrupted")],
)
def test_an_error_is_told_and_raised(error, outcome):
    listener = Listener()
    with pytest.raises(type(error)), work("load", "r", observer=listener):
        raise error
    assert (listener.events[-1].outcome, listener.events[-1].message) == (outcome, "no")


def test_no_credential_is_in_a_message():
    listener = Listener()
    with pytest.raises(ValueError, match="known"), work("load", "r", observer=listener):
        raise ValueError("http://user:known-password@host/?signature=known")
    assert "known" not in listener.events[-1].message


def test_a_dry_run_is_no_work():
    listener = Listener()
    with work("prune", "r", observer=listener, dry_run=True) as under_way:
        under_way.observe(Progress("prune", 1, 1))
    assert listener.events == [Progress("prune", 1, 1)]


@pytest.mark.parametrize("wrong", [None, 7, "print"])
def test_what_is_no_observer_is_refused(wrong):
    with pytest.raises(UsageError, match="observer"):
        observe(wrong)
    with pytest.raises(UsageError, match="observer"), work("save", "r", observer=wrong):
        pass


def test_a_listener_that_raises_fails_nothing_is_told_no_more_and_named_in_the_log(caplog):
    good = Listener()
    calls = []

    def bad(event):
        calls.append(event)
        raise ValueError("at http://user:known-password@host")

    with observe(bad, good), caplog.at_level(logging.ERROR, logger="ckptstore"):
        tell(Progress("save", 1, 2))
        tell(Progress("save", 1, 2))
    assert (len(calls), len(good.events)) == (1, 2)
    assert "ValueError" in caplog.text
    assert "known-password" not in caplog.text


def test_an_observer_that_knows_no_beginning_and_no_end_fails_nothing(caplog):
    """One that was written when there were three events."""

    def old(event):
        return event.target

    with caplog.at_level(logging.ERROR, logger="ckptstore"), work("save", "r", observer=old) as under_way:
        under_way.observe(TargetFailed("save", "a", "gone"))
    assert "WorkBegan" in caplog.text
    assert "WorkEnded" in caplog.text
