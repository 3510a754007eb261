"""Making a store out of commit targets that hold none."""

from collections.abc import Callable, Iterable, Sequence

from manifests import membership, paths
from manifests.quorum import Scope
from manifests.registers import Register, drive
from manifests.schema import Members


def init_store(
    registers: Sequence[Register],
    *,
    t: int,
    store_id: str | None = None,
    random: Callable[[], str] = paths.new_token,
) -> str:
    """Make a store whose commit targets are `registers`, `t` of which may be lost; return its id.

    Every target must be in reach and hold no store. A first attempt that failed half-way is finished, under
    its id. Raises ValueError where `t` is not in 0..N-1, Conflict, Unavailable or NotConditional as
    `membership.init_store`.
    """
    names = [register.name for register in registers]
    members = Members(number=1, targets=names, t=checked_tolerance(t, names))
    return drive(membership.init_store(Scope(names, store_id, random), members), by_name(registers))


def checked_tolerance(t: int, names: Sequence[str]) -> int:
    """Return `t`. Raises ValueError where so many targets can't be lost, or two have one name."""
    if len(set(names)) != len(names):
        raise ValueError(f"two commit targets have one name: {', '.join(names)}")
    if not 0 <= t < len(names):
        raise ValueError(f"t={t}: of {len(names)} commit targets, 0 to {len(names) - 1} may be lost")
    return t


def by_name(registers: Iterable[Register]) -> dict[str, Register]:
    """Return the registers by their names."""
    return {register.name: register for register in registers}
