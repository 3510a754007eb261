"""Votes of which one good copy doesn't tell what was voted: all their copies are read."""

from collections import Counter

from manifests import paths
from manifests.votes import Votes, votes_that_count


def contested_names(votes: Votes) -> set[str]:
    """Return the inner names of the votes of which one good copy does not tell what was voted."""
    return contested_manifests(votes) | contested_marks(votes)


def contested_manifests(votes: Votes) -> set[str]:
    """Return the inner names of the manifests that may be a void on some of the targets."""
    voiding = {paths.save_of(name) for name in votes_that_count(votes, paths.VOIDING)}
    return {name for name in votes_that_count(votes, paths.MANIFESTS) if paths.save_of(name) in voiding}


def contested_marks(votes: Votes) -> set[str]:
    """Return the inner names of marks that a copy of another mark of the same save could stand under, undetected."""
    names = votes_that_count(votes, paths.MARKS)
    counts = Counter(map(paths.save_of, names))
    return {name for name in names if counts[paths.save_of(name)] > 1}
