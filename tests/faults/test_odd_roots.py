"""Roots that a client is tempted to encode, to take for a pattern or to cut (case O44): all of a checkpoint's life."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ckptstore.config import Config, TargetConfig
from ckptstore.operations.prune import prune
from ckptstore.operations.setup import init
from ckptstore.retention import Retention
from ckptstore.selection import Selector
from localstack.faulty import FaultyServer
from tests.faults.support import ARRAYS, CREDENTIALS, FAST
from tests.support import RUN, assert_equal, random_bytes, reopen

BUCKET, ROOT = "my.bucket", "p[x]/a#b/c%20d/e+f/with space/ü?x"


@pytest.mark.parametrize("client", ["obstore", pytest.param("fsspec", marks=pytest.mark.soak)])
def test_o44_odd_names_of_buckets_and_prefixes(tmp_path, client):
    with FaultyServer(buckets=[BUCKET], credentials=CREDENTIALS) as server:
        options = {"endpoint": server.endpoint, "client": client, **FAST}

        def held() -> Mapping[str, bytes]:
            server.memory.clock_offset += 1  # S3 tells no parts of seconds: what is deleted now is not yet in the past
            return server.objects

        live_under(tmp_path, f"s3://{BUCKET}/{ROOT}", options, held)


def test_o44_odd_names_of_folders(tmp_path):
    def held() -> Mapping[str, bytes]:
        files = [path for path in (tmp_path / ROOT).rglob("*") if path.is_file()]
        return {str(path.relative_to(tmp_path)): path.read_bytes() for path in files}

    live_under(tmp_path, f"{tmp_path}/{ROOT}", {}, held)


def live_under(folder: Path, root: str, options: Mapping[str, object], held: Callable[[], Mapping[str, bytes]]) -> None:
    """Save, list, load, verify, delete and remove; `held`: what a plain client finds, by its raw key."""
    targets = [TargetConfig(name=name, url=f"{root}/{name}", options=dict(options)) for name in "abc"]
    config = Config(name="odd", code="2+1", fragment_size="128KiB", targets=targets)
    init(reopen(folder, config).opened)
    store = reopen(folder, config)
    old, newer = store.save(ARRAYS, step=1), {"weights": random_bytes(50_000, seed=3)}
    store.save(newer, step=2)
    assert held() == {f"{ROOT}/{target}/{path}": data for (target, path), data in store.objects(*"abc").items()}
    later = reopen(folder, config)
    assert [found.manifest.step for found in later.opened.group.history(RUN).checkpoints] == [1, 2]
    assert_equal(later.load(Selector(step=1)), ARRAYS)
    assert [later.verify(Selector(step=step), read_data=True).state for step in (1, 2)] == ["good", "good"]
    shard = later.record(old).shard_id
    later.opened.group.delete(RUN, old.session, old.ordinal)
    assert any(shard in key for key in held())
    report = prune(later.opened, RUN, Retention(grace="0"), sweep_only=True)
    assert (report.exit_code, report.removal.objects > 0) == (0, True)
    assert not [key for key in held() if shard in key]
    assert_equal(reopen(folder, config).load(), newer)
