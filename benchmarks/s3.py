"""Save to and load from six S3 buckets of a local SeaweedFS server: `python -m benchmarks s3`."""

from typing import Any

import numpy as np
import torch

import ckptstore
import erasure
from benchmarks import peers
from benchmarks.sections import Bars, Line, Section, Table
from benchmarks.setting import MIB, NAMES, State, buckets, make_state, on_ranks, seaweed
from benchmarks.turns import Contender, Figures, take_turns
from ckptstore.opened import shared
from localstack.servers import SeaweedServer

SIZE = 512 * MIB
K, M = 4, 2
SENT = (K + M) / K  # bytes that ckptstore sends, in states
COPIES = M + 1

TEXT = f"""{SIZE // MIB} MiB in 64 MiB tensors, one rank, six buckets of one SeaweedFS server on the same two cores. The
server takes most of the wall time, so CPU-seconds, which are the client's alone, say more; they are given for each GiB
sent over the wire. *Plain* is obstore putting or getting 16 MiB objects, 16 at a time, and nothing else; *codec* is
encode and CRC32C of the same stripes."""

__all__ = ["measure"]


def measure() -> Section:
    """Saves, then loads."""
    saves, loads = on_ranks(1, _measure)
    return Section(
        title="S3",
        text=TEXT,
        command="python -m benchmarks s3",
        tables=[_table("save", saves, _SENT), _table("load", loads, {})],
        lines=[*_save_lines(saves), *_load_lines(loads)],
        bars=[
            Bars("Client CPU of a save", "CPU-seconds per GiB sent", {"": _per_gib(saves)}),
            Bars(f"Wall time, {SIZE // MIB} MiB", "seconds", {"save": _walls(saves), "load": _walls(loads)}),
        ],
    )


_SENT = {
    "ckptstore 4+2": SENT,
    "plain PUT of as many bytes": SENT,
    "plain PUT of three copies": float(COPIES),
    "DCP + s3fs": 1.0,
    "s3torchconnector": 1.0,
}


def _measure() -> tuple[dict[str, Figures], dict[str, Figures]]:
    torch.set_num_threads(2)
    with seaweed() as server:
        state = make_state(SIZE)
        plain = peers.Plain(server)
        return _saves(server, plain, state), _loads(server, plain, state)


def _saves(server: SeaweedServer, plain: peers.Plain, state: State) -> dict[str, Figures]:
    config = buckets(server)
    run = ckptstore.open(config).run("bench")
    steps = iter(range(1, 1000))

    def ours() -> None:
        run.save(state, step=next(steps))

    def clean() -> None:
        for target in shared(config).targets.values():
            target.delete([entry.path for entry in target.list("data/")])
        plain.clean()

    by_s3fs, _ = peers.dcp_s3fs(state, server, "s3://ckpt-a/s3fs")
    by_connector, _ = peers.s3torchconnector(state, server, "s3://ckpt-b/connector/")
    return take_turns(
        {
            "ckptstore 4+2": Contender(ours, after=clean),
            "plain PUT of as many bytes": Contender(plain.put(state, SENT), after=clean),
            "plain PUT of three copies": Contender(plain.put(state, float(COPIES)), after=clean),
            "DCP + s3fs": Contender(by_s3fs),
            "s3torchconnector": Contender(by_connector),
            "codec": Contender(_codec(state)),
        }
    )


