"""`ckpt doctor`: what it tells a person to do next is what cures it."""

import pytest

from ckptstore.errors import AccessDenied, NoSpace
from ckptstore.targets import DirectoryTarget
from ckptstore.targets.posix import error_for
from localstack.faulty import FaultyServer
from tests.cli.support import Ckpt
from tests.faults.support import CREDENTIALS

READ_ONLY = OSError(30, "Read-only file system")


def next_of(answer):
    """What is said to be done next."""
    return answer.err.rpartition("next: ")[2].strip()


def refuse_puts(monkeypatch, names, why=READ_ONLY):
    """The file systems of these targets take no puts."""
    for verb in ("put", "put_if_absent"):
        real = getattr(DirectoryTarget, verb)

        def refusing(self, path, data, real=real):
            if self.name in names:
                raise error_for(why, self.name, path)
            return real(self, path, data)

        monkeypatch.setattr(DirectoryTarget, verb, refusing)


def test_two_directories_swapped_are_swapped_back_in_the_settings_not_repaired(ckpt):
    text = ckpt.path.read_text()
    swapped = text.replace('url = "c"', 'url = "x"').replace('url = "d"', 'url = "c"').replace('url = "x"', 'url = "d"')
    ckpt.path.write_text(swapped)
    answer = ckpt("doctor")
    assert answer.code == 1
    assert "in store.toml" in next_of(answer)
    assert "repair" not in next_of(answer)
    assert {"c", "d"} <= set(next_of(answer).replace(":", "").replace(",", "").split())


def test_a_target_that_was_replaced_is_to_be_taken_out_of_the_settings(ckpt):
    ckpt.away("a")
    ckpt.path.write_text(ckpt.path.read_text() + '[[targets]]\nname = "g"\nurl = "g"\n')
    answer = ckpt("repair", "--replace", "a=g")
    assert answer.code == 0
    assert "take a out of store.toml" in answer.out + answer.err
    assert "take a out of store.toml" in next_of(ckpt("doctor"))
    ckpt.path.write_text(ckpt.path.read_text().replace('[[targets]]\nname = "a"\nurl = "a"\n', ""))
    assert ckpt("doctor").code == 0


@pytest.mark.parametrize("names", ["abcdef", "a"])
def test_a_read_only_directory_is_no_matter_of_credentials_and_its_path_is_told(ckpt, monkeypatch, names):
    refuse_puts(monkeypatch, names)
    answer = ckpt("doctor")
    assert answer.code == AccessDenied.exit_code
    assert "mounted read-only" in next_of(answer)
    assert "credentials" not in next_of(answer)
    for name in names:
        assert f"{name} (file://{ckpt.folder / name}): " in answer.out
    assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 8).code == (12 if names == "abcdef" else 0)


def test_where_nothing_takes_puts_nothing_is_said_of_what_saving_survives(ckpt, monkeypatch):
    refuse_puts(monkeypatch, "abcdef")
    answer = ckpt("doctor")
    assert "0 of 6 targets good" in answer.out
    assert "loading the latest survives the loss of 2 more commit targets" in answer.out
    assert "saving is not possible now" in answer.out
    assert "saved now onto" not in answer.out


@pytest.mark.parametrize(("full", "said", "code"), [("abc", "survives the loss of 0", 0), ("abcd", "is not", 1)])
def test_what_is_said_of_saving_onto_targets_of_which_some_are_full_is_what_a_save_does(
    ckpt, monkeypatch, full, said, code
):
    refuse_puts(monkeypatch, full, why=OSError(28, "No space"))
    answer = ckpt("doctor")
    assert answer.code == NoSpace.exit_code
    assert f"saving {said}" in answer.out
    assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 8).code == code


def test_a_file_in_the_place_of_a_directory_is_told_as_a_file(ckpt):
    ckpt.away("a")
    (ckpt.folder / "a").write_text("a file")
    answer = ckpt("doctor")
    assert f"{ckpt.folder / 'a'} is not a directory" in answer.out
    assert "is not there" not in answer.out


def test_an_unreadable_directory_is_told_by_its_path(ckpt, monkeypatch):
    def refused(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("ckptstore.targets.posix.os.open", refused)
    answer = ckpt("doctor")
    assert answer.code == AccessDenied.exit_code
    assert f"{ckpt.folder / 'a'}: Permission denied" in answer.out
    assert "root" not in answer.out.replace(str(ckpt.folder), "")
    assert "owner and mode" in next_of(answer)


def test_a_directory_that_is_gone_is_mounted_or_replaced_by_another_target_of_the_settings(ckpt):
    ckpt.away("a")
    hint = next_of(ckpt("doctor"))
    assert "mount or restore it" in hint
    assert "a=URL" not in hint
    assert "ckpt init" not in hint
    assert "store.toml" in hint


@pytest.fixture
def buckets(tmp_path, monkeypatch):
    """A store on three buckets."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with FaultyServer(credentials=CREDENTIALS) as server:
        made = Ckpt(tmp_path, names="abc", code="2+1")
        made.path.write_text(made.path.read_text().replace('url = "', 'url = "s3://bucket/'))
        options = f'options = {{ endpoint = "{server.endpoint}", connect_timeout = 1.0, deadline = 0.5 }}\n'
        made.path.write_text(made.path.read_text().replace("[[targets]]\n", f"[[targets]]\n{options}"))
        assert made("init").code == 0
        yield made, server


def test_a_bucket_that_is_not_there_is_to_be_made(buckets):
    ckpt, server = buckets
    server.memory.buckets.clear()
    assert "make the bucket, or mend the target's url" in next_of(ckpt("doctor"))


def test_no_connection_names_the_endpoint(buckets):
    ckpt, server = buckets
    server.stop()
    answer = ckpt("doctor")
    assert answer.code == 5
    assert f"a (s3://bucket/a at {server.endpoint}): " in answer.out
    assert "check the endpoint and the network" in next_of(answer)
