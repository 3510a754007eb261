"""The rules of a shard record: codes, stripes that cover the shard, tensors that fill its stream."""

import math
from typing import NamedTuple

from manifests import checks, paths
from manifests.format_errors import MissingRange, OverlappingRange, ShapeMismatch, WrongValue
from manifests.schema import CodeSpec, ShardRecord, Stripe, StripeSource, TensorEntry

MAX_FRAGMENTS = 255
"""A code over GF(2^8) has no more positions."""

MAX_FRAGMENT_BYTES = 1 << 30
"""Largest fragment: a reader allocates fragments before it has seen a byte of them."""

ALIGNMENT = 4096
"""The tensors' bytes start at a multiple of this in the stream."""

OBJECT = "object"
"""The dtype of byte objects."""

ITEM_SIZES = {
    1: "bool uint8 int8 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu "
    "float4_e2m1fn_x2 "
    "uint1 uint2 uint3 uint4 uint5 uint6 uint7 int1 int2 int3 int4 int5 int6 int7 "
    "bits8 bits1x8 bits2x4 bits4x2 object",
    2: "float16 bfloat16 int16 uint16 bits16",
    4: "float32 int32 uint32 complex32",
    8: "float64 int64 uint64 complex64",
    16: "complex128",
}
"""Bytes an element takes, by true dtype. What packs several values into a byte counts as bytes."""

_ITEM_SIZE = {dtype: size for size, dtypes in ITEM_SIZES.items() for dtype in dtypes.split()}


class _Range(NamedTuple):
    start: int
    length: int
    field: str


def check_record(record: ShardRecord, *, understood: bool) -> None:
    """Require a whole record. What features of a newer release may have changed is left alone."""
    checks.name(paths.check_token, record.shard_id, "shard_id")
    checks.number(record.rank, "rank")
    checks.number(record.length, "length")
    checks.labels(record.targets, "targets")
    checks.number(record.digest.block, "digest.block", 1, MAX_FRAGMENT_BYTES)
    if understood:
        checks.value(record.stream, ["safetensors"], "stream")
        checks.value(record.digest.algorithm, ["crc32c"], "digest.algorithm")
    for i, code in enumerate(record.codes):
        _check_code(code, f"codes[{i}].")
    _check_stripes(record, understood=understood)
    _check_tensors(record, understood=understood)


def _check_code(code: CodeSpec, field: str) -> None:
    checks.number(code.k, f"{field}k", 1, MAX_FRAGMENTS)
    checks.number(code.m, f"{field}m", 0, MAX_FRAGMENTS - code.k)
    checks.count(len(code.matrix), code.m * code.k, f"{field}matrix")


# -- stripes ----------------------------------------


def _check_stripes(record: ShardRecord, *, understood: bool) -> None:
    checks.number(len(record.stripes), "stripes", high=paths.MAX_NUMBER)
    for i, stripe in enumerate(record.stripes):
        _check_stripe(record, stripe, f"stripes[{i}].", understood=understood)
    ranges = [_Range(s.offset, s.length, f"stripes[{i}]") for i, s in enumerate(record.stripes)]
    _check_contiguous(ranges, 0, record.length)


