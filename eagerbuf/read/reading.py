"""Reading: what a text says about the sizing of the input buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eagerbuf.config import DEFAULTS, FIELDS, OPTIONAL, EngineConfig
from eagerbuf.read.flags import Bench
from eagerbuf.read.needs import needed
from eagerbuf.read.profile import Profile
from eagerbuf.read.settings import Known

NO_COPY = "SGLANG_EAGER_INPUT_NO_COPY"
SMOOTH_FACTOR = "SGLANG_DYNAMIC_CHUNKING_SMOOTH_FACTOR"
DEFAULT_SMOOTH_FACTOR = 0.75

_NONE_MEANS_OFF = ("chunked_prefill_size", "moe_dense_tp_size")

ON = ("true", "1", "yes", "y")  # what SGLang takes for a variable that is on, in small letters


@dataclass(frozen=True)
class Reading:
    """What a text says about the sizing of the input buffers.

    `values`: every field of `EngineConfig` -> effective value, None where unknown (or unset, for
    fields that may be); `unknown`: the fields that matter and are not known; `sources`: field ->
    "flag" (a config file and Kubernetes count as flags), "log", "default" or "option". `config`
    is None while a field that it needs is unknown. `bench`: batch sizes and input lengths of
    `bench_one_batch`; `env`: SGLANG_ variables; `release`: as asked for, else as an image's tag
    names it; `notes`: remarks, one line each, those in `unread` on words of the command that were
    not read; `model`: its path or name as given; `profile`: a latency profile
    that a log shows to have failed, or to be where it ends; `chunk_may_be_off`: something in the
    text that was not understood sets the chunk, and may turn chunking off; `name`: which server of
    several in a text this is (role, service, container, line); `told`: anything was read that
    sizes a buffer, without which nothing is said to fit.
    """

    config: EngineConfig | None
    values: Mapping[str, Any]
    unknown: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    bench: Bench | None = None
    release: str | None = None
    notes: tuple[str, ...] = ()
    model: str | None = None
    unread: tuple[str, ...] = ()
    profile: Profile | None = None
    chunk_may_be_off: bool = False
    name: str = ""
    told: bool = True

    @property
    def no_copy(self) -> bool:
        """Whether SGLANG_EAGER_INPUT_NO_COPY is on: batches are not copied into the buffers."""
        return self.env.get(NO_COPY, "").lower() in ON

    @property
    def smooth_factor(self) -> float:
        """The predictor's smoothing factor; 0.75, as in SGLang, if unset or not a number."""
        try:
            return float(self.env.get(SMOOTH_FACTOR, DEFAULT_SMOOTH_FACTOR))
        except ValueError:
            return DEFAULT_SMOOTH_FACTOR

    def _repr_html_(self) -> str:
        from eagerbuf._html import html_table

        rows = [
            (name, "unknown" if name in self.unknown else value, self.sources.get(name, ""))
            for name, value in self.values.items()
            if name in self.unknown or self.sources.get(name) not in ("default", None)
        ]
        return html_table("Reading", rows, ("field", "value", "from"))


def make_reading(
    known: Known,
    *,
    env: Mapping[str, str],
    bench: Bench | None,
    release: str | None,
    notes: Sequence[str],
    unread: Sequence[str] = (),
    model: str | None = None,
    profile: Profile | None = None,
    chunk_may_be_off: bool = False,
    name: str = "",
    told: bool = True,
) -> Reading:
    """A Reading of effective values; ValueError where they contradict each other."""
    unknown = tuple(name for name in FIELDS if known[name] is None and needed(name, known, release))
    missing = [name for name in unknown if name not in OPTIONAL or name in _NONE_MEANS_OFF]
    return Reading(
        config=None if missing else EngineConfig(**_arguments(known)),
        values={name: held.value if held else None for name, held in known.items()},
        unknown=unknown,
        sources={name: held.source for name, held in known.items() if held},
        env=env,
        bench=bench,
        release=release,
        notes=tuple(dict.fromkeys(notes)),
        model=model,
        profile=profile,
        unread=tuple(dict.fromkeys(unread)),
        chunk_may_be_off=chunk_may_be_off and known["chunked_prefill_size"] is None,
        name=name,
        told=told,
    )


def _arguments(known: Known) -> dict[str, Any]:
    """Fields for `EngineConfig`; what is unknown and does not matter stands at its default."""
    return {name: held.value if held else DEFAULTS.get(name) for name, held in known.items()}
