"""Object names: as docs/format.md spells them, and none that a name could leave its folder by."""

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests import format_errors as errors
from manifests import paths

BAD = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "/a",
    "a\\b",
    "a b",
    "a\n",
    "\n",
    "a\u0000",
    "A/..",
    "ü",
    "-a",
    "_a",
    "a" * 65,
]
SESSION = "000012.5e55"


def test_names_are_those_of_the_format():
    assert paths.IDENTITY == "ckptstore.json"
    assert paths.standing(3) == "incarnations/000003.json"
    assert paths.commit_prefix("r", "1nc") == "runs/r/commit/1nc/"
    assert paths.session_vote(SESSION) == "sessions/000012.5e55"
    assert paths.begun_name(SESSION, 7) == "begun/000012.5e55.000007"
    assert paths.voiding_name(SESSION, 7) == "voiding/000012.5e55.000007"
    assert paths.manifest_name(SESSION, 7, 1) == "manifests/000012.5e55.000007/000001"
    assert paths.manifest_name(SESSION, 7, 2, "ab") == "manifests/000012.5e55.000007/000002.ab"
    assert paths.mark_name(SESSION, 7, "ab") == "marks/000012.5e55.000007/ab"
    assert paths.index("r", "ab") == "runs/r/index/ab"
    assert paths.record("r", "ab") == "runs/r/shards/ab"
    assert paths.record("r", "ab", "0123456789abcdef01") == "runs/r/shards/ab-0123456789abcdef"
    xx = hashlib.sha256(b"ab").hexdigest()[:2]
    assert paths.fragment("r", "ab", 12, 3) == f"data/{xx}/r/ab/000012.003"


@pytest.mark.parametrize("bad", BAD)
def test_o62_bad_names_never_become_object_names(bad):
    for make in [
        lambda: paths.fragment(bad, "ab", 0, 0),
        lambda: paths.fragment("r", bad, 0, 0),
        lambda: paths.record("r", bad),
        lambda: paths.index(bad, "ab"),
        lambda: paths.commit_prefix(bad, "1nc"),
        lambda: paths.commit_prefix("r", bad),
        lambda: paths.session_vote(bad),
        lambda: paths.session_vote(f"000001.{bad}"),
        lambda: paths.begun_name(bad, 1),
        lambda: paths.voiding_name(bad, 1),
        lambda: paths.manifest_name(SESSION, 1, 2, bad),
        lambda: paths.mark_name(SESSION, 1, bad),
        lambda: paths.check_label(bad),
    ]:
        with pytest.raises(errors.UnsafeName) as caught:
            make()
        assert len(str(caught.value)) < 250


@pytest.mark.parametrize("number", [-1, 10**9])
def test_numbers_have_at_most_nine_digits(number):
    for make in [
        lambda: paths.fragment("r", "ab", number, 0),
        lambda: paths.fragment("r", "ab", 0, number),
        lambda: paths.begun_name(SESSION, number),
        lambda: paths.manifest_name(SESSION, 1, number, "ab"),
        lambda: paths.standing(number),
        lambda: paths.session_name(number, "ab"),
    ]:
        with pytest.raises(errors.NumberOutOfRange):
            make()


def test_a_fragment_has_a_place_in_a_code():
    with pytest.raises(errors.NumberOutOfRange):
        paths.fragment("r", "ab", 0, 255)


def test_only_version_1_is_a_register():
    with pytest.raises(errors.UnsafeName):
        paths.manifest_name(SESSION, 1, 1, "ab")
    with pytest.raises(errors.UnsafeName):
        paths.manifest_name(SESSION, 1, 2)


TOKENS = st.from_regex(re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII), fullmatch=True)
NUMBERS = st.integers(0, paths.MAX_NUMBER)


@given(TOKENS, NUMBERS, NUMBERS, st.integers(2, paths.MAX_NUMBER))
def test_names_split_into_what_they_were_made_of(token, number, ordinal, version):
    session = paths.session_name(number, token)
    assert paths.split_session(session) == (number, token)
    assert paths.split_save(paths.save_name(session, ordinal)) == (session, ordinal)
    first = paths.manifest_name(session, ordinal, 1)
    assert paths.split_manifest(paths.below_folder(first)) == (session, ordinal, 1, None)
    later = paths.manifest_name(session, ordinal, version, token)
    assert paths.split_manifest(paths.below_folder(later)) == (session, ordinal, version, token)
    mark = paths.mark_name(session, ordinal, token)
    assert paths.split_mark(paths.below_folder(mark)) == (session, ordinal, token)
    names = [paths.begun_name(session, ordinal), paths.voiding_name(session, ordinal), first, later, mark]
    names.append(paths.collected_name(session, ordinal))
    assert {paths.save_of(name) for name in names} == {(session, ordinal)}
    assert {paths.folder_of(name) for name in [*names, paths.session_vote(session)]} == set(paths.FOLDERS)
    assert paths.parse_standing(paths.standing(number)) == number


@given(st.text(max_size=40) | st.from_regex(r"[0-9.a-f/]{0,30}", fullmatch=True))
def test_strange_names_in_a_listing_are_refused(name):
    for split, make in [
        (paths.split_session, lambda parts: paths.session_name(*parts)),
        (paths.split_save, lambda parts: paths.save_name(*parts)),
        (paths.split_manifest, lambda parts: paths.below_folder(paths.manifest_name(*parts))),
        (paths.split_mark, lambda parts: paths.below_folder(paths.mark_name(*parts))),
        (paths.parse_standing, paths.standing),
    ]:
        try:
            parts = split(name)
        except errors.UnsafeName:
            continue
        assert make(parts) == name


@pytest.mark.parametrize("name", ["", "begun", SESSION, f"{SESSION}.000007", f"sessions/{SESSION}", "begun/x"])
def test_names_that_tell_no_save_are_refused(name):
    with pytest.raises(errors.UnsafeName):
        paths.save_of(name)


@pytest.mark.parametrize(
    "name",
    [
        "1.a",
        "0000001.a",
        "000001",
        "000001.",
        "000001.a.b",
        "00000a.a",
        "\u0660\u0660\u0660\u0660\u0660\u0661.a",
        "1000000000.a",
        " 000001.a",
    ],
)
def test_sessions_have_one_spelling(name):
    with pytest.raises(errors.UnsafeName):
        paths.split_session(name)


def test_tokens_are_new_each_time():
    tokens = {paths.new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(paths.check_token(token) == token for token in tokens)
