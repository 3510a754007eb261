"""`ckpt drill`: would checkpoints come back if targets were lost."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.drilling import OPTIONS, rounds_asked, sample_asked
from ckptstore.cli.promises import tell_promises
from ckptstore.cli.selecting import Name, Step, Tag, Which, selected
from ckptstore.cli.typed import as_typed
from ckptstore.errors import UsageError
from ckptstore.wording import size, time_text

if TYPE_CHECKING:
    from ckptstore.operations.drill import DrilledRound, DrillReport

Every = Annotated[bool, typer.Option("--all", help="Every checkpoint of the run, not the latest only.")]
Lose = Annotated[int | None, typer.Option("--lose", metavar="N", help="Lose N targets: the worst set, or --random.")]
Worst = Annotated[bool, typer.Option("--worst", help="Lose the set of targets that leaves least; the default.")]
Random = Annotated[bool, typer.Option("--random", help="Lose a set drawn by --seed instead of the worst.")]
Seed = Annotated[
    str | None, typer.Option("--seed", metavar="S", help="For --random and --sample; today's date if not given.")
]
LoseTarget = Annotated[
    list[str] | None, typer.Option("--lose-target", metavar="A,B", help="Lose these targets.", show_default=False)
]
LoseDomain = Annotated[
    list[str] | None, typer.Option("--lose-domain", metavar="D", help="Lose all of this domain.", show_default=False)
]
Empty = Annotated[
    list[str] | None,
    typer.Option("--empty", metavar="A,B", help="Let these have nothing: replaced disks.", show_default=False),
]
Corrupt = Annotated[
    list[str] | None,
    typer.Option(
        "--corrupt", metavar="A,B", help="Let all that is read of these have flipped bits.", show_default=False
    ),
]
Slow = Annotated[
    list[str] | None,
    typer.Option("--slow", metavar="A=TIME", help="Let each request to A take longer: a=0.5s.", show_default=False),
]
Throttle = Annotated[
    list[str] | None,
    typer.Option("--throttle", metavar="A=SIZE", help="Let A give no more a second: a=10MiB.", show_default=False),
]
ScenarioFile = Annotated[
    Path | None,
    typer.Option(
        "--scenario", metavar="FILE", help="Do the rounds of this TOML file: docs/drills.md.", show_default=False
    ),
]
Sample = Annotated[
    str | None,
    typer.Option("--sample", metavar="P%", help="Restore that part of the bytes, drawn by --seed.", show_default=False),
]
Scratch = Annotated[
    Path | None,
    typer.Option("--scratch", metavar="DIR", help="Restore into this empty folder, not to memory.", show_default=False),
]
ReportDir = Annotated[
    Path | None,
    typer.Option("--report-dir", metavar="DIR", help="Write JSON, JUnit XML and an HTML page.", show_default=False),
]

__all__ = ["drill"]


def drill(
    call: Call,
    which: Which = None,
    step: Step = None,
    name: Name = None,
    tag: Tag = None,
    every: Every = False,
    lose: Lose = None,
    worst: Worst = False,
    random: Random = False,
    seed: Seed = None,
    lose_target: LoseTarget = None,
    lose_domain: LoseDomain = None,
    empty: Empty = None,
    corrupt: Corrupt = None,
    slow: Slow = None,
    throttle: Throttle = None,
    scenario: ScenarioFile = None,
    sample: Sample = None,
    scratch: Scratch = None,
    report_dir: ReportDir = None,
) -> int:
    """Find out whether checkpoints come back when targets are lost, and in time. Changes nothing in the store.

    The store is opened once more, read only, with some of its targets made to fail; the latest checkpoint, unless
    another is named, is restored from the others and compared with the digests recorded when it was saved. Without
    options as much is lost as [objectives] in store.toml say, else as many targets as the code has parity; the worst
    set, by what is there. Says pass or fail for each objective: rpo, rto, survive, survive_domains.

    Exits 0 if all came back and no objective is missed, 3 if all came back and one is, 4 if a checkpoint did not come
    back, 5 if that depends on targets that are out of reach without the drill's doing, 11 if all that was drilled was
    deleted or repaired meanwhile.
    """
    from ckptstore.operations.drill import drill as perform

    call.check_run()
    selector = selected(which, step, name, tag)
    if every and selector is not None:
        raise UsageError(f"--all and checkpoint {selector} are asked for", hint="leave one of them out")
    named = {"lose_targets": lose_target, "lose_domains": lose_domain, "empty": empty, "corrupt": corrupt}
    amounts = {"slow": slow, "throttle": throttle}
    rounds = rounds_asked(call.config, named, amounts, lose=lose, worst=worst, random=random, scenario=scenario)
    with as_typed(OPTIONS), call.watching() as observer:
        report = perform(
            call.config,
            call.run,
            selector,
            every=every,
            rounds=rounds,
            sample=sample_asked(sample),
            seed=seed,
            scratch=scratch,
            report_dir=report_dir,
            observer=observer,
        )
    for number, each in enumerate(report.rounds, 1):
        _tell(call, number, each)
    return _sum_up(call, report)


def _tell(call: Call, number: int, each: "DrilledRound") -> None:
    from ckptstore.operations.drill.words import STATES, against_prediction, title, what_was_done

    call.output.say(title(number, each))
    if each.name:
        call.output.say(f"  {what_was_done(each.faults)}")
    rows = [
        [
            result.name,
            STATES[result.state],
            size(result.bytes),
            f"{result.blocks:,}",
            size(result.read),
            time_text(result.seconds),
            "" if result.predicted is None else time_text(result.predicted),
            against_prediction(result.seconds, result.predicted) if result.state == "restored" else "",
        ]
        for result in each.results
    ]
    headings = ["checkpoint", "state", "restored", "digests", "read", "took", "predicted", "ratio"]
    call.output.table(headings, rows, right=headings[2:])
    for result in each.results:
        if result.message:
            call.output.say(f"  {result.name}: {result.message}")
        call.output.record("checkpoint", round=number, **vars(result))


def _sum_up(call: Call, report: "DrillReport") -> int:
    from ckptstore.operations.drill.words import how_predicted, verdict_text

    if report.verdicts:
        rows = [[each.objective, each.wanted, each.verdict.upper(), each.found] for each in report.verdicts]
        call.output.table(["objective", "wanted", "", "found"], rows)
    else:
        call.output.say("store.toml has no [objectives]: nothing is promised")
    for verdict in report.verdicts:
        call.output.record("objective", **vars(verdict))
    call.output.say(f"predicted {how_predicted(report.prediction)}")
    if report.sample < 1:
        call.output.say(
            f"a sample of {report.sample:.3g} of the bytes, seed {report.seed}; rto is scaled to all of them"
        )
    call.output.say(f"drill {verdict_text(report)}")
    for target, why in report.out_of_reach.items():
        call.output.note(f"{target} was out of reach before anything was taken away: {why}")
    tell_promises(call)
    for file in report.files:
        call.output.note(f"wrote {file}")
    call.output.note(f"next: {report.next}")
    return call.output.summary(report.exit_code, **_fields(report))


def _fields(report: "DrillReport") -> dict[str, Any]:
    names = ("store", "run", "began", "seconds", "seed", "sample", "prediction", "survive", "out_of_reach")
    states = [result.state for result in report.results]
    return {
        **{name: getattr(report, name) for name in names},
        "rounds": [{"name": each.name, "faults": each.faults} for each in report.rounds],
        "states": {state: states.count(state) for state in ("restored", "lost", "unknown", "changed")},
        "objectives": report.verdicts,
        "beyond_layout": report.beyond_layout,
        "files": report.files,
        "hint": report.next,
    }
