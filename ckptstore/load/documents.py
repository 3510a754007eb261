"""Shard records and indexes: any copy that matches the digest it is referred to by is the right one."""

from collections.abc import Mapping
from typing import TypeVar

from ckptstore.errors import CorruptError, OutOfReach, TargetError, TargetUnavailable, UsageError
from ckptstore.events import FragmentDamaged, Observer, ignore
from ckptstore.targets.base import Target
from manifests import (
    Document,
    FormatError,
    NewerFormat,
    NotUnderstood,
    Reference,
    ShardRecord,
    ShardReference,
    check_understood,
    unpack,
)

AnyDocument = TypeVar("AnyDocument", bound=Document)

__all__ = ["fetch_document", "fetch_record", "fetch_stored"]


def fetch_document(
    kind: type[AnyDocument], reference: Reference, targets: Mapping[str, Target], observer: Observer = ignore
) -> AnyDocument:
    """The document referred to. Raises as `fetch_stored`."""
    return fetch_stored(kind, reference, targets, observer)[0]


def fetch_record(shard: ShardReference, targets: Mapping[str, Target], observer: Observer = ignore) -> ShardRecord:
    """The record of a shard. Raises as `fetch_stored`, and `CorruptError` for a record of another shard."""
    record = fetch_document(ShardRecord, shard.record, targets, observer)
    if (record.shard_id, record.length) != (shard.shard_id, shard.length):
        message = (
            f"{shard.record.path} is the record of shard {record.shard_id} with {record.length} bytes, "
            f"not of {shard.shard_id} with {shard.length}"
        )
        raise CorruptError(message, hint="run: ckpt verify")
    return record


def fetch_stored(
    kind: type[AnyDocument], reference: Reference, targets: Mapping[str, Target], observer: Observer = ignore
) -> tuple[AnyDocument, bytes]:
    """The document referred to and its bytes as they are stored, from the first target that holds it whole.

    Raises `CorruptError` when every copy is missing or damaged, `OutOfReach` when some copy could not be asked for,
    `UsageError` for what a newer release wrote.
    """
    reasons: dict[str, str] = {}
    unreachable = False
    for name in reference.targets:
        try:
            data = bytes(_target(targets, name).get(reference.path))
            return _understood(unpack(kind, data, reference)), data
        except TargetError as error:
            unreachable |= error.out_of_reach
            reasons[name] = error.message
        except (NewerFormat, NotUnderstood) as error:
            raise UsageError(f"{reference.path}: {error.message}", hint="upgrade ckptstore") from error
        except FormatError as error:
            reasons[name] = str(error)
        observer(FragmentDamaged(name, reference.path, reasons[name]))
    told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    message = f"no good copy of {reference.path} on {len(reference.targets)} targets ({told})"
    if unreachable:
        raise OutOfReach(message, hint="run: ckpt doctor")
    raise CorruptError(message, hint="run: ckpt verify")


def _target(targets: Mapping[str, Target], name: str) -> Target:
    if name not in targets:
        raise TargetUnavailable(f"{name} is not among the store's targets", target=name)
    return targets[name]


def _understood(document: AnyDocument) -> AnyDocument:
    """Bytes that need a feature of a newer release would be read wrong by this one."""
    check_understood(document)
    return document