def _check_stripe(record: ShardRecord, stripe: Stripe, field: str, *, understood: bool) -> None:
    checks.position(stripe.code, len(record.codes), f"{field}code")
    code = record.codes[stripe.code]
    checks.number(stripe.length, f"{field}length", 1)
    checks.number(stripe.stored_length, f"{field}stored_length", 1, code.k * MAX_FRAGMENT_BYTES)
    checks.count(len(stripe.at), code.k + code.m, f"{field}at")
    sizes = fragment_sizes(stripe.stored_length, code.k, code.m)
    for i, (at, size) in enumerate(zip(stripe.at, sizes, strict=True)):
        _check_at(at, size, len(record.targets), f"{field}at[{i}]")
    if record.digest.algorithm == "crc32c":
        blocks = sum(-(-size // record.digest.block) for size in sizes)
        checks.count(len(stripe.crc), 4 * blocks, f"{field}crc")
    if stripe.source is not None:
        _check_source(stripe.source, f"{field}source.")
    _check_features(stripe, field, understood=understood)


def fragment_sizes(stored_length: int, k: int, m: int) -> list[int]:
    """Return the stored size of each of the k + m fragments of a stripe, 0 for those that aren't stored."""
    span = -(-stored_length // k)
    data = [max(0, min(span, stored_length - i * span)) for i in range(k)]
    return data + [span] * m


def _check_at(at: int | None, size: int, targets: int, field: str) -> None:
    if at is not None:
        checks.position(at, targets, field)
    if not size:
        checks.absent(at, field, "the fragment is empty")


def _check_source(source: StripeSource, field: str) -> None:
    checks.save(source.session, source.ordinal, field)
    checks.name(paths.check_token, source.shard_id, f"{field}shard_id")
    checks.number(source.stripe, f"{field}stripe", high=paths.MAX_NUMBER)


def _check_features(stripe: Stripe, field: str, *, understood: bool) -> None:
    checks.json_value([stripe.transforms, stripe.frames, stripe.strong], field)
    if not understood:
        return
    if stripe.transforms:
        raise WrongValue(f"{field}transforms are not of this format version", field=f"{field}transforms")
    if stripe.stored_length != stripe.length:
        message = f"{field}stored_length is not its length, but nothing transforms it"
        raise WrongValue(message, field=f"{field}stored_length", found=stripe.stored_length)
    checks.absent(stripe.frames, f"{field}frames", "nothing transforms the stripe")
    checks.absent(stripe.strong, f"{field}strong", "this format version has no other digest")


# -- tensors ----------------------------------------


def _check_tensors(record: ShardRecord, *, understood: bool) -> None:
    for i, tensor in enumerate(record.tensors):
        _check_tensor(tensor, f"tensors[{i}].")
        if understood:
            checks.absent(tensor.digest, f"tensors[{i}].digest", "this format version has none")
    checks.unique((t.name for t in record.tensors), "tensors.name")
    checks.unique(((t.fqn, *(t.range or ())) for t in record.tensors), "tensors.fqn with range")
    if record.tensors:
        start = record.tensors[0].offset
        if start % ALIGNMENT or not start:
            message = f"tensors[0].offset is {start}, not a positive multiple of {ALIGNMENT}"
            raise WrongValue(message, field="tensors[0].offset", found=start)
        ranges = [_Range(t.offset, t.nbytes, f"tensors[{i}]") for i, t in enumerate(record.tensors)]
        _check_contiguous(ranges, start, record.length)


def _check_tensor(tensor: TensorEntry, field: str) -> None:
    checks.value(tensor.name == "__metadata__", [False], f"{field}name is __metadata__")
    checks.shape(tensor.shape, f"{field}shape")
    checks.number(tensor.offset, f"{field}offset")
    checks.number(tensor.nbytes, f"{field}nbytes")
    checks.unique([tensor.fqn, *tensor.aliases], f"{field}aliases")
    _check_bytes(tensor, field)
    if tensor.range is None or tensor.dtype == OBJECT:
        checks.absent(tensor.range, f"{field}range", "a byte object is not part of another")
        checks.absent(tensor.global_shape, f"{field}global_shape", "there is no range")
    else:
        _check_range(tensor, tensor.range, field)


def _check_bytes(tensor: TensorEntry, field: str) -> None:
    """Elements must take the bytes recorded; of a dtype unknown here, some whole number of bytes each."""
    elements = math.prod(tensor.shape)
    size = _ITEM_SIZE.get(tensor.dtype) or (tensor.nbytes // elements if elements else 0)
    if elements * size != tensor.nbytes:
        message = f"{field}nbytes is {tensor.nbytes}, not {elements * size}"
        raise ShapeMismatch(message, field=f"{field}nbytes", found=tensor.nbytes, expected=elements * size)
    if tensor.dtype == OBJECT:
        checks.count(len(tensor.shape), 1, f"{field}shape")


def _check_range(tensor: TensorEntry, start: list[int], field: str) -> None:
    checks.present(tensor.global_shape, f"{field}global_shape", "there is a range")
    whole = tensor.global_shape or []
    checks.count(len(start), len(tensor.shape), f"{field}range")
    checks.count(len(whole), len(tensor.shape), f"{field}global_shape")
    checks.numbers(start, f"{field}range")
    checks.shape(whole, f"{field}global_shape")
    if any(at + size > end for at, size, end in zip(start, tensor.shape, whole, strict=True)):
        message = f"{field}range {start} with shape {tensor.shape} leaves the global shape {whole}"
        raise OverlappingRange(message, field=f"{field}range")


def _check_contiguous(ranges: list[_Range], start: int, end: int) -> None:
    """Require ranges that follow each other directly, from `start` to `end`."""
    at = start
    for offset, length, field in [*ranges, _Range(end, 0, "length")]:
        if offset != at:
            error, what = (MissingRange, "leaves a hole") if offset > at else (OverlappingRange, "overlaps")
            raise error(f"{field} starts at {offset}, not at {at}: it {what}", field=field, found=offset, expected=at)
        at = offset + length
