"""What was found, beside the objectives of the store: pass, fail, or untested."""

from collections.abc import Sequence
from datetime import datetime

from ckptstore.config import Config
from ckptstore.durations import age_of
from ckptstore.operations.drill.report import DrilledRound, DrillReport, Restored, Verdict
from ckptstore.operations.promises import beyond_layout
from ckptstore.wording import count, time_text

__all__ = ["judge", "next_step"]

SCALED = "scaled from a sample to all bytes"
BEYOND = "more was lost than is to be survived"


def judge(report: DrillReport, config: Config, *, with_latest: bool) -> list[Verdict]:
    """One verdict for each objective that the store has. `with_latest`: the latest checkpoint was drilled."""
    objectives = config.objectives
    found = []
    if objectives.survive is not None:
        found.append(_survival(report, config, "survive", objectives.survive))
    if objectives.survive_domains is not None:
        found.append(_survival(report, config, "survive_domains", objectives.survive_domains))
    if objectives.rto_seconds is not None:
        found.append(_rto(report, config, objectives.rto_seconds))
    if objectives.rpo_seconds is not None:
        found.append(_rpo(report, config, objectives.rpo_seconds, with_latest=with_latest))
    return found


def next_step(report: DrillReport) -> str:
    """The one thing to do now: the first that is called for."""
    failed = {each.objective for each in report.verdicts if each.verdict == "fail"}
    states = {result.state for result in report.results}
    survived = max(min((each.targets for each in report.survive.values()), default=0), 0)
    lost_with = min((len(each.faults.gone) for each in report.rounds if _any_lost(each)), default=None)
    steps = (
        ("unknown" in states or ("lost" in states and report.out_of_reach), "ckpt doctor"),
        (lost_with is not None and lost_with <= survived, "ckpt verify --read-data"),
        (
            report.beyond_layout,
            "add targets to store.toml or choose a code with more parity, for what is saved from now on",
        ),
        (failed & {"survive", "survive_domains"}, "ckpt repair"),
        ("lost" in states, f"nothing is amiss: more was lost than the {survived} that it survives by what is there"),
        ("changed" in states, "ckpt drill"),
        ("rpo" in failed, "save more often; see what was saved and when: ckpt log"),
        ("rto" in failed, "see what other layouts take: ckpt plan"),
        (len(report.survive) == 1, "ckpt drill --all"),
    )
    return next((text for called_for, text in steps if called_for), "the same again tomorrow")


def _any_lost(each: DrilledRound) -> bool:
    return any(result.state == "lost" for result in each.results)


def _survival(report: DrillReport, config: Config, key: str, wanted: int) -> Verdict:
    by_domain = key == "survive_domains"
    what = f"{count(wanted, 'domain' if by_domain else 'target')} lost"
    recorded = min((each.domains if by_domain else each.targets for each in report.survive.values()), default=-1)
    told = "unreadable" if recorded < 0 else f"survives {recorded} by what is there"
    verdict, found = "untested", "so much was not lost in this drill"
    for each in report.rounds:
        lost = each.domains_lost if by_domain else len(each.faults.gone)
        hit = each.domains_hit if by_domain else lost
        failed = [result.name for result in each.results if result.state == "lost"]
        if failed and hit <= wanted:
            return Verdict(key, what, f"{', '.join(failed)} did not come back with {hit} lost", "fail")
        if lost >= wanted and _all_restored(each):
            verdict, found = "pass", f"all came back with {lost} lost"
    for told_beyond in beyond_layout(config):
        if told_beyond.startswith(f"objectives.{key} "):
            return Verdict(key, what, told_beyond, "fail")
    if recorded < wanted:
        verdict = "fail"
    return Verdict(key, what, f"{found}; {told}", verdict)


def _all_restored(each: DrilledRound) -> bool:
    states = [result.state for result in each.results if result.state != "changed"]
    return bool(states) and set(states) == {"restored"}


def _rto(report: DrillReport, config: Config, wanted: float) -> Verdict:
    promised = _promised(report, config)
    if not promised:
        return Verdict("rto", time_text(wanted), BEYOND, "untested")
    results = [result for each in promised for result in each.results]
    restored = [result for result in results if result.state == "restored"]
    if not restored:
        return Verdict("rto", time_text(wanted), "nothing came back", "fail")
    slowest = max(restored, key=lambda result: result.whole_seconds)
    how = f", {SCALED}" if slowest.bytes < slowest.total else ""
    found = f"{time_text(slowest.whole_seconds)} for {slowest.name}{how}"
    lost = [result.name for result in results if result.state in {"lost", "unknown"}]
    if lost:
        found += f"; {', '.join(dict.fromkeys(lost))} did not come back in every round"
    return Verdict("rto", time_text(wanted), found, "pass" if slowest.whole_seconds <= wanted and not lost else "fail")


def _rpo(report: DrillReport, config: Config, wanted: float, *, with_latest: bool) -> Verdict:
    promised = _promised(report, config)
    if not promised:
        return Verdict("rpo", time_text(wanted), BEYOND, "untested")
    now = datetime.fromisoformat(report.began)
    back = [(age, each.name) for each in _always_back(promised) if (age := age_of(each.created, now)) is not None]
    if not back:
        found = "no checkpoint that was drilled came back in every round; older ones: ckpt drill --all"
        return Verdict("rpo", time_text(wanted), found, "fail")
    age, name = min(back)
    found = f"{time_text(age)}: {name} is the newest that came back"
    if age > wanted and not with_latest:
        return Verdict("rpo", time_text(wanted), f"{found}; the latest was not drilled", "untested")
    return Verdict("rpo", time_text(wanted), found, "pass" if age <= wanted else "fail")


def _promised(report: DrillReport, config: Config) -> list[DrilledRound]:
    """The rounds that say something of how fast and how new: no more was lost than is to be survived, or all came back.

    Where `survive` says nothing, what is there is to be survived.
    """
    objectives = config.objectives
    least = max(min((each.targets for each in report.survive.values()), default=0), 0)
    targets = least if objectives.survive is None else objectives.survive
    domains = objectives.survive_domains or 0
    return [
        each
        for each in report.rounds
        if len(each.faults.gone) <= targets or 0 < each.domains_hit <= domains or _all_restored(each)
    ]


def _always_back(rounds: Sequence[DrilledRound]) -> list[Restored]:
    """Those that came back in every round that says something about them."""
    states: dict[str, set[str]] = {}
    for result in [result for each in rounds for result in each.results]:
        states.setdefault(result.key, set()).add(result.state)
    first = rounds[0].results if rounds else []
    return [
        result for result in first if states[result.key] <= {"restored", "changed"} and "restored" in states[result.key]
    ]
