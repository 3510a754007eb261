"""What a layout is worth before anything is stored on it: how often it loses data, what it costs, how long it takes.

`durability` is an exact Markov chain and `simulation` the same by chance, `fleet` says how often a job is interrupted
and how often it is to save, `cost` what is paid, `judging` which objectives hold; `comparison` puts them together.
`tiers` adds a tier that is nearer, `measured` takes what `ckpt bench` found. Where the numbers come from, and what
the models leave out, is in docs/durability.md.
"""

from ckptstore.planning.comparison import Estimate, Job, compare
from ckptstore.planning.durability import Rates, loss_probability
from ckptstore.planning.fleet import best_interval, daly_interval, goodput, mttf_hours, young_interval
from ckptstore.planning.judging import Verdict
from ckptstore.planning.layout import Layout
from ckptstore.planning.measured import Measured, read_bench
from ckptstore.planning.simulation import simulate_losses
from ckptstore.planning.tiers import Near, Tiers, with_near
from ckptstore.prices import LIST_PRICES, Prices

__all__ = [
    "LIST_PRICES",
    "Estimate",
    "Job",
    "Layout",
    "Measured",
    "Near",
    "Prices",
    "Rates",
    "Tiers",
    "Verdict",
    "best_interval",
    "compare",
    "daly_interval",
    "goodput",
    "loss_probability",
    "mttf_hours",
    "read_bench",
    "simulate_losses",
    "with_near",
    "young_interval",
]
