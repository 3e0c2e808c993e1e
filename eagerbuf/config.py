"""EngineConfig: the resolved engine settings that the sizing of the input buffers depends on."""

# mypy: no-warn-return-any
# numpy's operators tell Any of columns; Layout's parameters say what comes out

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from eagerbuf._arrays import Int, is_column, where

if TYPE_CHECKING:
    from typing import TypeAlias

    from eagerbuf._arrays import Column


class Logical(Protocol):
    """A bool, or a column of them: what `&` and `|` make of two is the one or the other."""

    def __and__(self, other: Any, /) -> Any: ...
    def __or__(self, other: Any, /) -> Any: ...
    def __xor__(self, other: Any, /) -> Any: ...


Flag = TypeVar("Flag", bound=Logical)


class Layout(Generic[Int, Flag]):
    """The settings and what follows from them, for one configuration or for a column of each field.

    `Layout[int, bool]` is one configuration, `Layout[Column, Column]` a table of them. What follows
    is computed once, since one formula asks for it several times. Source: SGLang 0.5.14,
    `require_mlp_sync` (srt/utils/common.py), `get_cp_padding_align_size`
    (srt/layers/utils/cp_utils.py) and the attention parallel sizes.
    """

    chunked_prefill_size: Int | None
    max_running_requests: Int
    max_prefill_tokens: Int
    max_total_num_tokens: Int | None
    context_len: Int | None
    page_size: Int
    tp_size: Int
    pp_size: Int
    dp_size: Int
    attn_cp_size: Int
    cp_zigzag: Flag
    enable_dp_attention: Flag
    enable_dynamic_chunking: Flag
    disable_radix_cache: Flag
    disable_attn_tp_gather: Flag
    attn_tp_input_scattered: Flag
    admits_whole_prompts: Flag
    moe_a2a_backend: Any  # a str, or an array of them
    moe_dense_tp_size: Int | None
    num_tokens_per_bs: Int

    @cached_property
    def attn_dp_size(self) -> Int:
        """Attention DP ranks: `dp_size` under DP attention, else 1 (`--dp` makes replicas)."""
        return where(self.enable_dp_attention, self.dp_size, 1)

    @cached_property
    def attn_tp_size(self) -> Int:
        """Ranks that share one attention layer: tp_size // attention DP // attention CP."""
        return self.tp_size // self.attn_dp_size // self.attn_cp_size

    @cached_property
    def cp_align_size(self) -> Int:
        """Token alignment of context parallelism: attn_cp_size, twice that for zigzag."""
        return where(self.cp_zigzag, 2 * self.attn_cp_size, self.attn_cp_size)

    @cached_property
    def require_mlp_sync(self) -> Flag:
        """Whether the scheduler pads every batch so that all ranks of the MLP agree on its size."""
        gathers = (self.moe_a2a_backend != "none") | over(given(self.moe_dense_tp_size), 0)
        return self.enable_dp_attention | (negate(self.disable_attn_tp_gather) & gathers)

    @cached_property
    def chunk(self) -> Int:
        """`chunked_prefill_size` in tokens, 0 where chunking is off (None or <= 0)."""
        size = given(self.chunked_prefill_size)
        return where(size > 0, size, 0)

    @cached_property
    def scheduler_chunk(self) -> Int:
        """The chunk the scheduler works with: 0 too where it admits prompts whole."""
        return where(negate(self.admits_whole_prompts), self.chunk, 0)

    @cached_property
    def chunking(self) -> Flag:
        """Whether chunking is on."""
        return over(self.chunk, 0)

    @cached_property
    def scheduler_chunking(self) -> Flag:
        """Whether the scheduler cuts prompts into chunks."""
        return over(self.scheduler_chunk, 0)

    @cached_property
    def pp_dynamic_chunking(self) -> Flag:
        """Whether the latency profiler runs at start-up: dynamic chunking and several stages."""
        return self.enable_dynamic_chunking & over(self.pp_size, 1)

    @cached_property
    def profiles(self) -> Flag:
        """Whether start-up sends probes: the profiler runs, and has a chunk to multiply."""
        return self.pp_dynamic_chunking & self.scheduler_chunking

    @cached_property
    def profile_fails(self) -> Flag:
        """Whether the profile is certain to fail: the profiler runs without a chunk."""
        return self.pp_dynamic_chunking & negate(self.scheduler_chunking)


