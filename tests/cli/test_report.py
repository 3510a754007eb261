"""`ckpt report`: the page it leaves, what a person and a script are told, and its exit codes."""

import pytest

from tests.cli.support import write_tensors
from tests.operations.pages import Page

PROMISES = "[objectives]\nsurvive = 2\n"


def page_at(path) -> Page:
    return Page(path.read_bytes())


def test_a_page_and_the_next_command_for_a_person(ckpt):
    out = ckpt.folder / "out.html"
    answer = ckpt("report", "--out", out)
    assert answer.code == 0
    assert "1 checkpoint is good; 0 drills on record" in answer.out
    assert f"wrote {out}" in answer.err
    page = page_at(out)
    assert {state for state, _ in page.cells.values()} == {"good"}
    command = f"ckpt drill --run default --store {ckpt.path} --report-dir reports"
    assert command in page.commands
    assert f"next: {command}" in answer.err
    assert ckpt(*command.split()[1:3], "default", "--report-dir", ckpt.folder / "reports").code == 0
    answer = ckpt("report", "--out", out, "--reports", ckpt.folder / "reports")
    assert "1 drill on record" in answer.out
    assert "next:" not in answer.err
    assert "Nothing to do." in page_at(out).said


def test_json_tells_the_same_as_one_document_and_writes_no_page(ckpt):
    ckpt.write("4+2", "64KiB", PROMISES)
    ckpt.fragments("b")[0].unlink()
    answer = ckpt("report", "--json")
    assert len(answer.lines) == 1
    found = answer.summary
    assert (answer.code, found["format"], found["page"]) == (3, 1, None)
    (part,) = found["runs"]
    (row,) = part["rows"]
    cells = {cell["target"]: cell["state"] for cell in row["cells"]}
    assert cells == {**dict.fromkeys("abcdef", "good"), "b": "missing"}
    assert (row["state"], row["tolerance"]) == ("degraded", {"targets": 1, "domains": 1})
    assert part["next"][0]["do"].startswith("ckpt repair --run default")
    assert found["monthly"] == found["costs"]["stored"] / 1e9 * 0.023
    assert not [*ckpt.folder.glob("*.html")]


def test_exit_codes_are_verifys(ckpt):
    for target in "abc":
        ckpt.fragments(target)[0].unlink()
        page = ckpt.folder / "page.html"
        assert ckpt("report", "--out", page).code == ckpt("verify").code
    assert ckpt("report", "--out", page).code == 4
    ckpt.away("d")
    assert ckpt("report", "--out", page).code == ckpt("verify").code


def test_all_runs_are_each_told_of(ckpt):
    write_tensors(ckpt.folder / "in.safetensors", 9)
    assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 9, "--run", "other").code == 0
    out = ckpt.folder / "page.html"
    answer = ckpt("report", "--all-runs", "--out", out, "--json")
    assert [part["run"] for part in answer.summary["runs"]] == ["default", "other"]
    assert {name for name, _ in page_at(out).cells} == {"step-7", "step-9"}
    assert answer.summary["page"] == str(out)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--price", "-1"], "--price: price = -1.0"),
        (["--reports", "nowhere"], "--reports: reports = 'nowhere': no such folder"),
        (["--out", "nowhere/page.html"], "--out: out = 'nowhere/page.html'"),
    ],
)
def test_what_cant_be_is_2_and_names_the_option(ckpt, options, said):
    answer = ckpt("report", *options)
    assert answer.code == 2
    assert said in answer.err
    assert "next: " in answer.err


def test_store_toml_is_never_overwritten(ckpt):
    before = ckpt.path.read_bytes()
    assert ckpt("report", "--out", ckpt.path).code == 2
    assert ckpt.path.read_bytes() == before


def test_no_such_run_is_10(ckpt):
    answer = ckpt("report", "--run", "nosuch", "--out", ckpt.folder / "page.html")
    assert answer.code == 10
    assert not (ckpt.folder / "page.html").exists()
