"""What goes wrong in one run: which rank, how, and at which step; drawn from a seed."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any

KINDS = ("kill", "freeze", "raise", "slow")
LAUNCHER = -1  # in place of a rank
LAUNCHER_KINDS = ("kill", "interrupt", "interrupts")  # once; as from a key that is held down
PLACES = ("start", "rendezvous", "probe", "broadcast", "serving")
PROBES = 128
STALL_S = 1.0
COLD_EVERY = 13  # one run in so many starts its ranks as users do, and waits for torch


@dataclass(frozen=True)
class Fault:
    """`kind` befalls `rank` once the event log of rank `seen_by` names step number `nth` of `at`.

    `rank` may be LAUNCHER. `at` is the beginning of a step's name; empty: as soon as the process
    is there.
    """

    kind: str
    rank: int
    place: str
    at: str
    seen_by: int
    nth: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As a rank's command line carries it."""
        return asdict(self)


@dataclass(frozen=True)
class Plan:
    """One run: the arguments of `run_hang`, how its ranks start, and the fault."""

    seed: int
    arguments: dict[str, Any] = field(hash=False)
    fault: Fault | None
    most_bytes: int | None = None  # of any file that the launcher or a rank writes

    @property
    def cold(self) -> bool:
        """Whether the ranks start cold."""
        return self.seed % COLD_EVERY == COLD_EVERY - 1

    def __str__(self) -> str:
        what, how = self.fault, self.arguments
        whom = f"rank{what.rank}" if what and what.rank != LAUNCHER else "launcher"
        said = f"{what.kind}-{whom}-{what.place}{what.nth}" if what else "unharmed"
        start = "cold-" if self.cold else ""
        return f"{self.seed}-{start}{how['ranks']}ranks-{said}"


def draw(seed: int) -> Plan:
    """Every kind at every place in 20 seeds running, in no order; the rest by luck."""
    combinations = list(product(KINDS, PLACES))
    random.Random(seed // len(combinations)).shuffle(combinations)
    kind, place = combinations[seed % len(combinations)]
    luck = random.Random(seed)
    ranks = 4 if luck.random() < 0.3 else 2
    rank = luck.randrange(ranks)
    arguments = {"ranks": ranks, "device": "cpu", "stall_s": STALL_S, "limit_s": 120.0}
    return _PLACES[place](seed, arguments, kind, rank, luck)


def draw_launcher(seed: int) -> Plan:
    """What befalls the process that called run_hang, at any step of any of its ranks."""
    luck = random.Random(seed)
    ranks, place = (4 if luck.random() < 0.3 else 2), PLACES[seed // len(LAUNCHER_KINDS) % 5]
    arguments = {"ranks": ranks, "device": "cpu", "stall_s": STALL_S, "limit_s": 120.0}
    plan = _PLACES[place](seed, arguments, "", luck.randrange(ranks), luck)
    assert plan.fault
    kind = LAUNCHER_KINDS[seed % len(LAUNCHER_KINDS)]
    return replace(plan, fault=replace(plan.fault, kind=kind, rank=LAUNCHER))


def unharmed(seed: int, most_bytes: int | None = None) -> Plan:
    """A run in which nothing is done to the ranks: every second one hangs, the others complete."""
    arguments = {"ranks": 4 if seed % 4 > 1 else 2, "device": "cpu", "limit_s": 240.0}
    rule = ("pr28386", "tight")[seed % 2]
    arguments |= {"stall_s": STALL_S, "chunk": 64, "rule": rule}
    return Plan(seed, arguments, None, most_bytes)


def _start(seed: int, arguments: dict[str, Any], kind: str, rank: int, luck: random.Random) -> Plan:
    at = "start" if kind == "raise" else luck.choice(["", "start"])
    return Plan(seed, arguments | SHORT, Fault(kind, rank, "start", at, rank))


def _rendezvous(
    seed: int, arguments: dict[str, Any], kind: str, rank: int, luck: random.Random
) -> Plan:
    del luck
    return Plan(seed, arguments | SHORT, Fault(kind, rank, "rendezvous", "rendezvous", rank))


def _probe(seed: int, arguments: dict[str, Any], kind: str, rank: int, luck: random.Random) -> Plan:
    """Only rank 0 probes: it fails there, or any rank is hit while it does."""
    how = SHORT | {"on_failure": luck.choice(["rank0_only", "broadcast"])}
    rank = 0 if kind == "raise" else rank
    return Plan(seed, arguments | how, Fault(kind, rank, "probe", "sweep", 0, luck.randrange(200)))


def _broadcast(
    seed: int, arguments: dict[str, Any], kind: str, rank: int, luck: random.Random
) -> Plan:
    """In the broadcast, also in one that never ends; what is raised there, upstream catches."""
    how = SHORT | {"on_failure": luck.choice(["rank0_only", "broadcast"])}
    if kind != "raise" and rank > 0 and luck.random() < 0.5:
        how |= {"rule": "pr28386", "on_failure": "rank0_only"}
    return Plan(seed, arguments | how, Fault(kind, rank, "broadcast", "broadcast", rank))


def _serving(
    seed: int, arguments: dict[str, Any], kind: str, rank: int, luck: random.Random
) -> Plan:
    return Plan(
        seed, arguments | SERVING, Fault(kind, rank, "serving", "round", rank, luck.randrange(6))
    )


SHORT = {"rule": "tight", "chunk": 64}  # the profile takes about a second
# the profile fails at once and every rank knows, so that most of the run is the event loop
SERVING = {"rule": "pr28386", "on_failure": "broadcast", "chunk": 1024}
_PLACES = {
    "start": _start,
    "rendezvous": _rendezvous,
    "probe": _probe,
    "broadcast": _broadcast,
    "serving": _serving,
}
