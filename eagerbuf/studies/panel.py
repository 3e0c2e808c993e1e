"""Controls over one deployment: sizes, verdict and bars follow each change (notebooks 03, 05)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from eagerbuf.config import OPTIONAL, EngineConfig
from eagerbuf.diagnose.verdict import check
from eagerbuf.releases import find_release
from eagerbuf.studies.sizes_html import sizes_html

if TYPE_CHECKING:
    from eagerbuf.read import Reading

WIDGETS = "application/vnd.jupyter.widget-view+json"
NO_KERNEL = (
    "<p>The values as shipped. For controls over all of them (release, chunk, TP, PP, DP, CP, "
    "requests, page size, pool, context) run this cell in JupyterLab: <code>make lab</code>.</p>"
)


class Panel:
    """A deployment under controls; `html` is what they show, also without a kernel.

    `source`: a config, or a reading, whose other settings stay as they were read. `releases`: the
    one to judge by, and optionally a second one beside it. A value that makes no sense is told in
    one line, and what was shown before stays. `own`: a file can be uploaded in place of the source,
    and the deployment replayed on a trace.
    """

    def __init__(
        self, source: EngineConfig | Reading, *names: str | None, own: bool = False
    ) -> None:
        self.source, self.own = source, own
        self.releases = [find_release(name).release for name in names or (None,)]
        self.changed: dict[str, Any] = {}

    def value(self, name: str) -> Any:
        """The effective value of a field: as changed, else as given; None: not known."""
        if name in self.changed:
            return self.changed[name]
        if isinstance(self.source, EngineConfig):
            return getattr(self.source, name)
        return self.source.values[name]

    @property
    def deployment(self) -> EngineConfig | Reading:
        """The source with what was changed; ValueError naming the field that makes no sense."""
        if isinstance(self.source, EngineConfig) or not self.changed:
            return replace(self.source, **self.changed)
        values = {**self.source.values, **self.changed}
        unknown = tuple(name for name in self.source.unknown if values[name] is None)
        config = EngineConfig(**values) if self.source.config else None
        return replace(
            self.source, config=config, values=values, unknown=unknown, profile=None, release=None
        )

    def change(self, name: str, value: Any) -> None:
        """Set a field; 0 stands for None where that is allowed; DP attention is on from 2 ranks."""
        self.changed[name] = None if name in OPTIONAL and value == 0 else value
        if name == "dp_size":
            self.changed["enable_dp_attention"] = value > 1

    def read(self, text: str) -> None:
        """Take the deployment that a text describes; ValueError where it cannot be read."""
        from eagerbuf.read import read_config

        self.source, self.changed = read_config(text), {}

    def html(self) -> str:
        """The report of each release, side by side."""
        reports = [sizes_html(check(self.deployment, name)) for name in self.releases]
        parts = "".join(f"<div style='flex:1 1 340px'>{part}</div>" for part in reports)
        return f"<div style='display:flex;flex-wrap:wrap;gap:24px'>{parts}</div>"

    def replayed(self, workload: str, requests: int = 200) -> str:
        """The batches of `requests` drawn from a trace, against every rule; ValueError as replay.

        Simulated: the lengths are drawn from the trace's quantiles.
        """
        from eagerbuf.studies.batch_fit import fit_one

        given = self.deployment
        config = given if isinstance(given, EngineConfig) else given.config
        if config is None:
            raise ValueError(f"{', '.join(self.source.unknown)}: not known, nothing to replay")  # type: ignore[union-attr]
        smooth = None if isinstance(given, EngineConfig) else given.smooth_factor
        return str(fit_one(config, workload, requests, smooth).to_html(index=False, border=0))

    def box(self) -> Any:
        """The controls and what they show, as one ipywidgets box."""
        from eagerbuf.studies.controls import controls

        return controls(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        bundle = dict(self.box()._repr_mimebundle_(include=include, exclude=exclude))
        return {WIDGETS: bundle[WIDGETS], "text/html": self.html() + NO_KERNEL, "text/plain": ""}
