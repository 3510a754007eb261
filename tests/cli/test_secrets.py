"""Credentials are in the environment, and nowhere else."""

import pickle
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from ckptstore.config import Config, TargetConfig
from ckptstore.errors import AccessDenied, CkptStoreError
from ckptstore.opened import Opened
from ckptstore.retention import Retention
from ckptstore.store import open_store
from tests.cli.support import Ckpt, write_tensors

SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIAKNOWNKEY00000001",
    "AWS_SECRET_ACCESS_KEY": "known-secret-0000000000000000000000000001",
    "AWS_SESSION_TOKEN": "known-token-00000000000000000000000000001",
    "AZURE_STORAGE_ACCOUNT_KEY": "a25vd24tYXp1cmUta2V5LTAwMDAwMDAwMDAwMDAwMDE=",
}


class Refusing(BaseHTTPRequestHandler):
    """An S3 server that refuses every credential."""

    def refuse(self):
        length = int(self.headers.get("content-length") or 0)
        self.rfile.read(length)
        body = b"<Error><Code>InvalidAccessKeyId</Code><Message>no such key</Message></Error>"
        self.send_response(403)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = refuse  # noqa: N815 - what http.server calls

    def log_message(self, *_arguments):
        """Nothing on stderr."""


@pytest.fixture
def endpoint():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def commands(folder):
    return [
        ["init"],
        ["doctor"],
        ["ls"],
        ["ls", "--all-runs"],
        ["log"],
        ["save", folder / "in.safetensors", "--step", "1"],
        ["restore", folder / "out"],
        ["verify"],
        ["repair"],
        ["tag", "1", "best"],
        ["delete", "1", "--yes"],
        ["prune", "--keep-last", "1"],
        ["undelete", "--step", "1"],
        ["prune", "--sweep", "--grace", "0", "--dry-run"],
        ["show", "1"],
        ["metrics"],
    ]


def hits(text):
    return [name for name, value in SECRETS.items() if value in text]


def test_o61_no_secret_where_credentials_are_refused(tmp_path, endpoint):
    ckpt = Ckpt(tmp_path)
    tables = [
        f'[[targets]]\nname = "{name}"\nurl = "s3://bucket-{name}/prefix"\n'
        f'options = {{ endpoint = "{endpoint}", region = "us-east-1", deadline = 2 }}\n'
        for name in "abcdef"
    ]
    ckpt.path.write_text('name = "store"\ncode = "4+2"\n' + "\n".join(tables))
    write_tensors(tmp_path / "in.safetensors")
    codes = {}
    for line in [*commands(tmp_path)[:3], *commands(tmp_path)[5:6], ["prune", "--sweep"]]:
        answer = ckpt.child(*line, "-vv", "--json", **SECRETS)
        assert not hits(answer.out + answer.err), line
        assert answer.summary["hint"]
        codes[line[0]] = answer.code
    assert codes == {"init": 12, "doctor": 12, "ls": 12, "save": 12, "prune": 12}


def test_o61_no_secret_in_what_is_printed_or_pickled_of_a_store(monkeypatch, endpoint):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    options = {"endpoint": endpoint, "region": "us-east-1", "deadline": 2}
    targets = [TargetConfig(name=name, url=f"s3://bucket-{name}/p", options=options) for name in "abc"]
    config = Config(name="store", code="2+1", targets=targets)
    store = open_store(config)
    target = Opened(config).targets["a"]
    with pytest.raises(AccessDenied) as denied:
        target.get("ckptstore.json")
    with pytest.raises(CkptStoreError) as refused:
        store.run("r").prune(Retention(keep_last=1))
    told = [repr(config), repr(store), repr(target), target.url]
    for error in (denied.value, refused.value):
        told += [repr(error), str(error), repr(error.fields), pickle.dumps(error).decode("latin-1")]
    told.append(pickle.dumps(config).decode("latin-1"))
    assert not hits("".join(told))


