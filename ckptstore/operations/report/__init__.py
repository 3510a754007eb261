"""One page on a whole store, for whoever runs it: how it is, what to do next, and why.

`gather` looks, `cells` says what was found target by target, `costs` and `drills` what comes beside, `advice` what to
do. `page` makes it HTML, with `grid`, `margin`, `growth`, `drill_history` and `charts`; `writing` puts it in its place.
"""

from ckptstore.operations.report.content import Cell, Costs, Drills, Row, RunPart, Step, StoreReport
from ckptstore.operations.report.gather import report

__all__ = ["Cell", "Costs", "Drills", "Row", "RunPart", "Step", "StoreReport", "report"]
