"""No upload is ever begun in parts, so none can be left pending, unseen and paid for (case O58)."""

import pytest

from ckptstore.targets import open_target
from tests.targets.conftest import environment, stub  # noqa: F401 - fixtures
from tests.targets.http_stub import error

LARGE = 101 << 20  # s3fs by itself begins an upload of parts from 100 MiB on, obstore from 5 MiB on


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
def test_o58_a_put_is_one_request_whatever_its_size(client, stub):  # noqa: F811
    asked = []

    def script(method, path):
        asked.append((method, path.partition("?")[2]))
        return error(501, "NotImplemented") if "upload" in path or "partNumber" in path else None

    stub.script = script
    target = open_target("t", "s3://bucket/p", options={"client": client, "endpoint": stub.endpoint, "timeout": 60.0})
    target.put("data/large", bytes(LARGE))
    assert target.put_if_absent("m/1", bytes(LARGE // 16))
    assert [method for method, _ in asked if method in {"PUT", "POST"}] == ["PUT", "PUT"]
    assert not [query for _, query in asked if "upload" in query or "partNumber" in query]
    assert len(stub.objects["/bucket/p/data/large"]) == LARGE
