"""The whole state of a training job as one object: what it takes to go on as if nothing had happened.

state = TrainState(model=model, optimizer=optimizer, scheduler=scheduler, loader=loader)
run.save(state, step)
run.load(state)
state.step
"""

from ckptstore.state.batches import ShuffledBatches
from ckptstore.state.job import TrainState

__all__ = ["ShuffledBatches", "TrainState"]
