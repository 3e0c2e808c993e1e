"""The terms of the notebooks, each explained once: a page shows those that it uses."""

from __future__ import annotations

import re
from dataclasses import dataclass

# term -> meaning; other ways to write a term stand behind it, after a bar
_TERMS = {
    "admission|admit|admits|admitted": "the scheduler's choice of the tokens of the next prefill "
    "batch, from the waiting requests",
    "alignment|align|aligns|aligned|unaligned": "padding a count up to the next multiple: of the "
    "attention TP size, then of the context-parallel one",
    "attention TP": "the ranks that share the heads of one attention: tp_size over the DP "
    "attention ranks over the CP ranks",
    "autotune|autotuner": "FlashInfer times kernels at start-up and keeps the fastest",
    "batch source|batch sources": "a part of the engine that makes batches: prefill, decode, "
    "the latency profiler",
    "broadcast": "one rank sends, all others block until they have received",
    "bucket": "a token count that the autotune tunes for; a live count uses the next bucket up",
    "ceiling": "the most tokens or requests that a buffer holds",
    "chunk|chunks|chunking": "the piece of a long prompt that one prefill batch holds "
    "(`chunked_prefill_size`, tokens)",
    "collective": "one operation that all ranks of a group must call together, such as all-gather",
    "consumer": "code that sizes something by `max_prefill_buffer_tokens`",
    "context parallelism|CP|context-parallel": "one prompt's tokens spread over ranks; zigzag "
    "gives each rank two pieces of them",
    "CUDA graph": "kernels recorded once and replayed together, at fixed shapes",
    "DCP": "decode context parallelism: the cached tokens of one request spread over ranks",
    "decode": "a step that adds to every running request its next token",
    "dispatcher": "the part of a MoE layer that sends tokens to their experts and back",
    "DP attention": "each group of ranks attends for its own requests, then all share the MLP",
    "dummy": "the synthetic decode batch that the autotune runs on",
    "dynamic chunking|dynamic chunks": "chunk sizes picked so that each takes the same time, "
    "whatever came before it (`--enable-dynamic-chunking`)",
    "eager runner": "SGLang's path without CUDA graphs: it copies every batch into static buffers",
    "effective value|effective values": "a setting as one rank uses it, after defaults and "
    "divisions",
    "expert parallelism|EP|expert-parallel": "each rank holds some of the experts (`ep_size`)",
    "full layer": "a layer that keeps the keys and values of all tokens, not of a sliding window",
    "GQA": "grouped-query attention: several query heads share one KV head",
    "history": "the tokens of a request that were computed before its next chunk",
    "KV head": "one set of keys and values of a layer; attention TP splits them over ranks",
    "KV pool": "memory for the keys and values of cached tokens (`max_total_num_tokens`, tokens)",
    "latency profile|latency profiler|profiler": "128 timed prefills at start-up, from which "
    "dynamic chunking fits its latency model",
    "micro-batch": "one of the batches in flight in a pipeline at the same time",
    "mis-shape|mis-shaped|misshaped": "a dummy whose token count differs from that of the batch it "
    "stands for",
    "MLA": "multi-head latent attention: one short vector per token and layer holds all heads' KV",
    "MLP sync": "padding that makes the ranks of a model agree on a batch's size; on with DP "
    "attention or a MoE all-to-all",
    "MoE all-to-all|all-to-all": "ranks exchange tokens so that each expert gets its own",
    "pipeline parallelism|PP|pipeline rank": "each rank holds some layers of the model, a stage, "
    "and passes its results on",
    "pool-sized": "sized by the KV pool (rule `pr28894`)",
    "prefill|prefills": "a batch that computes prompts or pieces of them",
    "probe|probes": "one prefill of the latency profile; the longest has 1.25 times the chunk",
    "radix cache": "the KV of earlier prompts, kept for later prompts with the same prefix",
    "rank": "one process of a deployment, usually with one GPU",
    "retraction|retracted": "a running request goes back to the waiting queue because "
    "the KV pool is full",
    "rule": "one way to size the static buffers, named by the pull request that brought it",
    "smoothing": "how far the next chunk moves from the static one toward the predicted one: 0 "
    "not at all, 1 all the way",
    "speculation|speculative|EAGLE": "a draft model proposes tokens, and one batch verifies "
    "several for each request",
    "static buffer|static buffers": "input tensors allocated once at start-up; a batch is copied "
    "into their front",
    "tactic|tactics": "one of the kernels that can compute the same product",
    "tight|minimum sufficient size": "the smallest size that holds every batch that the "
    "scheduler or its profiler copies",
    "tokens per request": "1 in decode, more where speculation verifies (`num_tokens_per_bs`)",
    "TP": "tensor parallelism: the ranks that split each layer (`tp_size`)",
    "verdict": "what `eagerbuf check` answers: fits, overflows, hangs, unknown or not applicable",
    "wheel|wheels": "the package file of a release",
    "workspace": "memory reserved at start-up for a kernel or an exchange between ranks",
}


@dataclass(frozen=True)
class Term:
    """One word, its other forms, and what it means."""

    name: str
    forms: tuple[str, ...]
    meaning: str

    def used_in(self, text: str) -> bool:
        """Whether any of its forms stands in the text, in small or capital letters.

        A term that is all capitals (TP, MLA) is found in capitals only.
        """
        forms = "|".join(rf"{re.escape(form)}s?" for form in (self.name, *self.forms))
        flags = 0 if self.name.isupper() else re.IGNORECASE
        return re.search(rf"(?<![\w-])(?:{forms})(?![\w-])", text, flags) is not None


def _term(names: str, meaning: str) -> Term:
    name, *forms = names.split("|")
    return Term(name, tuple(forms), meaning)


GLOSSARY = {term.name: term for term in (_term(*item) for item in _TERMS.items())}


@dataclass(frozen=True, repr=False)
class Words:
    """Terms with their meanings: a table in a notebook, lines of text elsewhere."""

    terms: tuple[Term, ...]

    def __repr__(self) -> str:
        return "\n".join(f"{term.name}: {term.meaning}" for term in self.terms)

    def _repr_html_(self) -> str:
        from eagerbuf._html import html_table

        table = html_table("words used here", [(term.name, term.meaning) for term in self.terms])
        return re.sub(r"`([^`]+)`", r"<code>\1</code>", table)


def words(names: str = "") -> Words:
    """The meaning of these terms, separated by commas, or of all; ValueError for an unknown one."""
    asked = [" ".join(name.split()) for name in names.split(",") if name.strip()]
    unknown = [name for name in asked if name not in GLOSSARY]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not in the glossary: {', '.join(GLOSSARY)}")
    return Words(tuple(GLOSSARY[name] for name in asked or GLOSSARY))


def used_in(text: str) -> list[str]:
    """The glossary's terms that stand in a text, in the glossary's order."""
    return [term.name for term in GLOSSARY.values() if term.used_in(text)]


def markdown() -> str:
    """The whole glossary as a page beside the notebooks."""
    rows = [f"| {term.name} | {term.meaning} |" for term in GLOSSARY.values()]
    return "\n".join(["# Words of the notebooks", "", "| word | meaning |", "|---|---|", *rows, ""])
