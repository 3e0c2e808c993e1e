"""The released latency profiler and chunk predictor against ours: probes, fit, next chunk."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property, lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from eagerbuf import ChunkSizePredictor, probe_lengths
from tests.upstream import draw
from tests.upstream.compare import Comparison, answered
from tests.upstream.engine import GETTERS, SILENT, SRT
from tests.upstream.load import Room
from tests.upstream.parse import tree
from tests.upstream.wheels import NEEDED, Wheel

MIXIN = f"{SRT}/managers/scheduler_pp_mixin.py"
SIZER = f"{SRT}/managers/scheduler_components/dynamic_chunk_sizer.py"
_PROFILERS = ("_profile_prefill_latency", "profile_and_init_predictor")
_NO_IDS = memoryview(b"")
UNCLIPPED = 1 << 62


class ProfileFailed(RuntimeError):
    """What a full pool or a short buffer does to the profiler."""


class Dynamic:
    """One release's dynamic chunking on pipeline rank 0."""

    def __init__(self, wheel: Wheel) -> None:
        self.smooth_factor = 0.75
        self.sent: list[Any] = []
        self._sizes: list[int] = []
        self._after: Callable[[list[Any]], Iterable[Any]] = _stop
        stubs = {
            "np": SimpleNamespace(random=SimpleNamespace(randint=self._token_ids), int64="int64"),
            "tqdm": lambda inputs, **_: self._after(inputs),
            "SamplingParams": SimpleNamespace,
            "broadcast_pyobj": self._broadcast,
            "get_device_module": lambda: None,
            "logger": SILENT,
        }
        self.parallel = SimpleNamespace(
            pp_group=SimpleNamespace(is_first_rank=True, broadcast_object_list=self._send),
            world_group=SimpleNamespace(rank=0, cpu_group=None),
            attn_dp_size=1,
        )
        getters = dict.fromkeys(GETTERS, lambda: self.parallel)
        self.profiler = Room(wheel, getters | stubs)
        self.model = Room(wheel, {"logger": SILENT, "envs": self._environment()})

    @property
    def in_class(self) -> bool:
        """Whether the profiler is DynamicChunkSizer (0.5.20 on), not a part of the scheduler."""
        return self.profiler.has("DynamicChunkSizer", SIZER)

    def probe_lengths(self, chunk: int | None, max_len: int = UNCLIPPED) -> list[int]:
        """Lengths of the prefills that the profiler prepares, before it runs the first one."""
        self._after, self._sizes = _stop, []
        with suppress(_Stop):
            self._profile(_rank0(self.parallel, chunk, max_len))
            raise AssertionError("the profiler went past its inputs")
        return self._sizes

    def fails(self, chunk: int | None = 512) -> tuple[str, list[Any]]:
        """A profile whose first forward fails: ("raised" or "disabled", what other ranks got)."""
        self._after, self.sent = _fail, []
        scheduler = _rank0(self.parallel, chunk, UNCLIPPED)
        scheduler._profile_prefill_latency = lambda: self._profile(scheduler)
        name = "DynamicChunkSizer.profile_and_fit"
        run = self.profiler.piece(name, SIZER) if self.in_class else self._profile
        try:
            ready = run(scheduler)
        except Exception:
            return "raised", self.sent
        assert ready is False
        return "disabled", self.sent

    @cached_property
    def _profile(self) -> Any:
        if self.in_class:
            return self.profiler.piece("DynamicChunkSizer._profile_prefill_latency", SIZER)
        return self.profiler.piece("SchedulerPPMixin.profile_and_init_predictor", MIXIN)

    @cached_property
    def predictor(self) -> Any:
        """The released ChunkSizePredictor class."""
        return self.model.piece("ChunkSizePredictor", SIZER, MIXIN)

    def _environment(self) -> Any:
        smooth = SimpleNamespace(get=lambda: self.smooth_factor)
        return SimpleNamespace(SGLANG_DYNAMIC_CHUNKING_SMOOTH_FACTOR=smooth)

    def _token_ids(self, *_: int, size: int, **__: Any) -> memoryview:
        """Random token ids, of which only the number matters."""
        self._sizes.append(size)
        return _NO_IDS

    def _send(self, data: Any, **_: Any) -> None:
        self.sent.append(data)

    def _broadcast(self, data: Any, *_: Any, **__: Any) -> Any:
        self.sent.append(data)
        return data


class _Stop(Exception):
    """The inputs are ready; nothing after them is of interest."""


def _stop(_: list[Any]) -> Iterable[Any]:
    raise _Stop


def _fail(_: list[Any]) -> Iterable[Any]:
    raise ProfileFailed("the first forward failed")


def _rank0(parallel: Any, chunk: int | None, max_len: int) -> SimpleNamespace:
    runner = SimpleNamespace(model_config=SimpleNamespace(context_len=max_len))
    return SimpleNamespace(
        chunked_prefill_size=chunk,
        pp_group=parallel.pp_group,
        world_group=parallel.world_group,
        model_runner=runner,
        tp_worker=SimpleNamespace(model_runner=runner),
        req_to_token_pool=SimpleNamespace(max_context_len=max_len),
    )


def clips(wheel: Wheel) -> bool:
    """Whether probes stay inside the context (0.5.23 on)."""
    return max(Dynamic(wheel).probe_lengths(1000, 200)) == 200


