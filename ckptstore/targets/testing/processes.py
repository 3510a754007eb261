"""A target in other processes: by its own client, or not at all."""

import multiprocessing
import os
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from ckptstore.errors import CkptStoreError, ForkedClient
from ckptstore.targets.base import Target
from ckptstore.targets.opening import open_target
from ckptstore.targets.testing.place import Place

__all__ = ["ProcessTests"]

FORK_SECONDS = 30


class ProcessTests(Place):
    """Forked and spawned children, and targets opened again."""

    def test_o48_a_forked_child_reads_or_refuses(self, target: Target) -> None:
        """Never hangs, never reads something else; the parent's client goes on."""
        target.put("a", b"from the parent")
        context = multiprocessing.get_context("fork")
        for _ in range(4):
            assert _ask(context, _read, target) in {b"from the parent", "ForkedClient"}
        assert bytes(target.get("a")) == b"from the parent"

    def test_o48_a_spawned_child_opens_its_own(self, target: Target, opening: Mapping[str, Any]) -> None:
        """What the parent put is there, unless the place is the parent's memory."""
        target.put("a", b"from the parent")
        found = _ask(multiprocessing.get_context("spawn"), _open_and_read, opening)
        own_memory = "memory://" in target.url
        assert found in ({"ObjectNotFound", "TargetUnavailable"} if own_memory else {b"from the parent"})

    def test_the_url_opens_the_same_place(self, target: Target, opening: Mapping[str, Any]) -> None:
        """Ids round-trip, and neither url nor repr holds a secret of the environment."""
        target.put("a", b"x")
        again = open_target(**{**opening, "url": target.url})
        assert bytes(again.get("a")) == b"x"
        secret = os.environ.get("AWS_SECRET_ACCESS_KEY") or "no secret here"
        assert secret not in target.url + repr(target)


def _ask(context: Any, function: Any, argument: object) -> object:
    """What `function` sends from a child process. Fails the test if it takes 30 s."""
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=function, args=(argument, sender), daemon=True)
    child.start()
    try:
        assert receiver.poll(FORK_SECONDS), "the child hangs"
        return receiver.recv()
    finally:
        child.kill()
        child.join()


def _read(target: Target, answer: Connection) -> None:
    try:
        answer.send(bytes(target.get("a")))
    except ForkedClient as error:
        answer.send(error.kind)


def _open_and_read(opening: Mapping[str, Any], answer: Connection) -> None:
    try:
        answer.send(bytes(open_target(**opening).get("a")))
    except CkptStoreError as error:
        answer.send(error.kind)
