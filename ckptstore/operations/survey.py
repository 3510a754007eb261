"""What is really there of one shard: fragments and record copies asked for, and blocks checked where they are read.

Reads only. Missing, short, corrupt and out of reach are four different findings: the last one proves nothing.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property

import erasure
from ckptstore.buffers import Bytes
from ckptstore.errors import ObjectNotFound, ShortObject, TargetError
from ckptstore.load.fetch import Fetcher, Fragment
from ckptstore.load.plan import Shard, Want
from ckptstore.opened import Opened
from ckptstore.operations.findings import Counts, Finding
from ckptstore.placement import Survives
from ckptstore.tolerance import stripe_survives
from manifests import CodeSpec, FormatError, Reference, ShardReference, paths, unpack

__all__ = ["ShardSurvey", "StripeSurvey", "survey_document", "survey_shard"]


@dataclass
class StripeSurvey:
    """One stripe: `bad` rows of each fragment that isn't whole, and the fragments that are `silent` (out of reach)."""

    want: Want
    bad: dict[int, frozenset[int]] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)

    @cached_property
    def code(self) -> CodeSpec:
        """The code it was written under."""
        return self.want.shard.record.codes[self.want.stripe.code]

    def home(self, fragment: int) -> str | None:
        """The target that is to hold a fragment."""
        at = self.want.stripe.at[fragment]
        return None if at is None else self.want.shard.record.targets[at]

    @property
    def lost(self) -> bool:
        """Whether some row has fewer than k good blocks whatever the silent targets hold."""
        return self._fewest(self.bad) < self.code.k

    @property
    def undecided(self) -> bool:
        """Whether the silent targets decide between loadable and lost."""
        silent = {fragment: frozenset(range(self.want.shape.blocks(fragment))) for fragment in self.silent}
        return not self.lost and self._fewest({**self.bad, **silent}) < self.code.k

    def survives(self, domains: Mapping[str, str], *, trusting: bool = False) -> Survives:
        """What may still be lost: a fragment with a bad block counts as gone, and a silent one unless `trusting`."""
        gone = {*self.bad} if trusting else {*self.bad, *self.silent}
        homes = [None if f in gone else self.home(f) for f in range(self.want.shape.n)]
        reached = stripe_survives(self.want.shape, homes, domains)
        if reached.targets >= 0 or self.lost or self.undecided:
            return reached
        return Survives(0, 0)  # bad blocks of several fragments lie in different rows: loadable, with nothing to spare

    def _fewest(self, bad: Mapping[int, frozenset[int]]) -> int:
        rows = range(-(-self.want.shape.span // self.want.shape.block))
        return min(self.want.shape.n - sum(row in gone for gone in bad.values()) for row in rows)


@dataclass
class ShardSurvey:
    """One shard: its stripes, the record copies that are bad (by target), and the findings in words."""

    shard: Shard
    reference: ShardReference
    stripes: list[StripeSurvey]
    bad_records: dict[str, str]
    findings: list[Finding]


def survey_document(
    opened: Opened, what: str, reference: Reference, kind: type, counts: Counts, findings: list[Finding]
) -> dict[str, str]:
    """Check every copy of an index or record. Returns the targets whose copy is missing or damaged, and why."""
    counts.expected += len(reference.targets)
    replies = opened.on_targets(
        lambda target: _check_copy(target.get(reference.path), kind, reference), reference.targets
    )
    bad: dict[str, str] = {}
    for name, reply in replies.items():
        counts.checked += not (isinstance(reply, TargetError) and reply.out_of_reach)
        if reply is not None:
            finding = _finding(what, name, reference.path, reply)
            findings.append(finding)
            if finding.kind != "unreachable":
                bad[name] = finding.kind
    return bad


def survey_shard(
    opened: Opened,
    shard: Shard,
    reference: ShardReference,
    bad_records: dict[str, str],
    counts: Counts,
    *,
    chosen: Iterable[int],
) -> ShardSurvey:
    """Ask for every fragment of a shard; read those of the stripes `chosen` as well."""
    stripes = [_open(shard, number) for number in range(len(shard.record.stripes))]
    survey = ShardSurvey(shard, reference, stripes, bad_records, [])
    _compare_listing(opened, survey, counts)
    _read(opened, survey, set(chosen))
    return survey


def _check_copy(data: bytes | bytearray | memoryview, kind: type, reference: Reference) -> FormatError | None:
    try:
        unpack(kind, bytes(data), reference)
    except FormatError as error:
        return error
    return None


def _finding(what: str, target: str, path: str, reply: object) -> Finding:
    detail = reply.message if isinstance(reply, TargetError | FormatError) else str(reply)
    if isinstance(reply, ShortObject):
        return Finding("short", what, target, path, detail)
    if isinstance(reply, ObjectNotFound):
        return Finding("missing", what, target, path, detail)
    return Finding("corrupt" if isinstance(reply, FormatError) else "unreachable", what, target, path, detail)


def _open(shard: Shard, number: int) -> StripeSurvey:
    stripe = shard.record.stripes[number]
    code = shard.record.codes[stripe.code]
    return StripeSurvey(
        Want(shard, number, erasure.StripeShape(code.k, code.m, stripe.length, shard.record.digest.block))
    )


def _compare_listing(opened: Opened, survey: ShardSurvey, counts: Counts) -> None:
    """One listing a target tells which fragments are there and how long they are."""
    shard = survey.shard
    sources = {stripe.source.shard_id for stripe in shard.record.stripes if stripe.source}
    prefixes = [paths.shard_data_prefix(shard.run, shard_id) for shard_id in (shard.record.shard_id, *sources)]
    listings = opened.on_targets(
        lambda target: {entry.path: entry.size for prefix in prefixes for entry in target.list(prefix)},
        shard.record.targets,
    )
    for stripe in survey.stripes:
        for fragment in range(stripe.want.shape.n):
            if stripe.want.shape.stored(fragment):
                counts.expected += 1
                home = stripe.home(fragment)
                listing = listings[home] if home else {}
                _compare(stripe, fragment, listing, survey.findings, counts)


def _compare(
    stripe: StripeSurvey,
    fragment: int,
    listing: Mapping[str, int] | TargetError,
    findings: list[Finding],
    counts: Counts,
) -> None:
    home = stripe.home(fragment) or ""
    path = Fragment(stripe.want, fragment, home).path
    if isinstance(listing, TargetError):
        stripe.silent.add(fragment)
        findings.append(Finding("unreachable", "fragment", home, path, listing.message))
        return
    counts.checked += 1
    stored = stripe.want.shape.stored(fragment)
    if path not in listing:
        detail = "not on its target" if home else "its target failed while it was saved"
        findings.append(Finding("missing", "fragment", home, path, detail))
    elif listing[path] != stored:
        kind = "short" if listing[path] < stored else "corrupt"
        findings.append(Finding(kind, "fragment", home, path, f"{listing[path]} bytes, {stored} expected"))
    if listing.get(path) != stored:
        stripe.bad[fragment] = _rows_cut_off(stripe, fragment, listing.get(path, 0))


def _rows_cut_off(stripe: StripeSurvey, fragment: int, size: int) -> frozenset[int]:
    """The blocks that an object of another size than it should have can't hold: none, where it is longer."""
    shape = stripe.want.shape
    rows = range(shape.blocks(fragment))
    return frozenset(row for row in rows if row >= size // shape.block and size < shape.stored(fragment))


def _read(opened: Opened, survey: ShardSurvey, chosen: set[int]) -> None:
    """Check every block that may be good, as many at once as threads and window allow."""
    tasks = [
        (stripe, fragment)
        for stripe in survey.stripes
        if stripe.want.number in chosen
        for fragment in range(stripe.want.shape.n)
        if _rows_there(stripe, fragment) and fragment not in stripe.silent
    ]
    running = [_start(opened, *task) for task in tasks]
    for (stripe, fragment), check in zip(tasks, running, strict=True):
        reply = check.result()
        home = stripe.home(fragment) or ""
        path = Fragment(stripe.want, fragment, home).path
        if isinstance(reply, TargetError):
            finding = _finding("fragment", home, path, reply)
            survey.findings.append(finding)
            if finding.kind == "unreachable":
                stripe.silent.add(fragment)
            else:
                stripe.bad[fragment] = frozenset(range(stripe.want.shape.blocks(fragment)))
        elif reply:
            stripe.bad[fragment] = reply | stripe.bad.get(fragment, frozenset())
            detail = f"{len(reply)} of {stripe.want.shape.blocks(fragment)} blocks fail their CRC32C"
            survey.findings.append(Finding("corrupt", "fragment", home, path, detail))


def _rows_there(stripe: StripeSurvey, fragment: int) -> range:
    """The blocks that the fragment's object is long enough to hold; they come first."""
    return range(stripe.want.shape.blocks(fragment) - len(stripe.bad.get(fragment, ())))


def _start(opened: Opened, stripe: StripeSurvey, fragment: int) -> Future[frozenset[int] | TargetError]:
    """Waits here for memory: the threads must stay free, for others give theirs back with the help of threads."""
    rows = _rows_there(stripe, fragment)
    buffer = opened.buffers.take(stripe.want.shape.block_range(fragment, rows[-1])[1])
    try:
        return opened.executor.submit(_bad_rows, opened, stripe, fragment, rows, buffer)
    except BaseException:  # the threads were stopped meanwhile: the window is the process's, and goes on
        opened.buffers.give(buffer)
        raise


def _bad_rows(
    opened: Opened, stripe: StripeSurvey, fragment: int, rows: range, buffer: Bytes
) -> frozenset[int] | TargetError:
    source = Fragment(stripe.want, fragment, stripe.home(fragment) or "")
    try:
        opened.targets[source.target].get_into(source.path, buffer.data)
        digests = erasure.block_crcs(buffer, stripe.want.shape.block)
    except TargetError as error:
        return error
    finally:
        opened.buffers.give(buffer)
    return frozenset(row for row in rows if digests[row] != Fetcher.expected(stripe.want, fragment, row))
