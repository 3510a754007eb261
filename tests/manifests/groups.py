"""Stores on in-memory registers, for the tests of the protocol."""

from manifests.founding import init_store
from manifests.group import Group
from manifests.testing import MemoryRegister, save_manifest

RUN = "r"


def registers(n: int) -> list[MemoryRegister]:
    return [MemoryRegister(name) for name in "abcdefg"[:n]]


def new_group(n: int = 3, t: int = 1) -> tuple[Group, list[MemoryRegister]]:
    made = registers(n)
    init_store(made, t=t)
    return Group.open(made), made


def save(group: Group, session: str, ordinal: int, *, step: int | None = None) -> None:
    group.begin(RUN, session, ordinal)
    group.commit(save_manifest(RUN, session, ordinal, step=step))


def paths_under(register: MemoryRegister, folder: str) -> list[str]:
    return sorted(path for path in register.objects if f"/{folder}/" in path)
