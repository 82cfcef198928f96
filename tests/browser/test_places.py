"""An explorer in Notebook 7 and in Voilà, by mouse and by keyboard; JupyterLab has the lessons."""

import pytest
from playwright.sync_api import expect

from tools.lab import PLACES, RUN_SECONDS, open_lesson, run_all

from .explorers import PICTURE, drag, errors, press_arrows, sliders, unchanged_after

SCRATCH = """\
import gradlab as gl
import tensorflow as tf

gl.start()
gl.explore(lambda x, alpha: alpha * tf.tanh(x / alpha), alpha=(0.1, 5.0))"""

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", params=sorted(set(PLACES) - {"lab"}))
def explorer(request, browser, serve):
    server = serve(request.param)
    name = server.write("scratch", SCRATCH)
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    if request.param == "voila":
        page.goto(server.page_of(name), wait_until="commit")
    else:
        open_lesson(page, server, name)
        assert run_all(page)
    shown = page.locator(".gradlab-explorer")
    expect(shown.locator(PICTURE)).to_be_visible(timeout=RUN_SECONDS * 1000)
    yield shown
    page.close()
    server.stop_kernels()


@pytest.mark.parametrize("act", [press_arrows, drag])
def test_sliders(explorer, act):
    assert len(sliders(explorer)) == 2
    for slider in sliders(explorer):
        assert unchanged_after(act, explorer, slider) == []


def test_box(explorer):
    box = explorer.get_by_label("alpha", exact=True)
    box.fill("1.25")
    box.press("Enter")
    expect(explorer.locator(".gradlab-digest")).to_contain_text("alpha=1.25")


def test_list_checkbox_and_button_by_keyboard(explorer):
    digest = explorer.locator(".gradlab-digest")
    choices = explorer.get_by_label("compose", exact=True)
    choices.press("ArrowDown")
    expect(digest).to_contain_text("x²/2")
    expect(choices).to_be_focused()
    believed = explorer.get_by_label("believed")
    believed.press("Space")
    expect(believed).to_be_checked()
    explorer.get_by_role("button", name="Reset").press("Enter")
    expect(digest).not_to_contain_text("x²/2")
    expect(believed).not_to_be_checked()


def test_nothing_fails(explorer):
    assert errors(explorer.page.locator("body")) == []
    said = explorer.page.get_by_text("gradlab is ready.")
    expect(said).to_be_visible()
