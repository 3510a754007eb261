"""The page on a store: what it says of each checkpoint on each target is what verify says, and it is one page."""

import json
import os
import re
import resource
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pytest

from ckptstore.errors import NotFoundError, UsageError
from ckptstore.objectives import Objectives
from ckptstore.operations.drill import Round, drill
from ckptstore.operations.marking import delete
from ckptstore.operations.report import report
from ckptstore.operations.report.charts import Line, line_chart
from ckptstore.operations.subsets import Subset
from ckptstore.operations.verify import Looking, look, verify
from ckptstore.run import Run
from ckptstore.selection import Selector
from ckptstore.store import Store
from tests.operations.digests import digests
from tests.operations.pages import Page
from tests.support import RUN, make_store, random_bytes

NASTY = "<script>alert('$x')</script>&\"><b onload=x>"
DOMAINS = {"a": "east", "b": "east", "c": "west", "d": "west", "e": "south", "f": "south"}
KINDS = {"missing": "missing", "short": "corrupt", "corrupt": "corrupt", "unreachable": "unreachable"}


def new_store(root, **settings):
    settings = {"domains": DOMAINS, "objectives": Objectives(survive=2, survive_domains=1), **settings}
    store = make_store(root / "targets", **settings)
    for step in (1, 2, 3):
        store.save({"w": random_bytes(600_000, step), "b": np.arange(17.0)}, step=step, ranks=2)
    return store


@pytest.fixture
def store(tmp_path):
    return new_store(tmp_path)


def page_of(store, tmp_path, **options):
    found = report(store.config, RUN, tmp_path / "page.html", **options)
    return found, Page((tmp_path / "page.html").read_bytes())


def expected_cells(store, found, *, read_data=False) -> dict[tuple[str, str], str]:
    """By verify's findings, and by where the records say that fragments are."""
    checked = look(store.opened, RUN, None, Looking(read=Subset.of(1.0) if read_data else None, keep=True))
    cells = {}
    for health in checked.checkpoints:
        for target in found.targets:
            kinds = [finding.kind for finding in health.findings if finding.target == target]
            states = [KINDS[kind] for kind in kinds if kind in KINDS]
            worst = min(states, key=["corrupt", "missing", "unreachable"].index, default="")
            has = any(stripe.home(f) == target for s in health.shards for stripe in s.stripes for f in range(6))
            cells[health.name, target] = worst or ("retired" if "retired" in kinds else "good" if has else "nothing")
    return cells


def states(page) -> dict[tuple[str, str], str]:
    return {place: state for place, (state, _) in page.cells.items()}


# -- the heat map ----------------------------------------


def test_a_sound_store(store, tmp_path):
    before = digests(store.root)
    found, page = page_of(store, tmp_path)
    assert digests(store.root) == before
    assert {*states(page).values()} == {"good"}
    assert len(page.cells) == 3 * 6
    assert found.exit_code == 0
    assert "All 3 checkpoints are good." in page.said
    manifest = store.opened.group.history(RUN).checkpoints[1].manifest
    held = [fragment for shard in (0, 1) for fragment in store.fragments(manifest, shard) if fragment.target == "a"]
    _, told = page.cells["step-2", "a"]
    assert told.startswith(f"step-2 on a: good; to be there: {len(held)} fragments, ")
    assert told.endswith("manifest")


@pytest.mark.parametrize("read_data", [False, True])
def test_every_cell_is_what_verify_says(store, tmp_path, read_data):
    one, two, three = (store.opened.group.history(RUN).checkpoints[n].manifest for n in range(3))
    store.remove(store.fragment(one, 0))
    store.truncate(store.fragment(two, 1))
    store.flip(store.fragment(three, 2))
    found, page = page_of(store, tmp_path, read_data=read_data)
    cells = states(page)
    assert cells == expected_cells(store, found, read_data=read_data)
    assert cells["step-1", store.fragment(one, 0).target] == "missing"
    assert cells["step-2", store.fragment(two, 1).target] == "corrupt"
    assert cells["step-3", store.fragment(three, 2).target] == ("corrupt" if read_data else "good")
    assert sum(state != "good" for state in cells.values()) == 2 + read_data
    assert found.exit_code == verify(store.opened, RUN, read_data=read_data).exit_code == 3
    assert "amiss: missing fragment" in page.cells["step-1", store.fragment(one, 0).target][1]
    assert f"ckpt repair --run {RUN}" in page.commands
    assert "would survive less than is promised" in page.said


