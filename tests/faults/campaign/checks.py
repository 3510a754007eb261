"""What loading, verifying and repairing make of a damaged store, held against what must come of it."""

import warnings
from collections.abc import Sequence

import numpy as np

from ckptstore.errors import CkptStoreError
from ckptstore.load.plan import Request, Runs
from ckptstore.operations.findings import Finding
from ckptstore.operations.health import VerifyReport
from ckptstore.operations.verify import verify
from ckptstore.protocolerrors import protocol_errors
from ckptstore.selection import Selector, key_of, select_from
from ckptstore.source import Source
from manifests import ManifestError, paths
from tests.faults.campaign.expected import STANDINGS, Expected, Load
from tests.faults.campaign.world import Objects, Place, Saved, Truth, World, facts, inner_name, kind_of
from tests.support import RUN, SENTINEL, Arrays

BELOW_VOTES = ("fragment", "record", "index")


class SilentWrongError(AssertionError):
    """A wrong byte was handed out, damage was called well, or something good was lost."""


def require(condition: object, message: str) -> None:
    """Raise `SilentWrongError` where `condition` isn't met."""
    if not condition:
        raise SilentWrongError(message)


# -- loading ----------------------------------------


def check_loads(world: World, truth: Truth, must: Expected, now: Objects) -> str:
    """Load every checkpoint that is hurt, see which is the latest. Returns "refused" if one was, else "bit-equal"."""
    hurt = [saved for saved in truth.live if _is_hurt(saved, must)]
    refused = [saved for saved in hurt if not _load(world, saved, must.loads[saved.key], now, truth.intact)]
    _check_latest(world, truth, must, now)
    return "refused" if refused else "bit-equal"


def _is_hurt(saved: Saved, must: Expected) -> bool:
    """Whether something that it needs is damaged: what is above its index is needed by all."""
    own = set(saved.positions)
    return any(place in own or kind_of(place[1]) not in BELOW_VOTES for place in must.damaged)


def load_by_key(world: World, saved: Saved) -> bool:
    """Whether one checkpoint loads, where nothing of it is damaged."""
    return _load(world, saved, Load.BIT_EQUAL, world.truth.intact, world.truth.intact)


def load_or_refused(world: World, key: str, arrays: Arrays) -> bool:
    """Whether a checkpoint loads of which it is not known what is damaged; a wrong byte is wrong all the same."""
    world.forget()
    try:
        loaded = world.store.load(Selector(key=key))
    except CkptStoreError:
        return False
    right = loaded.keys() == arrays.keys() and all(loaded[k].tobytes() == arrays[k].tobytes() for k in arrays)
    require(right, f"{key}: a wrong byte was handed out")
    return True


def _load(world: World, saved: Saved, allowed: Load, now: Objects, intact: Objects) -> bool:
    """Whether all bytes came. Where they don't, what was written must be right, and nothing of a lost stripe."""
    requests: list[Request] = []
    try:
        source = _source(world, saved)
        shards = [source.shard(number) for number in range(len(saved.streams))]
        requests += [_whole(source, number) for number in range(len(shards))]
        source.read(requests)
    except CkptStoreError as error:
        require(allowed != Load.BIT_EQUAL, f"{saved.key} was refused: {error}")
        _check_untouched(saved, [request.into for request in requests], now, intact)
        return False
    require(allowed != Load.REFUSED, f"{saved.key} was loaded, though too little of it is left")
    for request, stream in zip(requests, saved.streams, strict=True):
        require(request.into.tobytes() == stream, f"{saved.key}: a wrong byte was handed out")
    return True


def _source(world: World, saved: Saved) -> Source:
    world.forget()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too few targets count to be sure that nothing newer has its name
        return world.store.source(Selector(key=saved.key))


def _whole(source: Source, number: int) -> Request:
    """All bytes of a shard, its header too, into memory that shows what was written to."""
    shard = source.shard(number)
    everything = Runs(np.zeros(1, np.int64), shard.record.length)
    return Request(shard, 0, everything, np.full(shard.record.length, SENTINEL, np.uint8))


def _check_untouched(saved: Saved, intos: Sequence[np.ndarray], now: Objects, intact: Objects) -> None:
    """A load in bounded memory hands out stripe by stripe: those before the lost one are right, it is untouched."""
    for into, stream in zip(intos, saved.streams, strict=False):
        wrong = (into != SENTINEL) & (into != np.frombuffer(stream, np.uint8))
        require(not wrong.any(), f"{saved.key}: a wrong byte was handed out before the load was refused")
    for stripe in saved.stripes if intos else ():
        if not stripe.is_loadable(now, intact):
            written = intos[stripe.shard][stripe.offset : stripe.offset + stripe.shape.length] != SENTINEL
            require(not written.any(), f"{saved.key}: bytes of a stripe that is lost were handed out")


