"""`ckpt show`: one checkpoint, and where it lies."""

from typing import Annotated, Any

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.selecting import Name, Step, Tag, Which, selected
from ckptstore.cli.wording import count, joined, size, survival

Cat = Annotated[bool, typer.Option("--cat", help="Print the shell commands that put each shard together.")]

__all__ = ["show"]


def show(
    call: Call, which: Which = None, step: Step = None, name: Name = None, tag: Tag = None, cat: Cat = False
) -> int:
    """Show one checkpoint: its manifest, its shards, where they lie.

    The latest unless named. With --cat: the shell command for each shard that concatenates its data fragments
    into a .safetensors file, without ckptstore and without decoding anything.
    """
    from ckptstore.selection import Selector, history_of, key_of, select_from
    from ckptstore.source import Source

    found = select_from(history_of(call.opened, call.run), selected(which, step, name, tag) or Selector())
    source = Source.open(call.opened, found.manifest)
    if cat:
        return _show_commands(call, source)
    _tell(call, found, source)
    shards = [_shard(shard) for shard in source.index.shards]
    fields = {
        "manifest": found.manifest,
        "tags": found.tags,
        "versions": len(found.versions),
        "manifest_on": found.seen_on,
    }
    return call.output.summary(
        0, run=call.run, key=key_of(found), **fields, shards=shards, tensors=len(source.index.tensors)
    )


def _shard(reference: Any) -> dict[str, Any]:
    shard = {name: getattr(reference, name) for name in ("shard_id", "rank", "length")}
    return {**shard, "record": reference.record.path, "record_on": reference.record.targets}


def _tell(call: Call, found: Any, source: Any) -> None:
    from ckptstore.checkpoint import Checkpoint

    described, manifest = Checkpoint.of(found.manifest, found.tags), found.manifest
    index = manifest.copies[0].index
    shards, ranks = count(len(source.index.shards), "shard"), count(described.world, "rank")
    facts = {
        "checkpoint": f"{described.name} of run {described.run}",
        "key": described.key,
        "step": "" if described.step is None else str(described.step),
        "tags": " ".join(described.tags),
        "created": described.created,
        "state": f"{described.state}, {survival(*described.tolerance)}",
        "size": f"{size(described.bytes)} in {shards} of {ranks}",
        "tensors": str(len(source.index.tensors)),
        "version": f"{manifest.version} ({manifest.kind})",
        "manifest on": joined(found.seen_on),
        "index": f"{index.path} on {joined(index.targets)}",
        "missing": ", ".join(f"{count(each.fragments, 'fragment')} of {each.target}" for each in manifest.missing),
    }
    call.output.table(["", ""], [[what, fact] for what, fact in facts.items() if fact])
    rows = [[str(s.rank), s.shard_id, size(s.length), joined(s.record.targets)] for s in source.index.shards]
    call.output.table(["rank", "shard", "size", "record on"], rows, right=("rank", "size"))


def _show_commands(call: Call, source: Any) -> int:
    from ckptstore.operations.concatenate import commands_for
    from ckptstore.selection import key_of

    commands = [commands_for(source, number) for number in range(len(source.index.shards))]
    for command in commands:
        call.output.say(f"# shard {command.shard_id} of rank {command.rank}, {size(command.length)}")
        for line in command.text.split("\n"):
            call.output.say(line)
        for problem in command.problems:
            call.output.note(f"{problem}  (next: ckpt restore {command.file})")
    return call.output.summary(0, run=call.run, key=key_of(source.manifest), shards=commands)
