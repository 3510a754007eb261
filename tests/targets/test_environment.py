"""What the environment holds that no client can use, or that must not be told: credentials, regions, endpoints."""

import traceback

import pytest

from ckptstore.errors import AccessDenied, CkptStoreError, TargetUnusable
from ckptstore.redaction import redacted
from ckptstore.targets import Target, open_target

NOBODY = "http://127.0.0.1:9"
VALUE = "KNOWNVALUE0001"
GOOD = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "SECRET", "AWS_REGION": "us-east-1"}
AZURE = {"AZURE_STORAGE_ACCOUNT_NAME": "account", "AZURE_STORAGE_ACCOUNT_KEY": "a25vd24="}

VERBS = {
    "get": lambda target: target.get("a"),
    "get_into": lambda target: target.get_into("a", memoryview(bytearray(1))),
    "put": lambda target: target.put("a", b"1"),
    "large put": lambda target: target.put("a", bytes(2 << 20)),
    "put_if_absent": lambda target: target.put_if_absent("a", b"1"),
    "head": lambda target: target.head("a"),
    "list": lambda target: [*target.list("")],
    "list_folders": lambda target: target.list_folders(""),
}


def bare(url: str, **options: object) -> Target:
    """Without retries and health."""
    return open_target("a", url, options={"deadline": 1, **options}).inner.inner.inner


@pytest.fixture
def environment(monkeypatch):
    def put(**values: str) -> None:
        for name, value in {**GOOD, **values}.items():
            monkeypatch.setenv(name, value)

    return put


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\x01", "\x7f"])
@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"])
def test_a_control_character_in_a_credential_is_told_by_name(environment, client, name, end):
    environment(**{name: VALUE + end})
    target = bare("s3://bucket/p", endpoint=NOBODY, client=client)
    for verb, do in VERBS.items():
        with pytest.raises(AccessDenied) as told:
            do(target)
        assert name in told.value.message, verb
        assert told.value.hint
        assert VALUE not in "".join(traceback.format_exception(told.value))
    assert isinstance(target.delete(["a"])["a"], AccessDenied)


@pytest.mark.parametrize("name", [*AZURE, "AZURE_STORAGE_SAS_TOKEN"])
def test_azure_s_credentials_too(environment, name):
    environment(**{**AZURE, name: f"{VALUE}\n"})
    with pytest.raises(AccessDenied, match=name):
        bare("az://container/p", endpoint=NOBODY).get("a")


def test_another_service_s_credentials_are_none_of_a_target_s_business(environment, server):
    environment(AZURE_STORAGE_ACCOUNT_KEY="x\n")
    target = bare("s3://bucket/p", endpoint=server.endpoint)
    assert target.put_if_absent("a", b"1")


@pytest.mark.parametrize("verb", VERBS)
def test_a_panic_of_the_client_is_an_error_of_ours(environment, verb):
    """A value that isn't looked at before, of which the client makes no address."""
    environment(AWS_ENDPOINT="http://u: \n@127.0.0.1:9")
    with pytest.raises(AccessDenied) as told:
        VERBS[verb](bare("s3://bucket/p"))
    assert told.value.hint


@pytest.mark.parametrize("verb", VERBS)
def test_a_client_that_can_t_be_made_is_an_error_of_ours(environment, verb):
    environment(AWS_VIRTUAL_HOSTED_STYLE_REQUEST="neither")
    with pytest.raises(TargetUnusable):
        VERBS[verb](bare("s3://bucket/p", endpoint=NOBODY))


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
@pytest.mark.parametrize("verb", VERBS)
def test_o61_an_endpoint_s_password_is_not_told(environment, verb, client):
    """By the environment's endpoint; neither in the message nor in what a traceback prints of its causes."""
    environment(AWS_ENDPOINT_URL=f"http://user:{VALUE}@127.0.0.1:9")
    with pytest.raises(CkptStoreError) as told:
        VERBS[verb](bare("s3://bucket/p", client=client))
    assert VALUE not in "".join(traceback.format_exception(told.value))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("GET http://u:p@h:9/b?list-type=2&sig=x in 2 ms", "GET http://…@h:9/b?… in 2 ms"),
        ("'https://u:p/w@d@h/b'", "'https://…@h/b'"),
        ("(sftp://u@h/b) and http://h/b?token=x)", "(sftp://…@h/b) and http://h/b?…)"),
        ("http://h/b: is it there?", "http://h/b: is it there?"),
        (f"the key {VALUE}: no", "the key …: no"),
    ],
)
def test_o61_userinfo_queries_and_credentials_are_cut_out(environment, text, told):
    environment(AWS_SESSION_TOKEN=VALUE)
    assert redacted(text) == told
