"""Pages: they open offline, figures are live, and a failing cell is named."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest

from eagerbuf.pages.__main__ import main
from eagerbuf.pages.execute import Executed, execute, notebook_paths
from eagerbuf.pages.html import PLOTLY_FILE, write_pages

FOLDER = Path(__file__).parent.parent / "notebooks"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


class Links(HTMLParser):
    """Everything a page would load, and where it links to."""

    def __init__(self):
        super().__init__()
        self.loads, self.links = [], []

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        if tag in ("script", "img", "iframe", "source") and named.get("src"):
            self.loads.append(named["src"])
        if tag == "link":
            self.loads.append(named["href"])
        if tag == "a":
            self.links.append(named.get("href", ""))


def notebook(*sources):
    cells = [nbformat.v4.new_markdown_cell("# Why?\n\n**Answer.** Because. More.")]
    cells += [nbformat.v4.new_code_cell(source) for source in sources]
    return nbformat.v4.new_notebook(cells=cells)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of the stored notebooks, which are not run for it."""
    folder = tmp_path_factory.mktemp("pages")
    stored = [Executed(p, nbformat.read(p, as_version=4), 0.0) for p in notebook_paths(FOLDER)]
    write_pages(stored, folder)
    return folder


def test_a_page_for_each_notebook_and_an_index(pages):
    names = {path.stem for path in notebook_paths(FOLDER)} | {"index"}
    assert {path.stem for path in pages.glob("*.html")} == names
    assert not list(pages.glob("*.part"))


def test_no_page_asks_any_host(pages):
    for path in pages.glob("*.html"):
        found = Links()
        text = path.read_text(encoding="utf-8")
        found.feed(text)
        assert set(found.loads) <= {PLOTLY_FILE, "data:,"}, path.name
        for link in found.links:
            assert link.startswith("#") or (pages / link.split("#")[0]).exists(), link
        assert not re.search(r"@import|url\(http", text)


def test_every_figure_is_live_and_has_a_text(pages):
    for path in notebook_paths(FOLDER):
        text = (pages / f"{path.stem}.html").read_text(encoding="utf-8")
        stored = path.read_text(encoding="utf-8").count("application/vnd.plotly.v1+json")
        assert text.count("Plotly.newPlot(") == stored > 0
        assert len(re.findall(r'<figure [^>]*aria-label="[^"]{10,}"', text)) == stored


def test_question_and_answer(pages):
    run = Executed(Path("x.ipynb"), notebook(), 0.0)
    assert (run.question, run.answer) == ("Why?", "Because.")
    index = (pages / "index.html").read_text(encoding="utf-8")
    assert "Profiling prefill latency" in index


def test_text_in_outputs_is_escaped(tmp_path):
    made = notebook("print('<script>alert(1)</script>')")
    made.cells[1].outputs = [
        nbformat.v4.new_output("stream", name="stdout", text="<script>alert(1)</script>")
    ]
    write_pages([Executed(tmp_path / "01_x.ipynb", made, 0.0)], tmp_path)
    assert "<script>alert" not in (tmp_path / "01_x.html").read_text(encoding="utf-8")


def test_a_failing_cell_is_named_and_nothing_is_written(tmp_path, capsys):
    path = tmp_path / "01_bad.ipynb"
    nbformat.write(notebook("x = 1", "assert x == 2, 'two was wanted'"), path)
    before = path.read_bytes()
    assert main(["save", "--notebooks", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "01_bad.ipynb, code cell 2" in error
    assert "two was wanted" in error
    assert error.count("\n") == 1
    assert path.read_bytes() == before


def test_no_notebook_is_one_line(tmp_path, capsys):
    assert main(["run", "--notebooks", str(tmp_path)]) == 1
    assert "no notebook" in capsys.readouterr().err


def test_a_run_leaves_the_file_alone(tmp_path):
    path = tmp_path / "01_good.ipynb"
    nbformat.write(notebook("1 + 1"), path)
    before = path.read_bytes()
    run = execute(path)
    assert run.notebook.cells[1].outputs[0].data["text/plain"] == "2"
    assert path.read_bytes() == before


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here to draw the pages with")
def test_figures_draw_in_a_browser_without_a_network(pages, tmp_path):
    path = pages / "03_sizing_fix.html"
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={tmp_path}",
        "--virtual-time-budget=10000",
        "--dump-dom",
        path.as_uri(),
    ]
    drawn = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    figures = path.read_text(encoding="utf-8").count("Plotly.newPlot(")
    assert drawn.count('<svg class="main-svg"') >= figures
