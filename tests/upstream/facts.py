"""What a release does, found by reading its wheel and running it: the rows of the matrix."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

from tests.upstream import admission, dynamic, engine, padding, sizing
from tests.upstream.load import Room
from tests.upstream.wheels import Wheel

AUTOTUNE = f"{engine.SRT}/model_executor/runner/flashinfer_autotune.py"


def eager_runner(wheel: Wheel) -> bool:
    return Room(wheel, {}).has("EagerRunner", engine.RUNNER)


def sizing_rule(wheel: Wheel) -> str:
    """The rule whose sizes are the release's own, on 300 configurations."""
    if not eager_runner(wheel):
        return ""
    return sizing.rule_of(wheel) or "none of ours"


def profile_failure_broadcast(wheel: Wheel) -> bool:
    """Whether a profile that fails on rank 0 reaches the others (else they wait for ever)."""
    how, sent = dynamic.Dynamic(wheel).fails()
    assert (how == "disabled") == bool(sent), f"{wheel}: failure {how}, sent {sent}"
    return bool(sent)


def extend_autotune(wheel: Wheel) -> bool:
    return Room(wheel, {}).has("maybe_flashinfer_autotune_extend", AUTOTUNE)


def probes_of_a_small_chunk(wheel: Wheel) -> str:
    lengths = dynamic.Dynamic(wheel).probe_lengths(64)
    return f"{len(lengths)}, {len(set(lengths))} different"


def padding_cp_step(wheel: Wheel) -> str:
    """Whether each rank is aligned to CP: always, not under the new CP, or never."""
    if not padding.cp_step(wheel):
        return "never"
    new = padding.Padding(wheel, cp_align_size=4, attn_cp_size=4)
    new.room.stubs["enable_cp_v2"] = lambda: True
    return "always" if new.pad([5], is_extend=True).num_tokens == [8] else "not under CP v2"


def extends_padded_to_max_len(wheel: Wheel) -> str:
    """What pads the ranks of an extend to the longest, although extends are not padded so."""
    graph = SimpleNamespace(prefill=SimpleNamespace(bs=[64]))
    tried: dict[str, dict[str, Any]] = {
        "idle hybrid-SSM rank": {"max_len_with_idle": True},
        "prefill graph": {"graph": SimpleNamespace(cuda_graph_config=graph)},
        "pplx": {"moe_a2a_backend": "pplx"},
    }
    return ", ".join(name for name, settings in tried.items() if _pads_extends(wheel, settings))


def _pads_extends(wheel: Wheel, settings: dict[str, Any]) -> bool:
    release = padding.Padding(wheel, **settings)
    if settings.get("moe_a2a_backend", "none") not in release.backends:
        return False
    in_graph = "graph" in settings
    return release.pad([0, 7], is_extend=True, rank=1, in_graph=in_graph).mode == "max_len"


def even_decode_unpadded(wheel: Wheel) -> bool:
    """Whether a decode of equal ranks is left at its sum where one all-reduce can hold it."""
    small = type("CustomAllReduceV2", (), {"disabled": False, "max_size": 1 << 20})
    release = padding.Padding(wheel, tp_group=SimpleNamespace(ca_comm=small()))
    release.room.stubs["CustomAllReduceV2"] = small
    return release.mode([8, 8], is_extend=False) == "sum_len"


def flashinfer(wheel: Wheel) -> str:
    return str(wheel.manifest["flashinfer"])


COLUMNS: dict[str, Callable[[Wheel], str | bool]] = {  # as in data/releases.csv
    "release": lambda wheel: wheel.version,
    "newest_file": lambda wheel: str(wheel.manifest["newest_file"]),
    "eager_runner": eager_runner,
    "sizing_rule": sizing_rule,
    "profile_failure_broadcast": profile_failure_broadcast,
    "radix_cache_fails_profile": dynamic.releases_unlocked,
    "probe_clipped_to_context": dynamic.clips,
    "extend_autotune": extend_autotune,
}
FAULTS: dict[str, Callable[[Wheel], str | bool]] = {
    "probes_of_chunk_64": probes_of_a_small_chunk,
    "flashinfer": flashinfer,
}
DRIFT: dict[str, Callable[[Wheel], str | bool]] = {  # where a release left the 0.5.14 form
    "padding_cp_step": padding_cp_step,
    "zigzag_align_of_cp_1": lambda wheel: str(sizing.zigzag_of_one(wheel)),
    "extends_padded_to_max_len": extends_padded_to_max_len,
    "even_decode_unpadded": even_decode_unpadded,
    "ignore_eos_spares_page": admission.spares_a_page,
}


@cache
def fact(wheel: Wheel, column: str) -> str:
    """One cell: yes or no, or what there is to say; "-" where there is no eager runner to ask."""
    if column in DRIFT and not eager_runner(wheel):
        return "-"
    found = (COLUMNS | FAULTS | DRIFT)[column](wheel)
    return found if isinstance(found, str) else "yes" if found else "no"


def row(wheel: Wheel) -> dict[str, str]:
    """The release's row of the matrix."""
    return {column: fact(wheel, column) for column in COLUMNS | FAULTS | DRIFT}
