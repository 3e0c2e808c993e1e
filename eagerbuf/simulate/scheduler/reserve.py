"""How much of the outputs to come admission keeps room for: SGLang's new-token ratio."""

from __future__ import annotations

FIRST = 0.7  # SGLANG_INIT_NEW_TOKEN_RATIO
LEAST = 0.14  # of the first; SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR
DECAY_STEPS = 600  # SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS
AHEAD = 20  # decode steps to plan for after a retraction; SGLANG_RETRACT_DECODE_STEPS
DP_ATTENTION = 0.3  # what DP attention multiplies --schedule-conservativeness by


class NewTokenRatio:
    """The share of the outputs to come of running requests that the pool is charged.

    It falls with every decode step and rises where the pool runs out. Defaults of 0.5.14.
    """

    def __init__(self, enable_dp_attention: bool) -> None:
        self._first = FIRST * (DP_ATTENTION if enable_dp_attention else 1)
        self._least = self._first * LEAST
        self._decay = (self._first - self._least) / DECAY_STEPS
        self.reset()

    @property
    def now(self) -> float:
        """The ratio, 0 to 1; once it has fallen it is not under its least."""
        if not self._steps:
            return self._start
        return max(self._start - self._decay * self._steps, self._least)

    def reset(self) -> None:
        """Start over, as an idle server does."""
        self._start, self._steps = self._first, 0

    def decay(self, steps: int = 1) -> None:
        """Fall by so many decode steps."""
        self._steps += steps

    def retracted(self, requests: int, made: int, most: int) -> None:
        """Plan anew for `requests` that stay, with `made` of their `most` output tokens."""
        self._start, self._steps = min(1.0, (made + AHEAD * requests) / (most + 1)), 0