def test_o61_no_secret_in_what_is_stored_or_told_when_all_is_well(ckpt, monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    for line in commands(ckpt.folder):
        for options in (["-v"], ["-vv", "--json"]):
            answer = ckpt(*line, *options)
            assert not hits(answer.out + answer.err), line
    for path in ckpt.folder.rglob("*"):
        if path.is_file():
            assert not hits(path.read_bytes().decode("latin-1")), path


def test_o61_no_secret_in_a_crash(ckpt, monkeypatch):
    from ckptstore.operations import doctor

    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(doctor, "examine", lambda _opened: 1 / 0)
    answer = ckpt("doctor", "-v", "--json")
    assert "ZeroDivisionError" in answer.err
    assert not hits(answer.out + answer.err)


def test_o61_a_secret_in_the_settings_is_refused_and_not_repeated(tmp_path):
    ckpt = Ckpt(tmp_path)
    value = SECRETS["AWS_SECRET_ACCESS_KEY"]
    text = ckpt.path.read_text()
    for line in (
        f'url = "s3://b/p"\noptions = {{ secret_access_key = "{value}" }}',
        f'url = "s3://key:{value}@host/p"',
        f'url = "s3://b/p"\noptions = {{ endpoint = "http://u:{value}@127.0.0.1" }}',
    ):
        ckpt.path.write_text(text.replace('url = "a"', line))
        answer = ckpt("ls", "-v", "--json")
        assert (answer.code, answer.summary["kind"]) == (2, "ConfigError")
        assert value not in answer.out + answer.err


def test_an_unreachable_endpoint_is_out_of_reach(tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    ckpt = Ckpt(tmp_path)
    place = f'url = "s3://b/p"\noptions = {{ endpoint = "http://127.0.0.1:{port}", deadline = 0.5 }}'
    ckpt.path.write_text(ckpt.path.read_text().replace('url = "a"', place))
    assert ckpt.child("init", "--json", **SECRETS).summary["code"] == 5


def object_store(ckpt, options=""):
    tables = [f'[[targets]]\nname = "{name}"\nurl = "s3://bucket/{name}"\n{options}\n' for name in "abcdef"]
    ckpt.path.write_text('name = "store"\ncode = "4+2"\n' + "\n".join(tables))
    return ckpt


@pytest.mark.parametrize("line", [["ls"], ["doctor"], ["prune", "--sweep"], ["verify"]])
def test_o61_a_newline_in_a_credential_is_a_refusal_that_names_it(tmp_path, line):
    ckpt = object_store(Ckpt(tmp_path), 'options = { endpoint = "http://127.0.0.1:9", region = "us-east-1" }')
    answer = ckpt.child(*line, "-v", "--json", **{**SECRETS, "AWS_SESSION_TOKEN": SECRETS["AWS_SESSION_TOKEN"] + "\n"})
    told = answer.out + answer.err
    assert (answer.code, "AWS_SESSION_TOKEN" in told, "panicked" in told) == (12, True, False)
    assert answer.summary["code"] == 12
    assert not hits(told)


@pytest.mark.parametrize("line", [["ls"], ["doctor"], ["verify"]])
def test_o61_the_password_of_an_endpoint_in_the_environment_is_not_told(tmp_path, line):
    endpoint = "http://user:known-password-1@127.0.0.1:9"
    answer = object_store(Ckpt(tmp_path)).child(*line, "-v", "--json", **SECRETS, AWS_ENDPOINT_URL=endpoint)
    assert answer.summary["code"]
    assert "known-password-1" not in answer.out + answer.err


def test_a_panic_of_a_library_is_told_as_any_failure(ckpt, monkeypatch):
    from ckptstore.operations import doctor

    def panics(_opened):
        raise type("PanicException", (BaseException,), {})("at http://user:known-password-1@host")

    monkeypatch.setattr(doctor, "examine", panics)
    answer = ckpt("doctor", "-v", "--json")
    assert (answer.code, answer.summary["kind"]) == (1, "PanicException")
    assert "known-password-1" not in answer.out + answer.err
