"""The shell commands that put a shard together without us: data fragments in order are a safetensors file."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass

import erasure
from ckptstore.config import TargetConfig
from ckptstore.load.plan import Shard
from ckptstore.source import Source
from ckptstore.targets import Target
from manifests import paths

__all__ = ["ShardCommands", "commands_for"]


@dataclass(frozen=True)
class ShardCommands:
    """`text` writes `file` where it is run. `problems`: fragments that it can't read, so that it would fail."""

    shard_id: str
    rank: int
    length: int
    file: str
    text: str
    problems: tuple[str, ...]


def commands_for(source: Source, number: int) -> ShardCommands:
    """For one shard of a checkpoint. A glob would take parity in: every fragment is named, stripe after stripe."""
    shard = source.shard(number)
    reference = source.index.shards[number]
    specs = {spec.name: spec for spec in source.opened.config.targets}
    lines: list[str] = []
    problems: list[str] = []
    for stripe in range(len(shard.record.stripes)):
        for target, path in _data_fragments(shard, stripe):
            if target is None:
                problems.append(f"{path} is on no target: none took it while saving")
            elif target not in specs:
                problems.append(f"{path} is on {target}, which store.toml doesn't have")
            else:
                lines.append(_read_command(source.opened.targets[target], specs[target], path))
    file = f"rank{reference.rank}-{reference.shard_id[:8]}.safetensors"
    text = "\n".join(["(", *_joined_cats(lines), f") > {file}"])
    return ShardCommands(reference.shard_id, reference.rank, reference.length, file, text, tuple(problems))


def _data_fragments(shard: Shard, number: int) -> list[tuple[str | None, str]]:
    """The target (None: none took it) and path of each data fragment of a stripe that holds anything."""
    stripe = shard.record.stripes[number]
    code = shard.record.codes[stripe.code]
    shape = erasure.StripeShape(code.k, code.m, stripe.length, shard.record.digest.block)
    found = []
    for fragment in range(code.k):
        if shape.stored(fragment):
            at = stripe.at[fragment]
            path = paths.fragment(shard.run, shard.record.shard_id, number, fragment)
            found.append((None if at is None else shard.record.targets[at], path))
    return found


def _read_command(target: Target, spec: TargetConfig, path: str) -> str:
    scheme, _, rest = target.url.partition("://")
    place = f"{rest.rstrip('/')}/{path}"
    return _READERS.get(scheme, _by_ckpt)(scheme, place, spec)


def _by_cat(_scheme: str, place: str, _spec: TargetConfig) -> str:
    return f"cat {shlex.quote(place)}"


def _by_aws(_scheme: str, place: str, spec: TargetConfig) -> str:
    endpoint = spec.options.get("endpoint")
    where = f" --endpoint-url {shlex.quote(str(endpoint))}" if endpoint else ""
    return f"aws{where} s3 cp {shlex.quote(f's3://{place}')} -"


def _by_gcloud(_scheme: str, place: str, _spec: TargetConfig) -> str:
    return f"gcloud storage cat {shlex.quote(f'gs://{place}')}"


def _by_ckpt(scheme: str, place: str, _spec: TargetConfig) -> str:
    return f"false  # {scheme}://{place}: no command is known for it; instead: ckpt restore".replace("\n", " ")


_READERS: dict[str, Callable[[str, str, TargetConfig], str]] = {"file": _by_cat, "s3": _by_aws, "gs": _by_gcloud}


def _joined_cats(lines: list[str]) -> list[str]:
    """Neighbouring `cat`s as one, up to a few hundred words: a shell takes no endless lines."""
    found: list[str] = []
    words = 0
    for line in lines:
        if line.startswith("cat ") and found and found[-1].startswith("cat ") and words < LONGEST:
            found[-1] += line.removeprefix("cat")
            words += 1
        else:
            found.append(line)
            words = 1
    return found


LONGEST = 100
"""Files that one `cat` is given."""
