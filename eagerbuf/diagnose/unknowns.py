"""What is known of a deployment, and the completions that what is unknown leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from math import isqrt, prod
from typing import TYPE_CHECKING, Any

from eagerbuf.config import DEFAULTS, FIELDS, FLAGS, EngineConfig, Unchecked, given
from eagerbuf.releases import Release
from eagerbuf.shapes import Shape, worst_shapes
from eagerbuf.sizing import BufferSize, Rule

if TYPE_CHECKING:
    from eagerbuf.read import Reading
    from eagerbuf.read.flags import Bench
    from eagerbuf.read.profile import Profile

NO_COPY = "SGLANG_EAGER_INPUT_NO_COPY"
DISPATCH_TOKENS = "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK"
MANY = 256  # completions; with more left open nothing is decided
EVEN, ODD = 537_600, 5_376_001  # 2^10 * 525, which usual alignments divide; the same x 10, + 1
# values that stand for all others of an unknown field: the least, and large ones of both kinds
CANDIDATES: Mapping[str, tuple[Any, ...]] = {
    "chunked_prefill_size": (1, 8193, EVEN, ODD),
    "max_running_requests": (1, 1025, EVEN, ODD),
    "max_prefill_tokens": (0, 16384, ODD),
    "context_len": (2, 64 * ODD),
    "page_size": (1, 256),
    "pp_size": (1, 2),
    "dp_size": (1, 2, 4, 8),
    "attn_cp_size": (1, 2, 4, 8),
    "moe_a2a_backend": ("none", "deepep"),
    "moe_dense_tp_size": (None, 1),
    "num_tokens_per_bs": (1, 2, 8, 840),
    **dict.fromkeys(FLAGS, (False, True)),
}
PROFILES = {"pp_size": 2, "enable_dynamic_chunking": True}  # where a log shows a profile
TP_FACTORS = (1, 3, 5, 8, 12)  # times the attention DP and CP ranks


@dataclass(frozen=True)
class Bound:
    """Capacity under a rule; with `at_least` a lower bound, `max_bs` None where not known."""

    max_bs: int | None
    max_num_tokens: int
    at_least: bool

    @property
    def nbytes(self) -> int:
        """Device bytes of that capacity."""
        return BufferSize(self.max_bs or 0, self.max_num_tokens).nbytes


def capacity(config: EngineConfig, rule: Rule) -> Bound:
    """Capacity of a known configuration; the KV pool may be unknown and then counts as 0."""
    at_least = config.max_total_num_tokens is None and bool(rule.needs_pool(config))
    return Bound(rule.max_bs(config), max(0, rule.max_num_tokens(config)), at_least)


@dataclass(frozen=True)
class Deployment:
    """Effective values, which of them are unknown, where each came from, and the release asked."""

    values: Mapping[str, Any]
    unknown: frozenset[str]
    sources: Mapping[str, str]
    release: Release
    copies: bool = True  # False under SGLANG_EAGER_INPUT_NO_COPY
    bench: tuple[tuple[int, int], ...] = ()
    model: str | None = None
    profile: Profile | None = None  # that a log shows: it failed, or the log ends in it
    dispatch_tokens: int | None = None  # tokens of FlashInfer's all-to-all, where a variable says
    chunk_may_be_off: bool = False  # something that was not understood sets an unknown chunk
    told: bool = True  # anything was read that sizes a buffer

    @cached_property
    def open_fields(self) -> tuple[str, ...]:
        """Unknown fields that completions try; the pool is judged as unknown, not tried."""
        unknown = self.unknown - {"max_total_num_tokens"}
        if not self._context_matters():
            unknown -= {"context_len"}
        return tuple(name for name in FIELDS if name in unknown)

    def _context_matters(self) -> bool:
        """Whole prompts are as long as the context, and later releases clip probes to it."""
        chunk = self.values["chunked_prefill_size"]
        known_chunk = "chunked_prefill_size" not in self.unknown
        whole = self.values["admits_whole_prompts"] is not False or (
            known_chunk and given(chunk) <= 0
        )
        return whole or self.release.probe_clipped_to_context

    @cached_property
    def completions(self) -> tuple[EngineConfig, ...]:
        """Configurations that agree with what is known, for each combination of open values."""
        tried = [name for name in self.open_fields if name != "tp_size"]
        choices = [self._candidates(name) for name in tried]
        if self.too_open:
            choices = [values[:1] for values in choices]
        found = [
            config
            for combination in product(*choices)
            for config in self._complete(dict(zip(tried, combination, strict=True)))
        ]
        if not found:
            raise ValueError(self._impossible())
        return tuple(found)

    def _impossible(self) -> str:
        """The fields of a layout that nothing unknown could make possible, and the rule."""
        given = {n: v for n, v in self.values.items() if n not in self.unknown}
        names = ("tp_size", "dp_size", "enable_dp_attention", "attn_cp_size")
        told = ", ".join(f"{name}={given[name]}" for name in names if name in given)
        return f"{told}: tp_size must be divisible by dp_size (with DP attention) * attn_cp_size"

    @property
    def too_open(self) -> bool:
        """Whether so much is unknown that the completions are not all tried."""
        choices = [len(self._candidates(name)) for name in self.open_fields]
        return prod(choices) > MANY

    def _candidates(self, name: str) -> tuple[Any, ...]:
        if name == "tp_size":
            return TP_FACTORS
        if self.profile is not None and name in PROFILES:
            return (PROFILES[name],)
        if name in ("dp_size", "attn_cp_size") and "tp_size" not in self.open_fields:
            ranks = given(self.values["tp_size"]) or 1
            return _divisors(ranks)
        off = name == "chunked_prefill_size" and (
            self.chunk_may_be_off or self.values["max_total_num_tokens"] is not None
        )
        if name == "max_prefill_tokens":  # the largest that the buffer has anyway
            held = (given(self.values[n]) for n in ("max_running_requests", "num_tokens_per_bs"))
            return tuple(dict.fromkeys([*CANDIDATES[name], prod(held)]))
        return (*CANDIDATES[name], *self._aligned(name), *([-1] if off else []))

    def _aligned(self, name: str) -> tuple[int, ...]:
        """A count that the ranks divide, where they are so many that EVEN is none."""
        twice = 2 * given(self.values["tp_size"])
        counts = name in ("chunked_prefill_size", "max_running_requests")
        return (EVEN + -EVEN % twice,) if counts and twice and EVEN % twice else ()

    def _complete(self, chosen: dict[str, Any]) -> Iterator[EngineConfig]:
        values = {**self.values, **chosen}
        values |= {
            name: DEFAULTS[name]
            for name in FIELDS
            if values[name] is None and name in DEFAULTS and name not in chosen
        }
        ranks = (values["dp_size"] if values["enable_dp_attention"] else 1) * values["attn_cp_size"]
        factors = TP_FACTORS if "tp_size" in self.open_fields and not self.too_open else (1,)
        for factor in factors:
            if "tp_size" in self.open_fields:
                values["tp_size"] = ranks * factor
            if values["tp_size"] % ranks == 0:
                yield EngineConfig(**values)

    def bound(self, rule: Rule) -> Bound:
        """Capacity under `rule`: a term that needs something unknown counts as 0."""
        exact = {capacity(config, rule) for config in self.completions}
        if len(exact) == 1 and not self.too_open:
            return exact.pop()
        tokens = min(self._least_tokens(config, rule) for config in self.completions)
        known = "max_running_requests" not in self.unknown
        return Bound(min(b.max_bs or 0 for b in exact) if known else None, tokens, True)

    def _least_tokens(self, config: EngineConfig, rule: Rule) -> int:
        counts = {"chunked_prefill_size", "max_running_requests", "max_prefill_tokens"}
        zero = counts & self.unknown
        if "num_tokens_per_bs" in self.unknown:
            zero |= {"max_running_requests"}
        values = {name: given(getattr(config, name)) for name in FIELDS} | dict.fromkeys(zero, 0)
        if not rule.needs_pool(config):
            values["max_total_num_tokens"] = 0  # keeps the pool out of an unknown chunk's place
        least: Unchecked[int, bool] = Unchecked(**values)
        return max(0, rule.max_num_tokens(least))

    def shapes(self) -> list[Shape]:
        """`worst_shapes` of the release, None where what is unknown decides.

        An unknown context is taken as long: these are the largest shapes.
        """
        longest = max(given(config.context_len) for config in self.completions)
        each = [
            worst_shapes(config, self.release.release)
            for config in self.completions
            if "context_len" not in self.open_fields or config.context_len == longest
        ]
        merged = [self._merge(producer, each) for producer in _producers(each)]
        return merged if self.copies else [shape._replace(copied=False) for shape in merged]

    def _merge(self, producer: str, each: list[list[Shape]]) -> Shape:
        found = [shape for shapes in each for shape in shapes if shape.producer == producer]
        tokens = {shape.num_tokens for shape in found}
        requests = {shape.bs for shape in found}
        sure = len(found) == len(each) and not self.too_open
        return found[0]._replace(
            num_tokens=tokens.pop() if sure and len(tokens) == 1 else None,
            bs=requests.pop() if sure and len(requests) == 1 else None,
        )


@cache
def _divisors(number: int) -> tuple[int, ...]:
    """All of them in order, found up to the root: a text may claim 2**40 ranks."""
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return tuple(sorted({*small, *(number // n for n in small)}))


def _producers(each: list[list[Shape]]) -> list[str]:
    return list(dict.fromkeys(shape.producer for shapes in each for shape in shapes))


def describe(source: EngineConfig | Reading, release: Release) -> Deployment:
    """What an EngineConfig or a Reading says of a deployment."""
    if isinstance(source, EngineConfig):
        values = {name: getattr(source, name) for name in FIELDS}
        return Deployment(values, _absent(values), dict.fromkeys(FIELDS, "option"), release)
    values = {name: source.values.get(name, DEFAULTS.get(name)) for name in FIELDS}
    return Deployment(
        values,
        (frozenset(source.unknown) & set(FIELDS)) | _absent(values),
        source.sources,
        release,
        copies=not source.no_copy,
        bench=bench_shapes(source.bench),
        model=source.model,
        profile=source.profile,
        dispatch_tokens=_number(source.env.get(DISPATCH_TOKENS, "")),
        chunk_may_be_off=source.chunk_may_be_off,
        told=source.told,
    )


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None


def _absent(values: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(n for n in ("max_total_num_tokens", "context_len") if values[n] is None)


def bench_shapes(bench: Bench | None) -> tuple[tuple[int, int], ...]:
    """(batch size, input length) of every run of a benchmark, from (batch sizes, lengths)."""
    batches, lengths = bench or ((), ())
    return tuple((b, n) for b in batches for n in lengths)
