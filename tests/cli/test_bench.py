"""`ckpt bench` as a person and as a script sees it."""

import pytest

from tests.cli.support import Ckpt


@pytest.fixture
def store(tmp_path):
    found = Ckpt(tmp_path)
    assert found("init").code == 0
    return found


def test_a_table_and_what_to_do_with_it(store):
    told = store("bench", "--size", "1MiB", "--rounds", "1")
    assert told.code == 0
    for what in ("save", "load", "load, 2 targets lost", "repair of one target"):
        assert what in told.out
    assert "next: ckpt plan --bandwidth" in told.err


def test_for_scripts_and_twice_is_well(store):
    for _ in range(2):
        summary = store("bench", "--size", "300kB", "--rounds", "2", "--json").summary
        assert summary["size"] == 300_000
        assert [len(each["seconds"]) for each in summary["timed"]] == [2] * 4
        assert summary["failed"] == {}
    assert store("ls", "--all-runs", "--json").summary["checkpoints"] == []
    assert store("bench", "--clean", "--json").summary["removed"] == []


@pytest.mark.parametrize("wrong", [["--size", "much"], ["--size", "0"], ["--rounds", "0"]])
def test_what_can_t_be_is_refused(store, wrong):
    told = store("bench", *wrong)
    assert told.code == 2
    assert "wanted" in told.err
