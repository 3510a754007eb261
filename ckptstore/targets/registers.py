"""A target as a commit register: the few verbs that the commit protocol needs of it."""

from ckptstore.errors import AccessDenied, ObjectNotFound, TargetError
from ckptstore.targets.base import Target
from ckptstore.targets.retry import worth_another_try
from manifests.errors import Unavailable

__all__ = ["TargetRegister"]


class TargetRegister:
    """Adapts a `Target` to `manifests.Register`. Any failure is `manifests.Unavailable`, its cause the `TargetError`.

    It is `final` where another try is of no use: the protocol casts votes again for some seconds, else.

    A refused or full target is to the protocol what one out of reach is: it counts for nothing, and the
    others decide.
    """

    def __init__(self, target: Target) -> None:
        self.name = target.name
        self.target = target

    def get(self, path: str) -> bytes | None:
        """The object's bytes, or None where the target says that it has none."""
        try:
            return bytes(self.target.get(path))
        except ObjectNotFound:
            return None
        except TargetError as error:
            raise _unavailable(error) from error

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """True: created. False: something is there already."""
        try:
            return self.target.put_if_absent(path, data)
        except TargetError as error:
            raise _unavailable(error) from error

    def put(self, path: str, data: bytes) -> None:
        """Make the object hold `data`."""
        try:
            self.target.put(path, data)
        except TargetError as error:
            raise _unavailable(error) from error

    def list(self, prefix: str) -> list[str]:
        """Every path that starts with `prefix`."""
        try:
            return [entry.path for entry in self.target.list(prefix)]
        except TargetError as error:
            raise _unavailable(error) from error

    def delete(self, path: str) -> None:
        """Remove the object; none there is well."""
        for error in self.target.delete([path]).values():
            raise _unavailable(error) from error


def _unavailable(error: TargetError) -> Unavailable:
    final = not worth_another_try(error)
    refused = isinstance(error, AccessDenied)
    return Unavailable(error.message, register=error.target, path=error.path, final=final, refused=refused)
