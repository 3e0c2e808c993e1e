"""A rank's place among all ranks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """This rank's place among all, as torchrun describes it in the environment."""

    rank: int
    ranks: int
    local_rank: int
    local_ranks: int
    address: str
    port: int

    @classmethod
    def from_environment(cls, env: Mapping[str, str] = os.environ) -> Place:
        """From RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT."""
        rank, ranks = int(env["RANK"]), int(env["WORLD_SIZE"])
        return cls(
            rank,
            ranks,
            int(env.get("LOCAL_RANK", rank)),
            int(env.get("LOCAL_WORLD_SIZE", ranks)),
            env["MASTER_ADDR"],
            int(env["MASTER_PORT"]),
        )
