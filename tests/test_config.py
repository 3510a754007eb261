"""store.toml: every wrong setting is a ConfigError that names its key; no other exception gets out."""

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptstore.config import Config, TargetConfig, parse_size
from ckptstore.errors import ConfigError
from ckptstore.placement import Place
from ckptstore.retention import Retention

SIX = [{"name": name, "url": f"/ckpt/{name}"} for name in "abcdef"]

STORE_TOML = """
name = "pretrain-7b"
code = "4+2"
fragment_size = "16MiB"
[[targets]]
name = "a"
url = "s3://ckpt-a/prefix"
domain = "us-east-1"
options = { endpoint = "http://127.0.0.1:8333" }
""" + "".join(f'[[targets]]\nname = "{name}"\nurl = "disk/{name}"\n' for name in "bcdef")


def config(**changes) -> Config:
    return Config.from_dict({"name": "s", "targets": SIX, **changes})


def refused(**changes) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        config(**changes)
    return caught.value


def test_store_toml_is_read(tmp_path):
    file = tmp_path / "store.toml"
    file.write_text(STORE_TOML, encoding="utf-8")
    found = Config.load(file)
    assert (found.name, found.k, found.m, found.fragment_bytes) == ("pretrain-7b", 4, 2, 16 << 20)
    assert found.targets[0].options == {"endpoint": "http://127.0.0.1:8333"}
    assert found.folder == str(tmp_path)
    assert found.places[:2] == [Place("a", "us-east-1"), Place("b", "b")]


def test_the_defaults_are_those_of_the_documents():
    found = config()
    assert (found.code, found.fragment_bytes, found.window_bytes) == ("4+2", 16 << 20, 512 << 20)
    assert found.require_tolerance == 1
    assert all(target.commit for target in found.targets)


@pytest.mark.parametrize("text", ["name = ", "name = 1", "\x00", 'name = "s"\ntargets = 3'])
def test_what_is_no_store_file_is_refused(tmp_path, text):
    file = tmp_path / "store.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"store\.toml"):
        Config.load(file)


def test_no_file_says_how_to_make_one(tmp_path):
    with pytest.raises(ConfigError) as caught:
        Config.load(tmp_path / "none.toml")
    assert "ckpt init" in (caught.value.hint or "")


def test_a_directory_or_bytes_for_a_file_are_refused(tmp_path):
    (tmp_path / "latin.toml").write_bytes(b'name = "\xff"')
    for path in (tmp_path, tmp_path / "latin.toml"):
        with pytest.raises(ConfigError):
            Config.load(path)


def test_the_folder_is_not_a_setting(tmp_path):
    file = tmp_path / "store.toml"
    file.write_text('folder = "/"\n' + STORE_TOML)
    with pytest.raises(ConfigError, match="folder"):
        Config.load(file)


@pytest.mark.parametrize("name", ["", "A", "-a", "a/b", "a b", "a" * 65, "ä", "a\n"])
def test_names_that_would_not_do_in_a_path_are_refused(name):
    assert refused(name=name).key == "name"
    assert refused(targets=[{"name": name, "url": "/x"}]).key == "targets.name"


def test_two_targets_of_one_name_are_refused():
    error = refused(targets=[*SIX, {"name": "a", "url": "/elsewhere"}])
    assert error.key == "targets.name"
    assert "a stands more than once" in error.message


def test_no_targets_are_refused():
    assert refused(targets=[]).key == "targets"


@pytest.mark.parametrize(
    "code", ["", "4", "4+", "+2", "0+2", "4-2", "4+2+1", "200+56", "9" * 5000 + "+2", "-4+2", "4.0+2", "4 + 2"]
)
def test_codes_that_do_not_exist_are_refused(code):
    error = refused(code=code)
    assert error.key == "code"
    assert "k+m" in error.message


def test_o41_the_largest_code_is_allowed():
    many = [{"name": f"t{i}", "url": f"/t{i}"} for i in range(255)]
    found = config(code="200+55", targets=many, fragment_size=4096)
    assert found.k + found.m == 255


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fragment_size", 4095),
        ("fragment_size", "4095B"),
        ("fragment_size", -1),
        ("fragment_size", "16 megs"),
        ("fragment_size", "MiB"),
        ("fragment_size", "9" * 400 + "GiB"),
        ("fragment_size", (1 << 30) + 1),
        ("window", "95MiB"),
        ("window", "1e9"),
        ("require_tolerance", -1),
        ("require_tolerance", 3),
    ],
)
def test_sizes_out_of_range_name_their_key(key, value):
    assert refused(**{"window": "64GiB", key: value}).key == key


