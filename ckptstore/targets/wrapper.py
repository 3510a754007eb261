"""A target around a target: what retries, health, faults and meters have in common."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from ckptstore.errors import TargetError
from ckptstore.targets.base import Buffer, Entry, Target

__all__ = ["Wrapper"]

T = TypeVar("T")


class Wrapper(Target):
    """Passes every verb on to `inner` by way of `call`, which is what a wrapper overrides.

    A listing is collected before it is handed out: a wrapper can begin it again without giving an entry
    twice.
    """

    def __init__(self, inner: Target) -> None:
        super().__init__(inner.name, can_put_if_absent=inner.can_put_if_absent)
        self.inner = inner

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.inner!r}>"

    @property
    def url(self) -> str:
        """Where the inner target is."""
        return self.inner.url

    def call(self, verb: str, path: str, operation: Callable[[], T]) -> T:
        """Do `operation`, which is `verb` on `path` of the inner target. The first path, where there are many."""
        raise NotImplementedError

    def get(self, path: str, *, start: int = 0, length: int | None = None) -> Buffer:
        """As the inner target's."""
        return self.call("get", path, lambda: self.inner.get(path, start=start, length=length))

    def get_into(self, path: str, into: memoryview, *, start: int = 0) -> None:
        """As the inner target's."""
        self.call("get_into", path, lambda: self.inner.get_into(path, into, start=start))

    def put(self, path: str, data: Buffer | Sequence[Buffer]) -> None:
        """As the inner target's."""
        self.call("put", path, lambda: self.inner.put(path, data))

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """As the inner target's."""
        return self.call("put_if_absent", path, lambda: self.inner.put_if_absent(path, data))

    def head(self, path: str) -> Entry:
        """As the inner target's."""
        return self.call("head", path, lambda: self.inner.head(path))

    def list_folders(self, prefix: str) -> Sequence[str]:
        """As the inner target's."""
        return self.call("list_folders", prefix, lambda: self.inner.list_folders(prefix))

    def delete(self, paths: Sequence[str]) -> Mapping[str, TargetError]:
        """As the inner target's."""
        return self.call("delete", paths[0] if paths else "", lambda: self.inner.delete(paths))

    def create_root(self) -> None:
        """As the inner target's."""
        self.inner.create_root()

    def kinds(self) -> Iterator[tuple[str, str]]:
        """As the inner target's, but read to its end first."""
        return iter(self.call("list", "", lambda: [*self.inner.kinds()]))

    def close(self) -> None:
        """As the inner target's."""
        self.inner.close()

    def list(self, prefix: str) -> Iterator[Entry]:
        """As the inner target's, but read to its end first."""
        return iter(self.call("list", prefix, lambda: [*self.inner.list(prefix)]))
