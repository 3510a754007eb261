"""What a repair would cost and what a month costs, at the prices of store.toml; a missing one is named."""

import pytest

from tests.cli.support import Ckpt, write_tensors
from tests.operations.pages import Page

PRICES = """[prices]
storage = 1000.0
puts = 7.0
gets = 3.0
egress = 200.0
ingress = 100.0
[prices.targets.f]
storage = 5000.0
egress = 400.0
"""


@pytest.fixture
def ckpt(tmp_path):
    """One checkpoint on a to f, each a domain: the job is where a is. b has lost all that it had."""
    found = Ckpt(tmp_path)
    write_tensors(tmp_path / "in.safetensors")
    assert found("init").code == 0
    assert found("save", tmp_path / "in.safetensors", "--step", 7).code == 0
    return found


def crossing(sizes, prices=(0, 200, 200, 200, 200, 400)):
    """Dollars for bytes read from each of a to f."""
    return sum(sizes.get(name, 0) * price for name, price in zip("abcdef", prices, strict=True)) / 1e9


def test_a_dry_run_says_what_a_repair_costs(ckpt):
    ckpt.write("4+2", "64KiB", PRICES)
    lost = ckpt.fragments("b")
    for path in lost:
        path.unlink()
    told = ckpt("repair", "--dry-run", "--json")
    found = told.summary
    there = {name: sum(path.stat().st_size for path in ckpt.fragments(name)) for name in "abcdef"}
    checked = sum(len(ckpt.fragments(name)) for name in "abcdef")
    assert found["cost"]["missing"] == []
    assert found["cost"]["check"] == pytest.approx(crossing(there) + checked / 1000 * 3)
    moved = crossing(found["reads"]) + found["writes"]["b"] / 1e9 * 100
    reads = sum(found["reads"].values())
    assert 0 < reads < sum(there.values())
    requests = len(lost) / 1000 * (7 + 5 * 3)  # for each a PUT, a GET in vain and those of four others
    assert found["cost"]["repair"] == pytest.approx(moved + requests)
    assert "cost of that: $0." in ckpt("repair", "--dry-run").out
    done = ckpt("repair", "--json")
    assert (done.code, done.summary["cost"]) == (0, None)


def test_what_is_not_known_is_named(ckpt):
    ckpt.fragments("b")[0].unlink()
    everything = [f"prices.{name}" for name in ("egress", "gets", "ingress", "puts")]
    assert ckpt("repair", "--dry-run", "--json").summary["cost"] == {
        "repair": None,
        "check": None,
        "missing": everything,
    }
    ckpt.write("4+2", "64KiB", "[prices]\negress = 0.1\ngets = 0.0\nputs = 0.0\n")
    found = ckpt("repair", "--dry-run", "--json").summary["cost"]
    assert (found["repair"], found["missing"]) == (None, ["prices.ingress"])
    assert found["check"] > 0
    assert "cost of that: unknown, prices missing: prices.ingress; of the check" in ckpt("repair", "--dry-run").out


def test_nothing_to_do_costs_the_check_only(ckpt):
    ckpt.write("4+2", "64KiB", PRICES)
    found = ckpt("repair", "--dry-run", "--json")
    assert (found.code, found.summary["cost"]["repair"]) == (0, 0)
    assert found.summary["cost"]["check"] > 0


def test_a_report_reckons_with_the_price_of_each_target(ckpt):
    ckpt.write("4+2", "64KiB", PRICES)
    out = ckpt.folder / "page.html"
    found = ckpt("report", "--out", out, "--json").summary
    on = found["runs"][0]["rows"][0]["stored_on"]
    assert sum(on.values()) == found["costs"]["stored"]
    assert found["monthly"] == pytest.approx(sum(on.values()) / 1e9 * 1000 + on["f"] / 1e9 * 4000)
    page = Page(out.read_bytes())
    assert "Dollars a month for what is there now, by the time it was saved" in page.said
    assert "those below [prices] in store.toml" in page.said
    assert ckpt("report", "--price", 2, "--json").summary["monthly"] == pytest.approx(sum(on.values()) / 1e9 * 2)


def test_a_report_names_the_price_that_is_missing(ckpt):
    ckpt.write("4+2", "64KiB", "[prices]\ngets = 0.0\n")
    out = ckpt.folder / "page.html"
    found = ckpt("report", "--out", out, "--json")
    assert found.code == 0
    assert (found.summary["monthly"], found.summary["costs"]["restore"]) == (None, None)
    assert found.summary["costs"]["missing"] == ["egress", "storage"]
    assert "cost unknown, prices missing: egress and storage" in ckpt("report", "--out", out).out
    page = Page(out.read_bytes())
    assert "prices missing below [prices] in store.toml: egress, storage" in page.said
    assert "Dollars a month" not in page.said
