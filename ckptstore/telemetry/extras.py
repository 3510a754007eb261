"""Libraries that come with an extra: imported when they are used, and told by the name of the extra where they lack."""

from importlib import import_module
from typing import Any

from ckptstore.errors import UsageError

__all__ = ["import_extra"]


def import_extra(module: str, extra: str) -> Any:
    """The module, or `UsageError` saying what to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        message = f"{module.partition('.')[0]} is not installed, which the extra [{extra}] of ckptstore brings"
        raise UsageError(message, hint=f"pip install 'ckptstore[{extra}]'", extra=extra) from error
