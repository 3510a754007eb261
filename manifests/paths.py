"""Every object name of a store, and the rules for the names that go into them.

Object names hold only what these functions check: names of tensors and values never form object names, and
nothing read from a stored document reaches a path unchecked. The list
is also in `docs/format.md`.

Everything that counts as a vote lies under the *incarnation* of its target: a put that was meant for an
incarnation since forgotten lands where nobody looks. Data, shard records and indexes are named by random ids.
"""

import hashlib
import os
import re

from manifests.errors import shown
from manifests.format_errors import NumberOutOfRange, UnsafeName

IDENTITY = "ckptstore.json"
INCARNATIONS = "incarnations/"
RUNS = "runs/"

SESSIONS, BEGUN, VOIDING, MANIFESTS, MARKS = "sessions", "begun", "voiding", "manifests", "marks"
COLLECTED = "collected"
FOLDERS = (SESSIONS, BEGUN, VOIDING, MANIFESTS, MARKS, COLLECTED)
"""The folders of votes, below `commit_prefix`."""
NOTES = (SESSIONS, BEGUN, VOIDING)
"""Those whose documents only whoever looks for damage reads; of `COLLECTED` those that few targets hold."""

MAX_NUMBER = 999_999_999
"""Highest session, ordinal, version or stripe number: nine digits (names show at least six)."""

SaveKey = tuple[str, int]
"""(session, ordinal): names a save inside its run."""

_RUN = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TOKEN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_NUMBER = re.compile(r"[0-9]{6,9}")


def new_token() -> str:
    """128 random bits in hexadecimal: a shard id, the random part of a name, an incarnation."""
    return os.urandom(16).hex()


def check_run(name: str) -> str:
    """Return `name` if it is a run name (`[a-z0-9][a-z0-9._-]{0,63}`); raise UnsafeName otherwise."""
    return _check(_RUN, name, "run name")


def check_label(name: str) -> str:
    """Return `name` if it can name a target, tier or tag (capitals too); raise UnsafeName otherwise."""
    return _check(_LABEL, name, "name")


def check_token(name: str) -> str:
    """Return `name` if it is an id (`[a-z0-9][a-z0-9_-]{0,63}`: no dots); raise UnsafeName otherwise."""
    return _check(_TOKEN, name, "id")


def check_session(name: str) -> str:
    """Return `name` if it is a session, `<number:06d>.<random>`; raise UnsafeName otherwise."""
    split_session(name)
    return name


def session_name(number: int, random: str) -> str:
    """Return the name of the `number`-th opening of a run for saving. Raises NumberOutOfRange, UnsafeName."""
    return f"{_number(number, 'session number')}.{check_token(random)}"


def split_session(name: str) -> tuple[int, str]:
    """Split a session's name into number and random part; this pair orders sessions. Raises UnsafeName."""
    number, dot, random = name.partition(".")
    if not dot:
        raise UnsafeName(f"{shown(name)} is not a session: it must be <number>.<random>", name=name)
    return _parse_number(number, name), check_token(random)


def job_of(session: str) -> str:
    """Return the job that opened a session: the random part up to a dash. None, "", where there is no dash."""
    job, dash, _ = split_session(session)[1].partition("-")
    return job if dash else ""


# -- data, records and indexes: named by random ids ----------------------------------------


def fragment(run: str, shard_id: str, stripe: int, fragment: int) -> str:
    """Return the name of a fragment. Its first directory spreads request limits per prefix."""
    if not 0 <= fragment <= 254:  # noqa: PLR2004 - a code over GF(2^8) has at most 255 fragments
        raise NumberOutOfRange(
            f"fragment {fragment} is not in 0..254", field="fragment", found=fragment, low=0, high=254
        )
    return f"{shard_data_prefix(run, shard_id)}{_number(stripe, 'stripe')}.{fragment:03d}"


def shard_data_prefix(run: str, shard_id: str) -> str:
    """Return the prefix of all fragments of a shard."""
    return f"data/{spread(shard_id)}/{check_run(run)}/{shard_id}/"


def spread(shard_id: str) -> str:
    """Return the first byte of SHA-256(shard id) as two hexadecimal digits."""
    return hashlib.sha256(check_token(shard_id).encode()).hexdigest()[:2]


def record(run: str, shard_id: str, random: str | None = None) -> str:
    """Return the name of a shard record; one that a repair wrote has a random part."""
    tail = "" if random is None else f"-{check_token(random)[:16]}"
    return f"{RUNS}{check_run(run)}/shards/{check_token(f'{check_token(shard_id)}{tail}')}"


def index(run: str, random: str) -> str:
    """Return the name of an index."""
    return f"{RUNS}{check_run(run)}/index/{check_token(random)}"


# -- the target's own ----------------------------------------


def standing(number: int) -> str:
    """Return the name of the `number`-th statement of a target's standing."""
    return f"{INCARNATIONS}{_number(number, 'standing number')}.json"