def test_out_of_reach_is_neither_missing_nor_good(store, tmp_path):
    store.take_away("d")
    found, page = page_of(store, tmp_path)
    assert states(page) == expected_cells(store, found)
    assert {state for (_, target), state in states(page).items() if target == "d"} == {"unreachable"}
    assert page.commands[0] == f"ckpt doctor --run {RUN}"


def test_a_wiped_target_is_missing(store, tmp_path):
    store.wipe("d")
    found, page = page_of(store, tmp_path)
    assert states(page) == expected_cells(store, found)
    assert {state for (_, target), state in states(page).items() if target == "d"} == {"missing"}


def test_retired_and_nothing_there(tmp_path):
    store = new_store(tmp_path, spare=["g", "h"])
    store.repair(selector=Selector(step=3), replace={"a": "g"})
    store.opened.close()
    _, page = page_of(store, tmp_path)
    cells = states(page)
    assert [cells["step-1", target] for target in "agh"] == ["retired", "good", "nothing"]
    assert page.cells["step-1", "g"][1].endswith("to be there: manifest")
    assert (cells["step-3", "g"], cells["step-3", "h"]) == ("good", "nothing")
    assert "still on a target that another has taken the place of" in page.said


def test_lost_says_what_still_loads(store, tmp_path):
    three = store.latest()
    for number in range(3):
        store.remove(store.fragment(three, number))
    found, page = page_of(store, tmp_path)
    assert (found.exit_code, states(page)) == (4, expected_cells(store, found))
    assert "1 of 3 checkpoints can't be loaded any more." in page.said
    assert page.commands[:2] == [f"ckpt repair --run {RUN}", f"ckpt restore DEST --step 2 --run {RUN}"]


def test_without_records_nobody_claims_to_know(store, tmp_path):
    three = store.latest()
    for shard in store.index(three).shards:
        for target in shard.record.targets:
            store.raw[target].delete([shard.record.path])
    found, page = page_of(store, tmp_path)
    holding = {target for shard in store.index(three).shards for target in shard.record.targets}
    row = {target: state for (name, target), state in states(page).items() if name == "step-3"}
    assert row == {target: "missing" if target in holding else "unknown" for target in DOMAINS}
    assert found.runs[0].rows[-1].stored is None
    assert "1 checkpoint not counted" in page.said


def test_a_checkpoint_of_which_no_manifest_is_left(store, tmp_path):
    for name in DOMAINS:
        for entry in store.raw[name].list(f"runs/{RUN}/commit/"):
            if "/manifests/" in entry.path and "00000002" in entry.path:
                store.raw[name].put(entry.path, b"rubbish")
    expected = verify(store.opened, RUN)
    found, page = page_of(store, tmp_path)
    assert found.exit_code == expected.exit_code
    assert [row.state for row in found.runs[0].rows] == [health.state for health in expected.checkpoints]
    assert {row.name for row in found.runs[0].rows} == {name for name, _ in page.cells}


def test_deleted_ones_are_last_and_called_so(store, tmp_path):
    delete(store.opened, RUN, Selector(step=3))
    found, page = page_of(store, tmp_path)
    assert list(dict.fromkeys(name for name, _ in page.cells)) == ["step-2", "step-1", "step-3"]
    assert found.costs.deleted == next(row.stored for row in found.runs[0].rows if row.deleted) > 0
    assert "step-3 good deleted" in page.said
    assert "until a prune removes it" in page.said


def test_what_is_deleted_meanwhile_is_no_damage(store, tmp_path):
    for checkpoint in store.opened.group.history(RUN).checkpoints:
        store.remove(store.fragment(checkpoint.manifest, 0))
    left = [1, 2, 3]

    def meanwhile(_event):
        while left:
            delete(store.opened, RUN, Selector(step=left.pop()))

    found, page = page_of(store, tmp_path, observer=meanwhile)
    assert found.exit_code == 11
    assert "Every checkpoint was deleted while it was looked at." in page.said
    assert f"Run {RUN} changed" in page.said
    assert page.commands[0] == f"ckpt ls --run {RUN}"


