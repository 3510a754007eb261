"""`ShuffledBatches` goes on to the sample, whatever the number of worker processes."""

import random

import numpy as np
import pytest
import torch

from ckptstore.errors import UsageError
from ckptstore.state import ShuffledBatches
from ckptstore.state.text import from_text, to_text


class Drawing(torch.utils.data.Dataset):
    """Samples with random numbers of three kinds, as augmentations draw them."""

    def __len__(self):
        return 13

    def __getitem__(self, index):
        return index, torch.rand(()).item(), random.random(), np.random.standard_normal()  # noqa: NPY002


def take(batches, count):
    found = []
    while len(found) < count:
        for batch in batches:
            found.append([column.tolist() for column in batch])
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0)])
@pytest.mark.parametrize("at", [2, 3, 5])
def test_o64_the_rest_is_the_same_with_other_workers_in_and_between_epochs(before, after, at):
    straight = take(ShuffledBatches(Drawing(), 4, seed=7), 8)
    batches = ShuffledBatches(Drawing(), 4, seed=7, num_workers=before)
    assert take(batches, at) == straight[:at]
    resumed = ShuffledBatches(Drawing(), 4, seed=1, num_workers=after)
    resumed.load_state_dict(from_text(to_text(batches.state_dict(), "loader"), "loader"))
    assert take(resumed, 8 - at) == straight[at:]


def test_an_epoch_has_every_sample_once_and_the_next_one_another_order():
    batches = ShuffledBatches(Drawing(), 4)
    assert len(batches) == 3
    one, two = ([index for batch in batches for index in batch[0].tolist()] for _ in range(2))
    assert len(set(one)) == len(set(two)) == 12
    assert one != two


def test_training_s_own_random_numbers_are_left_alone():
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    expected = torch.rand(2).tolist(), random.random(), np.random.standard_normal()  # noqa: NPY002
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    take(ShuffledBatches(Drawing(), 4), 4)
    assert (torch.rand(2).tolist(), random.random(), np.random.standard_normal()) == expected  # noqa: NPY002


@pytest.mark.parametrize("size", [0, 14])
def test_a_batch_that_cant_be_filled_is_refused(size):
    with pytest.raises(UsageError, match=f"batch_size = {size}"):
        ShuffledBatches(Drawing(), size)
