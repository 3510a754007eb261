"""docs/cli.md, written from the commands themselves: `python -m ckptstore.cli.reference docs/cli.md`."""

import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

import typer

from ckptstore.cli.app import EXIT_CODES, NAMES, make_app

SHARED = ("store", "run", "as_json", "verbose", "help")
INTRODUCTION = f"""\
# The `ckpt` command

Written by `python -m ckptstore.cli.reference docs/cli.md` from the commands themselves; a test keeps it so.

Every command takes these options:

{{shared}}

`--store` may be left out where the environment has CKPT_STORE, and `--run` where it has CKPT_RUN. Credentials of
targets come from the environment, a profile or the machine's role, never from the command line or from store.toml.
Where CKPT_METRICS_DIR names a folder, commands leave Prometheus metrics there of how they ended (docs/metrics.md).

Where a command takes a CHECKPOINT, it is a step (`7`), a name (`step-100`), `latest`, `tag:best`, or a key as
`ckpt show` prints it. Of several saves of one step or name the newest is meant. A name that looks like one of the
others, which only a training job under DCP can give (`ckpt/1000`), is asked for with `--name`.

## For scripts

With `--json` stdout holds nothing but JSON, one document a line, whatever happens; prose goes to stderr. The last line
is the summary, `{{{{"type": "summary", "command": "verify", "code": 3, …}}}}`. If the command failed, it has `kind`,
`message` and `hint` as well. `verify` and `repair` first write `{{{{"type": "checkpoint", …}}}}` for each checkpoint,
then `{{{{"type": "deleted", …}}}}` (verify) or one more with `"deleted": true` (repair) for each that `ckpt undelete`
would bring back. `verify --all-runs` writes `{{{{"type": "run", …}}}}` for each run after its checkpoints. `drill`
first writes `{{{{"type": "checkpoint", "round": 1, …}}}}` for each checkpoint in each round, then one of the type
`objective` for each objective. `copy` and `du` write lines for checkpoints as well (`du` for runs or targets, by
`--by`), `diff` one for each difference, `cat --stats` one for each tensor.

Where the answer can't be written, on a full disk or with stdout closed, one line on stderr says so, and the exit code
is 1 whatever was found or done. A reader that has seen enough, as `head` has, is told nothing; that is 1 too.

{EXIT_CODES}
"""

__all__ = ["reference"]


def reference() -> str:
    """The text of docs/cli.md."""
    group: Any = typer.main.get_command(make_app())
    first = group.commands[NAMES[0]]
    shared = _options(parameter for parameter in first.params if parameter.name in SHARED)
    sections = [_section(name, group.commands[name]) for name in NAMES]
    return "\n".join([INTRODUCTION.format(shared=shared), *sections])


def _section(name: str, command: Any) -> str:
    own = [parameter for parameter in command.params if parameter.name not in SHARED]
    usage = " ".join(["ckpt", name, "[OPTIONS]", *(_place(p) for p in own if not _is_option(p))])
    table = _options(own)
    return "\n".join(
        [f"## `ckpt {name}`\n", f"    {usage}\n", cleandoc(command.help or ""), "", *([table, ""] if table else [])]
    )


def _options(parameters: Any) -> str:
    rows = list(_rows(parameters))
    return "\n".join(["| | |", "|---|---|", *rows]) if rows else ""


def _rows(parameters: Any) -> Iterator[str]:
    for parameter in parameters:
        if not _is_option(parameter):
            yield f"| `{_place(parameter)}` | {parameter.help} |"
            continue
        value = "" if parameter.is_flag else f" {parameter.metavar}"
        default = f" Default: `{parameter.default}`." if not parameter.is_flag and parameter.default is not None else ""
        yield f"| `{', '.join(parameter.opts)}{value}` | {parameter.help}{default} |"


def _is_option(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "option")


def _place(parameter: Any) -> str:
    return str(parameter.metavar)


def main() -> None:
    """Write the file that the command line names."""
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
