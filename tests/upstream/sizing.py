"""The eager runner's sizing and what it rests on: a release's against ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

from eagerbuf import max_prefill_buffer_tokens, size_many
from eagerbuf._frames import config_columns
from tests.upstream import draw
from tests.upstream.compare import Comparison
from tests.upstream.engine import Engine
from tests.upstream.wheels import NEEDED, Wheel

UPSTREAM_RULES = ("pr28386", "pr28677", "pr28894")


@cache
def rule_of(wheel: Wheel) -> str | None:
    """The upstream rule that gives this release's own sizes, None where none does."""
    frame = draw.configs(300, salt=1_000_000)
    engine, found = Engine(wheel), []
    for row in frame.to_dict("records"):
        engine.apply(row)
        found.append(engine.sizing())
    return next((rule for rule in UPSTREAM_RULES if _sizes(frame, rule) == found), None)


def zigzag_of_one(wheel: Wheel) -> int:
    """The alignment of zigzag CP over one rank: the flag is on, there is nothing to split."""
    engine, row = Engine(wheel), draw.configs(1).to_dict("records")[0]
    engine.apply({**row, "tp_size": row["dp_size"], "attn_cp_size": 1, "cp_zigzag": True})
    return engine.cp_align_size()


def _sizes(frame: Any, rule: str) -> list[tuple[int, int]]:
    sizes = size_many(frame, rule)
    return list(zip(sizes.max_bs.tolist(), sizes.max_num_tokens.tolist(), strict=True))


@lru_cache(maxsize=1)
def _drawn(salt: int, count: int) -> tuple[Any, list[dict[Any, Any]]]:
    frame = draw.configs(count, salt)
    return frame, frame.to_dict("records")


def _sizing_cases(wheel: Wheel, salt: int, count: int) -> tuple[Any, Any]:
    frame, rows = _drawn(salt, count)
    return rows, _sizes(frame, rule_of(wheel) or UPSTREAM_RULES[-1])


def _setting_cases(_: Wheel, salt: int, count: int) -> tuple[Any, Any]:
    frame, rows = _drawn(salt, count)
    ours = config_columns(frame)
    sync, ranks = ours.require_mlp_sync.tolist(), ours.attn_tp_size.tolist()
    ceiling, align = max_prefill_buffer_tokens(ours).tolist(), ours.cp_align_size.tolist()
    return rows, list(zip(ceiling, sync, ranks, align, strict=True))


def _asked(wheel: Wheel, question: Callable[[Engine], Any]) -> Callable[[Any], Any]:
    engine = Engine(wheel)

    def ask(row: Mapping[str, Any]) -> Any:
        engine.apply(row)
        return question(engine)

    return ask


def _settings(engine: Engine) -> tuple[int, bool, int, int]:
    return (
        engine.max_prefill_buffer_tokens(),
        engine.require_mlp_sync(),
        int(engine.settings.attn_tp_size),
        engine.cp_align_size(),
    )


SIZING = Comparison(
    "eager runner: max_bs, max_num_token",
    _sizing_cases,
    lambda wheel: _asked(wheel, Engine.sizing),
    lambda wheel: f"rule {rule_of(wheel)}",
    also_in_full=NEEDED,
)
SETTINGS = Comparison(
    "max_prefill_buffer_tokens, require_mlp_sync, attn_tp_size, cp_align_size",
    _setting_cases,
    lambda wheel: _asked(wheel, _settings),
)