def _loads(server: SeaweedServer, plain: peers.Plain, state: State) -> dict[str, Figures]:
    config = buckets(server)
    run = ckptstore.open(config).run("bench")
    run.save(state, step=5000)
    plain.put(state)()
    into = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    _, by_s3fs = peers.dcp_s3fs(into, server, "s3://ckpt-a/s3fs")
    _, by_connector = peers.s3torchconnector(into, server, "s3://ckpt-b/connector/")

    def ours() -> None:
        run.load(into, step=5000)

    def check() -> None:
        assert all(torch.equal(into[name], state[name]) for name in state)
        for tensor in into.values():
            tensor.zero_()

    hurt = _Hurt(config)
    return take_turns(
        {
            "ckptstore": Contender(ours, after=check),
            "ckptstore, m buckets gone": Contender(ours, before=hurt.lose, after=lambda: (hurt.heal(), check())),
            "plain GET": Contender(plain.get(into)),
            "DCP + s3fs": Contender(by_s3fs, after=check),
            "s3torchconnector": Contender(by_connector, after=check),
        }
    )


class _Hurt:
    """m of the store's buckets hold nothing for a while: their objects are under another key."""

    def __init__(self, config: Any) -> None:
        self._targets = [shared(config).targets[name] for name in NAMES[:M]]

    def lose(self) -> None:
        self._kept = [{entry.path: bytes(t.get(entry.path)) for entry in t.list("data/")} for t in self._targets]
        for target, objects in zip(self._targets, self._kept, strict=True):
            target.delete(list(objects))

    def heal(self) -> None:
        for target, objects in zip(self._targets, self._kept, strict=True):
            for path, data in objects.items():
                target.put(path, data)


def _codec(state: State) -> peers.Save:
    code, span = erasure.Code(K, M), 16 * MIB
    parity = [np.empty(span, np.uint8) for _ in range(M)]
    whole = [tensor.numpy().view(np.uint8) for tensor in state.values()]
    return lambda: [erasure.encode_stripe(code, each.reshape(code.k, -1), each.size, parity) for each in whole]


def _save_lines(found: dict[str, Figures]) -> list[Line]:
    ours = found["ckptstore 4+2"]
    least = found["plain PUT of as many bytes"].cpu + found["codec"].cpu
    per_gib = _per_gib(found)
    return [
        Line("save to S3: CPU / (plain PUT of as many bytes + codec)", ours.cpu / least, 1.3),
        Line("save to S3: CPU per GiB sent / DCP + s3fs", per_gib["ckptstore 4+2"] / per_gib["DCP + s3fs"], 0.7),
        Line(
            "save to S3: CPU per GiB sent / s3torchconnector",
            per_gib["ckptstore 4+2"] / per_gib["s3torchconnector"],
            0.8,
        ),
        Line("save to S3: wall / plain PUT of three copies", ours.wall / found["plain PUT of three copies"].wall, 0.6),
    ]


def _load_lines(found: dict[str, Figures]) -> list[Line]:
    ours, plain = found["ckptstore"], found["plain GET"]
    return [
        Line("load from S3: wall / plain GET", ours.wall / plain.wall, 1.1),
        Line("load from S3: wall / s3torchconnector", ours.wall / found["s3torchconnector"].wall, 0.6),
        Line("load from S3: wall, m buckets gone / healthy", found["ckptstore, m buckets gone"].wall / ours.wall, 1.5),
        Line("load from S3: CPU / plain GET", ours.cpu / plain.cpu, 1.5),
    ]


def _per_gib(found: dict[str, Figures]) -> dict[str, float]:
    gib = SIZE / (1024 * MIB)
    return {name: found[name].cpu / (sent * gib) for name, sent in _SENT.items()}


def _walls(found: dict[str, Figures]) -> dict[str, float]:
    return {name: figures.wall for name, figures in found.items()}


def _table(title: str, found: dict[str, Figures], sent: dict[str, float]) -> Table:
    head = ["", "wall s", "CPU-s", *(["states sent", "CPU-s per GiB sent"] if sent else [])]
    rows = []
    for name, figures in found.items():
        row = [name, f"{figures.wall:.2f}", f"{figures.cpu:.2f}"]
        if sent:
            row += [f"{sent[name]:.3g}", f"{_per_gib(found)[name]:.2f}"] if name in sent else ["", ""]
        rows.append(row)
    return Table(title, [head, *rows])
