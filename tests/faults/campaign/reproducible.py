"""A seed does the same each time: everything in one thread, and the random names of objects come from the seed.

Ten thousand injections then start no threads either.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from manifests import attempts, paths, registers


class InThisThread(Executor):
    """Does what it is given at once; `workers` is what a thread pool would have started."""

    def __init__(self, workers: int = 0, thread_name_prefix: str = "") -> None:
        super().__init__()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        done: Future = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it, as from any executor
            done.set_exception(error)
        return done


@contextmanager
def reproducible(rng: Random) -> Iterator[None]:
    """Within it the commit protocol makes its requests one by one, draws its names from `rng`, and hardly pauses."""
    names = SimpleNamespace(urandom=rng.randbytes)
    with (
        patch.object(registers, "ThreadPoolExecutor", InThisThread),
        patch.object(attempts, "PAUSE", 1e-6),
        patch.object(paths, "os", names),
    ):
        yield
