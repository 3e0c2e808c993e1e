"""Shapes held against buffers: the findings, a verdict, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from eagerbuf.config import FIELDS, EngineConfig
from eagerbuf.diagnose.findings import Case, Finding, common, find, profile
from eagerbuf.diagnose.report import Report, RuleReport
from eagerbuf.diagnose.unknowns import Deployment, describe
from eagerbuf.releases import Release, find_release, releases
from eagerbuf.sizing import RULES, Rule

if TYPE_CHECKING:
    from eagerbuf.read import Reading

FITS, OVERFLOWS, HANGS, UNKNOWN = "fits", "overflows", "hangs", "unknown"
NOT_APPLICABLE = "not-applicable"
WORST = {OVERFLOWS: 0, HANGS: 0, UNKNOWN: 1, FITS: 2, NOT_APPLICABLE: 2}
GRAVEST = ("error", "warning", "info")


def check(
    config_or_reading: EngineConfig | Reading | Sequence[Reading], release: str | None = None
) -> Report:
    """Hold what a deployment can produce against what each rule reserves.

    Of several readings (`read_servers`) the report of the worst, with those of all in `servers`.
    `release`: an SGLang release, None for the one the reading names or the newest known.
    ValueError for an unknown release. Verdicts: fits, overflows (a reachable batch is larger
    than a buffer), hangs (start-up is certain to), unknown, not-applicable (no eager runner).
    """
    if isinstance(config_or_reading, Sequence):
        return _worst([check(reading, release) for reading in config_or_reading])
    named = release or getattr(config_or_reading, "release", None)
    deployment = describe(config_or_reading, find_release(named))
    rules = {name: _hold(deployment, rule) for name, rule in RULES.items()}
    asked = deployment.release
    start_up = _cases(deployment, RULES["tight"], logged=True)
    top = rules[asked.sizing_rule] if asked.sizing_rule else None
    return Report(
        config=_effective(deployment),
        unknown=_needed(deployment, top),
        sources=dict(deployment.sources),
        release=asked.release,
        rule=asked.sizing_rule,
        verdict=top.verdict if top else _without_runner(start_up),
        findings=top.findings if top else (_no_runner(asked), *_start_up(start_up)),
        shapes=tuple(deployment.shapes()),
        rules=rules,
        affected=_affected(config_or_reading, asked),
        notes=getattr(config_or_reading, "notes", ()),
        unread=getattr(config_or_reading, "unread", ()),
        assumed=named is None,
        name=getattr(config_or_reading, "name", ""),
    )


def _worst(reports: Sequence[Report]) -> Report:
    """Overflows and hangs before unknown before fits; then the gravest finding; then the first."""
    if not reports:
        raise ValueError("no reading: give at least one")
    worst = min(reports, key=lambda report: (WORST[report.verdict], _gravity(report)))
    return replace(worst, servers=tuple(reports)) if len(reports) > 1 else worst


def _gravity(report: Report) -> int:
    return min((GRAVEST.index(f.severity) for f in report.findings), default=len(GRAVEST))


def _hold(deployment: Deployment, rule: Rule) -> RuleReport:
    cases = _cases(deployment, rule, logged=rule.name == deployment.release.sizing_rule)
    findings = common([list(find(case)) for case in cases])
    return RuleReport(
        rule.name, deployment.bound(rule), _verdict(deployment, cases), tuple(findings)
    )


def _cases(deployment: Deployment, rule: Rule, *, logged: bool) -> list[Case]:
    """Every completion under a rule; `logged`: a log's failure happened under that very rule."""
    return [
        Case(
            config,
            deployment.release,
            rule,
            copies=deployment.copies,
            bench=deployment.bench,
            model=deployment.model,
            dispatch_tokens=deployment.dispatch_tokens,
            profile=deployment.profile if logged else None,
        )
        for config in deployment.completions
    ]


def _verdict(deployment: Deployment, cases: list[Case]) -> str:
    """The verdict that every completion shares, else unknown, unless a log shows the hang."""
    verdicts = {_judge(case) for case in cases}
    if not deployment.told:
        verdicts = {UNKNOWN if verdict == FITS else verdict for verdict in verdicts}
    if len(verdicts) == 1 and not deployment.too_open:
        return verdicts.pop()
    return HANGS if all(case.shown_to_hang for case in cases) else UNKNOWN


def _judge(case: Case) -> str:
    if case.overflows():
        return OVERFLOWS
    if case.shown_to_hang or (case.profile_certain_to_fail() and not case.broadcast):
        return HANGS
    return FITS if case.fits() else UNKNOWN


def _effective(deployment: Deployment) -> dict[str, Any]:
    shown = {name: deployment.values[name] for name in FIELDS}
    for name in ("attn_tp_size", "cp_align_size"):
        found = {getattr(config, name) for config in deployment.completions}
        shown[name] = found.pop() if len(found) == 1 else None
    return {name: None if name in deployment.unknown else value for name, value in shown.items()}


def _needed(deployment: Deployment, top: RuleReport | None) -> tuple[str, ...]:
    """The unknown fields that matter: all but a pool or context that would change nothing."""
    needed = set(deployment.unknown) - {"max_total_num_tokens", "context_len"}
    if top is not None and top.verdict == UNKNOWN:
        pool = deployment.unknown & {"max_total_num_tokens"}
        needed |= pool or set(deployment.open_fields)  # the context tells nothing without a pool
    return tuple(name for name in FIELDS if name in needed)


def _without_runner(cases: list[Case]) -> str:
    return HANGS if all(case.shown_to_hang for case in cases) else NOT_APPLICABLE


def _start_up(cases: list[Case]) -> list[Finding]:
    """The profile's findings for a release without static buffers: it can hang all the same."""
    return common([list(profile(case)) for case in cases])


def _no_runner(release: Release) -> Finding:
    return Finding(
        "no-eager-runner",
        "info",
        "",
        f"release {release.release} has no eager runner: it makes no static eager input buffers",
        "none needed; ask for another release with --release",
    )


def _affected(source: EngineConfig | Reading, asked: Release) -> str:
    """The verdict of every release with an eager runner, equal neighbours put together."""
    known: dict[tuple[Release, bool], str] = {}
    verdicts = []
    for release in releases():
        if release.sizing_rule is not None and release.numbered:
            alike = (replace(release, release="", newest_file="", source=""), release == asked)
            if alike not in known:
                known[alike] = _in_release(source, release, asked)
            verdicts.append((release.release, known[alike]))
    runs = [(verdict, list(run)) for verdict, run in groupby(verdicts, itemgetter(1))]
    return ", ".join(f"{verdict} in {_span(run[0][0], run[-1][0])}" for verdict, run in runs)


def _in_release(source: EngineConfig | Reading, release: Release, asked: Release) -> str:
    """The verdict there; what a log shows happened in the release that was asked for alone."""
    assert release.sizing_rule is not None
    deployment = describe(source, release)
    cases = _cases(deployment, RULES[release.sizing_rule], logged=release == asked)
    return _verdict(deployment, cases)


def _span(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"
