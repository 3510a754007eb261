"""The commands together. Each imports what it needs when it runs."""

from typing import Annotated

import typer

from ckptstore.cli.call import command
from ckptstore.cli.coercion import LightCommand, LightGroup
from ckptstore.cli.delete import delete
from ckptstore.cli.demo import demo
from ckptstore.cli.doctor import doctor
from ckptstore.cli.init import init
from ckptstore.cli.log import log
from ckptstore.cli.ls import ls
from ckptstore.cli.prune import prune
from ckptstore.cli.repair import repair
from ckptstore.cli.restore import restore
from ckptstore.cli.save import save
from ckptstore.cli.show import show
from ckptstore.cli.tag import tag
from ckptstore.cli.undelete import undelete
from ckptstore.cli.verify import verify

COMMANDS = (init, doctor, ls, show, log, save, restore, verify, repair, delete, undelete, prune, tag, demo)

EXIT_CODES = (
    "Exit codes: 0 well, 1 failed, 2 usage, 3 degraded but loadable, 4 data lost, 5 out of reach decides, "
    "10 not found, 11 conflict or fenced, 12 credentials, 130 interrupted, 143 terminated."
)

__all__ = ["COMMANDS", "EXIT_CODES", "app"]

app = typer.Typer(
    name="ckpt",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: half the time of `ckpt --help`, and the same text in docs/cli.md
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)


def _version(wanted: bool) -> None:
    if wanted:
        from ckptstore import __version__

        typer.echo(f"ckptstore {__version__}")
        raise typer.Exit


@app.callback(cls=LightGroup)
def ckpt(
    _show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Erasure-coded, verified checkpoints on targets that fail independently.

    The store is named by --store or CKPT_STORE, the training run by --run or CKPT_RUN.
    """


for _function in COMMANDS:
    app.command(_function.__name__, cls=LightCommand)(command(_function))
