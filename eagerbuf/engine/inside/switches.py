"""What a run may be asked to do besides running: one function a switch, each named in the report.

A switch is turned on in every process, before SGLang is loaded, with the value it was given. It
may watch (`tell` a line), or inject a fault; a file's path in place of a name turns on that file's
`turn_on(value)`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from functools import wraps
from typing import Any

from sitecustomize import after, tell


def turn_on(switches: Mapping[str, Any]) -> None:
    """Turn on what was asked for."""
    for name, value in switches.items():
        if name.endswith(".py"):
            spec = importlib.util.spec_from_file_location("_switch", name)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            module.turn_on(value)
        else:
            globals()[f"_{name}"](value)


def _sizes(rule: str | None) -> None:
    """Tell the sizes of the eager runner's buffers; under `rule` size them by that instead."""

    @after("sglang.srt.model_executor.runner.eager_runner")
    def watch(module: Any) -> None:
        build, init = module.build_eager_registry, module.EagerRunner.__init__
        at_work = []

        @wraps(init)
        def remember(self: Any, model_runner: Any, *args: Any, **kwargs: Any) -> None:
            at_work.append((self, model_runner))
            init(self, model_runner, *args, **kwargs)

        @wraps(build)
        def sized(*, max_bs: int, max_num_token: int, **kwargs: Any) -> Any:
            runner, model_runner = at_work[-1]
            released = {"max_bs": max_bs, "max_num_token": max_num_token}
            asked = _by_rule(rule, runner, model_runner) if rule else released
            runner._eager_max_bs = asked["max_bs"]
            tell(sizes=asked, released=released, tag=tag())
            return build(**asked, **kwargs)

        module.EagerRunner.__init__ = remember
        module.build_eager_registry = sized


def _by_rule(rule: str, runner: Any, model_runner: Any) -> dict[str, int]:
    from eagerbuf.config import EngineConfig
    from eagerbuf.sizing import buffer_size

    args = model_runner.server_args
    chunk = args.chunked_prefill_size
    tokens_per = next(
        value for name, value in vars(runner).items() if name.startswith("_eager_num_tokens_per_")
    )
    config = EngineConfig(
        chunked_prefill_size=chunk if chunk and chunk > 0 else None,
        max_running_requests=model_runner.max_running_requests,
        max_prefill_tokens=args.max_prefill_tokens,
        max_total_num_tokens=model_runner.max_total_num_tokens,
        tp_size=args.tp_size,
        pp_size=args.pp_size,
        dp_size=max(args.dp_size, getattr(args, "attn_dp_size", None) or 1),
        enable_dp_attention=args.enable_dp_attention,
        enable_dynamic_chunking=args.enable_dynamic_chunking,
        num_tokens_per_bs=tokens_per,
    )
    size = buffer_size(config, rule)
    return {"max_bs": size.max_bs, "max_num_token": size.max_num_tokens}


def tag() -> str:
    """The rank's tag as SGLang names its processes, such as "PP0 TP1"; "" where it has none."""
    setproctitle = sys.modules.get("setproctitle")
    title = setproctitle.getproctitle() if setproctitle else ""
    return title.removeprefix("sglang::scheduler").replace("_", " ").strip() if title else ""


def _fail_alone(rank: int) -> None:
    """The process of this global rank raises at its first forward, as a rank alone might."""

    @after("sglang.srt.model_executor.model_runner")
    def watch(module: Any) -> None:
        forward = module.ModelRunner.forward

        @wraps(forward)
        def fail_once(self: Any, *args: Any, **kwargs: Any) -> Any:
            import torch.distributed as dist

            if dist.get_rank() == rank and "EAGERBUF_FAILED" not in os.environ:
                os.environ["EAGERBUF_FAILED"] = "1"
                raise RuntimeError(f"injected: rank {rank} alone")
            return forward(self, *args, **kwargs)

        module.ModelRunner.forward = fail_once
