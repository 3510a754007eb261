"""The house: which room may import which, and that nobody imports what is heavy before it is needed."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

FLOORS = [
    {"errors", "events", "dtypes", "deadline", "redaction", "durations", "wording"},
    {"arguments", "listening"},
    {
        "placement",
        "names",
        "header",
        "retention",
        "objectives",
        "prices",
        "preemption",
        "refusals",
        "notices",
        "ending",
        "work",
    },
    {"config", "buffers", "protocolerrors", "planning", "telemetry"},
    {"targets", "tolerance"},
    {"save", "load", "identity", "sessions"},
    {"opened"},
    {"selection"},
    {"commit", "source", "checkpoint"},
    {"dcp", "operations"},
    {"formats", "state"},
    {"upkeep"},
    {"run"},
    {"store"},
    {"tolerant", "filesystem"},
    {"demo"},
    {"cli"},
    {"__main__"},
]
"""Of ckptstore, from the ground up. A room imports from floors below its own only, never from its neighbours."""

TORCH_ROOMS = (
    "ckptstore/save/snapshot.py",
    "ckptstore/load/scatter.py",
    "ckptstore/dcp/",
    "ckptstore/formats/torch_",
    "ckptstore/state/",
    "ckptstore/demo/",
)


def modules() -> Iterator[tuple[str, ast.Module]]:
    for package in ("erasure", "manifests", "ckptstore"):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.Module, *, at_import: bool = False) -> Iterator[str]:
    """Dotted names of modules that a file imports; only those that importing it imports, where `at_import`."""
    nodes = _top(tree) if at_import else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _top(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in tree.body:
        guarded = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not guarded:
            yield node


def floor_of(module: str) -> int | None:
    room = module.split(".")[1] if module.count(".") else ""
    return next((number for number, rooms in enumerate(FLOORS) if room in rooms), None)


def room_of(path: str) -> str:
    return path.split("/")[1].removesuffix(".py")


def test_imports_of_ckptstore_go_down_only():
    wrong = []
    for path, tree in modules():
        if not path.startswith("ckptstore/") or room_of(path) == "__init__":
            continue
        here = floor_of(f"ckptstore.{room_of(path)}")
        assert here is not None, f"{path} stands on no floor: add its room to FLOORS"
        for name in imported(tree):
            if name.startswith("ckptstore.") and name.split(".")[1] != room_of(path):
                there = floor_of(name)
                if there is not None and there >= here:
                    wrong.append(f"{path} imports {name}")
    assert not wrong


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [("erasure", ("manifests", "ckptstore")), ("manifests", ("erasure", "ckptstore"))],
)
def test_the_ground_floor_knows_nothing_of_the_rest(package, forbidden):
    wrong = [
        f"{path} imports {name}"
        for path, tree in modules()
        if path.startswith(f"{package}/")
        for name in imported(tree)
        if name.split(".")[0] in forbidden
    ]
    assert not wrong


def test_torch_stays_in_its_rooms():
    wrong = [
        path
        for path, tree in modules()
        if any(name.split(".")[0] == "torch" for name in imported(tree, at_import=True))
        and not path.startswith(TORCH_ROOMS)
    ]
    assert not wrong


@pytest.mark.parametrize(
    "module",
    [
        "ckptstore",
        "ckptstore.store",
        "ckptstore.operations.verify",
        "ckptstore.operations.repair",
        "ckptstore.cli",
        "ckptstore.filesystem",
    ],
)
def test_looking_at_a_store_does_not_import_torch(module):
    script = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_nothing_is_left_to_do():
    """No TODO, no FIXME in what a user can reach."""
    marks = ("TO" + "DO", "FIX" + "ME", "XXX")
    wrong = [path for path, _ in modules() if any(mark in (ROOT / path).read_text(encoding="utf-8") for mark in marks)]
    assert not wrong
