"""The ipywidgets of a Panel: what may be changed, and what happens then."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets as w

from eagerbuf.config import DEFAULTS
from eagerbuf.releases import releases
from eagerbuf.simulate.workloads import workload_names

if TYPE_CHECKING:
    from eagerbuf.studies.panel import Panel

# field -> label; all are values of one rank, under SGLang's own names
NUMBERS = {
    "chunked_prefill_size": "chunk (tokens)",
    "max_running_requests": "running requests",
    "num_tokens_per_bs": "tokens per request",
    "tp_size": "TP",
    "pp_size": "PP",
    "dp_size": "attention DP ranks",
    "attn_cp_size": "attention CP",
    "page_size": "page size",
    "max_total_num_tokens": "KV pool (tokens)",
    "context_len": "context (tokens)",
}
WIDE = {"description_width": "130px"}
MOST = 2**40


def controls(panel: Panel) -> Any:
    """Controls for the panel's fields and releases over the HTML that follows them."""
    shown, said = w.HTML(panel.html()), w.HTML("")
    show = partial(_show, panel, shown, said)
    fields = {name: _number(panel, name, label, show) for name, label in NUMBERS.items()}
    fields["enable_dynamic_chunking"] = _dynamic(panel, show)
    chosen = [_release(panel, at, show) for at in range(len(panel.releases))]
    grid = w.GridBox(
        [*chosen, *fields.values()],
        layout=w.Layout(grid_template_columns="repeat(auto-fill, minmax(300px, 1fr))"),
    )
    own = [_upload(panel, fields, show, said), _replay(panel)] if panel.own else []
    return w.VBox([*own[:1], grid, said, shown, *own[1:]])


def _dynamic(panel: Panel, show: Callable[[], None]) -> Any:
    name = "enable_dynamic_chunking"
    box = w.Checkbox(value=bool(panel.value(name)), description="dynamic chunking")
    box.observe(partial(_changed, panel, name, show), "value")
    return box


def _upload(panel: Panel, fields: dict[str, Any], show: Callable[[], None], said: Any) -> Any:
    """A button for a file (log, command, manifest) whose settings then fill the fields."""
    button = w.FileUpload(description="your file", multiple=False)

    def uploaded(event: Any) -> None:
        try:
            panel.read(bytes(event["new"][0]["content"]).decode("utf-8", "replace"))
        except ValueError as error:
            said.value = _told(error)
            return
        for name, field in fields.items():
            field.value = _number_of(panel, name)
        panel.changed.clear()
        show()

    button.observe(uploaded, "value")
    return button


def _replay(panel: Panel) -> Any:
    """A trace, a button, and the batches that the deployment would make of it."""
    trace = w.Dropdown(options=workload_names(), description="trace", style=WIDE)
    button, table = w.Button(description="replay"), w.HTML("")

    def clicked(_: Any) -> None:
        table.value = "replaying …"
        try:
            table.value = panel.replayed(trace.value)
        except ValueError as error:
            table.value = _told(error)

    button.on_click(clicked)
    return w.VBox([w.HBox([trace, button]), table])


def _number_of(panel: Panel, name: str) -> Any:
    """The value that a field shows: 0 for what is not known or off."""
    value = panel.value(name)
    return DEFAULTS.get(name) or 0 if value is None else value


def _number(panel: Panel, name: str, label: str, show: Callable[[], None]) -> Any:
    field = w.BoundedIntText(
        value=max(0, _number_of(panel, name)),
        min=0,
        max=MOST,
        description=label,
        style=WIDE,
    )
    field.observe(partial(_changed, panel, name, show), "value")
    return field


def _release(panel: Panel, at: int, show: Callable[[], None]) -> Any:
    chosen = w.Dropdown(
        options=[known.release for known in releases() if known.eager_runner],
        value=panel.releases[at],
        description="beside it" if at else "SGLang release",
        style=WIDE,
    )

    def changed(event: Any) -> None:
        panel.releases[at] = event["new"]
        show()

    chosen.observe(changed, "value")
    return chosen


def _changed(panel: Panel, name: str, show: Callable[[], None], event: Any) -> None:
    panel.change(name, event["new"])
    show()


def _show(panel: Panel, shown: Any, said: Any) -> None:
    """What follows from the values; where they make no sense, why, under what stood before."""
    try:
        shown.value = panel.html()
        said.value = ""
    except ValueError as error:
        said.value = _told(error)


def _told(error: Exception) -> str:
    """An error in one line of HTML."""
    return f"<p role='alert'><b>{escape(str(error))}</b></p>"
