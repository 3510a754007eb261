"""Votes of which one good copy doesn't tell what was voted: all their copies are read."""

from manifests import paths
from manifests.votes import Votes, votes_that_count


def contested_manifests(votes: Votes) -> set[str]:
    """Return the inner names of the manifests that may be a void on some of the targets."""
    voiding = {paths.save_of(name) for name in votes_that_count(votes, paths.VOIDING)}
    return {name for name in votes_that_count(votes, paths.MANIFESTS) if paths.save_of(name) in voiding}
