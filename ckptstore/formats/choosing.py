"""What of a checkpoint is exported, and under which names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ckptstore.errors import NotFoundError, UnsupportedValue
from ckptstore.operations.folder import FILES, whole_name
from ckptstore.operations.restore import is_object, matches, stored_files
from ckptstore.source import Source

SHOWN = 5

__all__ = ["Chosen", "check_dtypes", "choose"]


@dataclass(frozen=True)
class Chosen:
    """Tensors and objects by their keys, in the index's order.

    `prefix` is taken off their names. `kept`: paths of files that were saved whole. `listed`: tensors in the order in
    which they stood in the files that they came from.
    """

    tensors: tuple[str, ...]
    objects: tuple[str, ...]
    prefix: str = ""
    kept: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()

    def called(self, fqn: str) -> str:
        """The name that a tensor or an object gets."""
        return fqn.removeprefix(self.prefix)


def choose(source: Source, include: Sequence[str] = (), prefix: str = "") -> Chosen:
    """What is below `prefix` (`model.`), and matches one of the patterns where there are any.

    Raises `NotFoundError` where nothing does, `CorruptError` for files that the index doesn't have.
    """
    stored = stored_files(source)
    kept = tuple(file.path for file in stored if file.tensors is None)
    apart = {FILES, *map(whole_name, kept)}
    wanted = [
        fqn
        for fqn in source.index.tensors
        if fqn not in apart and fqn.startswith(prefix) and fqn != prefix and matches(fqn, include)
    ]
    tensors = tuple(fqn for fqn in wanted if not is_object(source, fqn))
    if not wanted:
        asked = " ".join([*([f"{prefix}*"] if prefix else []), *include]) or "anything"
        raise NotFoundError(f"no tensor or object matches {asked}", hint="see their names: ckpt ls --tensors")
    listed = tuple(fqn for file in stored for fqn in file.tensors or ())
    return Chosen(tensors, tuple(fqn for fqn in wanted if is_object(source, fqn)), prefix, kept, listed)


def check_dtypes(source: Source, chosen: Chosen, holds: Callable[[str], bool], what: str, hint: str) -> None:
    """Raise `UnsupportedValue` naming the tensors of a dtype that `what` doesn't hold, before anything is written."""
    table = source.index.tensors
    lacking = {fqn: table[fqn].dtype for fqn in chosen.tensors if not holds(table[fqn].dtype)}
    if lacking:
        named = ", ".join(f"{fqn!r:.100} ({dtype})" for fqn, dtype in [*lacking.items()][:SHOWN])
        more = f" and {len(lacking) - SHOWN} more" if len(lacking) > SHOWN else ""
        message = f"{what} hold no such dtype: {named}{more}; nothing was written"
        raise UnsupportedValue(message, key=next(iter(lacking)), dtypes=lacking, hint=hint)
