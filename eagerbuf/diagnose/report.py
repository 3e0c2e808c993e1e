"""What `check` tells: a Report, and its faces as plain data, a table, text and HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

from eagerbuf.config import FIELDS
from eagerbuf.diagnose.findings import Finding
from eagerbuf.diagnose.unknowns import Bound
from eagerbuf.shapes import Shape

if TYPE_CHECKING:
    from pandas import DataFrame

    from eagerbuf.diagnose.in_log import Largest

SIZES = ("max_bs", "max_num_tokens", "nbytes")  # columns of a frame; <NA> where not known
WIDTH = 96
COLORS = {"overflows": "31", "hangs": "31", "error": "31", "unknown": "33", "warning": "33"}
GIVE = {
    "max_total_num_tokens": "--max-total-num-tokens N (the KV pool; the start-up log prints it)",
    "chunked_prefill_size": "--chunked-prefill-size N, or --gpu-mem-gib for its default",
    "max_running_requests": "--max-running-requests N (per rank)",
    "context_len": "--context-len N",
}


@dataclass(frozen=True)
class RuleReport:
    """One rule against the release's shapes: capacity (requests, tokens), verdict, findings."""

    rule: str
    bound: Bound
    verdict: str
    findings: tuple[Finding, ...]

    def cells(self) -> tuple[str, int | None, str]:
        """Tokens ("at least" where something unknown could add to them), requests, verdict."""
        least = "at least " if self.bound.at_least else ""
        return f"{least}{self.bound.max_num_tokens:,}", self.bound.max_bs, self.verdict

    def to_dict(self) -> dict[str, Any]:
        """As in `eagerbuf check --json`."""
        return {
            "max_bs": self.bound.max_bs,
            "max_num_tokens": self.bound.max_num_tokens,
            "nbytes": self.bound.nbytes,
            "at_least": self.bound.at_least,
            "verdict": self.verdict,
            "findings": [{"code": finding.code} for finding in self.findings],
        }


