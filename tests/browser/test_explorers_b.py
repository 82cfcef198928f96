"""The explorers of overrides, of checks and of spikes in JupyterLab, by mouse and by keyboard."""

import pytest
from playwright.sync_api import expect

from tests.browser.explorers import drag, press_arrows, unchanged_after
from tools.lab import NOTEBOOK

EXPLORERS = ("override", "check", "spike")
SLIDERS = {"override": "probe", "check": "x", "spike": "alpha"}
PROBES = {"override": "probe", "check": "step", "spike": "step"}
MESSAGE = ".gradlab-message[role=alert]:not(:empty)"
PATIENCE = 20_000  # milliseconds: what is switched on for the first time is traced

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(explored):
    return explored


@pytest.fixture(scope="module")
def at_first(page):
    """The digests that the explorers begin with."""
    return page.locator(f"{NOTEBOOK} .gradlab-digest").all_inner_texts()


@pytest.fixture(params=EXPLORERS)
def explorer(page, at_first, request):
    """An explorer by its name and its place in the page, as it was at first."""
    place = EXPLORERS.index(request.param)
    found = page.locator(f"{NOTEBOOK} .gradlab-explorer").nth(place)
    found.scroll_into_view_if_needed()
    found.get_by_role("button", name="Reset").click()
    expect(digest(found)).to_have_text(at_first[place], timeout=PATIENCE)
    yield request.param, found
    expect(found.locator(MESSAGE)).to_have_count(0, timeout=PATIENCE)


def digest(found):
    return found.locator(".gradlab-digest")


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


def test_choices_by_keyboard(explorer):
    name, found = explorer
    choice, key, words = {
        "override": ("Relu", "d", "Relu by deconv"),
        "check": ("difference", "f", "forward difference"),
        "spike": ("surrogate", "E", "Erf"),
    }[name]
    box = found.get_by_role("combobox", name=choice)
    box.focus()
    box.press(key)
    expect(digest(found)).to_contain_text(words, timeout=PATIENCE)


@pytest.mark.parametrize(
    ("explorer", "switch", "words"),
    [("override", "Square", "Square by clipped"), ("spike", "through_reset", "through the reset")],
    ids=["override", "spike"],
    indirect=["explorer"],
)
def test_a_switch_by_mouse_and_by_keyboard(explorer, switch, words):
    _, found = explorer
    box = found.get_by_role("checkbox", name=switch)
    told = words in digest(found).inner_text()
    for act in (box.click, lambda: box.press(" ")):
        act()
        told = not told
        says = expect(digest(found))
        (says.to_contain_text if told else says.not_to_contain_text)(words, timeout=PATIENCE)


def test_every_control_has_a_name(explorer):
    _, found = explorer
    for control in found.locator("input, select, button, [role=slider]").all():
        assert control.evaluate(
            "one => one.ariaLabel || one.textContent || one.title || one.labels?.length"
        )