def releases_unlocked(wheel: Wheel) -> bool:
    """Whether a probe is returned through the tree cache, and no node of it was locked (0.5.19)."""
    path = SIZER if Dynamic(wheel).in_class else MIXIN
    called = {
        call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        for function in ast.walk(tree(wheel, path))
        if isinstance(function, ast.FunctionDef) and function.name in _PROFILERS
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
    }
    return "release_kv_cache" in called and not called & {"inc_lock_ref", "lock"}


def _probe_cases(clipped: bool, salt: int, count: int) -> tuple[Any, Any]:
    rng = draw.generator(200 + salt)
    edge = np.arange(1, 1 + count // 4) + salt * (count // 4)  # every small chunk in turn
    chunks = np.concatenate([edge, np.floor(10 ** rng.uniform(0, 5.5, count - len(edge)))])
    limits = np.floor(10 ** rng.uniform(0, 6, count)).astype(int).tolist()
    pairs = list(zip(chunks.astype(int).tolist(), limits, strict=True))
    return pairs, (probe_lengths(chunk, most if clipped else None) for chunk, most in pairs)


def _released_probes(wheel: Wheel) -> Callable[[tuple[int, int]], list[int]]:
    dynamic = Dynamic(wheel)
    return lambda pair: dynamic.probe_lengths(*pair)


class Fit(NamedTuple):
    """A profile to fit and one question to the fitted model."""

    lengths: list[int]
    latencies: list[float]
    history: int
    chunk: int
    page_size: int
    context_len: int
    max_chunk_size: int | None
    smooth_factor: float


@lru_cache(maxsize=1)
def _fit_cases(salt: int, count: int) -> tuple[list[Fit], list[Any]]:
    fits = list(_fits(draw.generator(300 + salt), count))
    return fits, [answered(_our_fit, fit) for fit in fits]


def _fits(rng: np.random.Generator, count: int) -> Iterator[Fit]:
    """Latencies a*l^2 + b*l + c with noise, any of them negative at times, over 0 to 39 samples."""
    lengths, latencies = _profiles(rng, count)
    history, context = np.floor(10 ** rng.uniform((0, 2), (5.5, 6.3), (count, 2))).astype(int).T
    most = np.floor(10 ** rng.uniform(-1, 5, count)).astype(int)  # 0: no cap
    columns = (
        rng.integers(0, 40, count),
        lengths,
        latencies,
        history - 1,
        np.floor(10 ** rng.uniform(0, 4.6, count)).astype(int),
        rng.choice((1, 16, 64, 128, 1024), count),
        context,
        most,
        rng.choice((0, 0.25, 0.75, 0.75, 1), count),
    )
    rows: Any = zip(*(column.tolist() for column in columns), strict=True)
    for samples, length, latency, *rest, cap, smooth in rows:
        fixed: tuple[int, int, int, int] = tuple(rest)
        yield Fit(length[:samples], latency[:samples], *fixed, cap or None, smooth)


def _profiles(rng: np.random.Generator, count: int) -> tuple[Any, Any]:
    sizes = 10 ** rng.uniform((-9, -6, -2), (-5, 0, 2), (count, 3))
    a, b, c = (sizes * rng.choice((1, 1, 1, 1, -1), (count, 3))).T[:, :, None]
    lengths = np.floor(10 ** rng.uniform(0, 4.5, (count, 40)))
    exact = a * lengths**2 + b * lengths + c
    level = rng.choice((0, 1e-3, 0.3), (count, 1))
    return lengths.astype(int), exact * (1 + level * rng.standard_normal((count, 40)))


def _our_fit(fit: Fit) -> Any:
    model = ChunkSizePredictor().fit(fit.lengths, fit.latencies)
    chunk = model.predict(
        fit.history,
        fit.chunk,
        page_size=fit.page_size,
        context_len=fit.context_len,
        max_chunk_size=fit.max_chunk_size,
        smooth_factor=fit.smooth_factor,
    )
    return model.a, model.b, model.c, chunk


def _released_fit(wheel: Wheel) -> Callable[[Fit], Any]:
    dynamic = Dynamic(wheel)

    def ask(fit: Fit) -> Any:
        dynamic.smooth_factor = fit.smooth_factor
        model = dynamic.predictor()
        model.fit(fit.lengths, fit.latencies)
        model.set_target_latency(fit.chunk)
        model.is_ready = True
        chunk = model.predict_next_chunk_size(
            fit.history, fit.chunk, fit.page_size, fit.context_len, fit.max_chunk_size
        )
        return model.quadratic_coeff_a, model.linear_coeff_b, model.constant_coeff_c, chunk

    return ask


PROBES = Comparison(
    "probe lengths",
    lambda wheel, salt, count: _probe_cases(clips(wheel), salt, count),
    _released_probes,
    lambda wheel: "clipped form" if clips(wheel) else "unclipped form",
    also_in_full=NEEDED[-1:],
    share=2,  # for each of the two forms half of the cases, 128 lengths each
)
PREDICTOR = Comparison(
    "ChunkSizePredictor: coefficients, next chunk, errors",
    lambda _, salt, count: _fit_cases(salt, count),
    _released_fit,
)
