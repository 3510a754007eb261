"""Keys of the template against keys of the checkpoint, over all ranks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ckptstore.errors import KeyMismatch

__all__ = ["LoadReport", "listed", "settle"]


_SHOWN = 20
"""Keys in a message; the error's fields have all of them."""


@dataclass(frozen=True)
class LoadReport:
    """What a load found beside what it loaded; keys, sorted.

    missing      wanted, not saved: left untouched
    unexpected   saved, wanted by no rank: not loaded
    unread       of those, what one rank alone had saved, such as the random state of a rank that is no more
    gaps         optimizer state wanted but not saved, as the parameter had never been stepped: left untouched
    torn         optimizer state saved in part; always an error
    uncarried    parts of a `TrainState` that could not be put back as they were; its own `uncarried` says why
    """

    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    torn: tuple[str, ...] = ()
    uncarried: tuple[str, ...] = ()


def settle(ranks: Sequence[LoadReport], single: frozenset[str], *, strict: bool) -> LoadReport:
    """One report for all ranks. `single`: keys that one of several ranks had saved.

    Raises `KeyMismatch` for optimizer state saved in part, and if `strict` for missing and unexpected keys.
    """
    unexpected = set.intersection(*({*rank.unexpected} for rank in ranks))
    report = LoadReport(
        missing=_union(rank.missing for rank in ranks),
        unexpected=tuple(sorted(unexpected - single)),
        unread=tuple(sorted(unexpected & single)),
        gaps=_union(rank.gaps for rank in ranks),
        torn=_union(rank.torn for rank in ranks),
    )
    if report.torn:
        raise KeyMismatch(
            listed("optimizer state was saved in part; it lacks", report.torn),
            missing=list(report.torn),
            unexpected=list(report.unexpected),
            hint="load without the optimizer, or from another checkpoint",
        )
    if strict and (report.missing or report.unexpected):
        raise KeyMismatch(
            "; ".join(
                listed(what, keys)
                for what, keys in (("missing", report.missing), ("unexpected", report.unexpected))
                if keys
            ),
            missing=list(report.missing),
            unexpected=list(report.unexpected),
            hint="strict=False loads what there is and returns both lists",
        )
    return report


def _union(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted({key for keys in lists for key in keys}))


def listed(what: str, keys: Sequence[str]) -> str:
    """`what: the keys`, as many as one can read."""
    shown = ", ".join(f"{key!r:.200}" for key in keys[:_SHOWN])
    return f"{what}: {shown}" + (f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else "")
