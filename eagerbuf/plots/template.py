"""The shared look of all figures: one template, its colours by day and by night, ceilings."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

# Okabe and Ito's palette: told apart with every common form of colour blindness
COLORS = {
    "fits": "#0072B2",
    "overflow": "#D55E00",
    "probe": "#009E73",
    "neutral": "#595959",
    "light": "#BDBDBD",
    "accent": "#CC79A7",
    "sky": "#56B4E9",
    "gold": "#E69F00",
}
RULE_COLORS = {
    "pr28386": COLORS["overflow"],
    "tight": COLORS["probe"],
    "pr28677": COLORS["fits"],
    "pr28894": COLORS["neutral"],
}
# the same hues as text, dark enough to read on white (4.5:1)
INK = {
    COLORS["overflow"]: "#B84F00",
    COLORS["probe"]: "#007A59",
    COLORS["accent"]: "#A04A7C",
    COLORS["sky"]: "#1F6F9C",
    COLORS["gold"]: "#8A5F00",
    COLORS["light"]: COLORS["neutral"],
}
# what each colour of a figure becomes on a page read in the dark; text keeps 4.5:1 on DARK["white"]
DARK = {
    "white": "#14171a",
    "#FFFFFF": "#14171a",
    "#F2F2F2": "#262b31",
    "#E5E5E5": "#343a41",
    "#BDBDBD": "#6b737c",
    "#595959": "#c9ced3",
    "#222222": "#e8eaed",
    "#000000": "#ffffff",
    "#FBD3B9": "#6b3a1e",
    COLORS["fits"]: "#4da3e0",
    COLORS["overflow"]: "#f07f38",
    COLORS["probe"]: "#2dc79a",
    COLORS["accent"]: "#e58ac0",
    COLORS["sky"]: "#b5e3fa",
    COLORS["gold"]: "#ffd34d",
}
DARK |= {dark: DARK[color] for color, dark in INK.items() if dark not in DARK}
AXIS = {
    "showgrid": True,
    "gridcolor": "#E5E5E5",
    "zeroline": False,
    "ticks": "outside",
    "automargin": True,
}


def figure(title: str, x_title: str, y_title: str, **layout: Any) -> go.Figure:
    """An empty figure in the shared template; `title` states the finding, axes carry units."""
    settings: dict[str, Any] = {
        "template": "none",  # plotly's own would add 7 kB to every stored figure
        "title": {"text": title, "x": 0.01, "xanchor": "left", "font": {"size": 16}},
        "font": {"family": "Helvetica, Arial, sans-serif", "size": 13, "color": "#222222"},
        "plot_bgcolor": "white",
        "paper_bgcolor": "white",
        "width": 860,
        "height": 430,
        "margin": {"l": 80, "r": 30, "t": 70, "b": 65},
        "showlegend": False,
        "xaxis": {**AXIS, "title": {"text": x_title}},
        "yaxis": {**AXIS, "title": {"text": y_title}},
    }
    return go.Figure(layout={**settings, **layout})


def rule_color(rule: str) -> str:
    """The colour of a rule; grey for one that has none of its own yet."""
    return RULE_COLORS.get(rule, COLORS["neutral"])


def ink(color: str) -> str:
    """The colour of words about what is drawn in `color`."""
    return INK.get(color, color)


def ceiling(fig: go.Figure, value: int, label: str, color: str, position: str = "top left") -> None:
    """A labelled horizontal line at a buffer's capacity."""
    fig.add_hline(
        y=value,
        line={"color": color, "width": 2, "dash": "dash"},
        annotation={"text": label, "font": {"color": ink(color)}},
        annotation_position=position,
    )
