"""`admit` against the released PrefillAdder: the same queues, the same answers."""

from __future__ import annotations

import pytest

from eagerbuf import EngineConfig, admit, sample_requests
from tests.bench.conftest import TRACE, Measure, Rival
from tests.upstream import wheels
from tests.upstream.admission import ADMISSION, Admission, Queue, config_of
from tests.upstream.stubs import Request

WHEEL = wheels.sglang("0.5.14")
RELEASED = Admission(WHEEL)
WAITING = (1, 10, 100, 1000)


def waiting(requests: int) -> list[Queue]:
    """Queues of a real length distribution of which everything is admitted, 1,000 or so prompts."""
    prompts = sample_requests(TRACE, 10_000).prompt_tokens.tolist()
    queues = max(1, 1000 // requests)
    parts = [prompts[i * requests : (i + 1) * requests] for i in range(queues)]
    return [Queue(part, 1, 2**30, 2**30, 2**40, 2000) for part in parts]


def chunked() -> list[Queue]:
    """What a scheduler sees: 64 prompts wait, a chunk of 8192 tokens takes some of them."""
    prompts = sample_requests(TRACE, 6_400).prompt_tokens.tolist()
    return [Queue(prompts[i : i + 64], 1, 16384, 8192, 3_080_960, 128) for i in range(0, 6400, 64)]


CASES = {
    "64 waiting, chunk 8192": chunked,
    "random, 1.2 admitted": lambda: ADMISSION.cases(WHEEL, 0, 2000)[0],
} | {f"{n} waiting and admitted": lambda n=n: waiting(n) for n in WAITING}


def ours(queues: list[tuple[Queue, EngineConfig]]) -> list[list[int]]:
    return [
        admit(
            queue.prompts,
            config,
            carried=queue.carried,
            mixed_decode=queue.mixed_decode,
            ignore_eos=queue.ignore_eos,
        )
        for queue, config in queues
    ]


def requests_of(queue: Queue) -> list[Request]:
    """A scheduler makes them when they arrive, and an admission changes them."""
    return [Request(n, queue.ignore_eos, queue.max_new_tokens) for n in queue.prompts]


def released(queues: list[tuple[Queue, list[Request]]]) -> list[list[int]]:
    return [RELEASED.admit_requests(queue, waiting) for queue, waiting in queues]


@pytest.mark.parametrize("case", CASES)
def test_admit(measure: Measure, case: str) -> None:
    queues = CASES[case]()
    asked = [(queue, config_of(queue)) for queue in queues]
    theirs = Rival(released, lambda: [(queue, requests_of(queue)) for queue in queues])
    answers = measure(
        lambda: ours(asked),
        {"released": theirs},
        of="admit",
        case=case,
        work=max(map(len, ours(asked))),
        times=len(queues),
        rounds=20,
    )
    assert answers == theirs.answer
