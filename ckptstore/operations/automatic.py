"""Pruning by itself, after a save."""

from ckptstore.config import Config
from ckptstore.opened import shared
from ckptstore.operations.prune import prune

__all__ = ["prune_after_save"]


def prune_after_save(config: Config, run: str) -> str:
    """Prune a run by the settings of its store; return what there is to say, "" where all went well.

    The save is committed by now: whatever goes wrong here, nothing may look as if it were not.
    """
    rules = config.retention
    try:
        report = prune(shared(config), run, rules, read_data=rules.read_data, strict_tags=False)
    except Exception as error:  # noqa: BLE001
        left = [str(error) or type(error).__name__]
    else:
        left = report.left + report.notes
    return f"run {run} could not be pruned of everything: {'; '.join(left)}" if left else ""
