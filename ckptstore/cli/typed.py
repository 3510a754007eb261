"""What is wrong with an argument of Python's, told by the option that was typed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ckptstore.errors import UsageError

__all__ = ["as_typed"]


@contextmanager
def as_typed(options: Mapping[str, str]) -> Iterator[None]:
    """A block in which a `UsageError` whose `key` is among `options` begins with the option."""
    try:
        yield
    except UsageError as error:
        option = options.get(error.fields.get("key", ""))
        if option is None:
            raise
        raise UsageError(f"{option}: {error.message}", hint=error.hint, **error.fields) from error