@dataclass(frozen=True, repr=False)
class Report:
    """The verdict on one deployment: for the release asked, and for every rule.

    `config`: effective values by field (None: not known or not set); `unknown`: fields that were
    needed and not given; `sources`: field -> flag, log, default or option; `shapes`: the largest
    batch of every source, in tokens and requests; `affected`: the verdict of every release with
    an eager runner; `notes`: remarks on what was read, those in `unread` on words of a command that
    were not; `assumed`: nobody named the release; `name`: which server of a text this is;
    `servers`: the reports of all, where there are several, of which this is the worst. A table in
    a notebook, elsewhere a text.
    """

    config: dict[str, Any]
    unknown: tuple[str, ...]
    sources: dict[str, str]
    release: str
    rule: str | None
    verdict: str
    findings: tuple[Finding, ...]
    shapes: tuple[Shape, ...]
    rules: dict[str, RuleReport]
    affected: str
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    assumed: bool = False
    name: str = ""
    servers: tuple[Report, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        shapes = ("producer", "num_tokens", "bs", "copied")
        return {
            "config": self.config,
            "unknown": list(self.unknown),
            "sources": self.sources,
            "release": self.release,
            "rule": self.rule,
            "verdict": self.verdict,
            "affected": self.affected,
            "findings": [asdict(finding) for finding in self.findings],
            "shapes": [{name: getattr(s, name) for name in shapes} for s in self.shapes],
            "rules": {name: rule.to_dict() for name, rule in self.rules.items()},
            "notes": list(self.notes),
        } | self._servers()

    def _servers(self) -> dict[str, Any]:
        each = [{"name": one.name, **one.to_dict()} for one in self.servers]
        return {"servers": each} if each else {}

    def to_frame(self) -> DataFrame:
        """One row a rule.

        Columns: rule, max_bs (requests), max_num_tokens (tokens), nbytes (bytes on the device),
        at_least (something unknown could make it more), verdict, findings (their codes).
        """
        import pandas as pd

        rows = [
            {"rule": name, **r.to_dict(), "findings": ", ".join(f.code for f in r.findings)}
            for name, r in self.rules.items()
        ]
        frame = pd.DataFrame(rows).astype(dict.fromkeys(SIZES, "Int64"))
        unknown = frame["at_least"] & (frame["max_num_tokens"] == 0)
        frame.loc[unknown, ["max_num_tokens", "nbytes"]] = pd.NA
        return frame

    def __str__(self) -> str:
        return render(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from eagerbuf._html import html_table

        rule = f", sizing rule {self.rule}" if self.rule else ""
        title = f"{self.verdict}: SGLang {self.release}{rule}; {self.affected}"
        rows = [(f.code, f.severity, f.message, f.remedy) for f in self.findings]
        shown = [(s.producer, s.num_tokens, s.bs, s.formula) for s in self.shapes]
        held = [(name, *rule.cells()) for name, rule in self.rules.items()]
        return (
            html_table(title, rows, ("finding", "severity", "what", "remedy"))
            + html_table("largest shapes", shown, ("producer", "tokens", "requests", "formula"))
            + html_table("capacity", held, ("rule", "tokens", "requests", "verdict"))
        )


def render(
    report: Report,
    seen: Iterable[Largest] = (),
    *,
    explain: bool = False,
    colored: bool = False,
) -> str:
    """The report for a terminal; `seen`: the largest batches of a log; `explain` adds sources."""
    parts = [_headline(report, colored), *_servers(report), *_notes(report.unread)]
    parts.append(_affected(report))
    parts += [*_table(report), *_seen(report, seen)]
    parts += [line for finding in report.findings for line in _finding(finding, colored)]
    parts += _open(report)
    parts += _notes(note for note in report.notes if note not in report.unread)
    if explain:
        parts += _sources(report)
    return "\n".join(parts)


def _notes(notes: Iterable[str]) -> Iterator[str]:
    yield from (fill(f"note: {note}", WIDTH) for note in notes)


def _paint(text: str, kind: str, colored: bool) -> str:
    return f"\x1b[{COLORS.get(kind, '32')}m{text}\x1b[0m" if colored else text


def _headline(report: Report, colored: bool) -> str:
    hangs = report.verdict == "overflows" and any(
        finding.code == "profile-hang" and finding.severity == "error"
        for finding in report.findings
    )
    verdict = _paint(report.verdict.upper() + " AND HANGS" * hangs, report.verdict, colored)
    rule = f", sizing rule {report.rule}" if report.rule else ""
    assumed = f" (release not given: {report.release} assumed)" if report.assumed else ""
    return f"{verdict}: SGLang {report.release}{rule}{assumed}"


def _servers(report: Report) -> Iterator[str]:
    """A line for each of several servers; what follows is about the worst."""
    for one in report.servers:
        shown = "  (shown below)" if one.name == report.name else ""
        yield f"server {one.name}: {one.verdict}{shown}"


def _affected(report: Report) -> str:
    return f"every release with an eager runner: {report.affected}"


def _table(report: Report) -> Iterator[str]:
    """Batch sources, their largest batch, and whether the buffer holds it."""
    if report.rule is None:
        return
    bound = report.rules[report.rule].bound
    yield ""
    yield _buffer(bound, report.verdict)
    yield f"{'producer':<16} {'tokens':>11} {'requests':>9}  formula"
    for shape in report.shapes:
        if shape.producer == "benchmark" and shape.num_tokens is None:
            continue  # bounded by nothing that is known here
        tokens = "?" if shape.num_tokens is None else f"{shape.num_tokens:,}"
        count = "?" if shape.bs is None else f"{shape.bs:,}"
        mark = "" if shape.copied else " (not copied)"
        yield f"{shape.producer:<16} {tokens:>11} {count:>9}  {shape.formula}{mark}"


def _buffer(bound: Bound, verdict: str) -> str:
    """The buffer's size; a lower bound of nothing is no size."""
    least = "at least " if bound.at_least else ""
    requests = "unknown" if bound.max_bs is None else f"{bound.max_bs:,}"
    if bound.max_num_tokens or not bound.at_least:
        return f"buffer: {least}{bound.max_num_tokens:,} tokens, {requests} requests"
    requests = f", {requests} requests" if bound.max_bs else ""
    fits = "; no completion of the unknown values overflows it" if verdict == "fits" else ""
    return f"buffer: its size in tokens is not known{requests}{fits}"


def _seen(report: Report, seen: Iterable[Largest]) -> Iterator[str]:
    if report.rule is None:
        return
    bound = report.rules[report.rule].bound
    for one in seen:
        tokens = "unknown tokens" if one.num_tokens is None else f"{one.num_tokens:,} tokens"
        share = ""
        if one.num_tokens is not None and bound.max_num_tokens and not bound.at_least:
            share = f", {100 * one.num_tokens / bound.max_num_tokens:.3g} % of the token buffer"
        rounded = " (in whole pages)" if one.page_rounded else ""
        yield (
            f"seen: {one.batches:,} {one.kind} batches, the largest {tokens}{rounded} and "
            f"{one.requests:,} requests{share}"
        )


def _finding(finding: Finding, colored: bool) -> Iterator[str]:
    yield ""
    yield f"{_paint(finding.severity, finding.severity, colored)} {finding.code}"
    yield fill(finding.message, WIDTH, initial_indent="  ", subsequent_indent="  ")
    yield fill(f"-> {finding.remedy}", WIDTH, initial_indent="  ", subsequent_indent="     ")


def _open(report: Report) -> Iterator[str]:
    if not report.unknown:
        return
    yield ""
    yield "not known (an option gives it):"
    for name in report.unknown:
        yield f"  {GIVE.get(name, '--' + name.replace('_', '-'))}"


def _sources(report: Report) -> Iterator[str]:
    yield ""
    yield "where each value came from:"
    for name in FIELDS:
        value = report.config[name]
        source = report.sources.get(name, "")
        absent = "not set" if source == "default" else "not known"
        yield f"  {name:<24} {absent if value is None else value!s:<12} {source}"
