"""The pages in a headless Chromium with the network cut: they draw, move, print and are accessible.

Without Chromium the file is skipped; EAGERBUF_BROWSER=required makes that a failure.
"""

import json
import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from notebooks.site.execute import notebook_paths

FOLDER = Path(__file__).parents[2] / "notebooks"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
LACKING = [
    *([] if CHROMIUM else ["Chromium (Debian: apt install chromium)"]),
    *(n for n in ("playwright", "axe_playwright_python") if find_spec(n) is None),
]
if LACKING:
    told = f"pages are not looked at: no {', no '.join(LACKING)} (make browser)"
    if os.environ.get("EAGERBUF_BROWSER") == "required":
        pytest.fail(told, pytrace=False)
    pytest.skip(told, allow_module_level=True)

from axe_playwright_python.sync_playwright import Axe  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

ALWAYS = ("index", "03_sizing_fix", "05_your_deployment")  # a list, buttons, a slider
STEMS = [
    pytest.param(stem, marks=[] if stem in ALWAYS else [pytest.mark.slow])
    for stem in ["index", *(path.stem for path in notebook_paths(FOLDER))]
]
PATIENCE_MS = 180_000  # a machine may be busy with other tests
WIDTHS = (360, 768, 1366)
SCHEMES = ("light", "dark")
PAPER = 680  # CSS pixels between the margins of A4
DRAWN = """([width, scheme]) => [...document.querySelectorAll(".plot")].every((plot) =>
    plot.dataset.drawn === scheme && plot.clientWidth === plot.layout.width)"""
SHOWN = """(plot) => JSON.stringify(plot.data.map((t) =>
    [t.x, t.y, t.visible, t.mode, t.marker?.color, t.line?.width]))"""
KEYS = {"BUTTON": "Enter", "INPUT": "ArrowRight", "SELECT": "End"}
AXE = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
    "resultTypes": ["violations"],
    "preload": False,
}
PUT_ASIDE = """() => { window.aside = [...document.querySelectorAll(".plot")].map((plot) => {
    const drawn = [...plot.childNodes]; plot.replaceChildren(); return [plot, drawn]; });
const seen = new Set();
for (const token of document.querySelectorAll(".highlight span"))
    if (seen.has(token.className)) token.replaceWith(...token.childNodes);
    else seen.add(token.className); }"""
MARKS = """(plot) => [...plot.querySelectorAll(
    ".trace path, .trace image, .hm image, .points path, .lines path, .bars path")].length"""


@pytest.fixture(scope="module")
def browser():
    options = ["--host-resolver-rules=MAP * ~NOTFOUND", "--disable-gpu"]
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield launched
        launched.close()


@pytest.fixture(scope="module", params=STEMS)
def page(request, pages, browser):
    """One page, opened once; at the end nothing may have failed or asked a host."""
    opened, faults, asked = browser.new_context(offline=True).new_page(), [], []
    opened.on("console", lambda said: faults.append(f"{said.type}: {said.text}"))
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("requestfailed", lambda sent: faults.append(f"failed: {sent.url}"))
    opened.on("request", lambda sent: asked.append(sent.url))
    opened.set_default_timeout(PATIENCE_MS)
    opened.goto((pages / f"{request.param}.html").as_uri())
    yield opened
    opened.context.close()
    assert faults == []
    assert {url.partition(":")[0] for url in asked} <= {"file", "data", "blob"}


