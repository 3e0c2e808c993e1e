"""The controls of notebooks 03 and 05 in JupyterLab, started as `make lab` does, in a Chromium."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
LACKING = [name for name in ("playwright", "jupyterlab") if find_spec(name) is None]
if LACKING or not CHROMIUM:
    told = f"no {', no '.join([*LACKING, *([] if CHROMIUM else ['Chromium'])])} (make browser)"
    if os.environ.get("EAGERBUF_BROWSER") == "required":
        pytest.fail(told, pytrace=False)
    pytest.skip(told, allow_module_level=True)

from playwright.sync_api import sync_playwright  # noqa: E402

pytestmark = pytest.mark.slow
PATIENCE_MS = 120_000
# time from a change to the text that follows it, in the page
WATCH = """(cell) => { window.seen = null;
  const from = performance.now();
  new MutationObserver((_, own) => { window.seen = performance.now() - from; own.disconnect(); })
    .observe(cell, {subtree: true, childList: true, characterData: true}); }"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A JupyterLab over a copy of the notebooks; its address."""
    folder = tmp_path_factory.mktemp("lab") / "notebooks"
    shutil.copytree(ROOT / "notebooks", folder, ignore=shutil.ignore_patterns("site"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = ["--no-browser", "--ServerApp.token=", "--ServerApp.open_browser=False"]
    command = [sys.executable, "-m", "jupyterlab", "--allow-root", f"--port={port}", *quiet]
    own = {"PYTHONPATH": str(ROOT), "JUPYTER_CONFIG_DIR": str(folder.parent / "config")}
    own |= {"JUPYTER_DATA_DIR": str(folder.parent / "data"), "HOME": str(folder.parent)}
    server = subprocess.Popen(
        [*command, str(folder)],
        env={**os.environ, **own},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _answers(server, f"{address}/api")
        yield address
    finally:
        server.terminate()
        server.wait(30)


def _answers(server, url):
    for _ in range(600):
        assert server.poll() is None, "JupyterLab ended"
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("JupyterLab does not answer")


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu"]
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield launched
        launched.close()


def opened(browser, lab, stem):
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{lab}/lab/tree/{stem}.ipynb?reset")
    page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell")
    return page


def run_panel(page):
    """Run the notebook up to its panel; the panel's output."""
    until = time.monotonic() + PATIENCE_MS / 1000
    while not page.query_selector(".widget-gridbox") and time.monotonic() < until:
        if asked := page.query_selector(".jp-Dialog .jp-mod-accept"):  # which kernel, for instance
            asked.click()
        page.click(".jp-MarkdownCell >> nth=0")
        for _ in range(40):
            if page.query_selector(".widget-gridbox"):
                break
            page.keyboard.press("Shift+Enter")
            page.wait_for_timeout(400)
    return page.wait_for_selector(".jp-CodeCell:has(.widget-gridbox) .jp-OutputArea")


@pytest.mark.parametrize("stem", ["03_sizing_fix", "05_your_deployment"])
def test_the_controls_change_sizes_and_verdict_at_once(browser, lab, stem):
    page = opened(browser, lab, stem)
    panel = run_panel(page)
    box = page.wait_for_selector(".widget-inline-hbox:has-text('chunk (tokens)') input")
    times = []
    for chunk in ("4096", "8192", "2048"):
        box.fill(chunk)
        panel.evaluate(WATCH)
        page.keyboard.press("Enter")
        page.wait_for_function("() => window.seen !== null")
        times.append(page.evaluate("window.seen"))
        probe = f"{5 * int(chunk) // 4:,}"
        assert f"Most tokens: profiler_probe, {probe}." in panel.inner_text()
    print("milliseconds from a change to the figure:", [round(t) for t in times])
    assert sorted(times)[1] < 100 or os.cpu_count() < 4
    page.query_selector(".widget-inline-hbox:has-text('attention CP') input").fill("3")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=alert]:has-text('must be divisible')")
    page.close()


def test_without_a_kernel_the_place_shows_the_values_as_shipped(browser, lab):
    page = opened(browser, lab, "05_your_deployment")
    text = page.wait_for_selector("text=The values as shipped").inner_text()
    assert "make lab" in text
    assert not page.query_selector(".widget-gridbox")
    page.close()


def test_a_file_is_taken_by_upload_and_a_trace_replayed(browser, lab, tmp_path):
    page = opened(browser, lab, "05_your_deployment")
    panel = run_panel(page)
    path = tmp_path / "launch.sh"
    path.write_text(
        "python -m sglang.launch_server --tp 2 --pp-size 2 --chunked-prefill-size 1000 "
        "--max-running-requests 7 --enable-dynamic-chunking --max-total-tokens 100000 "
        "--context-length 20000\n"
    )
    with page.expect_file_chooser() as chooser:
        page.click("button:has-text('your file')")
    chooser.value.set_files(path)
    page.wait_for_function("(p) => p.innerText.includes('profiler_probe, 1,250')", arg=panel)
    page.click("button:has-text('replay')")
    page.wait_for_selector("th:has-text('most_tokens')")
    assert re.search(r"tight\s+1250", panel.inner_text())
    page.close()
