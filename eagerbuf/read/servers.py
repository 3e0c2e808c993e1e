"""The servers in a text: each launch with its flags, each log, and what belongs together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from eagerbuf.read import flags
from eagerbuf.read.find import MAX_SEARCHED, Sources, find
from eagerbuf.read.flags import Flags
from eagerbuf.read.launch import Launch, named_releases, unread_tags
from eagerbuf.read.logged import log_part
from eagerbuf.read.profile import Profile, profile_in
from eagerbuf.read.startup import Startup, startup
from eagerbuf.read.text import places, shown
from eagerbuf.read.unwrap import Unwrapped
from eagerbuf.releases import find_release, newest_release

NOTHING = "text: no SGLang launch command, config, Kubernetes list or start-up log in it; give one"


@dataclass(frozen=True)
class Log:
    """The log of one service, or the text as far as it is one, its last start-up and profile."""

    name: str
    text: str
    startup: Startup
    profile: Profile | None
    notes: tuple[str, ...] = ()

    @property
    def last(self) -> str:
        """The text from the last start-up on."""
        return self.text[self.startup.begins :]


@dataclass(frozen=True)
class Server:
    """One server: its launch and what that sets in its release, and its log."""

    launch: Launch | None
    flags: Flags
    log: Log
    release: str | None
    name: str = ""
    notes: tuple[str, ...] = ()


def servers(unwrapped: Unwrapped, asked: str | None) -> list[Server]:
    """Every server in a text, in order; ValueError where there is none, or words are refused."""
    logs = _logs(unwrapped)
    sources = find(unwrapped.blocks, log=any(log.startup.found for log in logs))
    if len(logs) > 1:
        return [_of_log(log, unwrapped, asked) for log in logs]
    (log,) = logs
    if not sources.launches:
        return [_of_log(log, unwrapped, asked)]
    every = [_with_flags(launch, log, unwrapped, sources, asked) for launch in sources.launches]
    differing = _distinct(every)
    dump = log.startup.dump
    if len(differing) == 1 or (dump is not None and dump.complete):
        return [replace(differing[0], log=log)]
    if log.startup.found or log.profile:
        raise ValueError(
            f"text: a log beside {len(differing)} launch commands that differ in "
            f"{_differences(differing)}; give the log with the command that it is of"
        )
    return _named(differing)


def _logs(unwrapped: Unwrapped) -> list[Log]:
    """The logs of services that show settings of their own, else the text as one log."""
    if len(unwrapped.services) > 1:
        each = [_log(name, text) for name, text in unwrapped.services.items()]
        own = [log for log in each if log.startup.dump is not None]
        for log in each:
            if log.startup.dump is None and "server_args=" in log.text and own:
                raise ValueError(
                    f"{shown(log.name)}: its server_args= cannot be read; give it whole"
                )
        if len({str(log.startup.dump and log.startup.dump.values) for log in own}) > 1:
            return own
    return [_log("", unwrapped.text)]


def _log(name: str, text: str) -> Log:
    logged, prose = log_part(text)
    found = startup(logged)
    return Log(name, logged, found, profile_in(logged[found.begins :]), tuple(prose))


def _of_log(log: Log, unwrapped: Unwrapped, asked: str | None) -> Server:
    if not log.startup.found and log.profile is None:
        _refuse_nothing(log.text)
    release, notes = _release(asked, [], unwrapped.text)
    partial = not log.startup.found
    return Server(None, Flags({}, partial=partial), log, release, log.name, notes)


def _refuse_nothing(text: str) -> None:
    """ValueError that says what is missing."""
    batches = len(places(text, "Prefill batch", "Decode batch"))
    if batches:
        raise ValueError(
            f"text: {batches} batch lines of a running server, but not its settings; give its "
            "launch command, or the start of the log with the line server_args="
        )
    raise ValueError(NOTHING)


def _with_flags(
    launch: Launch, log: Log, unwrapped: Unwrapped, sources: Sources, asked: str | None
) -> Server:
    """A launch and what it sets; those of a `--config` file that the text holds come first."""
    if launch.problem:
        raise ValueError(launch.problem)
    release, notes = _release(asked, [launch], unwrapped.text)
    argv, told, known = _with_config(launch, sources)
    if release is None:
        release, more = _by_flags([*argv, *launch.maybe], launch.bench)
        notes = (*notes, *more)
    found = flags.parse(argv, release, bench=launch.bench, strict=launch.strict)
    found = flags.maybe_set(found, launch.maybe, release, bench=launch.bench)
    if launch.open:
        found = flags.with_open(found, launch.open)
    hidden = [launch.hidden] if launch.hidden else []
    if not launch.has_flags:
        hidden.append("the command has no flags here: if it gets any elsewhere, write them out")
    partial = found.partial or not known or bool(hidden)
    every = (*launch.notes, *found.notes, *told, *hidden)
    found = replace(found, notes=every, partial=partial)
    return Server(launch, found, log, release, launch.name, notes)


def _with_config(launch: Launch, sources: Sources) -> tuple[list[str], list[str], bool]:
    """The words with those of the config file in its place, notes, and whether all is known."""
    argv = list(launch.argv)
    joined = [word for word in argv if word.startswith("--config=")]
    notes = [f"{shown(w)}: SGLang reads the file only if it is a word of its own" for w in joined]
    if "--config" not in argv[:-1]:
        return argv, notes, True
    place = argv.index("--config")
    name = argv[place + 1]
    argv = argv[:place] + argv[place + 2 :]
    written = sources.files.get(name.rsplit("/", 1)[-1], [])
    if len(written) == 1:
        from eagerbuf.read.words.yamls import config_flags

        read = config_flags(written[0])
        if read is not None:
            return [*read, *argv], notes, True
    why = "not in the text, or written twice, so what it sets is not known; give its lines too"
    return argv, [*notes, f"--config {shown(name)}: {why}"], False


def _release(
    asked: str | None, launches: Sequence[Launch], text: str
) -> tuple[str | None, tuple[str, ...]]:
    """The release asked for, else the one that an image's tag names; remarks on the latter."""
    if asked is not None:
        return find_release(asked).release, ()
    named = sorted({launch.release for launch in launches if launch.release})
    searched = text[:MAX_SEARCHED] if not named and launches else ""
    named = named or named_releases(searched)
    if not named:
        tags = unread_tags(searched)
        return None, (f"image tag {shown(', '.join(tags))}: names no release",) if tags else ()
    if len(named) > 1:
        return None, (f"several releases are named ({shown(', '.join(named))}): none is taken",)
    try:
        return find_release(named[0]).release, ()
    except ValueError:
        return None, (f"release {shown(named[0])} is named, but it is not known here",)


