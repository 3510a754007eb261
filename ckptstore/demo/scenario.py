"""The demo, step by step: what is done to the training job and its targets, and what must hold afterwards."""

from pathlib import Path

from ckptstore.demo.backings import Backings
from ckptstore.demo.commands import Commands
from ckptstore.demo.jobs import Job, StuckError
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
FOUR_RANKS_END = 25
END = 30
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
        self.ckpt.write_settings()
        self._check_code("init")
        try:
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
        latest = self._check_unfinished()
        lost = len(self.backings[REMOVED].objects(""))
        self.backings[REMOVED].wipe()
        self.report.check(lost > 0, f"target {REMOVED} is removed whole, {lost} objects", lost)
        self._check_damage(self._flip_bit(latest))

    def _kill_during_save(self) -> None:
        options = ["--save-every", str(EVERY), "--die-in-save", str(KILLED)]
        job = self._job("killed", 2, END, *options, store=True)
        with self.report.waiting(f"training on 2 ranks, beside the reference, until the save of step {KILLED}"):
            code = job.wait()
        killed = code != 0 and job.died_of_sigkill(1)
        text = f"SIGKILL to rank 1 during the save of step {KILLED}, half of its shard written; torchrun gives up"
        self.report.check(killed, text, f"exit code {code}, see {job.log}")

    def _check_unfinished(self) -> set[str]:
        """Returns the shards of the latest checkpoint, the one before the unfinished save."""
        steps, latest = list(self.ckpt.tolerances()), self.ckpt.shards(LATEST)
        begun = sum("/begun/" in path for path in self.backings[WATCHED].objects("runs/demo/commit/"))
        shards = [shard_of(path) for _, path in self._fragments(NAMES)]
        full = sum(shard in latest for shard in shards)
        left = len(shards) - len(steps) * full
        text = f"it left {left} of {full} fragments and is not visible: ckpt ls has steps {LATEST - EVERY} and {LATEST}"
        held = steps == [LATEST - EVERY, LATEST] and begun == len(steps) + 1 and 0 < left < full
        self.report.check(held, text, f"steps {steps}, {begun} saves begun, {left} of {full} fragments left")
        return latest

    def _flip_bit(self, latest: set[str]) -> str:
        """Damage a data fragment of the latest checkpoint, so that loading has to notice. Returns its target."""
        target, path = max(
            (name, path)
            for name, path in self._fragments(NAMES.replace(REMOVED, ""))
            if shard_of(path) in latest and int(path.rpartition(".")[2]) < DATA_FRAGMENTS
        )
        backing = self.backings[target]
        data = bytearray(backing.get(path))
        data[len(data) // 2] ^= 1
        backing.put(path, bytes(data))
        text = f"one bit of {len(data)} bytes is flipped on {target}: {Path(path).name} of a shard of step {LATEST}"
        self.report.check(backing.get(path) == data, text, "the object as before")
        return target

    def _check_damage(self, flipped: str) -> None:
        with self.report.waiting("ckpt verify --read-data"):
            answer = self.ckpt("verify", "--read-data")
        text = f"ckpt verify --read-data exits {DEGRADED}: {answer.damage}"
        self.report.check(answer.code == DEGRADED, text, answer)
        kinds = {(finding["kind"], finding["target"]) for finding in answer.findings}
        corrupt = [target for kind, target in kinds if kind == "corrupt"]
        elsewhere = {target for _, target in kinds} - {REMOVED, flipped}
        text = f"it names {REMOVED} as out of reach and {flipped} as corrupt, and nothing else"
        self.report.check(corrupt == [flipped] and not elsewhere, text, sorted(kinds))
        more = {line["step"]: line["tolerance"]["targets"] for line in answer.checkpoints}
        text = f"it says how many more targets may be lost: 1 of step {LATEST - EVERY}, none of step {LATEST}"
        self.report.check(more == {LATEST - EVERY: 1, LATEST: 0}, text, more)

    def restart(self) -> None:
        """Step 2."""
        self.report.step(2, "Restart from latest: on 2 ranks bit-equal, on 4 the same state and order of samples")
        two = self._job("restart-2", 2, MIDDLE, "--resume", "--save-every", str(EVERY), store=True)
        self._finish(self.reference, two)
        self._check_loaded(two, LATEST)
        self._check_losses(two, LATEST, MIDDLE)
        self._check_saved(two, [KILLED, MIDDLE], "on the five targets left")
        four = self._job("restart-4", 4, FOUR_RANKS_END, "--resume", store=True)
        self._finish(four)
        self._check_loaded(four, MIDDLE)
        self._check_order(four, MIDDLE, FOUR_RANKS_END)

    def repair(self) -> None:
        """Step 3."""
        self.report.step(3, f"Repair onto a fresh target, {FRESH} in the place of {REMOVED}")
        self.backings.replace(REMOVED, FRESH)
        self.ckpt.write_settings()
        self._check_code("repair", "--replace", f"{REMOVED}={FRESH}")
        self._check_whole()

    def lose_two_targets(self) -> None:
        """Step 4."""
        self.report.step(4, "Lose two targets at once, go on and save with the four that are left")
        for name in AWAY:
            self.backings[name].leave()
        options = ["--resume", "--save-every", str(EVERY), "--digest-at", str(END)]
        job = self._job("four-targets", 2, END, *options, store=True)
        self._finish(job)
        self._check_loaded(job, MIDDLE)
        self._check_losses(job, MIDDLE, END)
        same = job.digests()[END] == self.reference.digests()[END]
        self.report.check(same, f"the state after step {END} equals the reference's", job.digests())
        self._check_saved(job, [END - EVERY, END], "on the four targets left")
        for name in AWAY:
            self.backings[name].come_back()
        self._check_code("repair")
        self._check_whole()

    def _job(self, name: str, ranks: int, steps: int, *options: str, store: bool = False) -> Job:
        place = [f"--store={self.ckpt.path}"] if store else []
        job = Job(self.folder, name, ranks, f"--steps={steps}", *place, *options)
        self.jobs.append(job)
        return job

    def _finish(self, *jobs: Job) -> None:
        with self.report.waiting("training: " + ", ".join(job.name for job in jobs)):
            for job in jobs:
                if job.wait():
                    raise StuckError(f"training job {job.name} failed; its output: {job.log}")

    def _fragments(self, names: str) -> list[tuple[str, str]]:
        """(target, path) of every fragment."""
        return [(name, path) for name in names for path in self.backings[name].objects("data/")]

    def _check_code(self, *command: str) -> None:
        with self.report.waiting(f"ckpt {' '.join(command)}"):
            answer = self.ckpt(*command)
        self.report.check(answer.code == 0, f"ckpt {' '.join(command)} exits 0{answer.deeds}", answer)

    def _check_loaded(self, job: Job, step: int) -> None:
        loaded = job.events("loaded")[0]
        same = loaded["step"] == step and loaded["digest"] == self.reference.digests()[step]
        short = loaded["digest"][:12]
        text = f"{job.name} loads step {step}: model and optimiser equal the reference's ({short}…)"
        self.report.check(same, text, loaded)

    def _check_losses(self, job: Job, after: int, until: int) -> None:
        mine, reference = job.steps(), self.reference.steps()
        steps = list(range(after + 1, until + 1))
        wrong = [step for step in steps if mine.get(step) != reference[step]]
        last = float.fromhex(reference[until]["loss"])
        text = f"losses of steps {after + 1} to {until} are bit-equal to the reference's (the last: {last:.4f})"
        self.report.check(not wrong and list(mine) == steps, text, f"steps {wrong} differ")

    def _check_order(self, job: Job, after: int, until: int) -> None:
        mine, reference = job.steps(), self.reference.steps()
        steps = list(range(after + 1, until + 1))
        wrong = [step for step in steps if mine[step]["samples"] != reference[step]["samples"]]
        text = f"the samples of steps {after + 1} to {until} are the reference's, in its order"
        self.report.check(not wrong and list(mine) == steps, text, f"steps {wrong} differ")

    def _check_saved(self, job: Job, steps: list[int], where: str) -> None:
        saved = {event["step"]: event["tolerance"] for event in job.events("saved")}
        listed = self.ckpt.tolerances()
        text = f"steps {steps[0]} and {steps[1]} are saved {where}: tolerance {saved.get(steps[1])}"
        held = saved == dict.fromkeys(steps, 1) == {step: listed.get(step) for step in steps}
        self.report.check(held, text, f"saved {saved}, listed {listed}")

    def _check_whole(self) -> None:
        self._check_code("verify", "--read-data")
        tolerances = self.ckpt.tolerances()
        text = f"all {len(tolerances)} checkpoints survive the loss of any 2 targets again"
        self.report.check(set(tolerances.values()) == {2}, text, tolerances)


def shard_of(path: str) -> str:
    """Return the shard id in a fragment's path, data/<xx>/<run>/<shard id>/<stripe>.<fragment>."""
    return path.split("/")[3]
