"""Drills: do checkpoints come back when targets are lost? Found out by making them fail for a moment.

`rounds` says what can be asked for, `scenario` reads it from a file; `choosing` and `placements` find the set of
targets that leaves least, `faults` opens the store so. `restoring` reads and compares, `prediction` says how long it
should take, `judging` holds it against the objectives; `perform` is the whole. `writing` and `page` are the reports,
`folders` makes where they go, `earlier` reads them again.

    report = ckptstore.open("store.toml").run("pretrain-7b").drill(rounds=[Round(lose=2)])
"""

from ckptstore.operations.drill.perform import drill
from ckptstore.operations.drill.report import DrilledRound, DrillReport, Prediction, Restored, Verdict
from ckptstore.operations.drill.rounds import Round
from ckptstore.operations.drill.scenario import Scenario, read_scenario

__all__ = [
    "DrillReport",
    "DrilledRound",
    "Prediction",
    "Restored",
    "Round",
    "Scenario",
    "Verdict",
    "drill",
    "read_scenario",
]