class Unchecked(Layout[Int, Flag]):
    """EngineConfig's fields unchecked: arrays of a table, or numbers with 0 for unknown ones."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


if TYPE_CHECKING:
    Config: TypeAlias = Layout[Int, Any]  # of a formula: its flags go with its numbers
    Columns: TypeAlias = Unchecked[Column, Column]


def given(value: Int | None) -> Int:
    """An optional number, 0 where it is not given (columns hold 0 there already)."""
    return 0 if value is None else value  # type: ignore[return-value]


def over(value: Int, limit: int) -> Any:
    """Whether a number is over `limit`: a bool, or a column of them, as `value` is."""
    return value > limit


def negate(flag: Flag) -> Flag:
    """`not`, for a bool and for a column of them."""
    return flag ^ True


@dataclass(frozen=True, repr=False)
class EngineConfig(Layout[int, bool]):
    """Effective settings of one rank, under SGLang's own names.

    In tokens: `chunked_prefill_size` (None or <= 0: chunking is off), `max_prefill_tokens`,
    `max_total_num_tokens` (the KV pool; None: not known), `context_len` (None: not known),
    `page_size`, and `num_tokens_per_bs` (a request, in one verify batch). In requests:
    `max_running_requests`. In ranks: `tp_size`, `pp_size`, `attn_cp_size`, `dp_size` (of attention
    DP with `enable_dp_attention`, else replicas), `moe_dense_tp_size`. Raises ValueError naming
    the field, the value and the rule.
    """

    chunked_prefill_size: int | None
    max_running_requests: int
    max_prefill_tokens: int = 16384
    max_total_num_tokens: int | None = None
    context_len: int | None = None
    page_size: int = 1
    tp_size: int = 1
    pp_size: int = 1
    dp_size: int = 1
    attn_cp_size: int = 1
    cp_zigzag: bool = False
    enable_dp_attention: bool = False
    enable_dynamic_chunking: bool = False
    enable_mixed_chunk: bool = False
    disable_radix_cache: bool = False
    disable_attn_tp_gather: bool = False
    attn_tp_input_scattered: bool = False
    admits_whole_prompts: bool = False
    moe_a2a_backend: str = "none"
    moe_dense_tp_size: int | None = None
    num_tokens_per_bs: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            checked = check_value(field.name, getattr(self, field.name))
            object.__setattr__(self, field.name, checked)
        check_layout(self)

    def __repr__(self) -> str:
        given_here = ", ".join(f"{name}={value!r}" for name, value in self._set())
        return f"EngineConfig({given_here})"

    def _repr_html_(self) -> str:
        from eagerbuf._html import html_table

        derived = ((n, getattr(self, n)) for n in ("attn_tp_size", "cp_align_size"))
        rows = [(name, value, UNITS.get(name, "")) for name, value in (*self._set(), *derived)]
        rows.append(("require_mlp_sync", self.require_mlp_sync, ""))
        return html_table("EngineConfig", rows)

    def _set(self) -> Iterator[tuple[str, Any]]:
        """The fields without a default, and those that differ from it."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                yield field.name, value


_IN_TOKENS = "chunked_prefill_size max_prefill_tokens max_total_num_tokens context_len page_size"
_IN_RANKS = "tp_size pp_size dp_size attn_cp_size moe_dense_tp_size attn_tp_size"
UNITS = {
    **dict.fromkeys(_IN_TOKENS.split(), "tokens"),
    **dict.fromkeys(_IN_RANKS.split(), "ranks"),
    "max_running_requests": "requests",
    "num_tokens_per_bs": "tokens a request",
    "cp_align_size": "tokens are padded to a multiple of it",
}
FIELDS = tuple(field.name for field in fields(EngineConfig))
DEFAULTS = {
    field.name: field.default
    for field in fields(EngineConfig)
    if field.name not in ("chunked_prefill_size", "max_running_requests")
}
OPTIONAL = frozenset(
    ("chunked_prefill_size", "max_total_num_tokens", "context_len", "moe_dense_tp_size")
)
FLAGS = frozenset(name for name, default in DEFAULTS.items() if isinstance(default, bool))
LEAST = {name: 1 for name in FIELDS if name not in FLAGS and name != "moe_a2a_backend"} | {
    "max_prefill_tokens": 0,
    "chunked_prefill_size": None,
}
MOST = 2**40  # far over any real setting; keeps every product of two fields inside 64 bits


def check_value(name: str, value: Any) -> Any:
    """The value as an int, bool, str or None; ValueError naming the field if it cannot be one."""
    if name == "moe_a2a_backend":
        if not isinstance(value, str) or not value:
            raise ValueError(f'{name}={value!r}: give a backend name, "none" for no all-to-all')
        return str(value)
    if name in FLAGS:
        if value not in (True, False):
            raise ValueError(f"{name}={value!r}: give True or False")
        return bool(value)
    if value is None and name in OPTIONAL:
        return None
    return _check_number(name, value)


def _check_number(name: str, value: Any) -> int:
    try:
        number = index(value)
    except TypeError:
        optional = " or None" if name in OPTIONAL else ""
        raise ValueError(f"{name}={value!r}: give a whole number{optional}") from None
    if isinstance(value, bool):
        raise ValueError(f"{name}={value!r}: give a whole number, not a flag")
    least = LEAST[name]
    if least is not None and number < least:
        raise ValueError(f"{name}={number}: must be at least {least}")
    if abs(number) > MOST:
        raise ValueError(f"{name}={number}: must be at most {MOST}")
    return number


def check_layout(config: Layout[Any, Any]) -> None:
    """ValueError unless the attention ranks divide tp_size (element by element for columns)."""
    ranks = config.attn_dp_size * config.attn_cp_size
    bad = config.tp_size % ranks != 0
    if not _any(bad):
        return
    row = first_row(bad)
    raise ValueError(
        f"tp_size={_at(config.tp_size, row)}: must be divisible by the attention ranks, "
        f"{_at(ranks, row)} = dp_size {_at(config.attn_dp_size, row)} (1 without DP attention) "
        f"x attn_cp_size {_at(config.attn_cp_size, row)}" + ("" if row is None else f" (row {row})")
    )


def _any(bad: Column | bool) -> bool:
    return bool(bad.any()) if is_column(bad) else bad


def first_row(bad: Column | bool) -> int | None:
    """Position of the first row where `bad` holds; None for a single configuration."""
    return int(bad.argmax()) if is_column(bad) else None


def _at(value: Column | int, row: int | None) -> int:
    return int(value[row]) if is_column(value) else value
