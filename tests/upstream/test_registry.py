"""StaticBuffers against the released registry: the same views, the same refusals, and ours."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from eagerbuf import BufferSize, StaticBuffers
from tests.upstream import draw, wheels
from tests.upstream.registry import SLOTS, Registry
from tests.upstream.wheels import Wheel

SGLANG = [
    wheel
    for wheel in wheels.wanted()
    if wheel.package == "sglang" and wheels.row_of(wheel)["eager_runner"] == "yes"
]
MAX_BS, MAX_TOKENS = 4, 512


def batch(requests: int, tokens: int, mrope: bool = True) -> dict[str, torch.Tensor]:
    """Numbers that tell where they came from."""
    made = {name: torch.arange(1, 1 + tokens) * 10 + at for at, name in enumerate(SLOTS[:3])}
    made |= {name: torch.arange(1, 1 + requests) * 10 + at for at, name in enumerate(SLOTS[4:])}
    if mrope:
        made["mrope_positions"] = torch.arange(3 * tokens).reshape(3, tokens)
    return made


def both(wheel: Wheel) -> tuple[StaticBuffers, Registry]:
    return StaticBuffers(BufferSize(MAX_BS, MAX_TOKENS)), Registry(wheel, MAX_BS, MAX_TOKENS)


def random_batches(count: int) -> Iterator[dict[str, torch.Tensor]]:
    """Batches at and around the limits of both axes; never one token for several (see below)."""
    rng = draw.generator(600)
    for requests, tokens, mrope in zip(
        rng.integers(1, MAX_BS + 3, count).tolist(),
        np.floor(10 ** rng.uniform(0.4, 2.9, count)).astype(int).tolist(),
        (rng.random(count) < 0.5).tolist(),
        strict=True,
    ):
        yield batch(requests, tokens, mrope)


@pytest.mark.parametrize("wheel", SGLANG, ids=str)
def test_the_same_views_where_it_fits_and_an_error_where_it_does_not(wheel: Wheel) -> None:
    ours, theirs = both(wheel)
    fitted = 0
    for given in random_batches(300):
        try:
            expected = theirs.load(given)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                ours.load(given)
            continue
        views = ours.load(given)
        assert views.keys() == expected.keys()
        for name, view in views.items():
            assert (view.shape, view.dtype) == (expected[name].shape, expected[name].dtype)
            assert torch.equal(view, expected[name])
        fitted += 1
    assert 50 < fitted < 250


@pytest.mark.parametrize("wheel", SGLANG, ids=str)
def test_a_slot_that_disagrees_on_its_axis_is_refused_by_both(wheel: Wheel) -> None:
    for name in ("positions", "out_cache_loc", "seq_lens"):
        given = batch(3, 100)
        given[name] = given[name][:-1]
        ours, theirs = both(wheel)
        with pytest.raises(RuntimeError):
            ours.load(given)
        with pytest.raises((RuntimeError, AssertionError)):
            theirs.load(given)


@pytest.mark.parametrize("wheel", SGLANG, ids=str)
def test_upstream_says_the_same_about_a_probe_in_every_release(wheel: Wheel) -> None:
    """The message of the hang: a probe of 640 tokens, a buffer of 512."""
    _, theirs = both(wheel)
    with pytest.raises(RuntimeError, match=r"tensor a \(512\) must match .* tensor b \(640\)"):
        theirs.load(batch(1, 640))


@pytest.mark.parametrize("wheel", SGLANG, ids=str)
def test_upstream_stops_halfway_and_ours_before_the_first_write(wheel: Wheel) -> None:
    """Five requests in four rows: upstream has overwritten the token slots already."""
    ours, theirs = both(wheel)
    with pytest.raises(RuntimeError, match=r"tensor a \(4\) must match .* tensor b \(5\)"):
        theirs.load(batch(5, 100))
    assert theirs.rows("input_ids")[:100].tolist() == batch(5, 100)["input_ids"].tolist()
    with pytest.raises(RuntimeError, match="nothing was written"):
        ours.load(batch(5, 100))
    assert ours.load({"input_ids": torch.zeros(0, dtype=torch.int64)})["input_ids"].shape == (0,)


@pytest.mark.parametrize("wheel", SGLANG, ids=str)
def test_ours_refuses_the_two_cases_that_upstream_lets_pass(wheel: Wheel) -> None:
    """A source of length 1 is broadcast over four rows; one token "fits" a buffer of none."""
    ours, theirs = both(wheel)
    short = batch(4, 100)
    short["req_pool_indices"] = torch.tensor([7])
    assert theirs.load(short)["req_pool_indices"].tolist() == [7, 7, 7, 7]
    with pytest.raises(RuntimeError, match="req_pool_indices"):
        ours.load(short)
    nothing = Registry(wheel, MAX_BS, 0)
    assert nothing.load(batch(1, 1))["input_ids"].shape == (0,)
    with pytest.raises(RuntimeError, match="does not fit"):
        StaticBuffers(BufferSize(MAX_BS, 0)).load(batch(1, 1))


@pytest.mark.parametrize("wheel", SGLANG, ids=str)
def test_ours_refuses_another_dtype_that_upstream_converts(wheel: Wheel) -> None:
    """A documented difference: a conversion hides where 32-bit indices came from."""
    ours, theirs = both(wheel)
    given = batch(3, 100)
    given["seq_lens"] = given["seq_lens"].to(torch.int32)
    assert theirs.load(given)["seq_lens"].dtype == torch.int64
    with pytest.raises(ValueError, match=r"seq_lens.*int32"):
        ours.load(given)
