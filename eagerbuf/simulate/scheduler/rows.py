"""What a forward pass adds to a batch, and the table of all batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from eagerbuf._arrays import ceil_align
from eagerbuf.config import EngineConfig
from eagerbuf.shapes import mlp_sync_pad
from eagerbuf.simulate.scheduler.rank import Batch

if TYPE_CHECKING:
    from numpy.typing import NDArray

KINDS = ("prefill", "mixed", "decode")
COLUMNS = ("step", "rank", "kind", "num_tokens", "bs", "padded_num_tokens", "padded_bs")
Row = tuple[int, int, int, int, int, int]  # COLUMNS without the step; kind by number
Step = list[Row]


class Padding:
    """The padding of one step: MLP sync over the ranks, then inputs scattered over TP."""

    def __init__(self, config: EngineConfig) -> None:
        self.sync: bool = config.require_mlp_sync
        self.attn_tp_size: int = config.attn_tp_size
        self.cp_align_size: int = config.cp_align_size
        self.extend_align = config.tp_size if config.attn_tp_input_scattered else 1
        self.num_tokens_per_bs = config.num_tokens_per_bs
        self._known: dict[tuple[int | Batch | None, ...], Step] = {}  # the same ones come often

    def rows(self, batches: Sequence[Batch | None], first_rank: int) -> Step:
        """A row for each rank that has a batch."""
        key = (first_rank, *batches)
        if key not in self._known:
            self._known[key] = self._rows(batches, first_rank)
        return self._known[key]

    def _rows(self, batches: Sequence[Batch | None], first_rank: int) -> Step:
        return [
            (
                rank,
                KINDS.index(batch.kind),
                batch.num_tokens,
                batch.bs,
                *self._padded(batch, tokens),
            )
            for rank, (batch, tokens) in enumerate(
                zip(batches, self._synced(batches), strict=True), first_rank
            )
            if batch is not None
        ]

    def _synced(self, batches: Sequence[Batch | None]) -> list[int]:
        """Tokens of each rank after MLP sync."""
        tokens = [batch.num_tokens if batch else 0 for batch in batches]
        if not self.sync:
            return tokens
        return mlp_sync_pad(
            tokens,
            attn_tp_size=self.attn_tp_size,
            cp_align_size=self.cp_align_size,
            is_extend=any(batch is not None and batch.is_extend for batch in batches),
        )[1]

    def _padded(self, batch: Batch, tokens: int) -> tuple[int, int]:
        if batch.is_extend:
            return ceil_align(tokens, self.extend_align), batch.bs
        return tokens, tokens // self.num_tokens_per_bs


class Rows:
    """The batches so far: rows of a few steps, and how often those steps come again in turn."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = []
        self._runs: list[tuple[int, int, int]] = []  # rows, steps, times

    def add(self, step: int, rows: Step) -> None:
        """Add the rows of one step."""
        self.repeat(step, [rows], 1)

    def repeat(self, step: int, cycle: Sequence[Step], times: int) -> None:
        """Add `cycle` (one entry a step, the first of them number `step`) so many times."""
        before = len(self._rows)
        for number, rows in enumerate(cycle, step):
            self._rows += [(number, *row) for row in rows]
        self._runs.append((len(self._rows) - before, len(cycle), times))

    def frame(self) -> pd.DataFrame:
        """All batches, one a row, with COLUMNS."""
        table = np.array(self._rows, dtype=np.int64).reshape(len(self._rows), len(COLUMNS))
        source, later = self._unrolled()
        frame = pd.DataFrame(table[source], columns=list(COLUMNS))
        frame["step"] += later
        frame["kind"] = np.array(KINDS, dtype=object)[frame["kind"].to_numpy()]
        return frame

    def _unrolled(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of each row of the table: which stored row it is, and how many steps later."""
        rows, steps, times = np.array(self._runs, dtype=np.int64).reshape(len(self._runs), 3).T
        total = rows * times
        run = np.repeat(np.arange(len(rows)), total)
        place = np.arange(total.sum()) - (total.cumsum() - total)[run]
        first = (rows.cumsum() - rows)[run]
        return first + place % rows[run], place // rows[run] * steps[run]
