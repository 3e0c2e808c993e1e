"""What `max_prefill_tokens` costs in the workspace of FlashInfer's all-to-all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from eagerbuf.diagnose.findings.case import Case
from eagerbuf.diagnose.unknowns import DISPATCH_TOKENS
from eagerbuf.releases import at_or_after
from eagerbuf.sizing import max_prefill_buffer_tokens

if TYPE_CHECKING:
    from eagerbuf.model import Model

RULE = "pr28894"  # of the releases that size it so
DEEPEP_SINCE, DEEPEP_SCATTERS_SINCE = "0.5.19", "0.5.22"
DEEPEP_TOKENS = "SGLANG_DEEPEP_V2_NUM_MAX_DISPATCH_TOKENS_PER_RANK"
HELD = "the FlashInfer all-to-all workspace on each rank"
EXAMPLE = "DeepSeek-V3"  # whose bytes are told where the model is not known


class Workspace:
    """The workspace of one case; `enough`: the tokens that the longest probe needs.

    Its ep_size is tp_size: SGLang sets it so for this backend, with attention DP over all ranks.
    """

    def __init__(self, case: Case, enough: int) -> None:
        self.case, self.enough = case, enough

    @property
    def used(self) -> bool:
        """Whether there is one, and it is sized by the number."""
        if self.case.config.moe_a2a_backend != "flashinfer" or self.case.rule.name != RULE:
            return False
        from eagerbuf.consumers.workspace import SINCE

        return at_or_after(self.case.release, SINCE)

    @property
    def reserved(self) -> int:
        """Tokens that start-up asks it to hold."""
        return max_prefill_buffer_tokens(self.case.config)

    @property
    def refused(self) -> str:
        """What start-up refuses: a capacity by variable below those tokens."""
        configured = self.case.dispatch_tokens
        if not self.used or configured is None or configured >= self.reserved:
            return ""
        asks = f"it asks for {self.reserved} except on a PD decode server"
        return f"start-up refuses {DISPATCH_TOKENS}={configured}, {asks}"

    @property
    def wasted(self) -> str:
        """The bytes that the remedy saves on each rank; of an example's shape if need be."""
        tokens = self._tokens() if self.used and not self.refused else (0, 0)
        if tokens[0] <= tokens[1]:
            return ""
        model, ranks = known_model(self.case.model), self.case.config.tp_size
        if model is not None:
            where = f"(ep_size {ranks}, {model.name})"
            return f"{_bytes(model, ranks, tokens):,} bytes of {HELD} {where}"
        example = known_model(EXAMPLE)
        told = f" ({_bytes(example, ranks, tokens):,} bytes for {EXAMPLE})" if example else ""
        slots = f"{ranks} x {tokens[0] - tokens[1]:,} tokens"
        return f"{slots} of 4 x hidden_size + 8 x top_k bytes{told} of {HELD} (ep_size {ranks})"

    @property
    def also(self) -> str:
        """What goes with the flag where a variable sets the capacity."""
        set_by = self.case.dispatch_tokens
        if not self.used or set_by is None or set_by == self.enough:
            return ""
        return f" and {DISPATCH_TOKENS}={self.enough}, or unset"

    def _tokens(self) -> tuple[int, int]:
        """Tokens it holds, and those it holds with the remedy."""
        from eagerbuf.consumers.workspace import workspace_tokens

        now = workspace_tokens(self.reserved, self.case.dispatch_tokens)
        return int(now), int(workspace_tokens(self.enough))


def deepep_wasted(case: Case, enough: int) -> str:
    """The tokens that start-up makes DeepEP v2's variable allow on each rank for nothing."""
    if case.config.moe_a2a_backend != "deepep_v2" or not at_or_after(case.release, DEEPEP_SINCE):
        return ""
    from eagerbuf.consumers.others import deepep_v2_tokens

    config = case.config
    scattered = at_or_after(case.release, DEEPEP_SCATTERS_SINCE)
    ranks = config.tp_size // config.attn_dp_size if scattered else 1
    reserved = max_prefill_buffer_tokens(config)
    now, then = (int(deepep_v2_tokens(tokens, ranks)) for tokens in (reserved, enough))
    return f"{now - then} of the {now} tokens that {DEEPEP_TOKENS} must allow" if now > then else ""


def _bytes(model: Model, ranks: int, tokens: tuple[int, int]) -> int:
    """Bytes between the workspaces for the one and for the other number of tokens."""
    from eagerbuf.consumers.workspace import workspace_bytes

    shape = (model.hidden_size, model.num_experts_per_tok)
    now, then = (workspace_bytes(ranks, each, *shape) for each in tokens)
    return int(now - then)


def known_model(path: str | None) -> Model | None:
    """The MoE model of models.csv that a path or name means: its own name, or with a suffix.

    "deepseek-ai/DeepSeek-V3-0324" is DeepSeek-V3, "DeepSeek-V3.1" is not known.
    """
    from eagerbuf.model import models

    name = re.split(r"[/\\]|--", (path or "").rstrip("/\\"))[-1].lower()
    fitting = [m for m in models() if m.num_experts and _means(name, m.name.lower())]
    return max(fitting, key=lambda model: len(model.name), default=None)


def _means(name: str, known: str) -> bool:
    return name == known or name.startswith((f"{known}-", f"{known}_"))
