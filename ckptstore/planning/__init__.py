"""What a layout is worth before anything is stored on it: how often it loses data, what it costs, how long it takes.

`durability` is an exact Markov chain and `simulation` the same by chance, `fleet` says how often a job is interrupted
and how often it is to save, `cost` what is paid; `comparison` puts them together. Where the numbers come from, and what
the models leave out, is in docs/durability.md.
"""

from ckptstore.planning.comparison import Estimate, Job, compare
from ckptstore.planning.cost import Prices
from ckptstore.planning.durability import Rates, loss_probability
from ckptstore.planning.fleet import best_interval, daly_interval, goodput, mttf_hours, young_interval
from ckptstore.planning.layout import Layout
from ckptstore.planning.simulation import simulate_losses

__all__ = [
    "Estimate",
    "Job",
    "Layout",
    "Prices",
    "Rates",
    "best_interval",
    "compare",
    "daly_interval",
    "goodput",
    "loss_probability",
    "mttf_hours",
    "simulate_losses",
    "young_interval",
]
