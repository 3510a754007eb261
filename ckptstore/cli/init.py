"""`ckpt init`: make targets a store."""

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.promises import tell_promises
from ckptstore.cli.wording import count, joined, survival
from ckptstore.errors import ConflictError, UsageError

if TYPE_CHECKING:
    from ckptstore.operations.setup import InitReport

Places = Annotated[
    list[str] | None,
    typer.Argument(metavar="[DIR]...", help="With --targets: directories or URLs, one a target.", show_default=False),
]
Targets = Annotated[bool, typer.Option("--targets", help="Write a new store.toml for the places that follow.")]
Code = Annotated[str, typer.Option("--code", metavar="K+M", help="With --targets: data + parity fragments.")]

__all__ = ["init"]


def init(call: Call, places: Places = None, targets: Targets = False, code: Code = "4+2") -> int:
    """Make the targets of a store.toml a store.

    Every target is tried out first; one that belongs to another store is refused. Doing it again changes nothing,
    and finishes what was interrupted. `ckpt init --targets DIR DIR … --code 4+2` writes a store.toml as well.
    """
    from ckptstore.operations.setup import init as make

    if bool(places) != targets:
        raise UsageError("places and --targets go together", hint="ckpt init --targets DIR DIR … --code 4+2")
    if places:
        call.store = str(_write(call, places, code))
    try:
        report = make(call.opened, fresh=bool(places))
    except ConflictError:
        if places:
            Path(call.path).unlink()  # nothing that could be mended in it would be right
            call.output.note(f"removed {call.path}")
        raise
    _tell(call, report)
    beyond = tell_promises(call)
    return call.output.summary(0, store=call.config.name, path=call.path, report=report, beyond_layout=beyond)


def _write(call: Call, places: list[str], code: str) -> Path:
    from ckptstore.config import Config
    from ckptstore.operations.setup import starter
    from ckptstore.targets import check_apart

    path = Path(call.store or "store.toml")
    if path.exists():
        hint = f"make it a store with: ckpt init --store {path}, or name another file with --store"
        raise UsageError(f"{path} is there already", hint=hint)
    text = starter(path, places, code)
    folder = str(path.resolve().parent)
    check_apart(Config.from_dict({**tomllib.loads(text), "folder": folder}, origin=str(path)))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
    call.output.note(f"wrote {path}")
    return path


def _tell(call: Call, report: "InitReport") -> None:
    output, quorums = call.output, report.quorums
    output.say(f"store {call.config.name} ({report.store_id}) {'made' if report.created else 'is there already'}")
    output.say(f"  code {call.config.code}: a checkpoint {survival(*report.tolerance)}")
    output.say(
        f"  {count(quorums.members, 'commit target')}, t = {quorums.losses} may be lost: "
        f"a commit takes Q = {quorums.votes} of them, reading R = {quorums.readings}"
    )
    if report.fragments_only:
        output.say(f"  fragments only: {joined(report.fragments_only)}")
    if quorums.saving < quorums.losses:
        output.say(
            f"  loading survives the loss of {count(quorums.losses, 'target')}, saving of {max(quorums.saving, 0)}: "
            "more targets would let saving go on as well"
        )
    else:
        output.say(f"  loading and saving both survive the loss of {count(quorums.losses, 'target')}")
