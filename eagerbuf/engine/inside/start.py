"""Start the engine of a release, send it requests, say how far it has come: run by run_engine."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from sitecustomize import RUN, STAND_INS, tell

FLAGS_REFUSED = 2  # exit status


def main() -> None:
    """The whole run; the process ends at once with what is left of it."""
    tell(at="importing SGLang")
    import arguments

    try:
        argv, added = arguments.complete(RUN["flags"], Path(RUN["folder"], "model"), RUN["model"])
        server_args = _server_args(argv)
    except SystemExit:
        os._exit(FLAGS_REFUSED)
    os.environ.update(arguments.environment(RUN["flags"], RUN["entry_for"]))
    tell(added=added, stand_ins=STAND_INS)
    from sglang.srt.entrypoints.engine import Engine

    tell(at="starting the ranks")
    engine = Engine(server_args=server_args)
    tell(at="started")
    if RUN["requests"]:
        served = engine.loop.run_until_complete(_serve(engine, RUN["requests"]))
        tell(at=f"served {served} requests")
    tell(done=True)


def _server_args(argv: list[str]) -> Any:
    from sglang.srt.server_args import prepare_server_args

    return prepare_server_args(argv)


async def _serve(engine: Any, requests: list[list[int]]) -> int:
    """Send all requests while the scheduler pauses, so that the first batch finds them all."""
    from sglang.srt.managers.io_struct import PauseGenerationReqInput

    tell(at=f"sending {len(requests)} requests")
    await engine.tokenizer_manager.pause_generation(PauseGenerationReqInput(mode="in_place"))
    sent = engine.async_generate(
        input_ids=[[5 + at % 1000] * prompt for at, (prompt, _) in enumerate(requests)],
        sampling_params=[
            {"max_new_tokens": output, "ignore_eos": True, "temperature": 0}
            for _, output in requests
        ],
    )
    answers, _ = await asyncio.gather(sent, _go_on(engine))
    return len(answers)


async def _go_on(engine: Any) -> None:
    from sglang.srt.managers.io_struct import ContinueGenerationReqInput

    await asyncio.sleep(RUN["pause_s"])
    tell(at="serving them")
    await engine.tokenizer_manager.continue_generation(ContinueGenerationReqInput())


if __name__ == "__main__":
    main()
    sys.stderr.flush()
    os._exit(0)
