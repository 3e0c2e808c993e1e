"""A figure's JSON as HTML: its title as a caption, its axes as a text, its data for page.js."""

from __future__ import annotations

import json
import re
from html import escape, unescape
from typing import Any

_FIGURE = """<figure class="figure" aria-labelledby="{name}-title">
<figcaption id="{name}-title">{title}</figcaption>
<div class="controls"></div>
<div class="plot" id="{name}" role="img" aria-label="{text}" style="min-height:{height}px"></div>
<noscript><p>{text} (Figures are drawn by a script.)</p></noscript>
<script type="application/json">{data}</script>
</figure>"""


def figure_html(figure: dict[str, Any], name: str) -> str:
    """A figure that page.js draws: `figure` is plotly's JSON, `name` its id on the page.

    Sliders and buttons are taken out of the drawing by the script and made native controls.
    """
    layout = figure["layout"]
    data = json.dumps({"data": figure["data"], "layout": layout}, separators=(",", ":"))
    return _FIGURE.format(
        name=escape(name),
        title=escape(title(figure) or name),
        text=escape(described(figure)),
        height=int(layout.get("height", 430)) // 2,
        data=data.replace("<", "\\u003c"),
    )


def title(figure: dict[str, Any]) -> str:
    """The title, which states the finding, without markup."""
    return _plain(_text(figure["layout"].get("title")))


def described(figure: dict[str, Any]) -> str:
    """The text alternative: the finding, then what each axis shows."""
    layout = figure["layout"]
    axes = {"Horizontal": layout.get("xaxis", {}), "Vertical": layout.get("yaxis", {})}
    told = {way: _plain(_text(axis.get("title"))) for way, axis in axes.items()}
    parts = [title(figure), *(f"{way}: {words}" for way, words in told.items() if words)]
    return ". ".join(part.rstrip(".") for part in parts if part) + "."


def _text(title: Any) -> str:
    """Plotly writes a title as a text or as a mapping with one."""
    return str((title.get("text") if isinstance(title, dict) else title) or "")


def _plain(text: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())
