"""The requests of a replay: checked, the impossible ones dropped, in order of arrival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from eagerbuf.admission import CLIP_NEW_TOKENS
from eagerbuf.config import MOST
from eagerbuf.simulate.scheduler.policy import Policy

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_SECONDS = 1e9


class Request(NamedTuple):
    """`prompt`: tokens to prefill (after a retraction with output); `output`: tokens to come.

    `made`: output tokens before a retraction, which are now part of the prompt.
    """

    prompt: int
    output: int
    made: int = 0

    @property
    def reserve(self) -> tuple[int, int]:
        """Output tokens that admission wants room for, and that it charges."""
        return min(self.output, CLIP_NEW_TOKENS), min(self.output + self.made, CLIP_NEW_TOKENS)


@dataclass(frozen=True)
class Incoming:
    """Requests that can run, with their arrival in nanoseconds, and how many cannot.

    `shortened`: those of them whose output is cut.
    """

    requests: list[Request]
    arrival_ns: list[int]
    too_long: int
    never_fits: int
    shortened: int

    def counts(self) -> dict[str, int]:
        """How many requests there were, and how many were dropped for which reason."""
        dropped = self.too_long + self.never_fits
        return {
            "requests": len(self.requests) + dropped,
            "dropped": dropped,
            "too_long": self.too_long,
            "never_fits": self.never_fits,
            "shortened": self.shortened,
        }

    def share(self, replica: int, replicas: int) -> list[tuple[int, Request]]:
        """Every `replicas`-th request from number `replica` on, with its arrival."""
        turn = slice(replica, None, replicas)
        return list(zip(self.arrival_ns[turn], self.requests[turn], strict=True))


def incoming(frame: pd.DataFrame, policy: Policy) -> Incoming:
    """Sort `frame` by arrival (stable) and drop what the server would refuse.

    Refused: prompt and output together over context_len, at least one output token counted; a
    prompt that has no room in an empty KV pool. What the pool or the context cannot hold of the
    other outputs is cut, as SGLang does. ValueError names column and row.
    """
    prompt = _whole(frame, "prompt_tokens", 1)
    output = _whole(frame, "output_tokens", 0)
    arrival = _arrivals(frame)
    context = policy.config.context_len
    too_long = prompt + output.clip(1) > (MOST if context is None else context)
    fits = _fits(prompt, policy)
    possible = np.minimum(output, policy.most_output(prompt)).clip(0)
    order = np.argsort(arrival, kind="stable")
    order = order[(~too_long & fits)[order]]
    return Incoming(
        [
            Request(*pair)
            for pair in zip(prompt[order].tolist(), possible[order].tolist(), strict=True)
        ],
        arrival[order].tolist(),
        int(too_long.sum()),
        int((~too_long & ~fits).sum()),
        int((possible < output)[order].sum()),
    )


def _fits(prompt: NDArray[np.int64], policy: Policy) -> NDArray[np.bool_]:
    """Whether each prompt can ever be admitted; equal prompts are asked for once."""
    lengths, where = np.unique(prompt, return_inverse=True)
    return np.array([policy.fits(length) for length in lengths.tolist()], dtype=bool)[where]


def _arrivals(frame: pd.DataFrame) -> NDArray[np.int64]:
    """Arrivals in nanoseconds, 0 without the column."""
    if "arrival_s" not in frame.columns:
        return np.zeros(len(frame), np.int64)
    seconds = _numbers(frame, "arrival_s")
    _refuse(frame, "arrival_s", ~((seconds >= 0) & (seconds <= MAX_SECONDS)), "0 to 1e9 seconds")
    return np.rint(seconds * 1e9).astype(np.int64)


def _whole(frame: pd.DataFrame, name: str, least: int) -> NDArray[np.int64]:
    values = _numbers(frame, name)
    good = (values >= least) & (values <= MOST) & (values == np.floor(values))
    _refuse(frame, name, ~good, f"a whole number of tokens, at least {least}")
    return values.astype(np.int64)


def _numbers(frame: pd.DataFrame, name: str) -> NDArray[np.float64]:
    if name not in frame.columns:
        raise ValueError(f"requests: column {name!r} is missing")
    numbers = pd.to_numeric(frame[name], errors="coerce")
    values: NDArray[np.float64] = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def _refuse(frame: pd.DataFrame, name: str, bad: NDArray[np.bool_], rule: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        value = frame[name].iloc[row]
        raise ValueError(f"{name}={value} (row {frame.index[row]}): give {rule}")
