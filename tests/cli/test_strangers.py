"""What lies beside our objects, and how places may be spelled."""

import pytest

from tests.cli.support import Ckpt, write_tensors


def names_of(ckpt, *arguments):
    return [line["name"] for line in ckpt("ls", *arguments, "--json").summary["checkpoints"]]


def test_o22_only_committed_checkpoints_count_and_strangers_stay(ckpt):
    source = ckpt.folder / "in.safetensors"
    assert ckpt("save", source, "--step", 1).code == 0
    assert ckpt("save", source, "--step", 10).code == 0
    strangers = []
    for target in "abcdef":
        for folder in (ckpt.folder / target, ckpt.folder / target / "runs", ckpt.folder / target / "runs/default"):
            for name in ("step-10-tmp", "step-final", "12"):
                (folder / name).mkdir()
                strangers.append(folder / name)
            (folder / "notes.txt").write_text("mine")
            strangers.append(folder / "notes.txt")
    assert names_of(ckpt) == ["step-7", "step-1", "step-10"]
    assert ckpt("verify").code == 0
    assert ckpt("delete", "step-1", "--yes").code == 0
    assert names_of(ckpt) == ["step-7", "step-10"]
    assert ckpt("undelete", "step-1").code == 0
    assert names_of(ckpt) == ["step-7", "step-1", "step-10"]
    assert ckpt("repair").code == 0
    assert ckpt("prune", "--keep-last", 1, "--grace", "0", "--yes").code == 0
    assert names_of(ckpt) == ["step-10"]
    assert ckpt("verify", "--read-data").code == 0
    assert all(path.exists() for path in strangers)


def test_o22_an_unfinished_save_is_not_there(ckpt, monkeypatch):
    from ckptstore.operations import ingest

    def stop(*_arguments, **_named):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ingest.Commit, "finish", stop)
        assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 8).code == 130
    assert names_of(ckpt) == ["step-7"]
    assert ckpt("verify").code == 0
    events = [event["kind"] for event in ckpt("log", "--json").summary["events"]]
    assert events == ["opened", "begun", "committed", "opened", "begun"]


@pytest.mark.parametrize("form", ["{}", "{}/", "{}//", "file://{}", "file://{}/", "{}/../{name}", "file:///{}"])
def test_o08_one_place_however_it_is_spelled(ckpt, form):
    place = str(ckpt.folder / "a")
    spelled = form.format(place, name="a")
    text = ckpt.path.read_text().replace('url = "a"', f'url = "{spelled}"')
    ckpt.path.write_text(text)
    assert names_of(ckpt) == ["step-7"]
    assert ckpt("doctor").code == 0
    assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 8).code == 0
    assert (ckpt.folder / "a/data").is_dir()
    assert ckpt("verify", "--read-data").code == 0


def test_o08_what_doctor_and_show_print_names_the_same_place(ckpt):
    """URLs that are printed can be put into store.toml, and open the same store."""
    shown = {health["name"]: health["url"] for health in ckpt("doctor", "--json").summary["report"]["targets"]}
    text = ckpt.path.read_text()
    for name, url in shown.items():
        text = text.replace(f'url = "{name}"', f'url = "{url}"')
    other = ckpt.folder / "elsewhere"
    other.mkdir()
    (other / "store.toml").write_text(text)
    key = ckpt("show", "--json").summary["key"]
    assert ckpt("show", "--json", "--store", other / "store.toml").summary["key"] == key
    assert ckpt("show", key, "--json").summary["key"] == key


def test_odd_names_of_folders_are_names(tmp_path):
    odd = tmp_path / "my ckpts #1 [50%] ü"
    odd.mkdir()
    ckpt = Ckpt(odd)
    assert ckpt("init").code == 0
    write_tensors(odd / "in.safetensors")
    assert ckpt("save", odd / "in.safetensors", "--step", 7).code == 0
    assert names_of(ckpt) == ["step-7"]
    assert ckpt("restore", odd / "out file.safetensors").code == 0
    assert (odd / "out file.safetensors").exists()
