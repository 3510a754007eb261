"""`init`: fresh, again, half done, and everything it refuses."""

from dataclasses import replace
from pathlib import Path

import pytest

import manifests
from ckptstore.commit import Commit
from ckptstore.config import Config, TargetConfig
from ckptstore.errors import ConfigError, ConflictError, NotFoundError, TargetUnavailable, TargetUnusable
from ckptstore.opened import Opened
from ckptstore.operations.quorums import losses_saving_survives, quorums_of, tolerated
from ckptstore.operations.setup import init, starter
from ckptstore.targets import wrapper
from localstack.servers import RcloneServer
from manifests import paths


def config_of(folder: Path, names="abcdef", code="4+2", *, fragments_only="", **settings) -> Config:
    targets = [TargetConfig(name=name, url=str(folder / name), commit=name not in fragments_only) for name in names]
    return Config(name="store", code=code, targets=targets, **settings)


def contents(folder: Path) -> dict:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_fresh_store(tmp_path):
    opened = Opened(config_of(tmp_path))
    report = init(opened)
    assert report.created
    assert report.tolerance == (2, 2)
    quorums = report.quorums
    assert (quorums.members, quorums.losses, quorums.votes, quorums.readings, quorums.saving) == (6, 2, 3, 4, 2)
    assert {standing.state for standing in opened.group.standings.values()} == {"valid"}
    assert not list(tmp_path.glob("*/probe/*"))


def test_doing_it_again_changes_nothing(tmp_path):
    first = init(Opened(config_of(tmp_path)))
    before = contents(tmp_path)
    again = init(Opened(config_of(tmp_path)))
    assert replace(again, created=True) == first
    assert not again.created
    assert contents(tmp_path) == before


@pytest.mark.parametrize("valid", range(7))
@pytest.mark.parametrize("lost", ["statement", "statement and token", "all"])
def test_a_half_done_one_is_finished(tmp_path, valid, lost):
    """As if the process had been killed after `valid` of the targets."""
    first = init(Opened(config_of(tmp_path)))
    for name in "abcdef"[valid:]:
        statements = sorted((tmp_path / name / "incarnations").iterdir())
        for path in statements[1 if lost == "statement" else 0 :]:
            path.unlink()
        if lost == "all" and valid == 0:
            (tmp_path / name / paths.IDENTITY).unlink()
    opened = Opened(config_of(tmp_path))
    if lost == "all" and valid == 0:
        assert init(opened).store_id != first.store_id
    else:
        assert init(opened).store_id == first.store_id
    assert {standing.state for standing in opened.group.standings.values()} == {"valid"}


def test_a_wiped_target_is_for_repair(tmp_path):
    """It may have voted: only a repair, which learns what it forgot, may let it vote again."""
    opened = Opened(config_of(tmp_path))
    init(opened)
    opened.group.open_session("run")
    for path in [*(tmp_path / "c").rglob("*")][::-1]:
        path.unlink() if path.is_file() else path.rmdir()
    with pytest.raises(ConflictError, match="c of store") as caught:
        init(Opened(config_of(tmp_path)))
    assert "ckpt repair" in caught.value.hint
    assert not list((tmp_path / "c").iterdir())


def test_a_target_that_is_away_is_not_made_anew(tmp_path):
    init(Opened(config_of(tmp_path)))
    (tmp_path / "c").rename(tmp_path / "away")
    with pytest.raises(TargetUnavailable):
        init(Opened(config_of(tmp_path)))
    assert not (tmp_path / "c").exists()


def test_targets_of_another_store_are_refused(tmp_path):
    init(Opened(config_of(tmp_path)))
    before = contents(tmp_path)
    for name in "ghi":
        (tmp_path / name).mkdir()
    with pytest.raises(ConflictError, match=r"store\.toml names a, b, c, g, h, i"):
        init(Opened(config_of(tmp_path, "abcghi")))
    init(Opened(config_of(tmp_path, "ghijkl")))
    with pytest.raises(ConflictError, match="several stores"):
        init(Opened(config_of(tmp_path, "abcdeg")))
    assert {path: data for path, data in contents(tmp_path).items() if path.parts[0] in "abcdef"} == before