def parse_standing(path: str) -> int:
    """Return the number in a name that `standing` made. Raises UnsafeName for any other name."""
    stem = path.removeprefix(INCARNATIONS).removesuffix(".json")
    if f"{INCARNATIONS}{stem}.json" != path:
        raise UnsafeName(f"{shown(path)} is not the name of a standing", name=path)
    return _parse_number(stem, path)


# -- votes: under the target's incarnation ----------------------------------------


def commit_prefix(run: str, incarnation: str) -> str:
    """Return the prefix of everything that counts as a vote on a target of this incarnation.

    What follows it is the vote's *inner* name, the same on every target.
    """
    return f"{RUNS}{check_run(run)}/commit/{check_token(incarnation)}/"


def session_vote(session: str) -> str:
    """Return the inner name of a session: one opening of the run for saving."""
    return f"{SESSIONS}/{check_session(session)}"


def begun_name(session: str, ordinal: int) -> str:
    """Return the inner name of what is put before any rank writes data of that save."""
    return f"{BEGUN}/{save_name(session, ordinal)}"


def voiding_name(session: str, ordinal: int) -> str:
    """Return the inner name of the note that is put on a target before a void is.

    A listing then tells whether a manifest may be a void on some targets: only then are all its copies read.
    """
    return f"{VOIDING}/{save_name(session, ordinal)}"


def collected_name(session: str, ordinal: int) -> str:
    """Return the inner name of the note that a save is gone for good, for ever: its name says it."""
    return f"{COLLECTED}/{save_name(session, ordinal)}"


def manifest_name(session: str, ordinal: int, version: int, random: str | None = None) -> str:
    """Return the inner name of a manifest. Version 1, a register, has no random part; later ones must have one."""
    if (version == 1) != (random is None):
        raise UnsafeName(f"version {version} of a manifest with random part {random!r}", name=random)
    tail = "" if random is None else f".{check_token(random)}"
    return f"{MANIFESTS}/{save_name(session, ordinal)}/{_number(version, 'version')}{tail}"


def mark_name(session: str, ordinal: int, random: str) -> str:
    """Return the inner name of a mark (delete, undelete, tag, untag, collect) on a checkpoint."""
    return f"{MARKS}/{save_name(session, ordinal)}/{check_token(random)}"


def folder_of(name: str) -> str:
    """Return the folder of an inner name, one of FOLDERS if it is a vote's."""
    return name.partition("/")[0]


def below_folder(name: str) -> str:
    """Return an inner name without its folder: what the `split_` functions take."""
    return name.partition("/")[2]


def save_of(name: str) -> SaveKey:
    """Return the save that the inner name of a vote tells: of all but sessions. Raises UnsafeName."""
    return split_save(below_folder(name).partition("/")[0])


def save_name(session: str, ordinal: int) -> str:
    """`<session>.<ordinal:06d>`: the name of a save inside its run. Raises UnsafeName, NumberOutOfRange."""
    return f"{check_session(session)}.{_number(ordinal, 'ordinal')}"


def split_save(name: str) -> SaveKey:
    """Split a name that `save_name` made into session and ordinal. Raises UnsafeName."""
    session, _, ordinal = name.rpartition(".")
    return check_session(session), _parse_number(ordinal, name)


def split_manifest(name: str) -> tuple[str, int, int, str | None]:
    """Split a manifest's name below its folder: (session, ordinal, version, random or None). Raises UnsafeName."""
    save, _, tail = name.partition("/")
    number, dot, random = tail.partition(".")
    version = _parse_number(number, name)
    if (version == 1) == bool(dot) or version == 0:
        raise UnsafeName(f"{shown(name)} is not the name of a manifest", name=name)
    return *split_save(save), version, check_token(random) if dot else None


def split_mark(name: str) -> tuple[str, int, str]:
    """Split a mark's name below its folder: (session, ordinal, random). Raises UnsafeName."""
    save, _, random = name.partition("/")
    return *split_save(save), check_token(random)


# -- the rules ----------------------------------------


def _check(rule: re.Pattern[str], name: str, what: str) -> str:
    if not rule.fullmatch(name):
        raise UnsafeName(f"{shown(name)} is not a {what}: it must match {rule.pattern}", name=name)
    return name


def _number(number: int, what: str) -> str:
    if not 0 <= number <= MAX_NUMBER:
        message = f"{what} {number} is not in 0..{MAX_NUMBER}"
        if number == MAX_NUMBER + 1:  # one more than the highest listed
            message += f"; counting never comes so far: on the targets, remove what has {MAX_NUMBER} in its name"
        raise NumberOutOfRange(message, field=what, found=number, low=0, high=MAX_NUMBER)
    return f"{number:06d}"


def _parse_number(text: str, name: str) -> int:
    if not _NUMBER.fullmatch(text) or f"{int(text):06d}" != text:
        raise UnsafeName(f"{shown(name)} does not hold a number of six to nine digits where it must", name=name)
    return int(text)
