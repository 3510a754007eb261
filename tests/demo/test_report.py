"""What the demo shows: a tick only where a check held, and answers of commands in words."""

import pytest

from ckptstore.demo.commands import Answer
from ckptstore.demo.report import CheckError, Report


def test_a_check_that_fails_says_what_was_found_and_ends_the_demo(capsys):
    report = Report()
    report.check(True, "steps [5, 10] are there")
    with pytest.raises(CheckError, match="digests are equal"):
        report.check(False, "digests are equal", "[bold]ab != cd")
    shown = capsys.readouterr().out
    assert "✓ steps [5, 10] are there" in shown
    assert "✗ digests are equal" in shown
    assert "found: [bold]ab != cd" in shown
    assert report.checks == 1


def test_findings_are_counted_by_target_and_kind():
    findings = [{"what": "fragment", "kind": "missing", "target": "b"}] * 3
    findings += [
        {"what": "fragment", "kind": "corrupt", "target": "f"},
        {"what": "index", "kind": "missing", "target": "b"},
    ]
    answer = Answer(3, [{"type": "checkpoint", "findings": findings}, {"type": "summary", "code": 3}], "")
    assert answer.damage == "fragments: 3 missing on b, 1 corrupt on f"


def test_an_answer_without_json_shows_what_was_said_on_stderr():
    assert str(Answer(1, [], "error: no store\n")) == "exit code 1: error: no store"
