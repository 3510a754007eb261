"""All objects of a store, copied by a plain copy to another kind of target, are that store (case O05)."""

import pytest
from msgspec.structs import replace

from ckptstore.operations.prune import prune
from ckptstore.retention import Retention
from ckptstore.selection import Selector
from ckptstore.targets import open_target
from tests.faults.crash.sweeps import live, pruned, save
from tests.support import RUN, LocalStore, make_store, reopen


def copied(store: LocalStore, place: str) -> LocalStore:
    """Copy every object under the same name to targets elsewhere, and open what is there by the other URLs."""
    targets = [replace(target, url=f"{place}/{target.name}") for target in store.config.targets]
    for spec in targets:
        target = open_target(spec.name, spec.url)
        target.create_root()
        for (_, path), data in store.objects(spec.name).items():
            target.put(path, data)
    return reopen(store.root, replace(store.config, targets=targets))


@pytest.mark.parametrize("memory", [False, True], ids=["into memory", "into directories"])
def test_o05_a_store_copied_to_another_kind_of_target_is_complete(memory, tmp_path):
    store = make_store(tmp_path / "one", "abc", "2+1", memory=memory)
    save(store, 1, 2)
    other = copied(store, str(tmp_path / "other") if memory else f"memory://{tmp_path}/other")
    before = other.objects(*other.raw)
    assert before == store.objects(*store.raw)
    assert live(other) == (1, 2)
    assert [other.verify(Selector(step=step), read_data=True).state for step in (1, 2)] == ["good", "good"]
    report = prune(other.opened, RUN, Retention(keep_last=2, grace="0"))
    assert (report.exit_code, report.removal.objects) == (0, 0)
    assert other.objects(*other.raw) == before
    save(other, 3)
    pruned(other)
    assert live(other) == (3,)
