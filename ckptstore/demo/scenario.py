"""The demo, step by step: what is done to the training job and its targets, and what must hold afterwards."""

from pathlib import Path

from ckptstore.demo.commands import Commands

from ckptstore.demo.backings import Backings
from ckptstore.demo.jobs import Job, StuckError, wait_until
from ckptstore.demo.report import Report

__all__ = ["NAMES", "Scenario"]

NAMES = "abcdef"
REMOVED, FRESH = "b", "g"
AWAY = ("c", "e")
WATCHED = "a"  # stays through all of it

EVERY = 5  # steps between saves
LATEST = 10  # last save that commits before the kill
KILLED = 15  # save during which a rank dies
MIDDLE = 20
END = 30
FOUR_RANKS_END = 25
DATA_FRAGMENTS = 4
DEGRADED = 3  # exit code of ckpt verify: damaged, but loadable


class Scenario:
    """Four steps on one store, beside a reference run; CheckError or StuckError where something fails."""

    def __init__(self, folder: Path, backings: Backings, report: Report) -> None:
        self.folder = folder
        self.backings = backings
        self.report = report
        self.ckpt = Commands(folder / "store.toml", backings)
        self.jobs: list[Job] = []

    def play(self) -> None:
        """Run all steps; training jobs that still run at the end are stopped."""
        try:
            self.ckpt.init()
            digests = [str(step) for step in (LATEST, MIDDLE, END)]
            self.reference = self._job("reference", 2, END, "--digest-at", *digests)
            self.lose_rank_target_and_bit()
            self.restart()
            self.repair()
            self.lose_two_targets()
        finally:
            for job in self.jobs:
                job.stop()

    def lose_rank_target_and_bit(self) -> None:
        """Step 1."""
        self.report.step(1, "Kill a rank during a save, remove one target whole, flip one bit on a second")
        self._kill_during_save()
        self._remove_target()
        self._flip_bit()
        with self.report.waiting("ckpt verify --read-data"):
            verdict = self.ckpt.verify()
        self.report.check(
            verdict.code == DEGRADED,
            f"ckpt verify --read-data exits {DEGRADED}: {verdict.text}",
            verdict.text,
        )
        self.report.check(
            {REMOVED, self.flipped} == verdict.targets,
            f"it names {REMOVED} and {self.flipped}",
            verdict.targets,
        )
        self.report.check(verdict.tolerance == 1, "it says that 1 more target may be lost", verdict.tolerance)

    def _kill_during_save(self) -> None:
        job = self._job("killed", 2, END, "--save-every", str(EVERY), store=True)
        with self.report.waiting(
            f"training on 2 ranks, and the reference beside it, until the save of step {KILLED}"
        ):
            job.wait_for("saved", LATEST - EVERY)
            older = self._fragments()
            job.wait_for("saved", LATEST)
            self.before = self._fragments()
            self.latest = {name: self.before[name] - older[name] for name in NAMES}
            begun = self.ckpt.begun(WATCHED)
            watched = self.backings[WATCHED]
            wait_until(
                lambda: watched.objects("data/") - self.before[WATCHED], "a fragment to appear", pause=0.001
            )
            job.kill_rank(1)
            code = job.wait()
        written = sum(len(paths - self.before[name]) for name, paths in self._fragments().items())
        begun = self.ckpt.begun(WATCHED) - begun
        full = sum(map(len, self.latest.values()))
        self.report.check(
            len(begun) == 1 and 0 < written < full,
            f"SIGKILL to rank 1 in the middle of the save of step {KILLED}: {written} of {full} fragments written",
            f"{len(begun)} saves begun, {written} of {full} fragments written",
        )
        self.report.check(code != 0, f"torchrun gave up with exit code {code}", code)
        steps = self.ckpt.tolerances()
        self.report.check(
            list(steps) == [LATEST, LATEST - EVERY],
            f"the unfinished save is not visible: latest is step {LATEST}",
            steps,
        )

    def _remove_target(self) -> None:
        lost = len(self.backings[REMOVED].objects(""))
        self.backings[REMOVED].wipe()
        self.report.check(lost > 0, f"target {REMOVED} removed whole, {lost} objects", lost)

    def _flip_bit(self) -> None:
        """Damage a data fragment of the latest checkpoint, so that loading has to step over it."""
        candidates = [
            (name, path)
            for name in NAMES
            if name != REMOVED
            for path in sorted(self.latest[name])
            if int(path.rpartition(".")[2]) < DATA_FRAGMENTS
        ]
        self.flipped, path = candidates[-1]
        backing = self.backings[self.flipped]
        data = bytearray(backing.get(path))
        data[len(data) // 2] ^= 1
        backing.put(path, bytes(data))
        self.report.check(
            backing.get(path) == data,
            f"one bit flipped on target {self.flipped}, in {path}",
            "the object as before",
        )

    def restart(self) -> None:
        """Step 2."""
        self.report.step(
            2, "Restart from latest: on 2 ranks bit-equal, on 4 ranks the same state and order of samples"
        )
        two = self._job("restart-2", 2, MIDDLE, "--resume", "--save-every", str(EVERY), store=True)
        self._finish(self.reference, two)
        self._check_loaded(two, LATEST)
        self._check_losses(two, LATEST, MIDDLE)
        tolerances = self.ckpt.tolerances()
        self.report.check(
            tolerances.get(MIDDLE) == 1,
            f"it saved steps {KILLED} and {MIDDLE} on five targets: tolerance 1",
            tolerances,
        )
        four = self._job("restart-4", 4, FOUR_RANKS_END, "--resume", store=True)
        self._finish(four)
        self._check_loaded(four, MIDDLE)
        self._check_order(four, MIDDLE, FOUR_RANKS_END)

    def repair(self) -> None:
        """Step 3."""
        self.report.step(3, "Repair onto a fresh target")
        self.backings.replace(REMOVED, FRESH)
        with self.report.waiting("ckpt repair"):
            repaired = self.ckpt.repair(replace=(REMOVED, FRESH))
        self.report.check(
            repaired.code == 0, f"ckpt repair --replace {REMOVED}={FRESH}: {repaired.text}", repaired.text
        )
        self._check_whole()

    def lose_two_targets(self) -> None:
        """Step 4."""
        self.report.step(4, "Lose two targets at once, go on and save with the four that are left")
        for name in AWAY:
            self.backings[name].leave()
        job = self._job(
            "four-targets",
            2,
            END,
            "--resume",
            "--save-every",
            str(EVERY),
            "--digest-at",
            str(END),
            store=True,
        )
        self._finish(job)
        self._check_loaded(job, MIDDLE)
        self._check_losses(job, MIDDLE, END)
        same = job.digests()[END] == self.reference.digests()[END]
        self.report.check(same, f"the state after step {END} equals the reference's", job.digests())
        tolerance = self.ckpt.tolerances().get(END)
        self.report.check(
            tolerance == 1,
            f"steps {END - EVERY} and {END} are saved on the four left: tolerance {tolerance}",
            tolerance,
        )
        for name in AWAY:
            self.backings[name].come_back()
        with self.report.waiting("ckpt repair"):
            repaired = self.ckpt.repair()
        self.report.check(
            repaired.code == 0,
            f"targets {' and '.join(AWAY)} are back; ckpt repair: {repaired.text}",
            repaired.text,
        )
        self._check_whole()

    def _job(self, name: str, ranks: int, steps: int, *options: str, store: bool = False) -> Job:
        place = [f"--store={self.folder / 'store.toml'}"] if store else []
        job = Job(self.folder, name, ranks, f"--steps={steps}", *place, *options)
        self.jobs.append(job)
        return job

    def _finish(self, *jobs: Job) -> None:
        with self.report.waiting("training: " + ", ".join(job.name for job in jobs)):
            for job in jobs:
                if job.wait():
                    raise StuckError(f"training job {job.name} failed; its output: {job.log}")

    def _fragments(self) -> dict[str, set[str]]:
        return {name: self.backings[name].objects("data/") for name in NAMES}

    def _check_loaded(self, job: Job, step: int) -> None:
        loaded = job.events("loaded")[0]
        same = loaded["step"] == step and loaded["digest"] == self.reference.digests()[step]
        short = loaded["digest"][:12]
        text = f"{job.name} loaded step {step}: model and optimiser equal the reference's ({short}…)"
        self.report.check(same, text, loaded)

    def _check_losses(self, job: Job, after: int, until: int) -> None:
        steps = range(after + 1, until + 1)
        mine, reference = job.steps(), self.reference.steps()
        wrong = [step for step in steps if mine[step] != reference[step]]
        last = float.fromhex(reference[until]["loss"])
        text = f"losses of steps {after + 1} to {until} bit-equal to the reference (the last: {last:.4f})"
        self.report.check(not wrong and list(mine) == list(steps), text, f"steps {wrong} differ")

    def _check_order(self, job: Job, after: int, until: int) -> None:
        steps = range(after + 1, until + 1)
        mine, reference = job.steps(), self.reference.steps()
        wrong = [step for step in steps if mine[step]["samples"] != reference[step]["samples"]]
        self.report.check(
            not wrong, f"the samples of steps {after + 1} to {until} are the reference's, in its order", wrong
        )

    def _check_whole(self) -> None:
        with self.report.waiting("ckpt verify --read-data"):
            verdict = self.ckpt.verify()
        self.report.check(verdict.code == 0, f"ckpt verify --read-data exits 0: {verdict.text}", verdict.text)
        tolerances = self.ckpt.tolerances()
        whole = set(tolerances.values()) == {2}
        self.report.check(
            whole, f"all {len(tolerances)} checkpoints survive the loss of any 2 targets again", tolerances
        )
