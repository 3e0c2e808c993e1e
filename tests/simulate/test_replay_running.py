"""The requests that decode together: their pages, to the token."""

import pytest

from eagerbuf.simulate.scheduler.incoming import Request
from eagerbuf.simulate.scheduler.running import NEVER, Running


def running(page, accepted, *joining):
    batch = Running(page, accepted)
    batch.join([Request(*pair) for pair in joining])
    return batch


def test_pages_are_held_whole_and_grow_one_by_one():
    batch = running(4, 1, (4, 9), (3, 9), (8, 9))
    # 4, 4 and 8 tokens are held; the next token needs a page of the first and of the third
    assert (len(batch), batch.held, batch.growth, batch.growth_at_most) == (3, 16, 8, 12)
    assert batch.decode() == 0
    assert (batch.held, batch.growth) == (24, 4)  # 5, 4, 9: now the second
    assert batch.decode(2) == 0
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
    assert (len(batch), batch.held, batch.steps_left) == (1, 7, 2)


def test_the_first_to_finish_leaves():
    batch = running(1, 2, (10, 8), (20, 4))  # 7 and 3 outputs to come, 2 a step
    assert batch.steps_left == 2
    assert [batch.decode(), batch.steps_left] == [0, 1]
    assert [batch.decode(), batch.steps_left] == [1, 2]
    assert (len(batch), batch.held) == (1, 14)
    assert [batch.decode(2), batch.steps_left, batch.held] == [1, NEVER, 0]


def test_the_last_to_join_is_retracted_with_what_it_has():
    batch = running(1, 1, (10, 8), (20, 5))
    batch.decode(2)
    assert batch.retract() == Request(23, 2)  # its last output is not in the pool yet
    assert (len(batch), batch.held, batch.steps_left) == (1, 12, 5)
    batch.join([Request(6, 2)])
    assert (batch.held, batch.steps_left) == (18, 1)
