"""The requests that decode together: their pages, to the token."""

import pytest

from eagerbuf.simulate.scheduler.incoming import Request
from eagerbuf.simulate.scheduler.running import NEVER, Running


def running(page, accepted, *joining):
    batch = Running(page, accepted)
    batch.join([Request(*pair) for pair in joining])
    batch.leave()
    return batch


def decode(batch, steps=1):
    """So many steps; how many requests are finished by them."""
    batch.decode(steps)
    return batch.leave()


def test_pages_are_held_whole_and_grow_one_by_one():
    batch = running(4, 1, (4, 9), (3, 9), (8, 9))
    # 4, 4 and 8 tokens are held; the next token needs a page of the first and of the third
    assert (len(batch), batch.held, batch.growth, batch.growth_at_most) == (3, 16, 8, 12)
    assert decode(batch) == 0
    assert (batch.held, batch.growth) == (24, 4)  # 5, 4, 9: now the second
    assert decode(batch, 2) == 0
    assert (batch.held, batch.growth) == (28, 0)  # 7, 6, 11


@pytest.mark.parametrize(
    ("page", "accepted", "most"), [(1, 1, 2), (1, 4, 8), (4, 1, 8), (4, 5, 16)]
)
def test_the_bound_of_growth_is_whole_pages_of_what_is_accepted(page, accepted, most):
    batch = running(page, accepted, (4 * page, 99), (8 * page, 99))
    assert batch.growth_at_most == batch.growth == most


def test_a_request_of_one_output_is_done_with_its_prefill():
    batch = running(1, 1, (4, 1), (5, 0))
    assert (len(batch), batch.held, batch.steps_left) == (0, 0, NEVER)
    batch.join([Request(7, 3)])
    batch.leave()
    assert (len(batch), batch.held, batch.steps_left) == (1, 7, 2)


def test_the_first_to_finish_leaves():
    batch = running(1, 2, (10, 8), (20, 4))  # 7 and 3 outputs to come, 2 a step
    assert batch.steps_left == 2
    assert [decode(batch), batch.steps_left] == [0, 1]
    assert [decode(batch), batch.steps_left] == [1, 2]
    assert (len(batch), batch.held) == (1, 14)
    assert [decode(batch, 2), batch.steps_left, batch.held] == [1, NEVER, 0]


def test_who_is_retracted_takes_along_what_it_has():
    batch = running(1, 1, (10, 8), (20, 5))
    decode(batch, 2)
    assert (batch.made, batch.most, batch.to_come) == (6, 13, 7)
    assert batch.retract() == Request(23, 2, 3)  # its last output is not in the pool yet
    assert (len(batch), batch.held, batch.steps_left) == (1, 12, 5)
    batch.join([Request(6, 2)])
    assert (batch.held, batch.steps_left) == (18, 1)


def test_what_is_retracted_first_has_the_fewest_outputs_then_the_longest_prompt():
    batch = running(1, 1, (10, 8), (20, 8))
    decode(batch)
    batch.join([Request(99, 8, 5), Request(30, 8), Request(7, 8), Request(30, 7)])
    order = [batch.retract().prompt for _ in range(len(batch))]
    assert order == [31, 31, 8, 22, 12, 100]
    last_first = Running(1, 1, last_first=True)
    last_first.join([Request(10, 8), Request(5, 8)])
    assert last_first.retract().prompt == 6


def test_finished_requests_count_until_the_next_decode_takes_them_out():
    batch = running(1, 1, (10, 2), (20, 3))
    batch.full = True
    assert (decode(batch), len(batch), batch.listed, batch.full) == (1, 1, 2, True)
    batch.clear()
    assert (batch.listed, batch.full) == (1, False)


@pytest.mark.parametrize(
    ("outputs", "reopens", "full"), [(1, False, False), (5, False, True), (5, True, False)]
)
def test_a_prefill_reopens_a_full_batch_where_it_loses_a_request(outputs, reopens, full):
    batch = running(1, 1, (10, 9))
    batch.full = True
    batch.join([Request(5, outputs)], reopens)
    batch.leave()
    assert batch.full is full
