"""Which checkpoint is meant, where that can't be told for sure."""

import msgspec
import pytest

from ckptstore.errors import CorruptError, UsageError
from ckptstore.selection import Selector, key_of, select
from manifests import Manifest, unseal
from manifests.testing import sealed_for
from tests.support import RUN, make_store, random_bytes


@pytest.fixture
def store(tmp_path):
    made = make_store(tmp_path)
    for step in (1, 2, 3):
        made.save({"x": random_bytes(1000, step)}, step=step)
    return made


def rewrite(store, step, change):
    """Change every copy of a checkpoint's manifest."""
    key = key_of(select(store.opened, RUN, Selector(step=step)))
    for (target, path), data in store.objects().items():
        if f"/manifests/{key}/" in path:
            store.raw[target].put(path, change(path, data))
    return key


def newer(path, data):
    document = unseal(Manifest, data, f"{RUN}/{path.split('/', 4)[4]}")
    return sealed_for(path, msgspec.structs.replace(document, requires=["quantum-codes"]))


DAMAGES = {
    "damaged": (lambda _, data: data[:-5], CorruptError, "ckpt repair"),
    "newer": (newer, UsageError, "upgrade ckptstore"),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_the_latest_is_never_an_older_one_because_a_newer_one_can_not_be_read(store, how):
    change, error, advice = DAMAGES[how]
    key = rewrite(store, 3, change)
    with pytest.raises(error) as caught:
        select(store.opened, RUN, Selector())
    assert key in caught.value.message
    assert caught.value.key == key
    assert advice in caught.value.hint
    assert "--step 2" in caught.value.hint
    assert select(store.opened, RUN, Selector(step=2)).step == 2


@pytest.mark.parametrize("how", DAMAGES)
def test_what_can_not_be_read_before_the_latest_does_not_matter(store, how):
    change, error, _ = DAMAGES[how]
    rewrite(store, 1, change)
    assert select(store.opened, RUN, Selector()).step == 3
    with pytest.raises(error, match="whether run demo has step 1 can't be told"):
        select(store.opened, RUN, Selector(step=1))


def test_the_only_save_can_not_be_read(tmp_path):
    store = make_store(tmp_path)
    store.save({"x": random_bytes(1000)}, step=1)
    rewrite(store, 1, DAMAGES["damaged"][0])
    with pytest.raises(CorruptError) as caught:
        select(store.opened, RUN, Selector())
    assert "older" not in caught.value.hint
