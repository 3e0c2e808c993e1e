"""KV bytes of a token equal the released pool configurators', model by model, rank by rank."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import pytest

from eagerbuf.models import find_model, models
from tests.upstream import wheels
from tests.upstream.engine import SRT
from tests.upstream.kv import Case, Pools
from tests.upstream.load import Room

MODELLED = wheels.sglang("0.5.14")
SPLITS = list(product((1, 2, 4, 8, 16), (1, 2, 3, 4, 8), (1, 2)))
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


def test_a_sliding_model_is_charged_one_layer_more_on_a_stage_upstream() -> None:
    """Decided: a stage's own layers. Up to 0.5.20 the first layer of the next one is counted too.

    gpt-oss on stage 0 of 4 has layers 0 to 8, four full and five sliding; upstream also takes 9.
    """
    model = find_model("gpt-oss-120b")
    stage = model.stage(4, 0)
    assert (stage, model.kv_layers(4, 0)) == (range(9), (4, 5))
    file = f"{SRT}/model_executor/model_runner.py"
    adjust = Room(MODELLED, {}).piece("ModelRunner.adjust_hybrid_swa_layers_for_pp", file)
    config = SimpleNamespace(
        is_deepseek_v4_arch=False,
        full_attention_layer_ids=list(range(1, 36, 2)),
        swa_attention_layer_ids=list(range(0, 36, 2)),
    )
    adjust(SimpleNamespace(is_hybrid_swa=True, model_config=config, start_layer=0, end_layer=9))
    assert config.swa_attention_layer_ids == [0, 2, 4, 6, 8]
    assert config.full_attention_layer_ids == [1, 3, 5, 7, 9]
