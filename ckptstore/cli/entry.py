"""From a command line to an exit code: 0 well, 1 failed, 2 usage, and those of `ckptstore.errors`."""

import sys
import warnings
from collections.abc import Sequence

from ckptstore.cli.failures import BAD_USAGE, failure_of, usage_failure
from ckptstore.cli.output import Output
from ckptstore.cli.streams import OutputError, with_streams
from ckptstore.wording import printable

COMMON = ("--store", "--run", "--json", "--verbose", "-v")
"""The options that every command has."""

__all__ = ["run"]


def run(arguments: Sequence[str]) -> int:
    """Run one command. Whatever goes wrong is told on stderr, and with `--json` on stdout as well."""
    return with_streams(lambda: _run(arguments))


def _run(arguments: Sequence[str]) -> int:
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _note
            return _perform(arguments)
    except (SystemExit, OutputError):
        raise
    except BaseException as error:  # noqa: BLE001 - told, whatever it is
        if getattr(error, "exit_code", None) != BAD_USAGE or not hasattr(error, "format_message"):
            return _output(arguments).failure(failure_of(error))
        return _misused(error, arguments)


def _perform(arguments: Sequence[str]) -> int:
    """What Typer's own `main` does, which would make an exit with 130 of every signal, and say nothing."""
    import typer

    from ckptstore.cli.app import NAMES, make_app

    app = typer.main.get_command(make_app(arguments[:1] if arguments and arguments[0] in NAMES else NAMES))
    try:
        with app.make_context("ckpt", list(arguments)) as context:
            code: int | None = app.invoke(context)
    except typer.Exit as done:  # --help, --version
        return done.exit_code
    return code or 0


def _note(message: Warning | str, *_where: object, **_named: object) -> None:
    """A warning as a person at a terminal reads it: without the line of code that gave it."""
    sys.stderr.write(f"note: {printable(str(message))}\n")


def _misused(error: BaseException, arguments: Sequence[str]) -> int:
    """Typer's own errors: an unknown option, a missing argument, a number that is none."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "ckpt"
    message = error.format_message()  # type: ignore[attr-defined]
    if not arguments:  # `ckpt` alone asks for help
        sys.stdout.write("".join(f"{printable(line)}\n" for line in message.splitlines()))
        return BAD_USAGE
    failure = usage_failure(message, path)
    option = getattr(error, "option_name", "")
    if path == "ckpt" and option in COMMON:
        failure = failure._replace(hint=f"it goes after the command: ckpt {_command_of(arguments)} {option}")
    return _output(arguments, path.rpartition(" ")[2]).failure(failure)


def _command_of(arguments: Sequence[str]) -> str:
    from ckptstore.cli.app import NAMES

    return next((argument for argument in arguments if argument in NAMES), "COMMAND")


def _output(arguments: Sequence[str], command: str = "") -> Output:
    return Output(command, as_json="--json" in arguments)
