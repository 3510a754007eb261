"""Typer's conversion of values only where there is something to convert.

Typer 0.29 builds a pydantic adapter for every parameter of a command, given or not: a quarter of the CPU time that
`ckpt ls` has. Text and what was not given need none. Other releases, which don't, are left as they are.
"""

from collections.abc import Callable
from typing import Any

from typer.core import TyperCommand, TyperGroup

__all__ = ["LightCommand", "LightGroup"]


class LightCommand(TyperCommand):
    """A command whose parameters are converted when they were given and are no text."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters of the command."""
        return _lighten(super().get_params(ctx))


class LightGroup(TyperGroup):
    """The same for the options before the command."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters of the group."""
        return _lighten(super().get_params(ctx))


def _lighten(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        build = getattr(parameter, "get_runtime_param", None)
        if build is not None and "get_runtime_param" not in vars(parameter):
            parameter.get_runtime_param = _Light(parameter, build).converter
    return parameters


class _Light:
    """Stands in for what converts the values of one parameter, and asks for it when it is needed."""

    def __init__(self, parameter: Any, build: Callable[[], Any]) -> None:
        self._is_text = getattr(parameter.type_descriptor, "annotation", None) is str
        self._build = build

    def converter(self) -> "_Light":
        """What Typer calls to get a converter."""
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value as the command wants it."""
        if value is None and not (param.multiple or param.nargs == -1):
            return None
        if type(value) is bool or (self._is_text and type(value) is str):
            return value
        if value in (None, (), []):
            return ()
        return self._build().coerce(value, param=param, ctx=ctx)
