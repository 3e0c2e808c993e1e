"""Words that were retired from the notebooks, the README, titles of figures and messages."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
# retired -> what to say instead
RETIRED = {
    r"for ever\b": "indefinitely",
    r"as they came|as it came": "unpadded; from its own tensors",
    r"\bis mended|was mended|it mends|mended the": "fixed, fixes",
    r"late look": "admission checks the budget after adding",
    r"put in from outside": "injected",
    r"stop(s)? to count": "no longer matters",
    r"everybody is told": "the failure is broadcast",
    r"really sends?": "sends",
    r"the silence the trap": "the unreported exception turned it into a hang",
    r"(?:bytes|tokens|KV) a token\b|a KV token a rank": "per token",
    r"a token a rank": "per token and rank",
    r"nothing to win": "nothing to gain",
}
TEXTS = [*sorted((ROOT / "notebooks").glob("*.ipynb")), ROOT / "README.md"]
TEXTS += [ROOT / "notebooks" / "README.md"]
SOURCES = [
    *sorted((ROOT / "eagerbuf" / "plots").glob("*.py")),
    *sorted((ROOT / "eagerbuf" / "studies").glob("*.py")),
]


def prose(path):
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant))
        return "\n".join(text for text in texts if isinstance(text, str))
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(cell.source for cell in cells)


@pytest.mark.parametrize("path", [*TEXTS, *SOURCES], ids=lambda path: path.name)
def test_no_retired_word_is_back(path):
    text = " ".join(prose(path).split())
    found = {m.group(0): better for old, better in RETIRED.items() for m in re.finditer(old, text)}
    assert found == {}


@pytest.mark.parametrize("old", ["the others wait for ever", "48 bytes a token", "it mends that"])
def test_a_retired_word_would_be_found(old):
    assert any(re.search(pattern, old) for pattern in RETIRED)
