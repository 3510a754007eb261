"""From what a round asks for to the faults of it: which targets are lost."""

import random
from collections.abc import Sequence

from ckptstore.config import Config, parse_size
from ckptstore.objectives import parse_time
from ckptstore.operations.drill.faults import Faults
from ckptstore.operations.drill.placements import Placements, worst_set
from ckptstore.operations.drill.rounds import Round

__all__ = ["default_rounds", "faults_of"]


def default_rounds(config: Config, placements: Placements) -> list[Round]:
    """Where nothing is asked for: the loss of as much as the objectives say, else of m targets; the worst sets."""
    objectives = config.objectives
    rounds = []
    if objectives.survive is not None or objectives.survive_domains is None:
        count = min(placements.parity, default=config.m) if objectives.survive is None else objectives.survive
        rounds.append(Round(lose=min(count, len(config.targets))))
    if objectives.survive_domains is not None:
        domains = len({place.domain for place in config.places})
        rounds.append(Round(lose_any_domains=min(objectives.survive_domains, domains)))
    return rounds


def faults_of(asked: Round, config: Config, placements: Placements, seed: str) -> Faults:
    """What is done to which targets. The same for the same store and seed."""
    named = _named(asked, config)
    base = frozenset({*named, *asked.empty, *asked.corrupt})
    chosen, how = _chosen(asked, config, placements, base, seed)
    places = [place.target for place in config.places]
    return Faults(
        lost=tuple(name for name in places if name in named or name in chosen),
        empty=tuple(asked.empty),
        corrupt=tuple(asked.corrupt),
        slow={name: parse_time(seconds, f"slow {name}") for name, seconds in asked.slow.items()},
        throttle={name: parse_size(rate, f"throttle {name}") for name, rate in asked.throttle.items()},
        how=how,
    )


def _named(asked: Round, config: Config) -> frozenset[str]:
    inside = [place.target for place in config.places if place.domain in asked.lose_domains]
    return frozenset({*asked.lose_targets, *inside})


def _chosen(
    asked: Round, config: Config, placements: Placements, base: frozenset[str], seed: str
) -> tuple[frozenset[str], str]:
    """So many targets or domains of those that are whole yet, and how they were chosen."""
    by_domain = asked.lose_any_domains is not None
    count = asked.lose_any_domains if by_domain else asked.lose
    if not count:
        return frozenset(), ""
    units = _units(config, base, by_domain=by_domain)
    count = min(count, len(units))
    what = f"{count} of {len(units)} {'domains' if by_domain else 'targets'}"
    if asked.random:
        drawn = random.Random(seed).sample(units, count)  # noqa: S311 - a draw that can be repeated, no secret
        return frozenset().union(*drawn), f"{what}, drawn with seed {seed}"
    worst = worst_set(placements, units, count, base)
    if worst.looked_at < worst.sets:
        seen = f"of {worst.sets:,} sets {worst.looked_at:,} were looked at: others may take longer"
        return worst.gone, f"{what}, a set that leaves least; {seen}"
    return worst.gone, f"{what}, the worst set of all {worst.sets:,}"


def _units(config: Config, base: frozenset[str], *, by_domain: bool) -> Sequence[frozenset[str]]:
    """What is lost together: one target, or all that a domain still has."""
    left = [place for place in config.places if place.target not in base]
    domains = sorted({place.domain for place in left})
    groups = (
        [[p.target for p in left if p.domain == domain] for domain in domains]
        if by_domain
        else [[p.target] for p in left]
    )
    return [frozenset(group) for group in groups]
