"""A report as one HTML table: the largest batch of each source and the size under each rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import NamedTuple

from eagerbuf.diagnose.report import Report
from eagerbuf.shapes import Shape

FITS, OVER, OPEN = "#0072B2", "#D55E00", "#8A8A8A"
BAD = ("overflows", "hangs")
FAR = 4  # a value this many times over the middle one ends at the edge, with an arrow
LEFT = "style='text-align:left'"
BAR = (
    "<div style='height:6px;min-width:90px'>"
    "<div style='height:6px;width:{share:.0f}%;background:{color}'></div></div>"
)


class Line(NamedTuple):
    """A row: its name, tokens, requests (None: not known), what is said of it, its colour."""

    name: str
    tokens: int | None
    requests: int | None
    said: str
    color: str


def sizes_html(report: Report) -> str:
    """Verdict and binding batch sources, then bars of both axes, each from 0 to its own edge."""
    sources, rules = list(_sources(report)), list(_rules(report))
    lines = (*sources, *rules)
    edges = [_edge(line.tokens for line in lines), _edge(line.requests for line in lines)]
    head = "".join(f"<th {LEFT}>{h}</th>" for h in ("", "tokens", "requests", "verdict"))
    parts = (("Largest batch of each source", sources), ("Buffer under each rule", rules))
    body = "".join(
        f"<tbody><tr><th colspan='4' {LEFT}>{name}</th></tr>"
        + "".join(_row(line, edges) for line in group)
        + "</tbody>"
        for name, group in parts
    )
    return (
        f"<p><b>{escape(headline(report))}</b></p><p>{escape(binding(report))}</p>"
        f"<table><caption>Tokens and requests on one rank, {escape(report.release)}</caption>"
        f"<thead><tr>{head}</tr></thead>{body}</table>{_why(report)}"
    )


def headline(report: Report) -> str:
    """The verdict, with release and rule."""
    rule = f"rule {report.rule}" if report.rule else "no static eager buffers"
    return f"{report.verdict.upper()}: SGLang {report.release}, {rule}"


def binding(report: Report) -> str:
    """Which batch source needs the most tokens, and which the most requests."""
    copied = [s for s in report.shapes if s.copied and s.in_scheduler]
    if any(s.num_tokens is None for s in copied):
        return f"Not known: {', '.join(report.unknown) or 'the largest batch'}."
    tokens = max(copied, key=lambda s: s.num_tokens or 0)
    requests = max((s for s in copied if s.bs), key=lambda s: s.bs or 0, default=None)
    told = f"Most tokens: {tokens.producer}, {tokens.num_tokens:,}"
    return told + (f". Most requests: {requests.producer}, {requests.bs:,}." if requests else ".")


def _sources(report: Report) -> Iterator[Line]:
    for shape in report.shapes:
        if shape.copied:
            yield Line(shape.producer, shape.num_tokens, shape.bs, "", _fate(shape, report))


def _fate(shape: Shape, report: Report) -> str:
    """Blue where it fits the release's buffer, orange where not, grey where neither is told."""
    if not (report.rule and shape.in_scheduler and shape.num_tokens is not None):
        return OPEN
    bound = report.rules[report.rule].bound
    most = bound.max_bs if bound.max_bs is not None else shape.bs
    if shape.num_tokens <= bound.max_num_tokens and (shape.bs or 0) <= (most or 0):
        return FITS
    return OPEN if bound.at_least else OVER


def _rules(report: Report) -> Iterator[Line]:
    for name, rule in report.rules.items():
        bound, own = rule.bound, name == report.rule
        least = "at least " if bound.at_least else ""
        said = f"{rule.verdict}, {least}{bound.nbytes / 1e6:.2f} MB"
        color = OVER if rule.verdict in BAD else FITS if rule.verdict == "fits" else OPEN
        yield Line(
            f"{name} (in use)" if own else name, bound.max_num_tokens, bound.max_bs, said, color
        )


def _edge(values: Iterable[int | None]) -> int:
    """The end of an axis: past every value that is not FAR over the middle one."""
    ordered = sorted(n for n in values if n) or [1]
    return max(n for n in ordered if n <= FAR * ordered[len(ordered) // 2])


def _row(line: Line, edges: list[int]) -> str:
    cells = (
        _cell(value, edge, line.color)
        for value, edge in zip((line.tokens, line.requests), edges, strict=True)
    )
    name, said = escape(line.name), escape(line.said)
    return f"<tr><th {LEFT}>{name}</th>{''.join(cells)}<td {LEFT}>{said}</td></tr>"


def _cell(value: int | None, edge: int, color: str) -> str:
    if value is None:
        return f"<td {LEFT}>not known</td>"
    far = " →" if value > edge else ""
    bar = BAR.format(share=100 * min(value, edge) / edge, color=color)
    return f"<td {LEFT}>{value:,}{far}{bar}</td>"


def _why(report: Report) -> str:
    """The errors and warnings, each with its remedy."""
    told = [f for f in report.findings if f.severity != "info"]
    items = "".join(
        f"<li>{escape(f.severity)}: {escape(f.message)} → {escape(f.remedy)}</li>" for f in told
    )
    return f"<ul>{items}</ul>" if items else ""
