"""What `ckpt plan` tells: the layouts side by side, which objectives hold, tiers, and the first beside the others."""

from typing import TYPE_CHECKING, Any

from ckptstore.cli.call import Call
from ckptstore.cli.wording import joined, size, survival

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ckptstore.errors import ConfigError
    from ckptstore.planning import Estimate, Job, Rates, Tiers, Verdict
    from ckptstore.planning.simulation import Simulated

EQUAL = 0.05  # what differs by less is said to be equal: the rates aren't known better
__all__ = ["checked", "fields", "tell_layouts", "tell_objectives", "tell_tiers", "unmet", "verdicts"]


def tell_layouts(call: Call, estimates: "Sequence[Estimate]", rates: "Rates", job: "Job") -> None:
    """The table, and what it is reckoned from."""
    from ckptstore.prices import LIST_PRICES

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
    if job.prices.without_names() == LIST_PRICES:
        call.output.say("at list prices, since none are given: [prices] in store.toml, or --price storage=0.02 …")


def tell_objectives(call: Call, estimates: "Sequence[Estimate]") -> None:
    """Of each layout which objectives hold, and by how much."""
    for estimate in estimates:
        told = list(map(_judged, estimate.verdicts))
        if estimate.interval < estimate.best:
            told.append(f"saved to every {_span(estimate.interval)}, best for training is {_span(estimate.best)}")
        if estimate.verdicts:
            call.output.say(f"{estimate.layout.name}: {'; '.join(told)}")


def _judged(verdict: "Verdict") -> str:
    wanted, reached = _amount(verdict.objective, verdict.wanted), _amount(verdict.objective, verdict.reached)
    by = _amount(verdict.objective, abs(verdict.spare))
    how = f"holds with {by} to spare" if verdict.met else f"MISSED by {by}"
    return f"{verdict.objective} {wanted} {how} ({reached})"


def _amount(objective: str, value: float) -> str:
    from ckptstore.planning.judging import TIMES

    return _span(value) if objective in TIMES else f"{value:g}"


def _span(seconds: float) -> str:
    """`1.5 h`: three digits in the largest unit that fits."""
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def unmet(verdict: "Verdict", estimates: "Sequence[Estimate]", job: "Job") -> "ConfigError":
    """The error about an objective that no layout meets; `verdict` is of the one that misses it by least."""
    from ckptstore.errors import ConfigError

    name, wanted = verdict.objective, _amount(verdict.objective, verdict.wanted)
    names = joined([estimate.layout.name for estimate in estimates])
    message = f"objectives.{name}: {wanted} can't be met by {names}: at best it is {_amount(name, verdict.reached)}"
    save = min(estimate.save for estimate in estimates)
    hints = {
        "rpo": _for_rpo(verdict.wanted - job.stall - save, save),
        "rto": f"reads of {size(int(job.state / verdict.wanted))} a second would do it, or promise a longer rto",
        "survive": f"plan a code with more parity, as 8+{verdict.wanted:g}, or promise less",
        "survive_domains": "plan a code over more domains, or with more parity, or promise less",
    }
    return ConfigError(message, key=f"objectives.{name}", hint=hints[name])


def _for_rpo(longest: float, save: float) -> str:
    if longest >= save:
        return f"save more often: --interval {longest:.3g}"
    return "saves take too long: more --bandwidth, a smaller state, or promise a longer rpo"


def tell_tiers(call: Call, estimates: "Sequence[Estimate]", tiers: "Sequence[Tiers]") -> None:
    """Each layout behind the near tier."""
    if not tiers:
        return
    headings = ["tiers", "near survives", "needs far", "near every", "far every", "work lost: near", "far", "mean"]
    headings += ["restore: near", "far ", "training", "$ a month"]
    rows = [
        [
            f"{both.near}, then {estimate.layout.name}",
            survival(*both.survives).removeprefix("survives ").partition(",")[0].replace("target", "node"),
            f"{both.beyond:.1e}",
            *map(_span, (both.interval, estimate.interval, both.lost_near, both.lost_far, both.lost)),
            *map(_span, (both.restore_near, both.restore_far)),
            f"{both.goodput:.1%}",
            f"{both.monthly:,.0f}",
        ]
        for estimate, both in zip(estimates, tiers, strict=True)
    ]
    call.output.table(headings, rows, right=headings[1:])
    call.output.say(f"{size(int(tiers[0].held))} on each node for the near tier, which no price is reckoned for")


def checked(estimate: "Estimate", check: "Simulated") -> str:
    """What chance says beside the chain."""
    found = f"{check.probability:.2e} ± {check.error:.0e} by {check.trials:,} trials"
    return f"{estimate.layout.name}: {found}, {estimate.loss:.2e} by the chain"


def verdicts(estimates: "Sequence[Estimate]") -> list[str]:
    """The first layout beside each of the others."""
    first, *others = estimates
    return [_verdict(first, other) for other in others]


def _verdict(one: "Estimate", other: "Estimate") -> str:
    if one.monthly and other.monthly:
        costs = f"costs {one.monthly / other.monthly:.2f} times as much"
    else:
        costs = f"costs ${one.monthly:,.0f} a month, not ${other.monthly:,.0f}"
    return f"{one.layout.name} loses data {_how_often(one.loss, other.loss)} {other.layout.name}, and {costs}"


def _how_often(one: float, other: float) -> str:
    if one < other * (1 - EQUAL):
        return f"{other / one:,.3g} times less often than" if one else "never, unlike"
    if other < one * (1 - EQUAL):
        return f"{one / other:,.3g} times as often as" if other else "at times, unlike"
    return "as often as"


def fields(estimate: "Estimate", tiers: "Tiers | None") -> dict[str, Any]:
    """A layout in JSON; `tiers`: with the near tier before it."""
    layout = estimate.layout
    judged = [{**vars(verdict), "met": verdict.met, "spare": verdict.spare} for verdict in estimate.verdicts]
    found = {**vars(estimate), "layout": layout.name, "overhead": layout.overhead, "monthly": estimate.monthly}
    return {**found, "verdicts": judged, "tiers": tiers}
