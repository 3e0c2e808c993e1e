"""`StaticBuffers.load` against the released registry's `fill_from`, and a plain copy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from eagerbuf import BufferSize, StaticBuffers
from tests.bench.conftest import Measure, Rival
from tests.upstream import wheels
from tests.upstream.registry import Batch, Registry

TOKENS = (1, 512, 8192, 131_072)
SIZE = BufferSize(128, 131_072)
Tensors = dict[str, torch.Tensor]


def batch(tokens: int) -> Tensors:
    """All seven slots; as many requests as the buffers hold, at most one a token."""
    slots = StaticBuffers(BufferSize(1, 1)).slots.values()
    length = {"tokens": tokens, "requests": min(tokens, SIZE.max_bs)}
    return {s.name: torch.randint(9**9, s.shape(length[s.axis])) for s in slots}


def fill_from(given: Tensors, registry: Registry) -> Callable[[], object]:
    requests, tokens = len(given["seq_lens"]), len(given["input_ids"])
    forward = Batch(batch_size=requests, **given)
    sizes = {"raw_bs": requests, "padded_bs": requests}
    sizes |= {"raw_num_tokens": tokens, "padded_num_tokens": tokens}
    return lambda: registry.buffers.fill_from(forward, **sizes)


def plain_copy(given: Tensors) -> Callable[[], object]:
    """As many bytes from one tensor to another."""
    source = torch.cat([tensor.flatten() for tensor in given.values()])
    target = torch.zeros_like(source)
    return lambda: target.copy_(source)


def repeated(run: Callable[[], object], times: int) -> Callable[..., None]:
    def many(_: object = None) -> None:
        for _ in range(times):
            run()

    return many


@pytest.mark.parametrize("tokens", TOKENS)
def test_load(measure: Measure, tokens: int) -> None:
    given, times = batch(tokens), max(2, min(100, 1_000_000 // tokens))
    buffers = StaticBuffers(SIZE)
    registry = Registry(wheels.sglang("0.5.14"), SIZE.max_bs, SIZE.max_num_tokens)
    rivals = {"released": fill_from(given, registry), "plain copy": plain_copy(given)}
    measure(
        repeated(lambda: buffers.load(given), times),
        {side: Rival(repeated(run, times)) for side, run in rivals.items()},
        of="load",
        case=f"{tokens:,} tokens",
        work=tokens,
        times=times,
        rounds=60,
    )
    for name, view in buffers.load(given).items():
        assert torch.equal(view, given[name]), name
        assert torch.equal(view, registry.rows(name)[..., : view.shape[-1]]), name
