"""The commands together. Each imports what it needs when it runs."""

from collections.abc import Callable, Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Annotated

import typer

from ckptstore.cli.call import command
from ckptstore.cli.coercion import LightCommand, LightGroup

NAMES = (
    "init",
    "doctor",
    "ls",
    "show",
    "log",
    "diff",
    "du",
    "cat",
    "save",
    "restore",
    "import",
    "export",
    "copy",
    "verify",
    "repair",
    "drill",
    "report",
    "delete",
    "undelete",
    "prune",
    "tag",
    "plan",
    "bench",
    "metrics",
    "demo",
)
"""The commands, each the function of its name in the module of its name; `import` is a word of Python's: `import_`."""

EXIT_CODES = (
    "Exit codes: 0 well, 1 failed, 2 usage, 3 degraded but loadable, 4 data lost, 5 out of reach decides, "
    "10 not found, 11 conflict or fenced, 12 credentials, 130 interrupted, 143 terminated."
)

__all__ = ["EXIT_CODES", "NAMES", "make_app"]


def make_app(names: Sequence[str] = NAMES) -> typer.Typer:
    """The command line with these commands. One that is asked for by name needs no other: each takes time to import."""
    app = typer.Typer(
        name="ckpt",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,  # plain help: half the time of `ckpt --help`, and the same text in docs/cli.md
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=EXIT_CODES,
    )
    app.callback(cls=LightGroup)(ckpt)
    for name in names:
        app.command(name, cls=LightCommand)(command(_function_of(name)))
    return app


def _function_of(name: str) -> Callable[..., int]:
    """The function of a command."""
    called = f"{name}_" if iskeyword(name) else name
    function: Callable[..., int] = getattr(import_module(f"ckptstore.cli.{called}"), called)
    return function


def _version(wanted: bool) -> None:
    if wanted:
        from ckptstore import __version__

        typer.echo(f"ckptstore {__version__}")
        raise typer.Exit


def ckpt(
    _show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Erasure-coded, verified checkpoints on targets that fail independently.

    The store is named by --store or CKPT_STORE, the training run by --run or CKPT_RUN:
    options go after the command.
    """
