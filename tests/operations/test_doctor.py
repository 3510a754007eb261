"""`doctor`: what it sees, what it says it means, and that it leaves nothing behind."""

import shutil
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

import manifests
from ckptstore.config import TargetConfig
from ckptstore.errors import AccessDenied, OutOfReach
from ckptstore.operations.doctor import examine
from ckptstore.targets import wrapper
from ckptstore.targets.fault import unavailable
from manifests import paths
from tests.operations.test_setup import Overwriting
from tests.support import make_store, reopen


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path)


def only(report):
    """The one target with problems."""
    (found,) = [health for health in report.targets if health.problems]
    return found


def test_all_is_well_and_nothing_is_left_behind(store):
    before = {path: path.stat().st_mtime_ns for path in store.root.rglob("*") if path.is_file()}
    report = examine(store.opened)
    assert report.exit_code == 0
    assert (report.loading_survives, report.saving_survives, report.tolerance) == (2, 2, (2, 2))
    assert {path: path.stat().st_mtime_ns for path in store.root.rglob("*") if path.is_file()} == before
    for health in report.targets:
        assert (health.reachable, health.standing, health.problems) == (True, "valid", [])
        assert 0 < health.latency < 5
        assert abs(health.clock_offset) < 5
        assert health.free > 0


def test_a_target_out_of_reach(store):
    store.take_away("b")
    report = examine(store.opened)
    assert report.exit_code == 3
    assert (only(report).name, only(report).reachable) == ("b", False)
    assert (report.loading_survives, report.saving_survives, report.tolerance) == (1, 1, (1, 1))


def test_a_member_that_the_settings_do_not_name(store):
    fewer = [target for target in store.config.targets if target.name != "c"]
    report = examine(reopen(store.root, structs.replace(store.config, targets=fewer)).opened)
    assert report.exit_code == 3
    assert (only(report).name, only(report).reachable) == ("c", False)
    assert report.loading_survives == 1


def test_a_wiped_target(store):
    store.wipe("b")
    report = examine(store.opened)
    assert report.exit_code == 3
    assert (only(report).standing, only(report).reachable) == ("absent", True)
    assert not store.objects("b")


def test_what_is_out_of_reach_decides(store):
    store.take_away("a", "b", "c")
    report = examine(store.opened)
    assert report.exit_code == 5
    assert (report.loading_survives, report.saving_survives) == (-1, -1)


def test_what_keeps_the_store_from_being_read_is_not_always_the_credentials(store):
    """Every target does all that is tried, and none tells its standing: nothing is denied."""
    for fault in store.faults.values():
        fault.inject(path="incarnations/*", error=unavailable("down"))
    report = examine(store.opened)
    assert not [health for health in report.targets if health.code]
    assert report.exit_code == OutOfReach.exit_code


def test_credentials_are_what_is_wrong_where_all_that_fail_are_refused(store):
    for name in "abcdef":
        store.faults[name].inject(error=AccessDenied(f"{name}: refused", target=name))
    assert examine(store.opened).exit_code == AccessDenied.exit_code


def test_too_many_are_wiped(store):
    store.wipe("a", "b", "c")
    report = examine(store.opened)
    assert report.exit_code == 4
    assert report.loading_survives == -1


def test_no_store_yet(tmp_path):
    store = make_store(tmp_path)
    store.wipe(*"abcdef")
    report = examine(store.opened)
    assert report.exit_code == 10


def test_a_target_of_another_store(store, tmp_path_factory):
    other = make_store(tmp_path_factory.mktemp("other"))
    shutil.rmtree(store.root / "d")
    shutil.copytree(other.root / "d", store.root / "d")
    report = examine(store.opened)
    assert report.exit_code == 11
    assert "belongs to store" in only(report).problems[0]


def test_a_target_under_another_name(store):
    (store.root / "a" / paths.IDENTITY).write_bytes((store.root / "b" / paths.IDENTITY).read_bytes())
    report = examine(store.opened)
    assert report.exit_code == 1
    assert only(report).name == "a"


def test_a_damaged_identity(store):
    path = store.root / "e" / paths.IDENTITY
    path.write_bytes(path.read_bytes()[:-3])
    report = examine(store.opened)
    assert report.exit_code == 3
    assert "damaged" in only(report).problems[0]


def test_a_commit_target_that_began_to_overwrite(store):
    store.opened.targets = {**store.opened.targets, "f": Overwriting(store.opened.targets["f"])}
    report = examine(store.opened)
    assert report.exit_code == 1
    assert "put-if-absent" in only(report).problems[0]


class Late(wrapper.Wrapper):
    """A service whose clock is an hour behind."""

    def call(self, verb, path, operation):
        return operation()

    def head(self, path):
        entry = self.inner.head(path)
        return replace(entry, modified=entry.modified - timedelta(hours=1))


def test_a_clock_that_differs(store):
    store.opened.targets = {**store.opened.targets, "f": Late(store.opened.targets["f"])}
    report = examine(store.opened)
    assert report.exit_code == 3
    assert only(report).clock_offset == pytest.approx(-3600, abs=60)
    assert "clock" in only(report).problems[0]


def test_a_spare_target_may_hold_any_run_where_none_can_be_listed(store, tmp_path):
    spare = TargetConfig(name="g", url=f"file://{tmp_path}/g")
    (tmp_path / "g").mkdir()
    identity = manifests.Identity(store_id=store.opened.group.store_id, target="g")
    (tmp_path / "g" / paths.IDENTITY).write_bytes(manifests.seal(identity))
    opened = reopen(store.root, structs.replace(store.config, targets=[*store.config.targets, spare])).opened
    opened.targets = {name: Unlisted(target) for name, target in opened.targets.items()}
    report = examine(opened)
    (found,) = [health for health in report.targets if health.name == "g"]
    assert "checkpoints of any run are on it" in found.problems[-1]


class Unlisted(Late):
    """A target that doesn't list its runs."""

    def list_folders(self, prefix):
        if prefix == paths.RUNS:
            raise unavailable("no listing today")
        return self.inner.list_folders(prefix)


def test_many_dead_targets_cost_one_wait(store):
    store.take_away("a", "b", "c", "d", "e", "f")
    began = time.monotonic()
    assert examine(store.opened).exit_code == 5
    assert time.monotonic() - began < 5
