"""The explorers of overrides, of checks and of spikes in JupyterLab, by mouse and by keyboard."""

import pytest
from playwright.sync_api import expect

from tests.browser.explorers import drag, errors, press_arrows, unchanged_after
from tools.lab import NOTEBOOK, open_lesson, run_all, serving

EXPLORERS = ("override", "check", "spike")
SLIDERS = {"override": "probe", "check": "x", "spike": "alpha"}
PROBES = {"override": "probe", "check": "step", "spike": "step"}

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def lab(browser, tmp_path_factory):
    with serving(tmp_path_factory.mktemp("scratch")) as running:
        cells = [f"gl.explore_{name}()" for name in EXPLORERS]
        running.write("scratch", "import gradlab as gl", *cells)
        yield running


@pytest.fixture(scope="module")
def page(browser, lab):
    """One page for all: a kernel with TensorFlow takes its time to start."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    open_lesson(page, lab, "scratch")
    assert run_all(page)
    yield page
    page.close()


@pytest.fixture(params=EXPLORERS)
def explorer(page, request):
    """An explorer by its name and its place in the page, as it was at first."""
    found = page.locator(f"{NOTEBOOK} .gradlab-explorer").nth(EXPLORERS.index(request.param))
    found.scroll_into_view_if_needed()
    found.get_by_role("button", name="Reset").click()
    yield request.param, found
    assert errors(page.locator(NOTEBOOK)) == []


@pytest.mark.parametrize("act", [drag, press_arrows], ids=["mouse", "keyboard"])
def test_a_slider(explorer, act):
    name, found = explorer
    slider = found.get_by_role("slider", name=f"{SLIDERS[name]} slider")
    assert unchanged_after(act, found, slider) == []


@pytest.mark.parametrize("act", [drag, press_arrows], ids=["mouse", "keyboard"])
def test_the_probe(explorer, act):
    name, found = explorer
    probe = found.locator(".gradlab-probe")
    expect(probe).to_have_attribute("aria-label", PROBES[name])
    if act is press_arrows:
        act = press_left
    assert unchanged_after(act, found, probe) == []


def press_left(slider):
    """The probe of a spike begins at the right end."""
    slider.focus()
    for _ in range(5):
        slider.page.keyboard.press("ArrowLeft")


def digest_after(found, act):
    digest = found.locator(".gradlab-digest")
    before = digest.inner_text()
    act()
    expect(digest).not_to_have_text(before)
    return digest.inner_text()


def test_choices_by_keyboard(explorer):
    name, found = explorer
    choice, keys, words = {
        "override": ("Relu", "d", "Relu by deconv"),
        "check": ("difference", "f", "forward difference"),
        "spike": ("surrogate", "S", "Sigmoid"),
    }[name]
    box = found.get_by_role("combobox", name=choice)
    box.focus()
    assert words in digest_after(found, lambda: box.press(keys))


def test_switches_by_mouse_and_by_keyboard(explorer):
    name, found = explorer
    if name == "check":
        assert found.get_by_role("checkbox").count() == 0
        return
    switch = found.get_by_role("checkbox", name={"override": "Square", "spike": "through"}[name])
    off = digest_after(found, switch.click)
    assert digest_after(found, lambda: switch.press(" ")) != off


def test_every_control_has_a_name(explorer):
    _, found = explorer
    for control in found.locator("input, select, button, [role=slider]").all():
        assert control.evaluate(
            "one => one.ariaLabel || one.textContent || one.title || one.labels?.length"
        )
