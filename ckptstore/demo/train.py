"""The training script, run by torchrun: `torchrun --nproc-per-node 2 -m ckptstore.demo.train --steps 30 …`.

It saves to the store asynchronously every few steps, goes on from the latest checkpoint with `--resume`, and
writes what happened to a journal, one JSON object a line, for the scenario to check.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch.distributed as dist

import ckptstore
from ckptstore.demo.faults import DieInSave
from ckptstore.demo.trainer import TrainConfig, Trainer
from ckptstore.events import ignore

__all__ = ["main"]


class Journal:
    """Rank 0's account of the run; the other ranks write nothing."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8") if dist.get_rank() == 0 else None

    def write(self, event: str, **fields: Any) -> None:
        """Append one event; it is readable by others when this returns."""
        if self._file is not None:
            self._file.write(json.dumps({"event": event, **fields}) + "\n")
            self._file.flush()


class Saver:
    """At most one save in flight: the next one waits for it, so the store's memory stays bounded."""

    def __init__(self, run: Any, journal: Journal, die_in: int) -> None:
        self.run = run
        self.journal = journal
        self._die_in = die_in
        self._handle: Any = None
        self._step = 0

    def save(self, trainer: Trainer) -> None:
        """Begin to save; training goes on meanwhile."""
        self.finish()
        self._step = trainer.state.step
        self.journal.write("saving", step=self._step)
        dies = trainer.rank == 1 and self._step == self._die_in
        observer = DieInSave() if dies else ignore
        self._handle = self.run.save_async(trainer.state, observer=observer)

    def note(self) -> None:
        """Write to the journal when the save in flight is done."""
        if self._handle is not None and self._handle.done():
            self.finish()

    def finish(self) -> None:
        """Wait for the save in flight. Raises what the save raised."""
        if self._handle is not None:
            checkpoint = self._handle.result()
            self._handle = None
            self.journal.write("saved", step=self._step, tolerance=checkpoint.tolerance.targets)


def resume(run: Any, trainer: Trainer, journal: Journal) -> None:
    """Load the latest checkpoint, whatever number of ranks saved it."""
    run.load(trainer.state)
    journal.write("loaded", step=trainer.state.step, saved_on=trainer.state.saved_on, digest=trainer.digest())


def train(options: argparse.Namespace) -> None:
    """Run the job of one rank from beginning to end."""
    journal = Journal(options.journal)
    trainer = Trainer(TrainConfig())
    pids: list[Any] = [None] * trainer.world
    dist.all_gather_object(pids, os.getpid())
    journal.write("started", pids=pids)
    run = ckptstore.open(options.store).run(options.run) if options.store else None
    if options.resume:
        resume(run, trainer, journal)
    saver = Saver(run, journal, options.die_in_save) if options.save_every and run else None
    while trainer.state.step < options.steps:
        step = trainer.step()
        journal.write("step", step=step.number, loss=step.loss.hex(), samples=step.samples)
        if saver:
            saver.note()
            if step.number % options.save_every == 0:
                saver.save(trainer)
        if step.number in options.digest_at:
            journal.write("digest", step=step.number, digest=trainer.digest())
    if saver:
        saver.finish()
    journal.write("finished", step=trainer.state.step)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--journal", type=Path, required=True, help="file for the events of rank 0")
    parser.add_argument("--steps", type=int, required=True, help="train until this step")
    parser.add_argument("--store", type=Path, help="store.toml; without it nothing is saved or loaded")
    parser.add_argument("--run", default="demo", help="name of the run in the store")
    parser.add_argument("--save-every", type=int, default=0, help="steps between saves; 0 saves never")
    parser.add_argument("--die-in-save", type=int, default=0, help="step in whose save rank 1 gets SIGKILL")
    parser.add_argument("--resume", action="store_true", help="go on from the latest checkpoint")
    parser.add_argument("--digest-at", type=int, nargs="*", default=[], help="steps to hash the state after")
    return parser.parse_args()


def main() -> None:
    """Join the other ranks, train, leave."""
    options = parse()
    dist.init_process_group("gloo")
    train(options)
    dist.destroy_process_group()
    leave()


def leave() -> None:
    """End the process without winding the interpreter down; everything is written, every save has ended.

    Caches of torch's DTensor keep the process group, and with it gloo's threads, alive (2.13). One that lets go
    of a tensor while the interpreter ends aborts the process: seen on a busy machine, one run in ten.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
