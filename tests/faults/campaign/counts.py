"""What many injections came to, counted."""

from collections import Counter
from collections.abc import Sequence

from tests.faults.campaign.campaign import Outcome
from tests.faults.report import Proof

COLUMNS = ("bit-equal", "refused", "noticed by the save", "save refused", "silent")

TEXT = """Seeded damage to stores in memory, of codes 2+1, 4+2 and 8+4. Objects of every kind (fragments, shard records,
indexes, manifests, marks, sessions, standings, identities) are flipped, truncated, extended, zeroed, replaced by
garbage, by another object, by an older save's or by one made to mislead a reader, swapped or removed, in the store or
by a target that stores something else than it is given. After each injection every checkpoint that is hurt is loaded
and the latest chosen, all is verified, repaired and verified again. *Bit-equal*: every byte came as it was saved.
*Refused*: a typed error, no wrong byte, and not one of a stripe that is lost. *Silent*: anything else, such as a wrong
byte, an untyped error, damage that `ckpt verify --read-data` doesn't name by kind and place, or a store that a repair
made worse or called well. What is altered before its digest is taken can't be told from what was meant."""


def proof_of(outcomes: Sequence[Outcome], seconds: float, command: str) -> Proof:
    """The section of docs/reliability.md."""
    counts = {
        "injections": len(outcomes),
        "silent": sum(bool(outcome.silent) for outcome in outcomes),
        "loaded bit-equal": sum(result(outcome) == "bit-equal" for outcome in outcomes),
        "refused by a typed error": sum(result(outcome) == "refused" for outcome in outcomes),
        "noticed by the save, and put elsewhere": sum(result(o) == "noticed by the save" for o in outcomes),
        "save refused by a typed error": sum(result(outcome) == "save refused" for outcome in outcomes),
        "repaired byte-equal": sum(outcome.repair == "byte-equal" for outcome in outcomes),
    }
    tables = [by("code", outcomes), by("what", outcomes), by("kind", outcomes)]
    return Proof("Corruption campaign", command, TEXT, counts, seconds, tables)


def by(field: str, outcomes: Sequence[Outcome]) -> list[list[object]]:
    """A table: what came of the injections, by one of their fields."""
    counts = Counter((getattr(outcome, field), result(outcome)) for outcome in outcomes)
    repaired = Counter(getattr(outcome, field) for outcome in outcomes if outcome.repair == "byte-equal")
    names = sorted({name for name, _ in counts})
    rows = [[name, *(counts[name, column] for column in COLUMNS), repaired[name]] for name in names]
    return [[field, *COLUMNS, "repaired byte-equal"], *rows]


def result(outcome: Outcome) -> str:
    """One word for what came of an injection."""
    return "silent" if outcome.silent else outcome.load