def _by_flags(argv: Sequence[str], bench: bool) -> tuple[str | None, tuple[str, ...]]:
    """Where no release is given: the newest, or the newest that takes all the flags."""
    found = flags.newest_that_takes(argv, bench=bench)
    if found is None:
        return None, ()
    release, lacking = found
    flag = shown(lacking.partition("=")[0])
    return release, (
        f"release not given: {release} is taken, the newest that has {flag}, which "
        f"{newest_release().release} lacks; give --release for another",
    )


def _distinct(every: Sequence[Server]) -> list[Server]:
    """Launches that set different things; nodes and ranks of one server set the same."""
    found: list[Server] = []
    for server in every:
        twin = next((other for other in found if _same(other, server)), None)
        if twin is None:
            found.append(server)
        else:
            notes = (*twin.flags.notes, *server.flags.notes)
            partial = twin.flags.partial or server.flags.partial
            merged = replace(twin.flags, notes=notes, partial=partial)
            found[found.index(twin)] = replace(twin, flags=merged)
    return found


def _same(one: Server, other: Server) -> bool:
    first, second = (
        (s.flags.values, s.flags.bench, s.release, s.launch and s.launch.env) for s in (one, other)
    )
    return first == second


def _differences(every: Sequence[Server]) -> str:
    names = {name for server in every for name in server.flags.values}
    first, *others = every
    differing = {
        name
        for name in names
        for other in others
        if first.flags.values.get(name) != other.flags.values.get(name)
    }
    return shown(", ".join(sorted(differing)) or "their variables")


def _named(every: Sequence[Server]) -> list[Server]:
    """Servers with names that tell them apart: roles and containers, modes, lines."""
    for names in _names(every):
        if all(names) and len(set(names)) == len(names):
            return [replace(server, name=name) for server, name in zip(every, names, strict=True)]
    return [replace(server, name=f"server {i}") for i, server in enumerate(every, 1)]


def _names(every: Sequence[Server]) -> Iterator[list[str]]:
    launches = [server.launch for server in every if server.launch]
    lines = [f"line {launch.line}" if launch.line else "" for launch in launches]
    yield [server.name for server in every]
    modes = [str(server.flags.values.get("disaggregation_mode", "")) for server in every]
    yield [mode if mode in ("prefill", "decode") else "" for mode in modes]
    yield lines
    yield [
        " ".join(filter(None, pair)) for pair in zip((s.name for s in every), lines, strict=True)
    ]
