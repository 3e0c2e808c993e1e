"""The words of the notebooks: each page explains those it uses, and tells what is missing."""

import ast
import builtins
import json
import re
from pathlib import Path

import nbformat
import pytest

from eagerbuf.studies.glossary import GLOSSARY, markdown, used_in, words

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)


def cells(path, kind):
    found = nbformat.read(path, as_version=4).cells
    return [cell.source for cell in found if cell.cell_type == kind]


def explained(path):
    """The terms of the notebook's call of `words`."""
    for source in cells(path, "code"):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "words":
                return [term.name for term in words(ast.literal_eval(node.args[0])).terms]
    raise AssertionError(f"{path.name} has no cell that calls words(...)")


@each
def test_a_notebook_explains_exactly_the_words_it_uses(path):
    assert explained(path) == used_in("\n".join(cells(path, "markdown")))
    assert "(#Words)" in cells(path, "markdown")[0]


@each
def test_the_first_code_cell_tells_what_is_missing_in_one_line(path, monkeypatch):
    load = builtins.__import__

    def without(name, *rest, **named):
        if name.split(".")[0] in ("eagerbuf", "tests"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.split(".")[0])
        return load(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError, match=r"eagerbuf is not installed here: .+make lab"):
        exec(cells(path, "code")[0], {})


@each
def test_three_questions_with_folded_answers(path):
    text = "\n".join(cells(path, "markdown"))
    folded = re.findall(r"<details><summary>(\d)\. .+?\?</summary>.{4,}?</details>", text)
    assert folded == ["1", "2", "3"]


def numbers(text):
    """Whole and decimal numbers of a text, as written without separators."""
    return {found.replace(",", "") for found in re.findall(r"\d[\d,]*(?:\.\d+)?\b", text)}


def shown(path):
    """Everything the code cells hold and print."""
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            yield cell.source.replace("_", "")
            for output in cell.outputs:
                data = {k: v for k, v in output.get("data", {}).items() if k != "image/png"}
                yield output.get("text", "") + json.dumps(data)


# names and dates, not counts: pull requests, code, releases, ordinals, other notebooks
NAMES = (
    r"(?:#|issues/)\d+|`[^`]*`|\b0\.\d\.\d+|\d{4}-\d\d-\d\d|\b20\d\d\b|\d+th\b"
    r"|notebook \d\d|^\d\.|>\d\."
)


@each
def test_every_number_in_prose_stands_in_a_cell_too(path):
    prose = re.sub(NAMES, " ", "\n".join(cells(path, "markdown")), flags=re.M)
    assert numbers(prose) - numbers("\n".join(shown(path))) == set()


def test_a_meaning_is_one_clause_and_no_term_twice():
    forms = [form.lower() for term in GLOSSARY.values() for form in (term.name, *term.forms)]
    assert len(forms) == len(set(forms))
    for term in GLOSSARY.values():
        assert 10 < len(term.meaning) < 130, term.name
        assert not term.meaning.endswith("."), term.name


def test_a_term_is_found_in_its_forms_and_not_inside_other_words():
    assert used_in("Two probes of a chunk.") == ["chunk", "probe"]
    assert used_in("The PROBE") == ["probe"]
    assert used_in("probed, chunky, chunked_prefill_size, tp") == []
    assert used_in("TP 8") == ["TP"]
    assert used_in("mla, Mla, gqa") == []
    assert used_in("Kv POOL") == ["KV pool"]
    assert used_in("`pr28894` is pool-sized") == ["pool-sized"]


def test_words_show_as_lines_and_as_a_table():
    said = words("probe,\n  KV   pool")
    assert repr(said).startswith("probe: one prefill of the latency profile")
    assert repr(said).count("\n") == 1
    assert "<th style='text-align:left'>KV pool</th>" in said._repr_html_()
    assert len(words().terms) == len(GLOSSARY)
    with pytest.raises(ValueError, match="'prob' is not in the glossary: admission"):
        words("prob")


def test_the_glossary_is_read_beside_the_notebooks():
    text = (ROOT / "notebooks" / "README.md").read_text(encoding="utf-8")
    assert text == markdown(), "make notebooks"
