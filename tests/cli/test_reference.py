"""docs/cli.md says what the commands do."""

from pathlib import Path

import pytest
import typer

from ckptstore.cli.app import NAMES, make_app
from ckptstore.cli.reference import reference

ROOT = Path(__file__).parents[2]
GROUP = typer.main.get_command(make_app())


def test_docs_cli_is_up_to_date():
    written = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    assert written == reference(), "write it anew: python -m ckptstore.cli.reference docs/cli.md"


@pytest.mark.parametrize("name", NAMES)
def test_every_command_and_option_says_what_it_is(name):
    command = GROUP.commands[name]
    assert command.help
    for parameter in command.params:
        assert parameter.help, f"{name}: {parameter.name} has no help"
        assert parameter.is_flag if hasattr(parameter, "is_flag") and parameter.is_flag else parameter.metavar


def test_every_command_takes_the_common_options():
    for command in GROUP.commands.values():
        options = {option for parameter in command.params for option in parameter.opts}
        assert {"--store", "--run", "--json", "--verbose", "-v"} <= options
