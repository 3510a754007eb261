"""`make drill`: real servers as failure domains, real checkpoints at 4+2 and 8+4, drills, and real faults.

Three SeaweedFS servers and a fake-gcs-server, three buckets each; the disk of one is small, where one may be mounted.
Everything is below one folder, and so are the reports: the HTML pages in it are what an operator would look at.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from obstore.store import S3Store

from ckptstore.demo.report import CheckError, Report
from localstack.domains import Domains, Target

ROOT = Path(__file__).parent.parent
COUNTS = {"seaweed": 3, "gcs": 1}
BUCKETS = 3
VOTES = 2  # of the buckets of each server
CODES = {"four-two": "4+2", "eight-four": "8+4"}
FULL = "seaweed-2"  # its disk fills up
STOPPED = "seaweed-1"
SMALL_DISK = 512 << 20  # bytes; SeaweedFS takes some 100 MiB before the first object
DEGRADED = 3  # exit code: damaged, but loadable
OBJECTIVES = '\n[objectives]\nrpo = "1h"\nrto = "2m"\nsurvive = 2\nsurvive_domains = 1\n'
RECOVERY = 60.0  # seconds that a server is given after it was stopped or full
LIMIT = 300.0  # seconds that a command may take

__all__ = ["Drills", "main"]


class Drills:
    """Two stores on the same servers, each with a prefix of its own. CheckError where something doesn't hold."""

    def __init__(self, folder: Path, domains: Domains, report: Report, *, small_disk: bool) -> None:
        self.folder = folder
        self.domains = domains
        self.report = report
        self.small_disk = small_disk

    def play(self) -> None:
        """Everything, in order."""
        self.report.step(1, "Make two stores on the servers and save a model in training into both")
        for name, code in CODES.items():
            self._settings(name, code)
            self._expect(name, 0, "init", why=f"{code} on {len(self.domains.targets)} targets in 4 domains")
            self._save(name)
            self._expect(name, 0, "verify", "--read-data", why="every byte is there and right")
        self.report.step(2, "Drills: what is lost is lost to the drill alone")
        for name in CODES:
            self._drill(name)
        self.report.step(3, "A whole domain is gone, and this is no drill")
        self._lose_domain()
        self.report.step(4, "Bits flip in a bucket")
        self._flip()
        self.report.step(5, "A disk fills up")
        self._fill()

    def _settings(self, name: str, code: str) -> None:
        """Votes on two targets of each domain: a commit at 4+2 tolerates the loss of two, which a domain then is."""
        targets = [
            Target(t.name, f"{t.url}/{name}", t.domain, t.options, commit=number % BUCKETS < VOTES)
            for number, t in enumerate(self.domains.targets)
        ]
        text = f'name = "{name}"\ncode = "{code}"\nfragment_size = "256KiB"\nwindow = "32MiB"\n{OBJECTIVES}\n'
        self._store(name).write_text("\n".join([text, *map(str, targets)]))

    def _save(self, name: str) -> None:
        done = self._train(name)
        self.report.check(done.returncode == 0, f"{name}: steps 10 and 20 saved", done.stderr[-2000:])

    def _train(self, name: str) -> "subprocess.CompletedProcess[str]":
        script = [sys.executable, str(ROOT / "examples/nightly/save_states.py")]
        return self._run(script, {"CKPT_STORE": str(self._store(name))})

    def _drill(self, name: str) -> None:
        pages = ["--report-dir", str(self.folder / "reports" / name)]
        self._expect(name, 0, "drill", "--worst", *pages, why="the worst targets are lost, objectives are met")
        for domain in self.domains.servers:
            lose = ["--all", "--lose-domain", domain]
            self._expect(name, 0, "drill", *lose, *pages, why=f"domain {domain} is lost, all comes back")
        first, second = (target.name for target in self.domains.targets[:2])
        damage = ["--corrupt", first, "--slow", f"{second}=0.2s", "--throttle", f"{self.domains.targets[3].name}=1MiB"]
        self._expect(name, 0, "drill", *damage, *pages, why="one gives flipped bits, one is slow, one is throttled")

    def _lose_domain(self) -> None:
        self.domains.servers[STOPPED].stop()
        for name in CODES:
            self._expect(name, DEGRADED, "verify", why=f"{STOPPED} is stopped: degraded, loadable")
            restored = self.folder / f"restored-{name}"
            self._expect(name, 0, "restore", str(restored), "--step", "20", why="step 20 is restored without it")
            self._save(name)
        self.domains.servers[STOPPED].start()
        for name in CODES:
            self._mend(name, why=f"{STOPPED} is back: it gets what it missed")

    def _flip(self) -> None:
        target = self.domains.targets[0]
        for name in CODES:
            path = self._fragments(target, name)[0]
            store = self._client(target)
            data = bytearray(bytes(store.get(path).bytes()))
            data[len(data) // 2] ^= 1
            store.put(path, bytes(data))
            self._expect(name, DEGRADED, "verify", "--read-data", why=f"one bit of {len(data)} bytes is found")
            self._mend(name, why="the fragment is rebuilt")

    def _fill(self) -> None:
        if not self.small_disk:
            self.report.note("left out: a small disk can't be mounted here (mount -t tmpfs takes root)")
            return
        ballast = self.folder / "servers" / FULL / "ballast"
        with ballast.open("wb") as file:
            with_room = shutil.disk_usage(ballast.parent).free
            os.posix_fallocate(file.fileno(), 0, with_room)
        refused = self._train("four-two")
        held = refused.returncode != 0 and "ToleranceError: what was stored survives the loss of 0" in refused.stderr
        text = f"four-two: a save without the two of {FULL} would survive no further loss, and is refused"
        self.report.check(held, text, refused.stderr[-2000:])
        self._expect("four-two", 0, "drill", "--lose-domain", STOPPED, why="what was saved before comes back as ever")
        self._save("eight-four")
        ballast.unlink()
        for name in CODES:
            self._mend(name, why=f"the disk of {FULL} has room again: it gets what it missed")
        self._save("four-two")

    def _mend(self, name: str, *, why: str) -> None:
        """As an operator does it, who is told to repair again where a server isn't well yet."""
        end = time.monotonic() + RECOVERY
        while self._ckpt(name, "repair").returncode and time.monotonic() < end:
            time.sleep(5)
        self._expect(name, 0, "repair", why=why)
        self._expect(name, 0, "verify", "--read-data", why="every byte is there and right")

    def _expect(self, name: str, code: int, command: str, *options: str, why: str) -> dict[str, Any]:
        done = self._ckpt(name, command, *options)
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}
        shown = " ".join(["ckpt", command, *(option for option in options if "/" not in option)])
        self.report.check(done.returncode == code, f"{name}: {shown}: {why}", f"exit code {done.returncode}, {answer}")
        return answer

    def _ckpt(self, name: str, command: str, *options: str) -> "subprocess.CompletedProcess[str]":
        return self._run(
            [sys.executable, "-m", "ckptstore", command, "--store", str(self._store(name)), *options, "--json"]
        )

    def _run(self, line: Sequence[str], more: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, **self.domains.environment, **(more or {})}
        return subprocess.run(line, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT)

    def _store(self, name: str) -> Path:
        return self.folder / f"{name}.toml"

    def _client(self, target: Target) -> S3Store:
        bucket = target.url.partition("://")[2]
        credentials: Any = {
            key.lower(): value for key, value in self.domains.servers[target.domain].environment.items()
        }
        return S3Store(bucket, endpoint=target.options["endpoint"], client_options={"allow_http": True}, **credentials)

    def _fragments(self, target: Target, name: str) -> list[str]:
        pages = self._client(target).list(f"{name}/data/")
        return sorted(meta["path"] for page in pages for meta in page)


@contextmanager
def small_disk(place: Path) -> Iterator[bool]:
    """A file system of its own at `place`, where one may be mounted; gives whether it was."""
    place.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", str(place)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(place)], check=True)  # noqa: S607 - as mount above


def main() -> int:
    """Exit code 0 where everything held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("drill-run"))
    folder: Path = parser.parse_args().folder.absolute()
    if folder.exists():
        print(f"{folder} is there already: remove it, or give --folder another", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers and the small disk are taken down all the same
    report = Report()
    report.title("ckptstore drills", f"on servers that it starts, below {folder}")
    domains = Domains(COUNTS, folder / "servers", buckets=BUCKETS)
    with small_disk(folder / "servers" / FULL) as mounted:
        domains.start()
        try:
            Drills(folder, domains, report, small_disk=mounted).play()
        except CheckError:
            report.last(held=False, text=f"a check did not hold; the servers' logs are in {folder}/servers")
            return 1
        finally:
            domains.stop()
    report.last(
        held=True, text=f"{report.checks} checks held in {report.seconds:.0f} s; open {folder}/reports/*/*.html"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
