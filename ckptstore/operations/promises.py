"""Objectives that the layout of a store can't keep: told by init, doctor and drill, for old stores must open."""

from collections.abc import Sequence

from ckptstore.config import Config
from ckptstore.operations.quorums import tolerated
from ckptstore.placement import Survives, full_tolerance, survives
from ckptstore.wording import count

__all__ = ["beyond_layout", "layout_survives"]


def layout_survives(config: Config) -> Survives:
    """What a checkpoint on all targets of the settings survives, the votes that it is found by included."""
    data = full_tolerance(config.k, config.m, config.places)
    voters = [spec.name for spec in config.targets if spec.commit]
    domains = {place.target: place.domain for place in config.places}
    votes = survives(voters, max(len(voters) - tolerated(config), 1), domains)
    return Survives(min(data.targets, votes.targets), min(data.domains, votes.domains))


def beyond_layout(config: Config) -> Sequence[str]:
    """In words, each objective that no checkpoint of this layout can meet."""
    limit = layout_survives(config)
    asked = (
        ("survive", config.objectives.survive, "target", limit.targets),
        ("survive_domains", config.objectives.survive_domains, "domain", limit.domains),
    )
    layout = f"code {config.code} over {len(config.targets)} targets in {len({*_domains(config)})} domains"
    return [
        f"objectives.{key} = {wanted} can't be met: {layout} survives the loss of {count(max(reached, 0), what)}"
        for key, wanted, what, reached in asked
        if wanted is not None and wanted > reached
    ]


def _domains(config: Config) -> list[str]:
    return [place.domain for place in config.places]
