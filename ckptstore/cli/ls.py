"""`ckpt ls`: what checkpoints there are."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.selecting import Name, Step, Tag, Which, selected
from ckptstore.cli.wording import age, count, joined, shape_text, size, survival
from ckptstore.errors import CorruptError, NotFoundError, UsageError

if TYPE_CHECKING:
    from ckptstore.checkpoint import Checkpoint
    from manifests import History

AllRuns = Annotated[bool, typer.Option("--all-runs", help="The checkpoints of every run.")]
Deleted = Annotated[bool, typer.Option("--deleted", help="What `ckpt undelete` can take back, and for how long.")]
Tensors = Annotated[bool, typer.Option("--tensors", help="The tensors of one checkpoint instead.")]

__all__ = ["ls"]


def ls(
    call: Call,
    which: Which = None,
    step: Step = None,
    name: Name = None,
    tag: Tag = None,
    all_runs: AllRuns = False,
    tensors: Tensors = False,
    deleted: Deleted = False,
) -> int:
    """List checkpoints, oldest first: the last one is the latest.

    Reads manifests only, so it tells what each checkpoint survived when it was saved or last repaired;
    `ckpt verify` looks at what is there now. With --tensors: every tensor of one checkpoint. With --deleted: those
    that are marked deleted, with their keys; what time it is on the targets is learnt by putting an object there.
    """
    selector = selected(which, step, name, tag)
    if deleted and (tensors or selector is not None):
        raise UsageError("--deleted lists all that is deleted in a run, and nothing else", hint="ckpt ls --deleted")
    if deleted:
        from ckptstore.cli.ls_deleted import list_deleted

        return list_deleted(call, call.runs() if all_runs else [call.run], with_run=all_runs)
    if tensors:
        return _list_tensors(call, selector)
    runs = call.runs() if all_runs else [call.run]
    histories = [call.history(run) for run in runs]
    found = [checkpoint for history in histories for checkpoint in _chosen(history, selector, all_runs=all_runs)]
    if not found and not all_runs:
        _explain_none(call, histories[0])
    _show(call, found, with_run=all_runs)
    problems = [p.message for history in histories for p in history.problems if p.kind != "strange"]
    for problem in problems:
        call.output.note(f"not readable as it should be: {problem}  (next: ckpt repair)")
    silent = _tell_silent(call, histories)
    fields: dict[str, Any] = {"all_runs": True} if all_runs else {"run": call.run}
    unreadable = any(problem.fatal for history in histories for problem in history.problems)
    code = CorruptError.exit_code if unreadable and not found else 0
    return call.output.summary(
        code, store=call.config.name, **fields, checkpoints=found, problems=problems, not_heard=silent
    )


def _explain_none(call: Call, history: "History") -> None:
    """Say why nothing is listed: only a run that nobody ever saved has "no checkpoints yet"."""
    from ckptstore.selection import refuse_lost_votes

    call.check_run_is_known()
    refuse_lost_votes(call.opened, history)
    if any(problem.fatal for problem in history.problems):
        call.output.note("none of the run's checkpoints is readable")
    elif history.begun:
        begun = count(len(history.begun), "save")
        call.output.note(f"no checkpoint is committed; {begun} begun and not, or not yet  (next: ckpt log)")
    else:
        call.output.note("no checkpoints yet  (next: ckpt save PATH --step N)")


def _chosen(history: "History", selector: Any, *, all_runs: bool) -> "list[Checkpoint]":
    from ckptstore.checkpoint import Checkpoint
    from ckptstore.selection import select_from

    live = history.checkpoints
    if selector is not None:
        try:
            live = (select_from(history, selector),)
        except NotFoundError:
            if not all_runs:
                raise
            live = ()
    return [Checkpoint.of(checkpoint.manifest, checkpoint.tags) for checkpoint in live]


def _show(call: Call, checkpoints: "list[Checkpoint]", *, with_run: bool) -> None:
    if not checkpoints:
        return
    run = ["run"] if with_run else []
    rows = [[*([c.run] if with_run else []), *_row(c)] for c in checkpoints]
    headings = [*run, "name", "step", "state", "tolerance", "size", "world", "age", "tags"]
    call.output.table(headings, rows, right=("step", "size", "world", "age"))


def _row(checkpoint: "Checkpoint") -> list[str]:
    return [
        checkpoint.name,
        "" if checkpoint.step is None else str(checkpoint.step),
        checkpoint.state,
        survival(*checkpoint.tolerance),
        size(checkpoint.bytes),
        str(checkpoint.world),
        age(checkpoint.created),
        " ".join(checkpoint.tags),
    ]


def _tell_silent(call: Call, histories: "list[History]") -> list[str]:
    """Commit targets that were not heard: what they hold is held by others too, or was never committed."""
    heard = {name for history in histories for name in history.heard}
    silent = [spec.name for spec in call.config.targets if spec.commit and spec.name not in heard] if histories else []
    if silent:
        call.output.note(f"not heard: {joined(silent)}  (next: ckpt doctor)")
    return silent


def _list_tensors(call: Call, selector: Any) -> int:
    from ckptstore.load.documents import fetch_document
    from ckptstore.operations.tensors import tensor_list
    from ckptstore.selection import Selector, key_of, select
    from manifests import Index

    chosen = select(call.opened, call.run, selector or Selector())
    index = fetch_document(Index, chosen.copies[0].index, call.opened.targets)
    rows = tensor_list(index)
    table = [
        [row.fqn, row.dtype, shape_text(row.shape), str(row.chunks), "" if row.nbytes is None else size(row.nbytes)]
        for row in rows
    ]
    call.output.table(["fqn", "dtype", "shape", "chunks", "bytes"], table, right=("chunks", "bytes"))
    return call.output.summary(0, run=call.run, key=key_of(chosen), name=chosen.name, tensors=rows)
