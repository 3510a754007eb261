"""Objectives that the layout of a store can't keep, told beside whatever else a command has to say."""

from collections.abc import Sequence

from ckptstore.cli.call import Call

__all__ = ["tell_promises"]


def tell_promises(call: Call) -> Sequence[str]:
    """Say each on stderr; return them."""
    from ckptstore.operations.promises import beyond_layout

    beyond = beyond_layout(call.config)
    for told in beyond:
        call.output.note(f"{told}  (next: a code with more parity or more targets in store.toml, or a lower objective)")
    return beyond
