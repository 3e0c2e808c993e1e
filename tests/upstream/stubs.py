"""Stand-ins: a KV pool, an empty radix cache and a request for PrefillAdder; a batch, a model and
settings for MLP sync."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch

NO_NODE = SimpleNamespace(to_dec_params=lambda: None)


@cache
def _sampling(max_new_tokens: int, ignore_eos: bool) -> SimpleNamespace:
    return SimpleNamespace(max_new_tokens=max_new_tokens, ignore_eos=ignore_eos)


class Pool:
    def __init__(self, page_size: int, tokens: int) -> None:
        self.page_size, self.tokens = page_size, tokens

    def available_size(self) -> int:
        return self.tokens


class Tree:
    """A radix cache that holds nothing; `disable`: there is none."""

    buffer_pipeline = None
    sliding_window_size = None

    def __init__(self, disable: bool) -> None:
        self.disable = disable

    def supports_mamba(self) -> bool:
        return False

    def is_tree_cache(self) -> bool:
        return False

    def evictable_size(self) -> int:
        return 0

    def inc_lock_ref(self, node: Any) -> Any:
        return node

    lock = unlock = dec_lock_ref = inc_lock_ref

    def finish_storage_prefetch_admission(self, *_: Any, **__: Any) -> None:
        """Nothing was prefetched."""


class Request:
    """A waiting request without a cached prefix, under the field names of every release."""

    def __init__(self, tokens: int, ignore_eos: bool, max_new_tokens: int) -> None:
        self.full_untruncated_fill_ids = self.origin_input_ids = range(tokens)
        self.extend_input_len = self.fill_len = self.extend_end = tokens
        self.sampling_params = _sampling(max_new_tokens, ignore_eos)

    prefix_indices: tuple[int, ...] = ()
    output_ids: tuple[int, ...] = ()
    prefix_len = host_hit_length = swa_host_hit_length = storage_hit_length = 0
    auxiliary_swa_host_hit_length = mamba_host_hit_length = 0
    retracted_stain = False
    kv = SimpleNamespace(req_pool_idx=None, holds_mamba=False)
    last_node = best_match_node = cache_request_handle = NO_NODE

    def needs_host_load_back(self) -> bool:
        return False

    def fulfilled_storage_hit_len(self, _: int) -> int:
        return 0

    def set_extend_input_len(self, tokens: int) -> None:
        self.extend_input_len = tokens

    def set_extend_range(self, _: int, end: int) -> None:
        self.extend_end = end

    @property
    def extend_range(self) -> SimpleNamespace:
        return SimpleNamespace(length=self.extend_end)

    @property
    def extend_len(self) -> int:
        """Tokens taken: 0.5.14 shortens extend_input_len, later releases move the end."""
        return min(self.extend_input_len, self.extend_end)


def model_runner(settings: SimpleNamespace) -> SimpleNamespace:
    """A plain model, so that no branch for state-space layers is taken."""
    return SimpleNamespace(
        server_args=settings.graph,
        mambaish_config=None,
        is_draft_worker=False,
        model_config=SimpleNamespace(hf_config=SimpleNamespace()),
        attn_tp_sequence_sharded=lambda _: False,
        attn_backend=SimpleNamespace(late_layer_num_tokens=lambda _: None),
    )


def nothing(*_: Any, **__: Any) -> None:
    """Process-wide state that only the model reads."""


def sync_settings(given: dict[str, Any]) -> SimpleNamespace:
    """What MLP sync reads of the ranks, the model and the graphs, with nothing switched on."""
    no_graph = SimpleNamespace(cuda_graph_config=SimpleNamespace(prefill=SimpleNamespace(bs=[])))
    defaults: dict[str, Any] = {
        "attn_tp_size": 1,
        "cp_align_size": 1,
        "attn_cp_size": 1,
        "moe_a2a_backend": "none",
        "max_len_with_idle": False,
        "graph": no_graph,
        "speculative_algorithm": None,
        "tp_group": SimpleNamespace(ca_comm=None),
        "moe": SimpleNamespace(elastic_ep_backend=None),
        "enable_prefill_cp": False,
        "cp_strategy": None,
    }
    shared = SimpleNamespace(**defaults | given)
    shared.dp = SimpleNamespace(
        max_len_with_idle=shared.max_len_with_idle,
        scoped_gather_slot=None,
        buffer_hidden_size=1,
        buffer_dtype=torch.float32,
    )
    return shared


def sync_batch(
    num_tokens: Sequence[int], is_extend: bool, rank: int, per_request: int
) -> SimpleNamespace:
    """One rank's ForwardBatch, of which MLP sync reads counts and shapes only."""
    requests = 1 if is_extend else num_tokens[rank] // per_request
    spec = SimpleNamespace(num_tokens_per_req=per_request, is_draft_input=lambda: False)
    return SimpleNamespace(
        global_num_tokens_cpu=list(num_tokens),
        global_num_tokens_for_logprob_cpu=list(num_tokens),
        global_num_tokens_gpu=SimpleNamespace(copy_=nothing),
        batch_size=requests,
        is_extend_in_batch=is_extend,
        spec_info=spec if per_request > 1 else None,
        seq_lens=range(requests),
        tbo_children=None,
        dp_spec_prefill_coordination_applied=False,
    )
