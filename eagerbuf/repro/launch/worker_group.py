"""Start the ranks on this machine, watch them, end them: nothing of a run outlives its call."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eagerbuf.repro.hang.report import HangReport
from eagerbuf.repro.hang.settings import Settings
from eagerbuf.repro.launch.event_log import Reader
from eagerbuf.repro.launch.interrupts import Interrupts
from eagerbuf.repro.launch.process_state import Pulse
from eagerbuf.repro.launch.status import LOST_PEER, Sighting, StallClock, culprit, judge
from eagerbuf.repro.launch.worker import Member, ask_for_stack, close, unnamed_files

POLL_S = 0.1
STACK_S = 2.5  # how long the ranks may take to write their stacks, all together
GRACE_S = 1.0  # how long to look for the rank whose end took the others along
OUTERMOST = "in _run_module_as_main"  # the last line of a stack that is whole
EXIT_S = 2.0  # how long released ranks may take to end, all together


def run_hang(
    ranks: int = 2,
    rule: str = "pr28386",
    on_failure: str = "swallow",
    chunk: int = 512,
    device: str = "auto",
    stall_s: float = 3.0,
    limit_s: float = 90.0,
) -> HangReport:
    """Run the start-up of `ranks` pipeline ranks (2 to 8) for real and say how it ended.

    Buffers are sized by `rule` (see RULES) for `chunk` tokens. `on_failure` is what a failing
    profile does: "swallow" (SGLang up to 0.5.19) or "broadcast" (PR #37675, from 0.5.20).
    `device` is "auto", "cpu" or "cuda"; after `stall_s` seconds in which no rank moves it is a
    hang; the run is over after `limit_s` seconds. ValueError for an argument out of its limits.
    """
    settings = Settings(ranks, rule, on_failure, chunk, device, stall_s, limit_s)
    _check_cuda(settings.device)
    return run_ranks(settings, rank_command(settings))


def run_ranks(settings: Settings, command: Sequence[str]) -> HangReport:
    """Start `command` once a rank, watch the ranks, end them all.

    The command is a rank's whole life; `eagerbuf.repro.launch.child` says what it owes this.
    """
    company = Company(settings, command)
    with company.interrupts.noted():
        try:
            company.start()
            outcome = company.watch()
            return HangReport(outcome, company.seconds(), settings, tuple(company.sightings))
        finally:
            company.end()


def _check_cuda(device: str) -> None:
    if device == "cuda":
        from eagerbuf.repro.hang.groups import check_device

        check_device(device)


class Company:
    """All ranks of one run. Their files have no names, so that nothing is left on the disk."""

    def __init__(self, settings: Settings, command: Sequence[str]) -> None:
        self.settings = settings
        self.command = command
        self.interrupts = Interrupts()
        self.zero = time.monotonic()
        self.members: list[Member] = []
        self.sightings = [Sighting(rank) for rank in range(settings.ranks)]

    def seconds(self) -> float:
        """Seconds since the run's start."""
        return time.monotonic() - self.zero

    def start(self) -> None:
        """Start one process a rank; rank 0 gets the socket that all of them meet at."""
        with socket.socket() as meeting:
            meeting.bind(("127.0.0.1", 0))
            meeting.listen(self.settings.ranks)
            for rank in range(self.settings.ranks):
                self.members.append(self._start_rank(rank, meeting))

    def _start_rank(self, rank: int, meeting: socket.socket) -> Member:
        files = unnamed_files()
        passed = {name: files[name].fileno() for name in ("journal", "stack")}
        if rank == 0:
            passed["listen"] = meeting.fileno()
        try:
            process = subprocess.Popen(
                self.command,
                env=self._environment(rank, meeting.getsockname()[1], passed),
                pass_fds=tuple(passed.values()),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=files["stderr"],
                start_new_session=True,  # a terminal's Ctrl-C is for the launcher alone
            )
        except BaseException:
            close(files)
            raise
        return Member(process, Reader(passed["journal"]), files, Pulse(process.pid))

    def _environment(self, rank: int, port: int, passed: dict[str, int]) -> dict[str, str]:
        """The place among the ranks as torchrun gives it, and what only a launched rank gets."""
        place = {"RANK": rank, "LOCAL_RANK": rank, "MASTER_PORT": port}
        place |= {"WORLD_SIZE": self.settings.ranks, "LOCAL_WORLD_SIZE": self.settings.ranks}
        launched = {"parent": os.getpid(), "start": self.zero, **passed}
        own = {key: str(value) for key, value in place.items()} | {
            "MASTER_ADDR": "127.0.0.1",
            "OMP_NUM_THREADS": "1",
            "EAGERBUF_LAUNCHED": json.dumps(launched),
        }
        if sys.platform == "linux":
            own["GLOO_SOCKET_IFNAME"] = "lo"
        return os.environ | own | _python_path()

    def watch(self) -> str:
        """Look at the ranks until there is an outcome; stacks are taken before anyone is ended."""
        clock, limits = StallClock(), (self.settings.stall_s, self.settings.limit_s)
        with progress_bar() as bar:
            while (outcome := judge(self.look(), clock, self.sightings[0].now, *limits)) is None:
                bar.set_description_str(f"rank 0: {self.sightings[0].last['step']}")
                self._pause(POLL_S)
        if outcome == "crashed":
            self._find_culprit()
        elif outcome == "completed":
            self._release()
        else:
            self._take_stacks()
        return outcome

    def _pause(self, seconds: float) -> None:
        time.sleep(seconds)
        self.interrupts.let_through()

    def look(self) -> Sequence[Sighting]:
        """Bring the sightings up to date."""
        for sighting, member in zip(self.sightings, self.members, strict=True):
            exit_code = member.process.poll()
            lines = member.journal.new_lines()  # after the poll: the last words of an ended rank
            sighting.lines += lines
            if exit_code is not None:
                self._note_end(sighting, exit_code)
            else:
                self._take_pulse(sighting, wrote=bool(lines))
        now = self.seconds()  # one moment for all: the launcher too may wait for a CPU
        for sighting in self.sightings:
            sighting.now = now
        return self.sightings

    def _note_end(self, sighting: Sighting, exit_code: int) -> None:
        if sighting.exit_code is None:
            sighting.exit_code, sighting.ended = exit_code, self.seconds()
            sighting.stopped = sighting.starved = False
        sighting.stderr = self.members[sighting.rank].text("stderr")

    def _take_pulse(self, sighting: Sighting, *, wrote: bool) -> None:
        member = self.members[sighting.rank]
        member.pulse.look()
        sighting.stopped, sighting.starved = member.pulse.stopped, member.pulse.starved
        if not wrote:  # whoever writes is not blocked
            sighting.look(member.process.pid)

    def _find_culprit(self) -> None:
        """Look on for a while: the first end to be seen may only be another one's consequence."""
        until, found = time.monotonic() + GRACE_S, None
        while time.monotonic() < until and (found is None or found.exit_code == LOST_PEER):
            self._pause(POLL_S)
            found = culprit(self.look())

    def _release(self) -> None:
        """Let ranks that are through end by themselves: their standard input closes."""
        for member in self.members:
            member.release()
        until = time.monotonic() + EXIT_S
        for member in self.members:
            member.wait(until - time.monotonic())
        self.look()

    def _take_stacks(self) -> None:
        """Ask for the stack of every rank that has come up, those that stand stopped at last.

        They must go on to write it, which would set the others free.
        """
        asked = [s for s in self.sightings if s.lines and s.exit_code is None]
        until = time.monotonic() + STACK_S
        self._await_stacks([s for s in asked if not s.stopped], until - STACK_S / 2)
        self._await_stacks([s for s in asked if s.stopped], until)

    def _await_stacks(self, asked: Sequence[Sighting], until: float) -> None:
        for sighting in asked:
            ask_for_stack(self.members[sighting.rank], stopped=sighting.stopped)
        while time.monotonic() < until and not all(OUTERMOST in s.stack for s in asked):
            self._pause(POLL_S / 10)
            for sighting in asked:
                sighting.stack = self.members[sighting.rank].text("stack")

    def end(self) -> None:
        """End all ranks before waiting for any, as the end of one wakes the others."""
        for member in self.members:
            member.process.kill()
        for member in self.members:
            member.bury()


def rank_command(settings: Settings) -> list[str]:
    """The command line of a rank, the same for each."""
    return [sys.executable, "-m", "eagerbuf.repro.hang", *settings.argv()]


def _python_path() -> dict[str, str]:
    """Where ranks find this package if it is not installed."""
    home = Path(__file__).resolve().parents[3]
    if home.name in ("site-packages", "dist-packages"):
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(home), os.environ.get("PYTHONPATH")]))}


def progress_bar() -> Any:
    """What rank 0 does, on a terminal's standard error; nothing in notebooks and logs."""
    from tqdm import tqdm

    return tqdm(disable=None, bar_format="{desc} [{elapsed}]", leave=False, file=sys.stderr)