def _check_latest(world: World, truth: Truth, must: Expected, now: Objects) -> None:
    """The latest is the latest or refused; where no trace of its manifest is left, nobody can know of it."""
    latest = truth.live[-1].key
    world.forget()
    try:
        with protocol_errors():
            history = world.store.opened.group.history(RUN)
        found = key_of(select_from(history, Selector()))
    except CkptStoreError as error:
        require(not must.whole_history, f"the latest was refused: {error}")
        return
    traces = [place for place in now if inner_name(place[1]).startswith(f"manifests/{latest}/")]
    require(found == latest or not traces, f"{found} was taken for the latest, which is {latest}")
    require(not must.whole_history or facts(history) == truth.facts, "manifests and marks say something else")


# -- verifying ----------------------------------------


def check_verify(world: World, must: Expected, now: Objects) -> None:
    """`verify --read-data` finds all that is damaged, by kind and place, and nothing else."""
    world.forget()
    try:
        report = verify(world.store.opened, RUN, read_data=True)
    except CkptStoreError as error:
        require(not must.whole_history, f"verify gave up: {error}")
        return
    allowed = {4} if Load.REFUSED in must.loads.values() else {3} if must.whole_history else {3, 4}
    allowed |= {0, 3, 4} if must.vanished else set()
    require(report.exit_code in allowed, f"verify ended with {report.exit_code}")
    findings = findings_of(report)
    for place in must.damaged - must.vanished if must.whole_history else ():
        require(any(_is_about(finding, place, now) for finding in findings), f"verify says nothing of {place}")
    for finding in findings:
        require(any(_is_about(finding, place, now) for place in must.damaged), f"verify finds what is not: {finding}")


def findings_of(report: VerifyReport) -> list[Finding]:
    """All findings of a report, each once: what is wrong with a target is told of every checkpoint."""
    each = [*(health.findings for health in report.checkpoints), report.history]
    return list(dict.fromkeys(finding for findings in each for finding in findings))


def _is_about(finding: Finding, place: Place, now: Objects) -> bool:
    """Whether a finding names this object, and what is wrong with it. A target's standing is told as one."""
    target, path = place
    if kind_of(path) in STANDINGS:
        return (finding.target, finding.path) == (target, paths.IDENTITY) and finding.kind in {"missing", "corrupt"}
    kinds = {"missing"} if place not in now else {"corrupt", "short"}
    return finding.target == target and finding.path in {path, inner_name(path)} and finding.kind in kinds


# -- repairing ----------------------------------------


def check_repair(world: World, truth: Truth, must: Expected, now: Objects) -> str:
    """Repair, and verify again where all could be repaired. Returns "byte-equal" or "left"."""
    world.forget()
    try:
        code = world.store.repair().exit_code
    except CkptStoreError as error:
        require(not must.repairable, f"repair gave up: {error}")
        code = error.exit_code
    after, intact = world.objects(), truth.intact
    _check_nothing_made_up(now, intact, after)
    equal = same_but_for_incarnations(world, after, intact)
    require(equal or not must.repairable, f"repair left the store unequal: {_unequal(after, intact)}")
    require(equal or code or must.vanished, "repair says that all is well, and it is not")
    require(not code or not must.repairable, f"repair ended with {code}, though all was repaired")
    if equal and after != world.truth.intact:  # these very bytes were verified when the world was made
        world.forget()
        report = verify(world.store.opened, RUN, read_data=True)
        require(report.exit_code == 0, f"after a repair verify finds {findings_of(report)}")
    return "byte-equal" if equal else "left"


def _check_nothing_made_up(now: Objects, intact: Objects, after: Objects) -> None:
    """A repair writes what was there before, or leaves what is there; of standings it makes new ones."""
    for place in now | after:
        same = after.get(place) in {now.get(place), intact.get(place)}
        new = kind_of(place[1]) == "standing" or _is_new_vote(place, intact)
        require(same or new, f"repair made something up: {place}")
    for place, data in intact.items():
        require(now.get(place) != data or after.get(place) == data, f"repair harmed {place}")


def _is_new_vote(place: Place, intact: Objects) -> bool:
    """A copy of a vote below a new incarnation."""
    return "/commit/" in place[1] and place not in intact


def same_but_for_incarnations(world: World, after: Objects, intact: Objects) -> bool:
    """Whether a store is as it was. A target that lost its standing counts again under another incarnation."""
    if after == intact:
        return True
    try:
        world.forget()
        standings = world.store.opened.group.standings
    except ManifestError:
        return False
    if any(standing.state != "valid" for standing in standings.values()):
        return False
    counting = {name: standing.incarnation for name, standing in standings.items()}
    return _below(after, counting) == _below(intact, {name: world.incarnations[name] for name in counting})


def _below(objects: Objects, incarnations: dict[str, str]) -> Objects:
    """Objects without standings, votes under the names that they have on every target; forgotten ones left out."""
    found: Objects = {}
    for (target, path), data in objects.items():
        if "/commit/" in path:
            if path.split("/")[3] == incarnations[target]:
                found[target, inner_name(path)] = data
        elif kind_of(path) != "standing":
            found[target, path] = data
    return found


def _unequal(after: Objects, intact: Objects) -> list[Place]:
    return [place for place in after | intact if after.get(place) != intact.get(place)][:5]