def test_a_window_holds_one_stripe_at_least():
    assert config(window="96MiB").window_bytes == 6 * (16 << 20)


def test_o19_a_code_that_its_targets_cannot_bear_is_refused():
    error = refused(targets=SIX[:3], require_tolerance=2)
    assert "over 3 targets survives the loss of 1" in error.message
    assert refused(targets=SIX[:1]).key == "require_tolerance"
    assert config(targets=SIX[:1], require_tolerance=0).require_tolerance == 0


def test_commit_targets_must_bear_what_is_asked_too():
    votes = [{**spec, "commit": spec["name"] in "ab"} for spec in SIX]
    assert "2 commit targets that of 1" in refused(targets=votes, require_tolerance=2).message
    assert config(targets=votes, require_tolerance=1).require_tolerance == 1
    assert refused(targets=[{**spec, "commit": False} for spec in SIX], require_tolerance=0).key == "require_tolerance"


@pytest.mark.parametrize("where", [{"colour": 1}, {"targets": [{**SIX[0], "colour": 1}]}])
def test_an_unknown_key_is_named(where):
    assert "colour" in refused(**where).message


@pytest.mark.parametrize(
    "changes", [{"targets": [{"name": "a"}]}, {"require_tolerance": "1"}, {"fragment_size": 1.5}, {"code": 42}]
)
def test_a_wrong_type_is_a_config_error(changes):
    assert refused(**changes).exit_code == 2


def test_sizes_are_exact():
    assert parse_size("1.5MiB", "x") == 3 << 19
    assert parse_size(" 64 KiB ", "x") == 64 << 10
    assert parse_size("9007199254740993", "x") == 9007199254740993
    assert parse_size("1GB", "x") == 10**9


@given(st.text(max_size=30))
def test_any_text_is_a_size_or_a_config_error(text):
    try:
        assert parse_size(text, "window") >= 0
    except ConfigError as error:
        assert error.key == "window"  # noqa: PT017 - either outcome is right


@given(st.text(max_size=12))
def test_any_text_is_a_code_or_a_config_error(text):
    try:
        found = config(code=text, require_tolerance=0, fragment_size=4096)
        assert 1 <= found.k <= found.k + found.m <= 255
    except ConfigError as error:
        assert error.key == "code"  # noqa: PT017 - either outcome is right


def test_made_in_python_it_is_checked_too():
    with pytest.raises(ConfigError):
        Config(name="s", code="0+0", targets=[TargetConfig(name="a", url="/a")])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('keep_within = "7days"', ["retention.keep_within", "24h"]),
        ("keep_every = 0", ["retention.keep_every", "1 or more"]),
        ("automatic = true", ["retention.automatic", "keep_last"]),
        ("automatic = true\nkeep_last = 0", ["retention.automatic", "keep_last"]),
        ('grace = "soon"', ["retention.grace"]),
        ('grace = "999999d"', ["retention.grace", "36500d"]),
        ('keep_within = "999999999w"', ["retention.keep_within", "36500d"]),
    ],
)
def test_a_wrong_setting_names_its_file(tmp_path, line, words):
    file = tmp_path / "store.toml"
    file.write_text(STORE_TOML.replace("[[targets]]", f"[retention]\n{line}\n[[targets]]", 1))
    with pytest.raises(ConfigError) as caught:
        Config.load(file)
    assert all(word in str(caught.value) for word in [str(file), *words]), str(caught.value)


def test_any_wrong_setting_names_its_file(tmp_path):
    file = tmp_path / "store.toml"
    file.write_text(STORE_TOML.replace("4+2", "4x2"))
    with pytest.raises(ConfigError) as caught:
        Config.load(file)
    assert str(file) in caught.value.message
    assert caught.value.key == "code"


@pytest.mark.parametrize("wrong", [{"keep_last": "3"}, {"keep_within": 7}, {"keep_within": "5x"}, {"keep_every": 0.5}])
def test_retention_made_in_python_says_what_is_wanted(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))) as caught:
        Retention(**wrong)
    assert caught.value.hint


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_time_that_is_none_is_told_with_what_may_be(seconds):
    with pytest.raises(ConfigError, match="seconds above 0, below"):
        config(save_timeout=seconds)


@pytest.mark.timeout(5)
@pytest.mark.parametrize("kind", ["fifo", "device", "socket"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "store.toml"
    if kind == "device":
        path = Path("/dev/null")
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind(str(path))
    else:
        os.mkfifo(tmp_path / "fifo")
        path.symlink_to("fifo")
    with pytest.raises(ConfigError, match="no regular file"):
        Config.load(path)
