"""`ckpt plan`: what a layout is worth before anything is stored on it."""

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ckptstore.cli import plan_options as asked
from ckptstore.cli import plan_report as tell
from ckptstore.cli.call import Call
from ckptstore.cli.failures import failure_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ckptstore.planning import Estimate, Job

OBJECTIVE_MISSED = 3
__all__ = ["plan"]


def plan(
    call: Call,
    layouts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LAYOUT]...",
            help="K+M@D: a code over D domains, as 8+4@4; two copies: 1+1@2. Without any: the store's own, and some.",
            show_default=False,
        ),
    ] = None,
    gpus: Annotated[int, typer.Option("--gpus", metavar="N", help="GPUs of the job.")] = 16384,
    state: Annotated[str, typer.Option("--state", metavar="SIZE", help="Bytes of a checkpoint.")] = "5000GB",
    bandwidth: Annotated[
        str | None,
        typer.Option(
            "--bandwidth",
            metavar="SIZE",
            help="Bytes a second of all ranks together; 500GB if not given.",
            show_default=False,
        ),
    ] = None,
    bench: Annotated[
        Path | None,
        typer.Option(
            "--bench", metavar="FILE", help="Bandwidths as `ckpt bench --json` measured them.", show_default=False
        ),
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", metavar="N", help="With --bench: processes as fast as its one, at once.")
    ] = 1,
    stall: Annotated[float, typer.Option("--stall", metavar="S", help="Seconds that a save stalls training.")] = 2.0,
    restart: Annotated[
        float, typer.Option("--restart", metavar="S", help="Seconds of a restart beside reading the state.")
    ] = 300.0,
    interval: Annotated[
        float | None,
        typer.Option("--interval", metavar="S", help="Seconds between saves; else the best.", show_default=False),
    ] = None,
    keep: Annotated[int, typer.Option("--keep", metavar="N", help="Checkpoints that are kept.")] = 10,
    target_loss: Annotated[
        float, typer.Option("--target-loss", metavar="RATE", help="Losses of one target a year.")
    ] = 0.0157,
    domain_loss: Annotated[
        float, typer.Option("--domain-loss", metavar="RATE", help="Losses of a whole domain a year.")
    ] = 0.001,
    rebuild: Annotated[
        float, typer.Option("--rebuild", metavar="H", help="Mean hours until a loss is noticed and rebuilt.")
    ] = 36.0,
    rpo: Annotated[
        str | None,
        typer.Option("--rpo", metavar="TIME", help="The newest checkpoint is no older, as 1h.", show_default=False),
    ] = None,
    rto: Annotated[
        str | None,
        typer.Option("--rto", metavar="TIME", help="The state is read in so long, as 15m.", show_default=False),
    ] = None,
    survive: Annotated[
        int | None,
        typer.Option("--survive", metavar="N", help="Targets that may be lost, whichever.", show_default=False),
    ] = None,
    survive_domains: Annotated[
        int | None, typer.Option("--survive-domains", metavar="N", help="Likewise domains.", show_default=False)
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(
            "--price",
            metavar="FIELD=USD",
            help="As a key of [prices] in store.toml, as egress=0.02; may be repeated.",
            show_default=False,
        ),
    ] = None,
    near: Annotated[
        str | None,
        typer.Option(
            "--near",
            metavar="LAYOUT",
            help="A tier before the layouts: a code over nodes of the job, as 3+1.",
            show_default=False,
        ),
    ] = None,
    near_interval: Annotated[
        float | None,
        typer.Option(
            "--near-interval", metavar="S", help="Seconds between its saves; else the best.", show_default=False
        ),
    ] = None,
    near_bandwidth: Annotated[
        str | None,
        typer.Option(
            "--near-bandwidth", metavar="SIZE", help="As --bandwidth, which it is if not given.", show_default=False
        ),
    ] = None,
    near_loss: Annotated[
        float | None,
        typer.Option(
            "--near-loss",
            metavar="SHARE",
            help="Of interruptions, those that take more than it survives; else as nodes fail one by one.",
            show_default=False,
        ),
    ] = None,
    trials: Annotated[
        int, typer.Option("--trials", metavar="N", help="Check the chain by so many checkpoints, lost by chance.")
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of those.")] = 0,
) -> int:
    """Compare layouts: how often data is lost, what they cost, how long saves and restores take.

    The probability of a loss within a year is exact for the rates given (docs/durability.md), with and without losses
    of whole domains. The interval between saves is the one that leaves most time for training, or a shorter one where
    the rpo wants that. Objectives are the store's, and in their place what --rpo, --rto, --survive and
    --survive-domains say; prices likewise. Exits 0 if the first layout meets every objective, 3 if it misses one that
    another meets, 2 if none meets it, or a price is missing.
    """
    from ckptstore.planning import Rates, compare, simulate_losses, with_near

    objectives = asked.objectives_asked(call, rpo=rpo, rto=rto, survive=survive, survive_domains=survive_domains)
    job = asked.job_asked(
        gpus=gpus,
        state=state,
        bandwidth=bandwidth,
        bench=bench,
        processes=processes,
        stall=stall,
        restart=restart,
        interval=interval,
        kept=keep,
        prices=asked.prices_asked(call, price or []),
    )
    rates = Rates(target_loss, domain_loss, rebuild)
    nearer = asked.near_asked(job, near, near_bandwidth, near_interval, near_loss)
    estimates = compare(asked.layouts_asked(call, layouts or []), job, rates, objectives)
    tiers = [with_near(nearer, job, e) for e in estimates] if nearer else []
    checks = [simulate_losses(e.layout, rates, trials=trials, seed=seed) for e in estimates] if trials else []
    tell.tell_layouts(call, estimates, rates, job)
    for estimate, check in zip(estimates, checks, strict=False):
        call.output.say(tell.checked(estimate, check))
    tell.tell_tiers(call, estimates, tiers)
    for line in tell.verdicts(estimates):
        call.output.say(line)
    tell.tell_objectives(call, estimates)
    fields = [tell.fields(estimate, both) for estimate, both in zip_longest(estimates, tiers)]
    return _end(call, estimates, job, rates=rates, objectives=objectives, layouts=fields, checks=checks)


def _end(call: Call, estimates: "Sequence[Estimate]", job: "Job", **found: Any) -> int:
    from ckptstore.planning.judging import unmet_by_all

    unmet = unmet_by_all([estimate.verdicts for estimate in estimates])
    if unmet:
        return call.output.failure(failure_of(tell.unmet(unmet[0], estimates, job)), job=job, **found)
    return call.output.summary(OBJECTIVE_MISSED if estimates[0].missed else 0, job=job, **found)
