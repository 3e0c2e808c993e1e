"""An executed notebook as one HTML page, its figures live, with no request to any host."""

from __future__ import annotations

import re
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter
from plotly.offline import get_plotlyjs

from eagerbuf.pages.execute import PLOTLY, Executed

PLOTLY_FILE = "plotly.min.js"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
{script}
</head>
<body>
<nav aria-label="pages">{nav}</nav>
<main>
{body}
</main>
</body>
</html>
"""


def write_pages(runs: list[Executed], folder: Path) -> Path:
    """Write index.html and a page per notebook into `folder`; returns the index's path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PLOTLY_FILE).write_text(get_plotlyjs(), encoding="utf-8")
    nav = _nav(runs)
    for run in runs:
        _write(folder / _page_name(run), page(run, nav))
    index = folder / "index.html"
    text = _PAGE.format(title="eagerbuf", style=_style(), script="", nav=nav, body=_list(runs))
    _write(index, text)
    return index


def page(run: Executed, nav: str = "") -> str:
    """The page of one notebook; plotly.js is expected beside it."""
    return _PAGE.format(
        title=escape(run.question),
        style=_style(),
        script=f'<script src="{PLOTLY_FILE}"></script>',
        nav=nav,
        body=_body(run.notebook),
    )


def _body(notebook: Any) -> str:
    shown = nbformat.from_dict(notebook)
    for cell in shown.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if PLOTLY in data:
                output["data"] = nbformat.from_dict({"text/html": live(data[PLOTLY], cell.id)})
    exporter = HTMLExporter(template_name="basic", exclude_input_prompt=True)
    exporter.exclude_output_prompt = True
    body, _ = exporter.from_notebook_node(shown)
    return str(body)


def live(figure: dict[str, Any], name: str) -> str:
    """A figure's JSON as an interactive HTML element with a text alternative: its title."""
    from plotly.graph_objects import Figure
    from plotly.io import to_html

    drawn = Figure({"data": figure["data"], "layout": figure["layout"]})
    title = re.sub(r"<[^>]+>", " ", drawn.layout.title.text or name)
    element = to_html(
        drawn,
        include_plotlyjs=False,
        full_html=False,
        div_id=f"figure-{name}",
        config={"displaylogo": False, "responsive": True, "displayModeBar": "hover"},
    )
    return f'<figure role="group" aria-label="{escape(title)}">{element}</figure>'


def _page_name(run: Executed) -> str:
    return run.path.with_suffix(".html").name


def _nav(runs: list[Executed]) -> str:
    links = [("index.html", "eagerbuf"), *((_page_name(r), r.path.stem[:2]) for r in runs)]
    return " ".join(f'<a href="{name}">{escape(text)}</a>' for name, text in links)


def _list(runs: list[Executed]) -> str:
    rows = "".join(
        f'<tr><td><a href="{_page_name(r)}">{escape(r.question)}</a></td>'
        f"<td>{_code(r.answer)}</td></tr>"
        for r in runs
    )
    return (
        "<h1>eagerbuf</h1><p>How SGLang's eager runner sizes its static input buffers: "
        "reproduced, explained, settled.</p>"
        f"<table><thead><tr><th>question</th><th>answer</th></tr></thead>{rows}</table>"
    )


def _code(text: str) -> str:
    """Escaped text, what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _style() -> str:
    from pygments.formatters import HtmlFormatter

    css = files("eagerbuf.pages").joinpath("page.css").read_text(encoding="utf-8")
    return css + str(HtmlFormatter().get_style_defs(".highlight"))


def _write(path: Path, text: str) -> None:
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