# -- margin, growth, cost ----------------------------------------


def test_margin_is_verifys_tolerance_beside_the_objectives(store, tmp_path):
    store.remove(store.fragment(store.latest(), 0))
    found, page = page_of(store, tmp_path)
    checked = {health.name: health.tolerance for health in verify(store.opened, RUN).checkpoints}
    assert {row.name: row.tolerance for row in found.runs[0].rows} == checked
    assert [found.misses(row) for row in found.runs[0].rows] == [False, False, True]
    assert page.said.count("less than promised") == 1
    assert "any 2 targets, any 1 domain" in page.said


def test_without_objectives_nothing_is_promised(tmp_path):
    store = new_store(tmp_path, objectives=Objectives())
    _, page = page_of(store, tmp_path)
    assert "so nothing is promised" in page.said
    assert "less than promised" not in page.said


def test_an_old_newest_misses_the_rpo(tmp_path):
    store = new_store(tmp_path, objectives=Objectives(rpo=0.001))
    found, page = page_of(store, tmp_path)
    assert found.late == [RUN]
    assert f"the newest of {RUN} is older than is promised" in page.said
    assert found.exit_code == 0


def test_what_is_stored_is_what_lies_on_the_targets(store, tmp_path):
    found, page = page_of(store, tmp_path, price=2.0)
    held = [(path, data) for (_, path), data in store.objects().items()]
    data = sum(len(data) for path, data in held if path.startswith("data/"))
    documents = sum(len(data) for path, data in held if re.match(rf"runs/{RUN}/(index|shards)/", path))
    assert found.costs.stored == data + documents
    assert found.costs.logical == sum(row.bytes for row in found.runs[0].rows)
    assert found.costs.monthly == pytest.approx(found.costs.stored / 1e9 * 2.0)
    assert 1.5 <= found.costs.overhead < 1.6
    assert "at $2 a GB and month" in page.said


def test_a_chart_has_axes_and_its_points_in_order():
    day = datetime(2026, 1, 1, tzinfo=UTC)
    points = [(day + timedelta(days=2 * n), float(value)) for n, value in enumerate((10, 20, 45))]
    drawn = line_chart("Bytes", [Line("stored", "first", points)], lambda value: f"{value:g} B")
    assert '<polyline points="0.00,80.00 50.00,60.00 100.00,10.00"/>' in drawn
    assert "<span>50 B</span><span>25 B</span><span>0 B</span>" in drawn
    assert "<span>2026-01-01</span><span>2026-01-05</span>" in drawn
    assert 'aria-label="Bytes"' in drawn


def test_a_chart_of_one_point_and_of_zeros():
    day = datetime(2026, 1, 1, tzinfo=UTC)
    drawn = line_chart("Bytes", [Line("stored", "first", [(day, 0.0)])], lambda value: f"{value:g}")
    assert '<polyline points="50.00,100.00"/>' in drawn


# -- drills ----------------------------------------


def test_never_drilled_says_what_to_type(store, tmp_path):
    _, page = page_of(store, tmp_path)
    assert "No drill was ever done" in page.said
    assert f"ckpt drill --run {RUN} --report-dir reports" in page.commands


