"""The colours of figures: told apart by everyone, readable by day and by night."""

import json
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from eagerbuf.plots.template import AXIS, COLORS, DARK, INK, RULE_COLORS

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
OKABE_ITO = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"}
GREYS = {COLORS["neutral"], COLORS["light"]}
# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB
BLIND = {
    "protan": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deutan": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritan": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
APART = 9  # CIE 1976 colour difference; 2.3 is just noticeable
WELL_APART = 40


def linear(color):
    """Linear RGB, 0 to 1, of a hexadecimal colour."""
    full = {"white": "#ffffff"}.get(color, color)
    channels = np.array([int(full[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    x, y, z = TO_XYZ @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089]
    f = [t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(one, other, blind):
    seen = [lab(np.array(BLIND[blind]) @ linear(color)) for color in (one, other)]
    return float(np.linalg.norm(seen[0] - seen[1]))


def contrast(one, other):
    """WCAG's contrast ratio."""
    light = sorted(float(TO_XYZ[1] @ linear(color)) for color in (one, other))
    return (light[1] + 0.05) / (light[0] + 0.05)


def schemes():
    return {"light": COLORS, "dark": {name: DARK[color] for name, color in COLORS.items()}}


def test_the_palette_is_okabe_and_itos():
    assert set(COLORS.values()) == OKABE_ITO | GREYS
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert difference("#FF0000", "#00FF00", "tritan") > difference("#D50000", "#6E7000", "deutan")


@pytest.mark.parametrize("blind", BLIND)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_are_told_apart_by_everyone(scheme, blind):
    colors = schemes()[scheme]
    for one, other in combinations(colors, 2):
        assert difference(colors[one], colors[other], blind) > APART, (one, other)
    assert difference(colors["fits"], colors["overflow"], blind) > WELL_APART


def test_overflow_has_one_colour_of_its_own():
    assert [n for n, color in COLORS.items() if color == COLORS["overflow"]] == ["overflow"]
    assert RULE_COLORS["pr28386"] == COLORS["overflow"]
    assert len(set(RULE_COLORS.values())) == len(RULE_COLORS)


def test_marks_and_text_stand_out_in_the_dark():
    for name in set(COLORS) - {"light"}:
        assert contrast(DARK[COLORS[name]], DARK["white"]) >= 4.5, name
    assert contrast(DARK["#222222"], DARK["white"]) >= 7


def inks(part, inside=False):
    """Every colour of text in a figure's JSON; white is for words on a filled bar."""
    if isinstance(part, dict):
        for name, value in part.items():
            if inside and name == "color":
                yield from [value] if isinstance(value, str) else value
            else:
                yield from inks(value, name.lower().endswith("font"))
    elif isinstance(part, list):
        for value in part:
            yield from inks(value, inside)


def test_words_in_a_stored_figure_are_dark_enough():
    seen = set()
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", []):
                figure = output.get("data", {}).get("application/vnd.plotly.v1+json", {})
                for color in set(inks(figure)) - {"white"}:
                    assert contrast(color, "white") >= 4.5, f"{path.name}: {color}"
                    seen.add(color)
    assert {"#222222", INK[COLORS["overflow"]]} <= seen


def test_every_colour_of_a_stored_figure_has_a_dark_one():
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", []):
                figure = output.get("data", {}).get("application/vnd.plotly.v1+json")
                used = set(re.findall(r'"(#[0-9A-Fa-f]{6}|white)"', json.dumps(figure or {})))
                assert used <= set(DARK), f"{path.name}: {used - set(DARK)}"
    assert AXIS["gridcolor"] in DARK
