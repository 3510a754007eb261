"""`ckpt plan`: what a layout is worth before anything is stored on it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.wording import survival

if TYPE_CHECKING:
    from ckptstore.planning import Estimate, Layout, Rates
    from ckptstore.planning.simulation import Simulated

DEFAULTS = ("4+2", "8+4@4", "1+1@2", "1+2@3")
EQUAL = 0.05  # what differs by less is said to be equal: the rates aren't known better
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
        str, typer.Option("--bandwidth", metavar="SIZE", help="Bytes a second of all ranks together.")
    ] = "500GB",
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
    trials: Annotated[
        int, typer.Option("--trials", metavar="N", help="Check the chain by so many checkpoints, lost by chance.")
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of those.")] = 0,
) -> int:
    """Compare layouts: how often data is lost, what they cost, how long saves and restores take.

    The probability of a loss within a year is exact for the rates given (docs/durability.md), with and without losses
    of whole domains. The interval between saves is the one that leaves most time for training.
    """
    from ckptstore.config import parse_size
    from ckptstore.planning import Job, Rates, compare, simulate_losses

    job = Job(
        gpus=gpus,
        state=parse_size(state, "--state"),
        bandwidth=parse_size(bandwidth, "--bandwidth"),
        stall=stall,
        restart=restart,
        interval=interval,
        kept=keep,
    )
    rates = Rates(target_loss, domain_loss, rebuild)
    estimates = compare(_layouts(call, layouts or []), job, rates)
    checks = [simulate_losses(e.layout, rates, trials=trials, seed=seed) for e in estimates] if trials else []
    _tell(call, estimates, rates)
    for estimate, check in zip(estimates, checks, strict=False):
        call.output.say(_checked(estimate, check))
    for line in _verdicts(estimates):
        call.output.say(line)
    return call.output.summary(0, job=job, rates=rates, layouts=[_fields(e) for e in estimates], checks=checks)


def _layouts(call: Call, names: list[str]) -> "list[Layout]":
    from ckptstore.planning import Layout

    if names:
        return [Layout.parse(name) for name in names]
    found = [Layout.parse(name) for name in DEFAULTS]
    if call.store is not None:
        config = call.config
        found.insert(0, Layout.of_places(config.name, config.k, config.m, config.places))
    return found


def _tell(call: Call, estimates: "list[Estimate]", rates: "Rates") -> None:
    headings = ["layout", "stored", "survives", "loss a year", "one by one", "save", "restore", "every"]
    headings += ["training", "$ a month"]
    rows = [
        [
            estimate.layout.name,
            f"{estimate.layout.overhead:.2f} x",
            survival(*estimate.survives).removeprefix("survives "),
            f"{estimate.loss:.1e}",
            f"{estimate.loss_independent:.1e}",
            f"{estimate.save:.3g} s",
            f"{estimate.restore:.3g} s",
            f"{estimate.interval:,.0f} s",
            f"{estimate.goodput:.1%}",
            f"{estimate.monthly:,.0f}",
        ]
        for estimate in estimates
    ]
    call.output.table(headings, rows, right=headings[1:])
    hours = f"{rates.rebuild_hours:g} h until what is lost is rebuilt"
    call.output.say(f"{rates.target_loss:g} losses of a target and {rates.domain_loss:g} of a domain a year, {hours}")


def _checked(estimate: "Estimate", check: "Simulated") -> str:
    found = f"{check.probability:.2e} ± {check.error:.0e} by {check.trials:,} trials"
    return f"{estimate.layout.name}: {found}, {estimate.loss:.2e} by the chain"


def _verdicts(estimates: "list[Estimate]") -> list[str]:
    """The first layout beside each of the others."""
    first, *others = estimates
    return [_verdict(first, other) for other in others]


def _verdict(one: "Estimate", other: "Estimate") -> str:
    costs = f"costs {one.monthly / other.monthly:.2f} times as much"
    return f"{one.layout.name} loses data {_how_often(one.loss, other.loss)} {other.layout.name}, and {costs}"


def _how_often(one: float, other: float) -> str:
    if one < other * (1 - EQUAL):
        return f"{other / one:,.3g} times less often than" if one else "never, unlike"
    if other < one * (1 - EQUAL):
        return f"{one / other:,.3g} times as often as" if other else "at times, unlike"
    return "as often as"


def _fields(estimate: "Estimate") -> dict[str, Any]:
    layout = estimate.layout
    return {**vars(estimate), "layout": layout.name, "overhead": layout.overhead, "monthly": estimate.monthly}
