"""Shapes held against buffers: the findings, a verdict, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from eagerbuf.config import FIELDS, EngineConfig
from eagerbuf.facts import Bound, Deployment, describe
from eagerbuf.findings import Case, Finding, broadcasts, find
from eagerbuf.releases import Release, find_release, releases
from eagerbuf.shapes import Shape
from eagerbuf.sizing import RULES, Rule

if TYPE_CHECKING:
    from pandas import DataFrame

    from eagerbuf.read import Reading

FITS, OVERFLOWS, HANGS, UNKNOWN = "fits", "overflows", "hangs", "unknown"
NOT_APPLICABLE = "not-applicable"


@dataclass(frozen=True)
class RuleReport:
    """One rule against the release's shapes: capacity (requests, tokens), verdict, findings."""

    rule: str
    bound: Bound
    verdict: str
    findings: tuple[Finding, ...]

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


@dataclass(frozen=True)
class Report:
    """The verdict on one deployment: for the release asked, and for every rule."""

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
        }

    def to_frame(self) -> DataFrame:
        """One row a rule: max_bs (requests), max_num_tokens, nbytes, at_least, verdict, codes."""
        import pandas as pd

        rows = [
            {"rule": name, **r.to_dict(), "findings": ", ".join(f.code for f in r.findings)}
            for name, r in self.rules.items()
        ]
        frame = pd.DataFrame(rows)
        return frame.astype({"max_bs": "Int64", "max_num_tokens": "Int64"})

    def _repr_html_(self) -> str:
        from eagerbuf.faces import html_table

        title = f"{self.verdict}: release {self.release}, rule {self.rule}; {self.affected}"
        rows = [(f.code, f.severity, f.message, f.remedy) for f in self.findings]
        shown = [(s.producer, s.num_tokens, s.bs, s.formula) for s in self.shapes]
        return (
            html_table(title, rows, ("finding", "severity", "what", "remedy"))
            + html_table("largest shapes", shown, ("producer", "tokens", "requests", "formula"))
            + html_table(
                "capacity",
                [
                    (n, r.bound.max_num_tokens, r.bound.max_bs, r.verdict)
                    for n, r in self.rules.items()
                ],
                ("rule", "tokens", "requests", "verdict"),
            )
        )


def check(config_or_reading: EngineConfig | Reading, release: str | None = None) -> Report:
    """Hold what a deployment can produce against what each rule reserves.

    `release`: an SGLang release, None for the one the reading names or the newest known.
    ValueError for an unknown release. Verdicts: fits, overflows (a reachable batch is larger
    than a buffer), hangs (start-up is certain to), unknown, not-applicable (no eager runner).
    """
    named = release or getattr(config_or_reading, "release", None)
    deployment = describe(config_or_reading, find_release(named))
    shapes = deployment.shapes()
    rules = {name: _hold(deployment, rule, shapes) for name, rule in RULES.items()}
    asked = deployment.release
    top = rules[asked.sizing_rule] if asked.sizing_rule else None
    return Report(
        config=_effective(deployment),
        unknown=_needed(deployment, top),
        sources=dict(deployment.sources),
        release=asked.release,
        rule=asked.sizing_rule,
        verdict=top.verdict if top else NOT_APPLICABLE,
        findings=top.findings if top else (_no_runner(asked),),
        shapes=tuple(shapes),
        rules=rules,
        affected=_affected(config_or_reading),
    )


def _hold(deployment: Deployment, rule: Rule, shapes: list[Shape]) -> RuleReport:
    """Findings for what is known; a verdict only if no unknown flag could change it."""
    case = _case(deployment, rule, shapes)
    verdicts = {_verdict(case)}
    for variant in deployment.variants()[1:]:
        verdicts.add(_verdict(_case(variant, rule, variant.shapes())))
    verdict = verdicts.pop() if len(verdicts) == 1 else UNKNOWN
    return RuleReport(rule.name, case.bound, verdict, tuple(find(case)))


def _case(deployment: Deployment, rule: Rule, shapes: list[Shape]) -> Case:
    broadcast = broadcasts(rule, deployment.release)
    return Case(deployment, rule, deployment.bound(rule), shapes, broadcast)


def _verdict(case: Case) -> str:
    if case.too_many_tokens() or case.too_many_requests() or case.bench_overflow():
        return OVERFLOWS
    if case.profile_certain_to_fail() and not case.broadcast:
        return HANGS
    return FITS if _certain_to_fit(case) else UNKNOWN


def _certain_to_fit(case: Case) -> bool:
    deployment, bound = case.deployment, case.bound
    if not deployment.copies:
        return True
    if bound.max_bs is None and not deployment.covers_requests(case.rule):
        return False
    if any(batch * length > bound.max_num_tokens for batch, length in deployment.bench):
        return False
    for shape in case.shapes:
        if shape.copied and shape.in_scheduler:
            most = deployment.most_tokens(shape, case.rule, bound)
            if most is None or most > bound.max_num_tokens:
                return False
    return True


def _effective(deployment: Deployment) -> dict[str, Any]:
    shown = {name: deployment.values[name] for name in FIELDS}
    known = deployment.known
    layout = {"tp_size", "dp_size", "attn_cp_size", "enable_dp_attention"} & deployment.unknown
    shown["attn_tp_size"] = None if layout else known.attn_tp_size
    shown["cp_align_size"] = (
        None if {"attn_cp_size", "cp_zigzag"} & deployment.unknown else known.cp_align_size
    )
    return {name: None if name in deployment.unknown else value for name, value in shown.items()}


def _needed(deployment: Deployment, top: RuleReport | None) -> tuple[str, ...]:
    """The unknown fields that matter: all but a pool or context that would change nothing."""
    needed = set(deployment.unknown) - {"max_total_num_tokens", "context_len"}
    if top is not None and top.verdict == UNKNOWN and deployment.known.max_total_num_tokens is None:
        needed.add("max_total_num_tokens")
    return tuple(name for name in FIELDS if name in needed)


def _no_runner(release: Release) -> Finding:
    return Finding(
        "no-eager-runner",
        "info",
        "",
        f"release {release.release} has no eager runner: it makes no static eager input buffers",
        "none needed; ask for another release with --release",
    )


def _affected(source: EngineConfig | Reading) -> str:
    """The verdict of every release with an eager runner, equal neighbours put together."""
    runs: list[tuple[str, str, str]] = []
    for release in releases():
        if release.sizing_rule is None or not release.numbered:
            continue
        deployment = describe(source, release)
        verdict = _hold(deployment, RULES[release.sizing_rule], deployment.shapes()).verdict
        if runs and runs[-1][2] == verdict:
            runs[-1] = (runs[-1][0], release.release, verdict)
        else:
            runs.append((release.release, release.release, verdict))
    return ", ".join(
        f"{verdict} in {first}" if first == last else f"{verdict} in {first} to {last}"
        for first, last, verdict in runs
    )