def look(page, width, scheme):
    """The page at a width and in a scheme, once its figures are drawn for them."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function(DRAWN, arg=[width, scheme])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_figure_draws_within_the_page(page, width, scheme):
    look(page, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for plot in page.query_selector_all(".plot"):
        assert plot.evaluate(MARKS) > 0
        box = plot.query_selector("svg.main-svg").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert plot.get_attribute("aria-label")


def test_what_scrolls_is_reached_with_the_keyboard(page):
    look(page, 360, "light")
    boxes = page.query_selector_all("pre, .output_subarea, .text_cell_render")
    wide = [b for b in boxes if b.evaluate("(b) => b.scrollWidth > b.clientWidth")]
    assert all(b.get_attribute("tabindex") == "0" for b in wide if "auto" in overflow(b))


def overflow(box):
    return box.evaluate("(b) => getComputedStyle(b).overflowX")


def test_buttons_and_sliders_change_their_figure_from_the_keyboard(page):
    look(page, 1366, "light")
    for figure in page.query_selector_all(".figure:has(.controls > *)"):
        plot = figure.query_selector(".plot")
        for control in figure.query_selector_all("fieldset button:last-of-type, input, select"):
            before = plot.evaluate(SHOWN), plot.inner_html()
            control.focus()
            page.keyboard.press(KEYS[control.evaluate("(c) => c.tagName")])
            page.wait_for_timeout(50)
            assert plot.evaluate(SHOWN) != before[0]
            assert plot.inner_html() != before[1]
        pressed = figure.query_selector_all("[aria-pressed=true]")
        assert len(pressed) == len(figure.query_selector_all("fieldset"))
        after = plot.evaluate(SHOWN)
        look(page, 768, "light")
        assert plot.evaluate(SHOWN) == after


def test_a_menu_that_changes_the_title_changes_caption_and_text_and_draws_none(pages, browser):
    opened = browser.new_context(offline=True).new_page()
    opened.set_default_timeout(PATIENCE_MS)
    opened.goto((pages / "04_other_consumers.html").as_uri())
    look(opened, 1366, "light")
    figure = opened.query_selector(".figure:has(select)")
    given = json.loads(figure.query_selector("script").text_content())
    titles = [one["args"][1]["title.text"] for one in given["layout"]["updatemenus"][0]["buttons"]]
    assert len({*titles}) == len(titles) > 1
    for at in (len(titles) - 1, 1):
        figure.query_selector("select").select_option(index=at)
        for scheme in SCHEMES:  # a redrawn figure keeps what was chosen
            look(opened, 1366, scheme)
            opened.wait_for_timeout(50)
            assert figure.query_selector("figcaption").text_content() == titles[at]
            label = figure.query_selector(".plot").get_attribute("aria-label")
            assert label.startswith(f"{titles[at]}. Horizontal: ")
            assert not figure.query_selector_all(".gtitle")
    opened.context.close()


def test_some_page_has_a_slider_and_some_has_buttons(pages):
    text = "".join(path.read_text(encoding="utf-8") for path in pages.glob("*.html"))
    assert '"sliders":[{' in text
    assert '"updatemenus":[{' in text


def test_no_violation_of_wcag(page):
    """axe-core's rules for WCAG 2 A and AA, on the page around the drawings.

    A drawing is an image with a text alternative; its thousands of marks are put aside meanwhile,
    and of coloured code one word of each colour is enough.
    """
    look(page, 360, "light")
    page.evaluate(PUT_ASIDE)
    found = []
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        found += Axe().run(page, options=AXE).response["violations"]
    page.evaluate("() => aside.forEach(([plot, drawn]) => plot.append(...drawn))")
    told = [(one["id"], node["html"][:200]) for one in found for node in one["nodes"]]
    assert told == []


def test_the_first_tab_skips_to_the_text_and_the_scheme_is_a_button(page):
    look(page, 768, "light")
    first = page.query_selector("a[href], button, input, summary, [tabindex]")
    assert first.get_attribute("class") == "skip"
    first.focus()
    assert page.query_selector(".skip").bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.focus("#scheme")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for scheme in ("dark", "light"):
        page.keyboard.press("Enter")
        page.wait_for_function(DRAWN, arg=[768, scheme])
    assert page.evaluate("document.documentElement.dataset.scheme") is None


def test_printed_it_is_light_open_and_as_wide_as_paper(page):
    look(page, 1366, "dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.set_viewport_size({"width": PAPER, "height": 900})
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.query_selector_all("details:not([open])")
    assert not page.is_visible("header")
    for plot in page.query_selector_all("svg.main-svg"):
        assert plot.bounding_box()["width"] <= PAPER
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
