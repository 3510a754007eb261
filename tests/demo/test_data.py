"""The order of samples: the same on any number of ranks, exact after a resume, fresh every epoch."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptstore.demo.data import SampleOrder, read_corpus, window


@st.composite
def orders(draw):
    """Parameters of a SampleOrder with at least one batch."""
    batch = draw(st.integers(1, 16))
    return draw(st.integers(batch, 100)), batch, draw(st.integers(0, 1000))


@given(orders(), st.integers(0, 40), st.integers(1, 40))
def test_goes_on_after_a_resume_as_if_never_stopped(parameters, before, after):
    straight, first, second = (SampleOrder(*parameters) for _ in range(3))
    expected = [straight.take() for _ in range(before + after)]
    got = [first.take() for _ in range(before)]
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    got += [second.take() for _ in range(after)]
    assert got == expected


@given(orders())
def test_an_epoch_reads_no_sample_twice_and_drops_less_than_a_batch(parameters):
    samples, batch, _ = parameters
    order = SampleOrder(*parameters)
    seen = [sample for _ in range(samples // batch) for sample in order.take()]
    assert order.epoch == 0
    assert len(set(seen)) == len(seen) > samples - batch
    order.take()
    assert order.epoch == 1


@pytest.mark.parametrize("world", [1, 2, 4])
def test_ranks_together_read_the_global_batch_in_order(world):
    order = SampleOrder(1000, 16, 7)
    batch = order.take()
    slices = [order.slice(batch, rank, world) for rank in range(world)]
    assert [sample for part in slices for sample in part] == batch
    assert {len(part) for part in slices} == {16 // world}


def test_epochs_are_shuffled_differently():
    order = SampleOrder(64, 64, 7)
    first, second = order.take(), order.take()
    assert sorted(first) == sorted(second) == list(range(64))
    assert first != second != list(range(64))


def test_refuses_what_it_cannot_share_evenly():
    order = SampleOrder(64, 16, 7)
    with pytest.raises(ValueError, match="3 ranks"):
        order.slice(order.take(), 0, 3)
    with pytest.raises(ValueError, match="must be 1 to 8"):
        SampleOrder(8, 9, 7)


def test_window_shifts_the_text_by_one_byte():
    corpus = read_corpus(limit=1 << 16)
    inputs, targets = window(corpus, [3, 0], context=64)
    assert bytes(inputs[0].byte().numpy()) == bytes(corpus[192:256].numpy())
    assert bytes(targets[1].byte().numpy()) == bytes(corpus[1:65].numpy())
    assert len(corpus) == 1 << 16
