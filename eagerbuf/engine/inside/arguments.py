"""The flags of a run, as the release's own parser reads them, and what a CPU needs besides."""

from __future__ import annotations

import argparse
import json
import math
import os
from pathlib import Path
from typing import Any

CPU = {  # what a machine without a GPU has, whatever was asked for
    "device": "cpu",
    "load_format": "dummy",
    "dtype": "float32",
    "attention_backend": "torch_native",
    "sampling_backend": "pytorch",
    "grammar_backend": "none",
}
SWITCHED = ("skip_tokenizer_init", "disable_cuda_graph")  # there is no tokenizer, and no CUDA
USUAL = {"log_level": "info", "decode_log_interval": 1, "mem_fraction_static": 0.3}
POOL = 65_536  # tokens of the KV pool, as memory left on a device is no measure here
SHORT = 2_048  # tokens of a chunk up to which attention needs more heads to be worth measuring


def complete(argv: list[str], folder: Path, model: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The flags with what a CPU needs, and what was added or replaced, one sentence each.

    `folder` gets the made-up model's config.json; `model` is what to have otherwise in it.
    SystemExit with argparse's own words for a flag that the release does not know.
    """
    given = _given(argv)
    config = model_config(given, model)
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    added = ["--model-path", str(folder)]
    said = [f"--model-path: {_described(config)}"]
    for name, value in CPU.items():
        added += [_flag(name), value]
        was = f" in place of {given[name]}" if name in given and given[name] != value else ""
        said.append(f"{_flag(name)} {value}{was}")
    usual = USUAL | {"max_total_tokens": max(POOL, 4 * (given.get("chunked_prefill_size") or 0))}
    for name, value in usual.items():
        if name not in given:
            added += [_flag(name), str(value)]
            said.append(f"{_flag(name)} {value}")
    for name in SWITCHED:
        if name not in given:
            added.append(_flag(name))
            said.append(_flag(name))
    return [*argv, *added], said


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _given(argv: list[str]) -> dict[str, Any]:
    """What the user's own words set: parsed with every default left out."""
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(prog="sglang", argument_default=argparse.SUPPRESS)
    ServerArgs.add_cli_args(parser)
    for action in parser._actions:
        action.default, action.required = argparse.SUPPRESS, False
    return vars(parser.parse_args(argv))


def model_config(given: dict[str, Any], model: dict[str, Any]) -> dict[str, Any]:
    """A model as thin as the flags allow: a layer a stage, a head a tensor-parallel rank.

    DP attention needs a model that knows it, which Llama does not. Up to SHORT tokens the profile
    needs more attention than that, or its fit finds no quadratic term.
    """
    stages, ranks = given.get("pp_size", 1), given.get("tp_size", 1)
    chunk = given.get("chunked_prefill_size") or 0
    heads = math.lcm(ranks, 8) if 0 < chunk <= SHORT else ranks
    qwen = bool(given.get("enable_dp_attention"))
    config = {
        "architectures": ["Qwen3ForCausalLM" if qwen else "LlamaForCausalLM"],
        "model_type": "qwen3" if qwen else "llama",
        "hidden_size": 16 * heads,
        "intermediate_size": 16 * ranks,
        "num_hidden_layers": 2 * stages if 0 < chunk <= SHORT else stages,
        "num_attention_heads": heads,
        "num_key_value_heads": ranks,
        "head_dim": 16,
        "vocab_size": 32_000,
        "max_position_embeddings": max(32_768, 2 * chunk, given.get("context_length") or 0),
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "hidden_act": "silu",
        "torch_dtype": "float32",
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return config | model


def _described(config: dict[str, Any]) -> str:
    name = config["architectures"][0]
    return (
        f"a made-up {name} of {config['num_hidden_layers']} layers, width {config['hidden_size']}, "
        f"{config['num_attention_heads']} heads, vocabulary {config['vocab_size']}"
    )


def environment(given_argv: list[str], entry_for: str) -> dict[str, str]:
    """Which cores a rank may use, where a release wants to be told: one entry for each of them.

    `entry_for` is "tp" where it wants an entry for every tensor-parallel rank (and none at one
    rank), "rank" where it wants one for every rank.
    """
    given = _given(given_argv)
    ranks = given.get("tp_size", 1)
    if entry_for == "rank":
        ranks *= given.get("pp_size", 1)
    cores = sorted(os.sched_getaffinity(0))
    if ranks == 1:
        return {}
    entries = (str(cores[rank % len(cores)]) for rank in range(ranks))
    return {"SGLANG_CPU_OMP_THREADS_BIND": "|".join(entries)}
