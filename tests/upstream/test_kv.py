"""KV bytes of a token equal the released pool configurators', model by model, rank by rank."""

from __future__ import annotations

from itertools import product

import pytest

from eagerbuf.model import find_model, models
from tests.upstream import wheels
from tests.upstream.kv import Case, Pools, sliding_layers

MODELLED = wheels.sglang("0.5.14")
SPLITS = list(product((1, 4, 8, 16), (1, 3, 8), (1, 2)))
FEW = [(1, 1, 2), (8, 1, 2), (2, 4, 1), (8, 8, 2)]


def _cases(splits: list[tuple[int, int, int]]) -> list[Case]:
    return [
        Case(model, tp, pp_size, rank, dtype_bytes)
        for model in models()
        for tp, pp_size, dtype_bytes in splits
        for rank in range(pp_size)
    ]


def _ours(case: Case) -> float:
    return case.model.kv_bytes_per_token(case.tp, case.pp_size, case.pp_rank, case.dtype_bytes)


@pytest.mark.parametrize("version", wheels.NEEDED)
def test_no_difference_on_any_model_rank_and_release(version: str) -> None:
    pools = Pools(wheels.sglang(version))
    cases = _cases(SPLITS if version == MODELLED.version else FEW)
    assert len(cases) > 200
    theirs = [pools.bytes_per_token(case) for case in cases]
    assert theirs == pytest.approx([_ours(case) for case in cases], rel=1e-12)


def test_every_stage_holds_the_released_layers() -> None:
    pools = Pools(MODELLED)
    for case in _cases([(1, pp_size, 2) for pp_size in range(1, 9)]):
        assert pools.layers(case) == case.model.stage(case.pp_size, case.pp_rank)


@pytest.mark.parametrize("version", wheels.NEEDED)
def test_a_sliding_model_is_charged_one_layer_more_on_a_stage_until_0_5_21(version: str) -> None:
    """Decided: a stage's own layers. Up to 0.5.20 the first layer of the next one is counted too.

    gpt-oss on stage 0 of 4 has layers 0 to 8, four full and five sliding; they also take 9.
    """
    model = find_model("gpt-oss-120b")
    assert (model.stage(4, 0), model.kv_layers(4, 0)) == (range(9), (4, 5))
    full, sliding = sliding_layers(wheels.sglang(version), model, model.stage(4, 0))
    assert sliding == [0, 2, 4, 6, 8]
    assert full == [1, 3, 5, 7] + [9] * (version != "0.5.23")
