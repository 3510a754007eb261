"""`ckpt tag`: give a checkpoint a name of your own."""

from typing import Annotated

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.selecting import Name, Step, Which, selected

Label = Annotated[
    str, typer.Argument(metavar="TAG", help="The tag: letters, digits, `.`, `_` and `-`.", show_default=False)
]
Remove = Annotated[bool, typer.Option("--remove", help="Take the tag from the checkpoint that has it.")]

__all__ = ["tag"]


def tag(
    call: Call, label: Label, which: Which = None, step: Step = None, name: Name = None, remove: Remove = False
) -> int:
    """Give a checkpoint a tag of your own.

    The latest unless named; another checkpoint of the run that had the tag loses it. `ckpt restore PATH --tag
    best` and `run.load(state, step="tag:best")` then find it.
    """
    from ckptstore.selection import Selector

    if remove:
        tagged = call.training.untag(label)
        call.output.say(f"{tagged.name} of run {call.run} is no longer tagged {label}")
    else:
        tagged = call.training.tag(selected(which, step, name, None) or Selector(), label)
        call.output.say(f"{tagged.name} of run {call.run} is tagged {label}")
    return call.output.summary(0, run=call.run, tag=label, checkpoint=tagged)