def test_drills_are_told_and_what_is_none_is_named_and_skipped(store, tmp_path):
    folder = tmp_path / "reports"
    for lost in (2, 3):
        drill(store.config, RUN, rounds=[Round(lose=lost)], report_dir=folder)
    first, _ = sorted(folder.glob("drill-*.json"))
    good = json.loads(first.read_text())
    others = {
        "format": json.dumps({**good, "format": 2}),
        "store": json.dumps({**good, "store": NASTY}),
        "time": json.dumps({**good, "began": "2026-01-01T00:00:00"}),
        "types": json.dumps({**good, "rounds": 7}),
        "cut": json.dumps(good)[:-20],
        "binary": "\udcff\udcfe",
        "list": "[1]",
    }
    for name, text in others.items():
        (folder / f"drill-{name}.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    os.mkfifo(folder / "drill-pipe.json")
    (folder / "drill-gone.json").symlink_to("nowhere")
    (folder / "notes.json").write_text("{}")
    found, page = page_of(store, tmp_path, reports=folder)
    assert [each.exit_code for each in found.drills.found] == [0, 4]
    assert {*found.drills.skipped} == {f"drill-{name}.json" for name in [*others, "pipe", "gone"]}
    assert "format 2" in found.drills.skipped["drill-format.json"]
    assert NASTY in page.said
    assert all(name in page.said for name in found.drills.skipped)
    assert "survive: pass" in page.said
    assert "0 of 1 restores came back" in page.said
    assert "The last drill did not pass" in page.said


def test_hostile_names_are_text(tmp_path):
    store = new_store(tmp_path, domains={**DOMAINS, "f": NASTY})
    store.opened.group.supersede(msgspec.structs.replace(store.latest(), kind="repair", name=NASTY))
    folder = tmp_path / "reports"
    drill(store.config, RUN, rounds=[Round(name=NASTY, lose=1)], report_dir=folder)
    (path,) = folder.glob("drill-*.json")
    text = path.read_text()
    path.write_text(text.replace('"how": "', f'"how": {json.dumps(NASTY + chr(27))[:-1]}'))
    _, page = page_of(store, tmp_path, reports=folder)
    assert (NASTY, "f") in page.cells
    assert "\x1b" not in page.said
    assert page.said.count(NASTY) >= 4
    assert "alert" not in "".join(page.links)


# -- the file, and what can't be ----------------------------------------


def test_never_half_a_page(store, tmp_path):
    out = tmp_path / "page.html"
    report(store.config, RUN, out)
    before = out.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            report(store.config, RUN, out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert out.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"targets", "page.html"}


def test_no_secret_is_repeated(store, tmp_path):
    folder = tmp_path / "reports"
    drill(store.config, RUN, rounds=[Round(lose=1)], report_dir=folder)
    (path,) = folder.glob("drill-*.json")
    stored = json.loads(path.read_text())
    stored["rounds"][0]["faults"]["how"] = "by https://user:hunter2@host/?X-Amz-Signature=hunter3"
    path.write_text(json.dumps(stored))
    (folder / "drill-other.json").write_text(json.dumps({**stored, "store": "https://user:hunter4@host/"}))
    found, page = page_of(store, tmp_path, reports=folder)
    assert "https://…@host/" in page.said
    assert "hunter" not in (tmp_path / "page.html").read_text() + repr(found.drills.skipped)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"price": -1.0}, "price"),
        ({"price": float("nan")}, "price"),
        ({"price": True}, "price"),
        ({"reports": "nowhere"}, "reports"),
        ({"out": "nowhere/page.html"}, "out"),
        ({"out": "other.txt"}, "out"),
        ({"out": "."}, "out"),
    ],
)
def test_what_cant_be_is_told_before_anything_is_looked_at(store, tmp_path, options, key):
    (tmp_path / "other.txt").write_text("mine")
    given = {name: tmp_path / value if isinstance(value, str) else value for name, value in options.items()}
    store.take_away(*DOMAINS)
    with pytest.raises(UsageError) as raised:
        Run(store.config, RUN).report(**given)
    assert raised.value.fields["key"] == key
    assert key in raised.value.message
    assert raised.value.hint
    assert (tmp_path / "other.txt").read_text() == "mine"


def test_all_runs_of_a_store_and_one_that_is_not(store, tmp_path):
    found = Store(store.config).report(tmp_path / "page.html")
    assert [part.run for part in found.runs] == [RUN]
    assert Page((tmp_path / "page.html").read_bytes()).cells
    with pytest.raises(NotFoundError, match="nosuch"):
        Run(store.config, "nosuch").report()


def test_a_run_that_cant_be_looked_at_is_told_of(store, tmp_path):
    store.take_away("a", "b", "c", "d")
    found, page = page_of(store, tmp_path)
    assert found.exit_code == 5
    assert found.runs[0].error
    assert "1 of 1 run could not be looked at." in page.said
    assert page.commands[0].startswith("ckpt doctor")
