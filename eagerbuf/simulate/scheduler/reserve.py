"""How much of the outputs to come admission keeps room for: SGLang's new-token ratio."""

from __future__ import annotations

FIRST = 0.7  # SGLANG_INIT_NEW_TOKEN_RATIO
LEAST = 0.7 * 0.14  # SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR
DECAY = (FIRST - LEAST) / 600  # a decode step; SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS
AHEAD = 20  # decode steps to plan for after a retraction; SGLANG_RETRACT_DECODE_STEPS


class NewTokenRatio:
    """The share of the outputs to come of running requests that the pool is charged.

    It falls with every decode step and rises where the pool runs out. Defaults of 0.5.14.
    """

    def __init__(self) -> None:
        self.reset()

    @property
    def now(self) -> float:
        """The ratio, 0 to 1."""
        return max(self._start - DECAY * self._steps, min(LEAST, self._start))

    def reset(self) -> None:
        """Start over, as an idle server does."""
        self._start, self._steps = FIRST, 0

    def decay(self, steps: int = 1) -> None:
        """Fall by so many decode steps."""
        self._steps += steps

    def retracted(self, requests: int, made: int, most: int) -> None:
        """Plan anew for `requests` that stay, with `made` of their `most` output tokens."""
        self._start, self._steps = min(1.0, (made + AHEAD * requests) / (most + 1)), 0
