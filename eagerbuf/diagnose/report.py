"""A Report as plain text: the verdict, producers against the buffer, findings, and what is open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import fill
from typing import TYPE_CHECKING

from eagerbuf.config import FIELDS
from eagerbuf.diagnose.findings import Finding
from eagerbuf.diagnose.unknowns import Bound
from eagerbuf.diagnose.verdict import Report

if TYPE_CHECKING:
    from eagerbuf.diagnose.observed import Observed

WIDTH = 96
COLORS = {"overflows": "31", "hangs": "31", "error": "31", "unknown": "33", "warning": "33"}
GIVE = {
    "max_total_num_tokens": "--max-total-num-tokens N (the KV pool; the start-up log prints it)",
    "chunked_prefill_size": "--chunked-prefill-size N, or --gpu-mem-gib for its default",
    "max_running_requests": "--max-running-requests N (per rank)",
    "context_len": "--context-len N",
}


def render(
    report: Report,
    seen: Iterable[Observed] = (),
    *,
    explain: bool = False,
    colored: bool = False,
) -> str:
    """The report for a terminal; `seen`: the largest batches of a log; `explain` adds sources."""
    parts = [_headline(report, colored), *_notes(report.unread), _affected(report)]
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
    verdict = _paint(report.verdict.upper(), report.verdict, colored)
    rule = f", sizing rule {report.rule}" if report.rule else ""
    assumed = f" (release not given: {report.release} assumed)" if report.assumed else ""
    return f"{verdict}: SGLang {report.release}{rule}{assumed}"


def _affected(report: Report) -> str:
    return f"every release with an eager runner: {report.affected}"


def _table(report: Report) -> Iterator[str]:
    """Producers, their largest batch, and whether the buffer holds it."""
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


def _seen(report: Report, seen: Iterable[Observed]) -> Iterator[str]:
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
