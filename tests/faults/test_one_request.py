"""No upload is ever begun in parts, so none can be left pending, unseen and paid for (case O58)."""

import pytest

from ckptstore.targets import open_target
from localstack.faulty import FaultyServer
from tests.faults.support import CREDENTIALS

LARGE = 101 << 20  # s3fs by itself begins an upload of parts from 100 MiB on, obstore from 5 MiB on


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
def test_o58_a_put_is_one_request_whatever_its_size(client):
    with FaultyServer(credentials=CREDENTIALS) as server:
        options = {"client": client, "endpoint": server.endpoint, "timeout": 60.0}
        target = open_target("t", "s3://bucket/p", options=options)
        target.put("data/large", bytes(LARGE))
        assert target.put_if_absent("m/1", bytes(LARGE // 16))
        assert [request.operation for request in server.log if request.method != "GET"] == ["PutObject", "PutObject"]
        assert not [request.query for request in server.log if {"uploads", "uploadId", "partNumber"} & {*request.query}]
        assert len(server.objects["p/data/large"]) == LARGE
