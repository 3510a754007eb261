"""Two ranks of one job, each with a registry and an endpoint of its own, as docs/metrics.md has it."""

import json
import urllib.request
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from prometheus_client import parser
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard, distribute_tensor

import ckptstore
from ckptstore import telemetry
from ckptstore.config import Config
from tests.dcp.ranks import start_ranks
from tests.support import make_store

WORLD = 2
ROWS = 100_000


def work(rank: int, folder: str, config: Config) -> None:
    """Save and load, and leave what this rank's endpoint answers."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=WORLD)
    mesh = DeviceMesh("cpu", list(range(WORLD)))
    state = {"w": distribute_tensor(torch.arange(ROWS, dtype=torch.float32), mesh, [Shard(0)])}
    metrics = telemetry.PrometheusObserver()
    telemetry.observe(metrics)
    run = ckptstore.open(config).run("r")
    run.save(state, step=1)
    run.save_async(state, step=2).result()
    run.load(state)
    server = telemetry.serve(metrics.registry, "127.0.0.1:0")
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=30) as answer:
        families = list(parser.text_string_to_metric_families(answer.read().decode()))
    server.close()
    found = [(sample.name, sample.labels, sample.value) for family in families for sample in family.samples]
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def total(samples, name, **labels):
    return sum(value for found, its, value in samples if found == name and labels.items() <= its.items())


@pytest.mark.soak
def test_each_rank_tells_of_all_saves_and_of_its_own_bytes(tmp_path):
    config = make_store(tmp_path / "store").config
    start_ranks(work, (str(tmp_path), config), WORLD)
    each = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(WORLD)]
    for samples in each:
        assert total(samples, "ckptstore_save_seconds_count", run="r") == 2
        assert total(samples, "ckptstore_load_seconds_count", run="r") == 1
        half = total(samples, "ckptstore_bytes_total", work="save") / 2
        assert ROWS * 4 / WORLD <= half < 1.2 * ROWS * 4 / WORLD
        assert total(samples, "ckptstore_target_requests_total", outcome="ok") > 0
        assert total(samples, "ckptstore_save_seconds_sum", run="r") > 0
