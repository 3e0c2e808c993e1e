"""The terms of the notebooks, each explained once (data/glossary.csv): a page shows its own."""

from __future__ import annotations

import re
from dataclasses import dataclass

from eagerbuf._csv import Reads, table


@dataclass(frozen=True)
class Term:
    """One word, its other forms, and what it means."""

    name: str
    forms: tuple[str, ...]
    meaning: str

    def used_in(self, text: str) -> bool:
        """Whether any of its forms stands in the text, in small or capital letters.

        A term that is all capitals (TP, MLA) is found in capitals only.
        """
        forms = "|".join(rf"{re.escape(form)}s?" for form in (self.name, *self.forms))
        flags = 0 if self.name.isupper() else re.IGNORECASE
        return re.search(rf"(?<![\w-])(?:{forms})(?![\w-])", text, flags) is not None


def _forms(field: str) -> tuple[str, ...]:
    return tuple(field.split("|")) if field else ()


SCHEMA: dict[str, Reads] = {"term": str, "other_forms": _forms, "meaning": str}
GLOSSARY = {row["term"]: Term(*row.values()) for row in table("glossary.csv", SCHEMA)}


@dataclass(frozen=True, repr=False)
class Words:
    """Terms with their meanings: a table in a notebook, lines of text elsewhere."""

    terms: tuple[Term, ...]

    def __repr__(self) -> str:
        return "\n".join(f"{term.name}: {term.meaning}" for term in self.terms)

    def _repr_html_(self) -> str:
        from eagerbuf._html import html_table

        table = html_table("words used here", [(term.name, term.meaning) for term in self.terms])
        return re.sub(r"`([^`]+)`", r"<code>\1</code>", table)


def words(names: str = "") -> Words:
    """The meaning of these terms, separated by commas, or of all; ValueError for an unknown one."""
    asked = [" ".join(name.split()) for name in names.split(",") if name.strip()]
    unknown = [name for name in asked if name not in GLOSSARY]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not in the glossary: {', '.join(GLOSSARY)}")
    return Words(tuple(GLOSSARY[name] for name in asked or GLOSSARY))


def used_in(text: str) -> list[str]:
    """The glossary's terms that stand in a text, in the glossary's order."""
    return [term.name for term in GLOSSARY.values() if term.used_in(text)]


def markdown() -> str:
    """The whole glossary as a page beside the notebooks."""
    rows = [f"| {term.name} | {term.meaning} |" for term in GLOSSARY.values()]
    return "\n".join(["# Words of the notebooks", "", "| word | meaning |", "|---|---|", *rows, ""])
