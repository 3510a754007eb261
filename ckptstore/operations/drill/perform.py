"""`ckpt drill`: lose what may be lost, and see whether checkpoints come back. Nothing of the store is changed.

The store is opened a second time, its targets made to fail, for every round anew: clients are cold and what one round
found out about targets is not known to the next. The healthy store beside it gives the digests to compare with.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ckptstore.arguments import check_observer
from ckptstore.config import Config
from ckptstore.errors import CkptStoreError, TargetError, UsageError
from ckptstore.events import Observer, Progress, ignore
from ckptstore.names import check_run
from ckptstore.opened import Opened
from ckptstore.operations.drill.choosing import default_rounds, faults_of
from ckptstore.operations.drill.faults import Drilled, Faults, domains_lost, open_with
from ckptstore.operations.drill.folders import make_folders
from ckptstore.operations.drill.judging import judge, next_step
from ckptstore.operations.drill.placements import Placements, gather
from ckptstore.operations.drill.prediction import from_history, measure
from ckptstore.operations.drill.report import DrilledRound, DrillReport, Restored
from ckptstore.operations.drill.restoring import bytes_of, check_sample, choose_stripes, restore_stripes, shards_of
from ckptstore.operations.drill.rounds import Round, check_round
from ckptstore.operations.drill.writing import write_report
from ckptstore.operations.promises import beyond_layout
from ckptstore.protocolerrors import protocol_errors
from ckptstore.selection import Selector, history_of, key_of, select_all, select_from
from ckptstore.source import Source
from manifests import Checkpoint, History, paths

__all__ = ["drill"]


@dataclass(frozen=True)
class _Drill:
    """What all rounds share: the healthy store, what is drilled, and how."""

    healthy: Opened
    chosen: Sequence[Checkpoint]
    latest: str
    placements: Placements
    report: DrillReport
    scratch: Path | None
    total: int
    observer: Observer

    def tell(self, done: int) -> None:
        """So many bytes more of all rounds are through."""
        self.observer(Progress("drill", done, self.total))


def drill(
    config: Config,
    run: str,
    selector: Selector | None = None,
    *,
    every: bool = False,
    rounds: Sequence[Round] | None = None,
    sample: float = 1.0,
    seed: str | int | None = None,
    scratch: Path | None = None,
    report_dir: Path | None = None,
    observer: Observer = ignore,
) -> DrillReport:
    """Restore the latest checkpoint of a run, the one asked for, or `every` one, in each of `rounds`.

    Without rounds as much is lost as the store's objectives say. `sample`: the part of each checkpoint's bytes that is
    restored, drawn by `seed` (today's date unless given). To memory, or into `scratch`, a folder that holds nothing;
    reports go to `report_dir`. Raises `UsageError` for what can't be, `NotFoundError` where there is no such run or
    checkpoint, `OutOfReach`, `AccessDenied` where too few targets answer before anything is done. A checkpoint that
    doesn't come back raises nothing: the report says so.
    """
    _check(config, run, selector, every=every, rounds=rounds, observer=observer)
    fraction = check_sample(sample, scratch)
    make_folders(config, scratch, report_dir)
    report = _new_report(config, run, seed, fraction)
    began = time.monotonic()
    with open_with(config, Faults()) as healthy:
        history = history_of(healthy.opened, run)
        opening = time.monotonic() - began
        chosen = select_all(history, None) if every else [select_from(history, selector or Selector())]
        placements = gather(healthy.opened, history, chosen)
        asked = default_rounds(config, placements) if rounds is None else rounds
        total = int(sum(each.manifest.bytes for each in chosen) * fraction) * len(asked)
        latest = key_of(history.checkpoints[-1])
        shared = _Drill(healthy.opened, chosen, latest, placements, report, scratch, total, observer)
        _look(shared, opening, report_dir)
        for number, each in enumerate(asked, 1):
            faults = faults_of(each, config, placements, f"{report.seed}, round {number}")
            report.rounds.append(_round(shared, config, each, faults))
    report.seconds = time.monotonic() - began
    report.verdicts = judge(report, config, with_latest=latest in map(key_of, chosen))
    report.next = next_step(report)
    if report_dir is not None:
        write_report(report, report_dir)
    return report


def _check(
    config: Config,
    run: str,
    selector: Selector | None,
    *,
    every: bool,
    rounds: Sequence[Round] | None,
    observer: Observer,
) -> None:
    """Raise `UsageError` for what can't be, before anything is opened."""
    check_observer(observer)
    check_run(run)
    if every and selector is not None:
        raise UsageError(f"all checkpoints and {selector} are asked for", hint="leave one of them out")
    if rounds is not None and not rounds:
        raise UsageError("a drill of no rounds says nothing", hint="rounds=[Round(lose=2)], or none for the default")
    for each in rounds or ():
        check_round(each, config)


def _new_report(config: Config, run: str, seed: str | int | None, fraction: float) -> DrillReport:
    now = datetime.now(UTC)
    return DrillReport(
        store=config.name,
        run=run,
        began=now.isoformat(timespec="seconds"),
        seed=str(now.date() if seed is None else seed),
        sample=fraction,
        code=config.code,
        beyond_layout=beyond_layout(config),
    )


def _look(shared: _Drill, opening: float, report_dir: Path | None) -> None:
    """Before anything is taken away: what is there, who is out of reach already, how fast is it read."""
    report = shared.report
    report.survive = shared.placements.survive
    report.out_of_reach = _out_of_reach(shared.healthy)
    report.prediction = measure(shared.healthy, shared.chosen[-1].manifest, opening, report.seed)
    if report.prediction.source == "none":
        report.prediction = from_history(report_dir, report.store, report.run, report.prediction.why)


def _out_of_reach(healthy: Opened) -> dict[str, str]:
    replies = healthy.on_targets(lambda target: target.head(paths.IDENTITY))
    return {
        name: reply.message for name, reply in replies.items() if isinstance(reply, TargetError) and reply.out_of_reach
    }


def _round(shared: _Drill, config: Config, asked: Round, faults: Faults) -> DrilledRound:
    """Open the store with faults, as a job would, and restore every checkpoint that is drilled."""
    done = DrilledRound(asked.name, faults, *domains_lost(config, faults.gone))
    number = len(shared.report.rounds) + 1
    began = time.monotonic()
    with open_with(config, faults) as drilled:
        try:
            history: History | CkptStoreError = history_of(drilled.opened, shared.report.run)
        except CkptStoreError as error:
            history = error
        opening = time.monotonic() - began
        for checkpoint in shared.chosen:
            result = _result(shared, drilled, checkpoint, history, f"round-{number}")
            result.seconds, result.whole_seconds = result.seconds + opening, result.whole_seconds + opening
            if result.kind:
                result.state = _state(shared, faults, checkpoint)
            done.results.append(result)
    return done


def _result(
    shared: _Drill, drilled: Drilled, checkpoint: Checkpoint, history: History | CkptStoreError, folder: str
) -> Restored:
    manifest = checkpoint.manifest
    key = key_of(checkpoint)
    result = Restored(key, manifest.name or key, manifest.step, manifest.created, manifest.bytes)
    try:
        _restore(shared, drilled, checkpoint, history, result, folder)
    except CkptStoreError as error:
        result.kind, result.message = error.kind, error.message
    return result


def _restore(
    shared: _Drill,
    drilled: Drilled,
    checkpoint: Checkpoint,
    history: History | CkptStoreError,
    result: Restored,
    folder: str,
) -> None:
    """Restore one checkpoint and compare it. `result` gets what it took but for the opening of the store."""
    expected = shards_of(Source.open(shared.healthy, checkpoint.manifest))
    stripes = choose_stripes(expected, shared.report.sample, shared.report.seed)
    result.predicted_read = bytes_of(expected, stripes)
    result.predicted = shared.report.prediction.seconds(result.predicted_read)
    place = _folder(shared, folder, result)
    read, began = drilled.bytes_read, time.monotonic()
    source = Source.open(
        drilled.opened, _seen(shared, drilled, checkpoint, history).manifest, drilled.tell(shared.observer)
    )
    shards = shards_of(source)
    documents = time.monotonic() - began
    tally = restore_stripes(source, shards, expected, stripes, place, shared.tell)
    result.bytes, result.blocks, result.read = tally.bytes, tally.blocks, drilled.bytes_read - read
    result.seconds = time.monotonic() - began
    part = result.bytes / result.total if result.total else 1.0
    result.whole_seconds = documents + (result.seconds - documents) / max(part, 1e-12)


def _seen(shared: _Drill, drilled: Drilled, checkpoint: Checkpoint, history: History | CkptStoreError) -> Checkpoint:
    """The checkpoint as the failing store shows it: the latest by being so, any other by its key.

    Below the reading quorum the latest is refused, as a load would refuse it; another loads if it is seen.
    """
    key = key_of(checkpoint)
    if isinstance(history, CkptStoreError):
        if key == shared.latest:
            raise history
        with protocol_errors():
            history = drilled.opened.group.glimpse(shared.report.run)
    if key == shared.latest and (found := select_from(history, Selector())).key == checkpoint.key:
        return found
    return select_from(history, Selector(key=key))


def _state(shared: _Drill, faults: Faults, checkpoint: Checkpoint) -> str:
    """Of a checkpoint that did not come back: "changed" meanwhile, "unknown" where real outages decide, or "lost"."""
    try:
        now = history_of(shared.healthy, shared.report.run).find(*checkpoint.key)
    except CkptStoreError:
        now = checkpoint  # what was found stands
    if now is None or now.deleted or now.manifest != checkpoint.manifest:
        return "changed"
    left = shared.placements.margin(faults.gone, key_of(checkpoint))
    really = _out_of_reach(shared.healthy).keys() | shared.report.out_of_reach.keys()
    return "unknown" if really - faults.gone and (left is None or left >= 0) else "lost"


def _folder(shared: _Drill, folder: str, result: Restored) -> Path | None:
    if shared.scratch is None:
        return None
    place = shared.scratch / folder / result.key
    place.mkdir(parents=True)
    result.folder = str(place)
    return place
