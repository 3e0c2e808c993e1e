"""Executed notebooks as HTML pages, their figures live, with no request to any host."""

from __future__ import annotations

import json
import re
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter
from plotly.offline import get_plotlyjs

from eagerbuf.plots.template import DARK
from notebooks.site.execute import PLOTLY, Executed
from notebooks.site.figures import figure_html
from notebooks.site.outputs import write_whole

PLOTLY_FILE, SCRIPT_FILE, STYLE_FILE = "plotly.min.js", "page.js", "page.css"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="page.css">
<script src="page.js"></script>
{script}
</head>
<body>
<a class="skip" href="#main">Skip to the text</a>
<header>
<nav aria-label="Notebooks">{nav}</nav>
<button type="button" id="scheme">Dark</button>
</header>
<main id="main" tabindex="-1">
{body}
</main>
<footer>{footer}</footer>
</body>
</html>
"""


def write_pages(runs: list[Executed], folder: Path) -> Path:
    """Write index.html, a page per notebook and what they share into `folder`; the index's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _shared().items():
        write_whole(folder / name, text)
    for run in runs:
        write_whole(folder / _page_name(run), page(run, runs))
    index = folder / "index.html"
    write_whole(index, _index(runs))
    return index


def page(run: Executed, runs: list[Executed]) -> str:
    """The page of one notebook among `runs`; plotly, page.js and page.css lie beside it."""
    return _PAGE.format(
        title=f"{escape(run.question)} · eagerbuf",
        script=f'<script defer src="{PLOTLY_FILE}"></script>',
        nav=_nav(runs, run),
        body=_with_contents(_body(run.notebook)),
        footer=_neighbours(run, runs),
    )


def _shared() -> dict[str, str]:
    """Files that all pages use, by name."""
    own = files("notebooks.site")
    script = own.joinpath(SCRIPT_FILE).read_text(encoding="utf-8")
    return {
        PLOTLY_FILE: get_plotlyjs(),
        STYLE_FILE: own.joinpath(STYLE_FILE).read_text(encoding="utf-8"),
        SCRIPT_FILE: script.replace("{/* DARK */}", json.dumps(DARK)),
    }


def _body(notebook: Any) -> str:
    shown = nbformat.from_dict(notebook)
    for number, cell in enumerate(shown.cells, 1):
        for place, output in enumerate(cell.get("outputs", []), 1):
            data = output.get("data", {})
            if PLOTLY in data:
                drawn = figure_html(data[PLOTLY], f"figure-{number}-{place}")
                output["data"] = nbformat.from_dict({"text/html": drawn})
    exporter = HTMLExporter(template_name="basic", exclude_input_prompt=True)
    exporter.exclude_output_prompt = True
    body, _ = exporter.from_notebook_node(shown)
    plain = re.sub(r'<a class="anchor-link"[^>]*>.*?</a>', "", str(body))
    return re.sub(r'(<a href="[\w.]+)\.ipynb(["#])', r"\1.html\2", plain)


def _with_contents(body: str) -> str:
    """The body with a list of its sections before the first of them."""
    found = re.findall(r'<h2 id="([^"]*)">(.*?)</h2>', body, re.S)
    if not found:
        return body
    links = "".join(f'<li><a href="#{name}">{text}</a></li>' for name, text in found)
    nav = f'<nav class="contents" aria-label="On this page"><ol>{links}</ol></nav>'
    cells = [match.start() for match in re.finditer('<div class="cell ', body)]
    after_answer = cells[1] if len(cells) > 1 else len(body)
    return body[:after_answer] + nav + body[after_answer:]


def _page_name(run: Executed) -> str:
    return run.path.with_suffix(".html").name


def _nav(runs: list[Executed], shown: Executed | None) -> str:
    links = [_link("index.html", "eagerbuf", "all notebooks", shown is None)]
    for run in runs:
        number, _, words = run.path.stem.partition("_")
        text = f'{number}<span class="name"> {escape(words.replace("_", " "))}</span>'
        links.append(_link(_page_name(run), text, run.question, run is shown))
    return " ".join(links)


def _link(href: str, text: str, title: str, here: bool) -> str:
    current = " aria-current=page" if here else ""
    return f'<a href="{href}" title="{escape(title)}"{current}>{text}</a>'


def _neighbours(run: Executed, runs: list[Executed]) -> str:
    """Links to the notebooks before and after."""
    at = next(place for place, other in enumerate(runs) if other is run)
    before, after = runs[at - 1 : at] if at else [], runs[at + 1 : at + 2]
    links = [
        f'<a rel="{side}" href="{_page_name(other)}"><small>{word}</small> '
        f"{escape(other.question)}</a>"
        for side, word, others in (("prev", "Previous", before), ("next", "Next", after))
        for other in others
    ]
    return f'<nav aria-label="Before and after">{"".join(links)}</nav>' if links else ""


def _index(runs: list[Executed]) -> str:
    rows = "".join(
        f'<li><h2><a href="{_page_name(r)}">{escape(r.question)}</a></h2>'
        f"<p>{_code(r.answer)}</p><p class=quiet>{r.asserts} statements asserted{_took(r)}</p></li>"
        for r in runs
    )
    body = (
        "<h1>eagerbuf</h1><p>How SGLang's eager runner sizes its static input buffers: "
        f'reproduced, explained, settled.</p><ol class="pages">{rows}</ol>'
    )
    return _PAGE.format(title="eagerbuf", script="", nav=_nav(runs, None), body=body, footer="")


def _took(run: Executed) -> str:
    return f", run in {run.seconds:.0f} s" if run.seconds else ""


def _code(text: str) -> str:
    """Escaped text, what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
