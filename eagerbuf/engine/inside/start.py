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
    served = 0
    for requests in RUN["requests"]:
        engine.loop.run_until_complete(_serve(engine, requests, served))
        served += len(requests)
        tell(at=f"served {served} requests")
    tell(done=True)


def _server_args(argv: list[str]) -> Any:
    from sglang.srt.server_args import prepare_server_args

    return prepare_server_args(argv)


async def _serve(engine: Any, requests: list[list[int]], before: int) -> None:
    """Send all requests while the scheduler pauses, so that the first batch finds them all.

    The scheduler alone pauses: the engine's front would hold the requests back too. No two of them
    begin alike, so that they share no prefix; `before` were sent earlier.
    """
    from sglang.srt.managers.io_struct import ContinueGenerationReqInput, PauseGenerationReqInput

    tell(at=f"sending {len(requests)} requests")
    front = engine.tokenizer_manager
    await front.pause_generation(PauseGenerationReqInput(mode="in_place"))
    front.is_pause = False
    sent = engine.async_generate(
        input_ids=[[5 + before + at] * prompt for at, (prompt, _) in enumerate(requests)],
        sampling_params=[
            {"max_new_tokens": output, "ignore_eos": True, "temperature": 0}
            for _, output in requests
        ],
    )
    answers = asyncio.ensure_future(sent)
    while len(front.rid_to_state) < len(requests) and not answers.done():
        await asyncio.sleep(0.05)
    await asyncio.sleep(RUN["pause_s"])
    tell(at="serving them")
    await front.continue_generation(ContinueGenerationReqInput())
    await answers


if __name__ == "__main__":
    main()
    sys.stderr.flush()
    os._exit(0)
