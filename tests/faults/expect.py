"""What a run's report must say, worked out from the fault and from the ranks' own event logs."""

from __future__ import annotations

from dataclasses import dataclass

from tests.faults.plan import LAUNCHER, STALL_S, Fault, Plan
from tests.faults.seen import Run

SLACK_S = 3.0  # from the end of the stall, or from a rank's end, to the report


def patience_s(run: Run) -> float:
    """How long a busy machine kept whoever judges and whoever watches waiting for a CPU."""
    return run.watch_waited_s + (run.report or {}).get("waited_s", 0.0)


@dataclass(frozen=True)
class Expected:
    """The outcome, whom it is down to, words of the reason, and when it must be told at last.

    `or_completed`: whether the others got through depends on a moment that nobody sees.
    """

    outcome: str
    culprits: tuple[tuple[int, str], ...] = ()
    reason: str = ""
    by: float | None = None
    or_completed: bool = False


def expected(plan: Plan, run: Run) -> Expected:
    """What the report of this run must say."""
    fault = plan.fault
    if fault and fault.kind == "slow" and run.longest_stop_s > STALL_S / 2:
        return _slowed_too_much(plan, fault, run)
    if fault is None or fault.kind == "slow" or fault.rank == LAUNCHER or run.late:
        return without_fault(plan, run)
    if fault.kind == "raise":
        return _raised(plan, fault, run)
    if run.fired is None:  # the run was faster than whoever watched it
        assert fault.nth < sum(
            step.startswith(fault.at) for step in run.ranks[fault.seen_by].steps()
        )
        return without_fault(plan, run)
    blamed = ((fault.rank, run.step_at_fault),)
    if fault.kind == "kill":
        reason = f"rank {fault.rank} ended by itself at {run.step_at_fault!r}, exit code -9"
        return Expected("crashed", blamed, reason, run.fired + SLACK_S, run.step_at_fault == "done")
    if run.step_at_fault == "done":  # nobody needs it any more
        return without_fault(plan, run)
    others = [rank.last_step()[1] for number, rank in run.ranks.items() if number != fault.rank]
    by = max(run.fired, *others) + STALL_S + SLACK_S
    return Expected("hang", blamed, f"stands stopped; rank {fault.rank} at", by)


def without_fault(plan: Plan, run: Run) -> Expected:
    """A slow rank changes nothing: by its settings the run completes or hangs."""
    how = plan.arguments
    if how["rule"] == "pr28386" and how.get("on_failure", "rank0_only") == "rank0_only":
        step = f"sweep 1, probe 1 of 128: {how['chunk'] * 5 // 4} tokens"
        return Expected("hang", ((0, step),), "each waits for another", _stall_over(run))
    return Expected("completed", (), "every rank went through its rounds")


def _slowed_too_much(plan: Plan, fault: Fault, run: Run) -> Expected:
    """The machine was too busy to let the rank go on in time: it may have been stopped too long."""
    assert run.report is not None
    if run.report["reason"].partition(";")[0].endswith("stands stopped"):
        return Expected("hang", ((fault.rank, run.report["culprits"][0]["step"]),))
    return without_fault(plan, run)


def _stall_over(run: Run) -> float:
    last = max(rank.last_step()[1] for rank in run.ranks.values())
    return max(last, run.slow_until) + STALL_S + SLACK_S


def _raised(plan: Plan, fault: Fault, run: Run) -> Expected:
    steps = [step for step in run.ranks[fault.rank].steps() if step.startswith(fault.at)]
    step = steps[fault.nth]
    blamed = ((fault.rank, step),)
    if fault.place not in ("probe", "broadcast"):
        told = run.ranks[fault.rank].last_step()[1] + SLACK_S
        return Expected("crashed", blamed, f"Injected: injected at {step!r}", told)
    assert run.report is not None
    assert run.report["failure"] == f"injected at {step!r}"
    if fault.place == "probe" and plan.arguments["on_failure"] == "broadcast":
        assert [row["enabled"] for row in run.report["model"]] == [False] * plan.arguments["ranks"]
        return Expected("completed")
    return Expected("hang", blamed, "each waits for another", _stall_over(run))
