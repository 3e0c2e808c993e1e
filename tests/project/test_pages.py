"""Pages: they open offline, figures are live, and a failing cell is named."""

import json
import re
from base64 import b64encode
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest

from eagerbuf.studies.glossary import markdown
from notebooks.site import readme
from notebooks.site.__main__ import main
from notebooks.site.execute import Executed, NotebookFailed, execute, notebook_paths
from notebooks.site.figures import described, figure_html
from notebooks.site.html import PLOTLY_FILE, SCRIPT_FILE, STYLE_FILE, write_pages

FOLDER = Path(__file__).parents[2] / "notebooks"


class Tags(HTMLParser):
    """What a page would load, where it links to, what can be linked to, and its headings."""

    def __init__(self, path):
        super().__init__()
        self.loads, self.links, self.ids, self.levels, self.titles = [], [], [], [], 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.ids += [named["id"]] if named.get("id") else []
        self.titles += tag == "title"
        if re.fullmatch(r"h[1-6]", tag):
            self.levels.append(int(tag[1]))
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


def test_a_page_for_each_notebook_and_an_index(pages):
    names = {path.stem for path in notebook_paths(FOLDER)} | {"index"}
    assert {path.stem for path in pages.glob("*.html")} == names
    assert not list(pages.glob("*.part"))


def test_no_page_asks_any_host(pages):
    for path in pages.glob("*.html"):
        assert set(Tags(path).loads) <= {PLOTLY_FILE, SCRIPT_FILE, STYLE_FILE, "data:,"}, path.name
        assert not re.search(r"@import|url\(http", path.read_text(encoding="utf-8"))
    assert "http" not in (pages / STYLE_FILE).read_text(encoding="utf-8")
    assert "http" not in (pages / SCRIPT_FILE).read_text(encoding="utf-8")


def test_links_lead_somewhere(pages):
    tags = {path.name: Tags(path) for path in pages.glob("*.html")}
    for name, found in tags.items():
        for link in found.links:
            if link.startswith("https://github.com/"):
                continue  # a source: followed by a reader, loaded by no page
            target, _, part = link.partition("#")
            other = tags[target or name]
            assert not part or {part, unquote(part)} & {*other.ids}, f"{name}: {link}"


def test_headings_are_in_order(pages):
    for path in pages.glob("*.html"):
        levels = Tags(path).levels
        assert levels[0] == 1, path.name
        assert levels.count(1) == 1, path.name
        assert all(b <= a + 1 for a, b in pairwise(levels)), path.name


def test_a_page_tells_its_language_title_contents_and_neighbours(pages):
    notebooks = notebook_paths(FOLDER)
    for at, path in enumerate(notebooks):
        text = (pages / f"{path.stem}.html").read_text(encoding="utf-8")
        assert '<html lang="en">' in text
        assert Tags(pages / f"{path.stem}.html").titles == 1
        assert text.count('<li><a href="#') == Tags(pages / f"{path.stem}.html").levels.count(2)
        assert ('rel="prev"' in text) == (at > 0)
        assert ('rel="next"' in text) == (at + 1 < len(notebooks))


def test_links_between_notebooks_become_links_between_pages(tmp_path):
    made = notebook("1")
    made.cells[0].source += "\n\n[other](02_y.ipynb#Part) and [far](https://x.invalid/a.ipynb)"
    write_pages([Executed(tmp_path / "01_x.ipynb", made, 0.0)], tmp_path)
    assert '<a href="02_y.html#Part">' in (tmp_path / "01_x.html").read_text(encoding="utf-8")
    assert "https://x.invalid/a.ipynb" in (tmp_path / "01_x.html").read_text(encoding="utf-8")


def test_every_figure_is_live_and_has_a_text(pages):
    for path in notebook_paths(FOLDER):
        text = (pages / f"{path.stem}.html").read_text(encoding="utf-8")
        stored = path.read_text(encoding="utf-8").count("application/vnd.plotly.v1+json")
        assert len(re.findall('<figure [^>]*class="figure"', text)) == stored > 0
        assert (
            len(re.findall(r'<div aria-label="[^"]{10,}" class="plot"[^>]+role="img"', text))
            == stored
        )
        assert len(re.findall(r'<figcaption id="[^"]+">[^<]{10,}<', text)) == stored


def test_a_figure_is_described_by_its_finding_and_its_axes():
    layout = {
        "title": {"text": "All <b>fit</b><br>0.5.14 &amp; later"},
        "xaxis": {"title": {"text": "tokens"}},
        "yaxis": {"title": "requests"},
    }
    figure = {"data": [{"text": ["</script>"]}], "layout": layout}
    told = "All fit 0.5.14 & later. Horizontal: tokens. Vertical: requests."
    assert described(figure) == told
    made = figure_html(figure, "figure-1")
    assert made.count("</script>") == 1
    assert json.loads(made.split('application/json">')[1].split("</script>")[0]) == figure


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


def stored(folder, name):
    """A notebook of one figure without its data, saved with a picture of four bytes."""
    made = notebook("1")
    data = {"image/png": b64encode(b"\x89PNG").decode()}
    made.cells[1].outputs = [nbformat.v4.new_output("display_data", data)]
    nbformat.write(made, folder / name)


def test_refreshed_are_the_table_the_picture_and_the_words(tmp_path):
    folder, text = tmp_path / "notebooks", tmp_path / "README.md"
    folder.mkdir()
    stored(folder, "03_x.ipynb")
    text.write_text(f"a\n{readme.START}\nold\n{readme.END}\nb\n", encoding="utf-8")
    readme.refresh(text, folder)
    row = "| [03_x](notebooks/03_x.ipynb) | Why? | Because. |"
    assert text.read_text(encoding="utf-8").splitlines()[4:] == [row, readme.END, "b"]
    assert (folder / "shapes.png").read_bytes() == b"\x89PNG"
    assert (folder / "README.md").read_text(encoding="utf-8") == markdown()


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("{0}{1}", "01_x.ipynb", "no notebook 03 in notebooks/"),
        ("{0}{0}{1}", "03_x.ipynb", "README.md: the table of notebooks needs its two marks"),
        ("{0}{1}{1}", "03_x.ipynb", "each once"),
        ("{1}{0}", "03_x.ipynb", "each once"),
        ("{0}", "03_x.ipynb", "each once"),
    ],
)
def test_what_cannot_be_refreshed_is_told_and_left_as_it_was(tmp_path, text, name, words):
    folder, path = tmp_path / "notebooks", tmp_path / "README.md"
    folder.mkdir()
    stored(folder, name)
    path.write_text(text.format(readme.START, readme.END), encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(NotebookFailed, match=words):
        readme.refresh(path, folder)
    assert path.read_bytes() == before
    assert [made.name for made in folder.iterdir()] == [name]
