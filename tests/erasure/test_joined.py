"""The CRC of buffers joined is what the CRCs of the buffers say."""

import pytest

from erasure import crc32c, crc32c_joined
from erasure.errors import RangeError
from tests.support import random_bytes


@pytest.mark.parametrize("lengths", [(0, 0), (0, 9), (9, 0), (1, 1), (4096, 3), (3, 1 << 20), (70_001, 65_537)])
def test_joined_is_the_crc_of_the_whole(lengths):
    first, second = random_bytes(lengths[0], 1), random_bytes(lengths[1], 2)
    whole = crc32c(second, crc32c(first))
    assert crc32c_joined(crc32c(first), crc32c(second), len(second)) == whole


def test_many_parts_in_order():
    data = random_bytes(100_000)
    crc = 0
    for start in range(0, data.size, 777):
        part = data[start : start + 777]
        crc = crc32c_joined(crc, crc32c(part), part.size)
    assert crc == crc32c(data)


def test_one_bit_shows_wherever_it_is():
    first, second = random_bytes(500, 1), random_bytes(500, 2)
    whole = crc32c_joined(crc32c(first), crc32c(second), 500)
    for buffer in (first, second):
        buffer[123] ^= 1
        assert crc32c_joined(crc32c(first), crc32c(second), 500) != whole
        buffer[123] ^= 1


def test_a_length_below_zero_is_refused():
    with pytest.raises(RangeError, match="buffer length"):
        crc32c_joined(1, 2, -1)
