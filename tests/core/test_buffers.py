"""The static input buffers: what they hold, what they refuse, and that a refusal writes nothing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eagerbuf.buffers import StaticBuffers
from eagerbuf.config import EngineConfig
from eagerbuf.sizing import BufferSize, buffer_size

TOKEN_SLOTS = ("input_ids", "positions", "out_cache_loc")
REQUEST_SLOTS = ("req_pool_indices", "seq_lens", "seq_lens_cpu")


def batch_of(tokens: int, requests: int, start: int = 1) -> dict[str, torch.Tensor]:
    """A full batch whose values differ from slot to slot and are never 0."""
    batch = {name: torch.arange(tokens) + start + 1000 * i for i, name in enumerate(TOKEN_SLOTS)}
    batch["mrope_positions"] = torch.arange(3 * tokens).reshape(3, tokens) + start + 5000
    for i, name in enumerate(REQUEST_SLOTS):
        batch[name] = torch.arange(requests) + start + 9000 + 100 * i
    return batch


def contents(buffers: StaticBuffers) -> dict[str, torch.Tensor]:
    """A copy of everything that the buffers hold."""
    return {name: buffer.clone() for name, buffer in buffers._buffers.items()}


def assert_untouched(buffers: StaticBuffers, batch: dict[str, torch.Tensor], message: str) -> None:
    before = contents(buffers)
    with pytest.raises(RuntimeError, match=message):
        buffers.load(batch)
    assert all(torch.equal(before[name], now) for name, now in contents(buffers).items())


def test_bytes_are_what_torch_allocated_and_what_the_size_says():
    size = BufferSize(max_bs=7, max_num_tokens=100)
    buffers = StaticBuffers(size)
    assert buffers.nbytes == 100 * 48 + 7 * 16 == size.nbytes
    assert buffers.host_nbytes == 7 * 8
    assert StaticBuffers(size, mrope=False).nbytes == 100 * 24 + 7 * 16


def test_bytes_of_a_device_that_allocates_nothing_still_add_up():
    buffers = StaticBuffers(BufferSize(max_bs=4, max_num_tokens=10**9), device="meta")
    assert buffers.nbytes == 48 * 10**9 + 64
    assert buffers.host_nbytes == 32


def test_seq_lens_cpu_stays_on_the_host():
    view = StaticBuffers(BufferSize(2, 4), device="meta").load({"seq_lens_cpu": torch.tensor([3])})
    assert view["seq_lens_cpu"].device.type == "cpu"
    assert view["seq_lens_cpu"].tolist() == [3]


def test_a_batch_lands_in_the_front_and_the_rest_stays():
    buffers = StaticBuffers(BufferSize(max_bs=4, max_num_tokens=8))
    buffers.load(batch_of(8, 4))
    small = batch_of(3, 2, start=50)
    views = buffers.load(small)
    full = batch_of(8, 4)
    for name, view in views.items():
        assert torch.equal(view, small[name])
        n = small[name].shape[-1]
        assert torch.equal(contents(buffers)[name][..., n:], full[name][..., n:])


def test_views_are_the_buffers_themselves_at_a_fixed_address():
    buffers = StaticBuffers(BufferSize(max_bs=4, max_num_tokens=8))
    first = buffers.load(batch_of(8, 4))
    second = buffers.load(batch_of(2, 1, start=70))
    assert {name: v.data_ptr() for name, v in first.items()} == {
        name: v.data_ptr() for name, v in second.items()
    }
    assert first["input_ids"][:2].tolist() == [70, 71]


def test_the_first_probe_does_not_fit_the_chunk_sized_buffer():
    config = EngineConfig(512, 4, pp_size=2, enable_dynamic_chunking=True)
    buffers = StaticBuffers(buffer_size(config, "pr28386"))
    message = r"input_ids: batch of 640 tokens .* buffer of 512 tokens \(max_num_tokens\)"
    assert_untouched(buffers, batch_of(640, 1), message)
    fits = StaticBuffers(buffer_size(config, "tight"))
    assert fits.load(batch_of(640, 1))["input_ids"].shape == (640,)


def test_too_many_requests_leave_the_token_slots_alone():
    buffers = StaticBuffers(BufferSize(max_bs=4, max_num_tokens=8))
    buffers.load(batch_of(8, 4))
    message = r"req_pool_indices: batch of 5 requests .* buffer of 4 requests \(max_bs\)"
    assert_untouched(buffers, batch_of(5, 5, start=70), message)


@pytest.mark.parametrize("name", [*TOKEN_SLOTS, *REQUEST_SLOTS, "mrope_positions"])
def test_every_slot_is_checked_and_named(name: str):
    buffers = StaticBuffers(BufferSize(max_bs=4, max_num_tokens=4))
    batch = batch_of(4, 4)
    batch[name] = batch_of(5, 5)[name]
    assert_untouched(buffers, batch, rf"^{name}: batch of 5 (tokens|requests) .* of 4 ")


def test_a_source_of_length_one_is_not_spread_over_four_rows():
    buffers = StaticBuffers(BufferSize(max_bs=4, max_num_tokens=8))
    batch = batch_of(4, 4) | {"positions": torch.tensor([9])}
    assert_untouched(buffers, batch, "positions: 1 tokens, but input_ids has 4")
    batch = batch_of(4, 4) | {"seq_lens": torch.tensor([9])}
    assert_untouched(buffers, batch, "seq_lens: 1 requests, but req_pool_indices has 4")


def test_one_token_does_not_fit_a_buffer_of_length_zero():
    buffers = StaticBuffers(BufferSize(max_bs=1, max_num_tokens=0))
    assert buffers.nbytes == 16
    with pytest.raises(RuntimeError, match=r"input_ids: batch of 1 tokens .* buffer of 0 tokens"):
        buffers.load({"input_ids": torch.tensor([5])})


def test_an_idle_batch_of_nothing_is_fine():
    views = StaticBuffers(BufferSize(max_bs=4, max_num_tokens=8)).load(batch_of(0, 0))
    assert views["mrope_positions"].shape == (3, 0)


def test_a_slot_left_out_has_no_view_and_keeps_its_content():
    buffers = StaticBuffers(BufferSize(max_bs=4, max_num_tokens=8))
    buffers.load(batch_of(8, 4))
    before = contents(buffers)["mrope_positions"]
    text_only = batch_of(2, 1, start=70)
    del text_only["mrope_positions"]
    assert set(buffers.load(text_only)) == set(text_only)
    assert torch.equal(contents(buffers)["mrope_positions"], before)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({}, "batch has no slots"),
        ({"ids": torch.arange(2)}, "slot 'ids': unknown, known are input_ids"),
        ({"input_ids": [1, 2]}, "slot 'input_ids': give a tensor, not list"),
        ({"input_ids": torch.tensor(1)}, r"slot 'input_ids': shape \(\), must be \(tokens,\)"),
        ({"input_ids": torch.zeros(1, 2).long()}, r"shape \(1, 2\), must be \(tokens,\)"),
        ({"mrope_positions": torch.arange(2)}, r"shape \(2,\), must be \(3, tokens\)"),
        ({"mrope_positions": torch.zeros(1, 2).long()}, r"shape \(1, 2\), must be \(3, tokens\)"),
        ({"seq_lens": torch.zeros(2, dtype=torch.int32)}, r"'seq_lens': dtype torch.int32, must"),
        ({"input_ids": torch.arange(2), "positions": torch.rand(2)}, "'positions': dtype torch.fl"),
    ],
)
def test_malformed_batches_are_refused_before_any_write(batch, message: str):
    buffers = StaticBuffers(BufferSize(max_bs=4, max_num_tokens=8))
    with pytest.raises(ValueError, match=message):
        buffers.load(batch)
    assert not any(tensor.any() for tensor in contents(buffers).values())


def test_buffers_without_mrope_do_not_know_the_slot():
    buffers = StaticBuffers(BufferSize(max_bs=4, max_num_tokens=8), mrope=False)
    with pytest.raises(ValueError, match="'mrope_positions': unknown"):
        buffers.load(batch_of(2, 1))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 6),
    st.integers(0, 6),
    st.dictionaries(st.sampled_from(TOKEN_SLOTS), st.integers(0, 8)),
)
def test_a_load_either_copies_everything_or_nothing(max_tokens, requests, tokens):
    buffers = StaticBuffers(BufferSize(max_bs=4, max_num_tokens=max_tokens))
    batch = {name: torch.arange(n) + 1 for name, n in tokens.items()}
    batch["seq_lens"] = torch.arange(requests) + 1
    fits = (
        requests <= 4
        and len(set(tokens.values())) <= 1
        and max(tokens.values(), default=0) <= max_tokens
    )
    if fits:
        assert all(torch.equal(view, batch[name]) for name, view in buffers.load(batch).items())
    else:
        with pytest.raises(RuntimeError):
            buffers.load(batch)
        assert not any(tensor.any() for tensor in (buffers._buffers.values()))


@pytest.mark.parametrize(("tokens", "requests"), [(8, 4), (1, 1), (8, 1)])
def test_what_fits_is_copied_and_not_live(tokens, requests):
    buffers, batch = (
        StaticBuffers(BufferSize(max_bs=4, max_num_tokens=8)),
        batch_of(tokens, requests),
    )
    assert buffers.holds(tokens, requests)
    views = buffers.load_or_live(batch)
    for name, view in views.items():
        assert torch.equal(view, batch[name])
        assert view.data_ptr() == buffers._buffers[name].data_ptr()


@pytest.mark.parametrize(("tokens", "requests"), [(9, 4), (8, 5), (4096, 1), (4096, 64)])
def test_what_does_not_fit_is_used_live_and_writes_nothing(tokens, requests):
    buffers, batch = (
        StaticBuffers(BufferSize(max_bs=4, max_num_tokens=8)),
        batch_of(tokens, requests),
    )
    buffers.load(batch_of(8, 4, start=77))
    before = contents(buffers)
    assert not buffers.holds(tokens, requests)
    live = buffers.load_or_live(batch)
    assert live.keys() == batch.keys()
    assert all(live[name].data_ptr() == batch[name].data_ptr() for name in batch)
    assert all(torch.equal(before[name], now) for name, now in contents(buffers).items())
    with pytest.raises(RuntimeError, match="does not fit"):
        buffers.load(batch)


def test_a_live_batch_is_checked_as_a_copied_one_is():
    buffers, batch = StaticBuffers(BufferSize(max_bs=4, max_num_tokens=8)), batch_of(9, 4)
    with pytest.raises(RuntimeError, match="slots of one axis must agree"):
        buffers.load_or_live({**batch, "positions": torch.arange(10)})
    with pytest.raises(ValueError, match="convert it with"):
        buffers.load_or_live({**batch, "positions": torch.arange(9).int()})
    with pytest.raises(ValueError, match="unknown"):
        buffers.load_or_live({"ids": torch.arange(9)})
    with pytest.raises(ValueError, match="no slots"):
        buffers.load_or_live({})


def test_a_live_batch_goes_to_the_device_of_its_slots():
    buffers = StaticBuffers(BufferSize(max_bs=4, max_num_tokens=8), device="meta")
    live = buffers.load_or_live(batch_of(9, 4))
    assert live["positions"].device.type == "meta"
    assert live["seq_lens_cpu"].device.type == "cpu"