def test_a_target_under_another_name_is_refused(tmp_path):
    init(Opened(config_of(tmp_path)))
    targets = [
        TargetConfig(name=name, url=str(tmp_path / place)) for name, place in zip("abcdef", "bacdef", strict=True)
    ]
    with pytest.raises(ConflictError, match="keeps its target b"):
        init(Opened(Config(name="store", targets=targets)))


class Overwriting(wrapper.Wrapper):
    """A service that ignores the condition, as rclone's S3 server does."""

    def call(self, verb, path, operation):
        return operation()

    def put_if_absent(self, path, data):
        self.inner.put(path, data)
        return True


def overwriting(opened, name):
    opened.targets = {**opened.targets, name: Overwriting(opened.targets[name])}
    return opened


def test_a_commit_target_that_overwrites_is_refused(tmp_path):
    opened = overwriting(Opened(config_of(tmp_path)), "c")
    with pytest.raises(TargetUnusable, match="c can't hold manifests") as caught:
        init(opened)
    assert "commit = false for c" in caught.value.hint
    assert contents(tmp_path) == {}


@pytest.mark.servers
def test_o02_on_a_server_that_ignores_conditions_there_is_no_store_to_save_to(tmp_path, monkeypatch):
    """rclone's own: refused before anything is kept, and nobody can save past the refusal."""
    with RcloneServer(buckets=["bucket"]) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        options = {"endpoint": server.endpoint}
        targets = [TargetConfig(name=name, url=f"s3://bucket/{name}", options=options) for name in "abc"]
        config = Config(name="store", code="2+1", targets=targets)
        opened = Opened(config)
        with pytest.raises(TargetUnusable, match="put-if-absent overwrites"):
            init(opened)
        assert [entry for target in opened.targets.values() for entry in target.list("")] == []
        with pytest.raises(NotFoundError, match=r"no store|not a store"):
            Commit(opened, "run", config.places).begin()


def test_it_may_hold_fragments(tmp_path):
    opened = overwriting(Opened(config_of(tmp_path, fragments_only="c")), "c")
    report = init(opened)
    assert (report.targets, report.fragments_only) == (tuple("abdef"), ("c",))
    identity = manifests.unseal(manifests.Identity, (tmp_path / "c" / paths.IDENTITY).read_bytes())
    assert (identity.target, identity.store_id) == ("c", report.store_id)
    assert len(opened.writable()[0]) == 6


def test_without_a_commit_target_there_is_no_store(tmp_path):
    with pytest.raises(ConfigError, match=r"commit = true"):
        init(Opened(config_of(tmp_path, fragments_only="abcdef")))


@pytest.mark.parametrize(
    ("names", "code", "losses", "saving"),
    [
        ("abcdef", "4+2", 2, 2),
        ("abcd", "2+2", 2, 1),  # t = 2 of four: Q = 3, so that saving stops at two losses
        ("abcdefg", "4+2", 3, 3),  # a target more than fragments: t = 3 of seven, or reading would take five
        ("abcdefghijkl", "8+4", 5, 5),
        ("abc", "2+1", 1, 0),  # two targets left hold 2 + 1 fragments: no loss more is survived, and one is asked for
        ("ab", "1+1", 1, 0),
    ],
)
def test_what_saving_survives(tmp_path, names, code, losses, saving):
    config = config_of(tmp_path, names, code)
    assert tolerated(config) == losses
    assert quorums_of(config, len(names), losses).saving == saving
    assert losses_saving_survives(config, len(names), losses, losses) == -1


def test_a_starter_file_can_be_read(tmp_path):
    places = [str(tmp_path / "one disk"), "s3://bucket/Prefix/", "two", str(tmp_path / "x/two")]
    file = tmp_path / "My Store!" / "store.toml"
    file.parent.mkdir()
    file.write_text(starter(file, places, "2+2"))
    config = Config.load(file)
    assert (config.name, config.code) == ("my-store-", "2+2") or config.name == "my-store"
    assert [target.name for target in config.targets] == ["one-disk", "prefix", "two", "two-4"]
    assert [target.url for target in config.targets][:2] == places[:2]
    assert Path(config.targets[2].url).is_absolute()
