"""Models people serve: the bytes a token takes in the KV pool of one rank (data/models.csv)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from eagerbuf._csv import Reads, maybe, table

# SGLang's default for --swa-full-tokens-ratio: tokens of a sliding layer to those of a full one
SLIDING_RATIO = 0.8

SCHEMA: dict[str, Reads] = {
    "model": str,
    "attention": str,
    "layers": int,
    "full_every": int,
    "other_layers": maybe(str),
    "kv_heads": maybe(int),
    "head_dim": maybe(int),
    "kv_lora_rank": maybe(int),
    "rope_head_dim": maybe(int),
    "hidden_size": int,
    "num_experts": int,
    "num_experts_per_tok": int,
    "kv_dtype_bytes": int,
    "source": str,
}


@dataclass(frozen=True)
class Model:
    """One model's attention and MoE shape, as its public configuration states them.

    `layers` in all; every `full_every`-th layer keeps the keys and values of all tokens, the rest
    (`other_layers`) slide over a window or are linear and keep none. GQA has `kv_heads` of
    `head_dim`, MLA a latent of `kv_lora_rank` + `rope_head_dim`; the other pair is None. Without
    MoE `num_experts` and `num_experts_per_tok` are 0. `kv_dtype_bytes`: bytes of a cached number.
    """

    name: str
    attention: str
    layers: int
    full_every: int
    other_layers: str | None
    kv_heads: int | None
    head_dim: int | None
    kv_lora_rank: int | None
    rope_head_dim: int | None
    hidden_size: int
    num_experts: int
    num_experts_per_tok: int
    kv_dtype_bytes: int
    source: str

    def stage(self, pp_size: int = 1, pp_rank: int = 0) -> range:
        """Layers of one pipeline stage; what does not divide goes to the last stages, one each.

        Source: SGLang 0.5.14, `get_pp_indices` (srt/distributed/utils.py). ValueError where there
        are more stages than layers or no such rank.
        """
        if not 1 <= pp_size <= self.layers:
            raise ValueError(f"pp_size={pp_size}: {self.name} has {self.layers} layers, 1 to that")
        if not 0 <= pp_rank < pp_size:
            raise ValueError(f"pp_rank={pp_rank}: must be 0 to {pp_size - 1}, below pp_size")
        least, spare = divmod(self.layers, pp_size)
        first = pp_rank * least + max(0, pp_rank - (pp_size - spare))
        return range(first, first + least + (pp_rank >= pp_size - spare))

    def kv_layers(self, pp_size: int = 1, pp_rank: int = 0) -> tuple[int, int]:
        """(full, sliding): layers of the stage with keys and values of all tokens, of a window."""
        stage = self.stage(pp_size, pp_rank)
        full = sum((layer + 1) % self.full_every == 0 for layer in stage)
        return full, len(stage) - full if self.other_layers == "sliding" else 0

    def layer_bytes(self, tp: int = 1, dtype_bytes: int | None = None) -> int:
        """Bytes of one token in one layer on a rank of `tp` attention TP ranks.

        GQA: keys and values of the rank's heads, at least one; MLA: the latent, whole on each rank.
        """
        if tp < 1:
            raise ValueError(f"tp={tp}: must be at least 1, the attention TP ranks")
        width = (self.kv_lora_rank or 0) + (self.rope_head_dim or 0)
        if self.attention == "gqa":
            width = 2 * max(1, (self.kv_heads or 0) // tp) * (self.head_dim or 0)
        return width * (dtype_bytes or self.kv_dtype_bytes)

    def kv_bytes_per_token(
        self,
        tp: int = 1,
        pp_size: int = 1,
        pp_rank: int = 0,
        dtype_bytes: int | None = None,
        sliding_ratio: float = SLIDING_RATIO,
    ) -> float:
        """Bytes of the KV pool for each token of max_total_num_tokens on one rank.

        `tp`: attention TP ranks. A whole number, but where layers slide: beside full ones those
        hold `sliding_ratio` tokens for each token of the pool. Source: SGLang 0.5.14, `_cell_size`
        of `DefaultPoolConfigurator` and `HybridSWAPoolConfigurator`
        (srt/model_executor/pool_configurator.py). A draft model's layers, the index of sparse
        attention and the states of linear layers come on top.
        """
        full, sliding = self.kv_layers(pp_size, pp_rank)
        each = self.layer_bytes(tp, dtype_bytes)
        if full and sliding:
            return each * full + sliding_ratio * each * sliding
        return each * (full + sliding)


@cache
def models() -> tuple[Model, ...]:
    """The models that ship with the package."""
    return tuple(Model(*row.values()) for row in table("models.csv", SCHEMA))


def find_model(name: str) -> Model:
    """The model called `name`; ValueError listing the known ones."""
    for known in models():
        if known.name == name:
            return known
    raise ValueError(f"model={name!r}: unknown, give one of {', '.join(m.name for m in models())}")
