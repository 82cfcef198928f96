"""The explorers of clips, descent and quantizers in JupyterLab, by mouse and by keyboard."""

import re

import pytest
from playwright.sync_api import expect

from tools.lab import NOTEBOOK

EXPLORERS = ("clipping", "descent", "quantizer")
SLIDERS = {"clipping": "clip_value", "descent": "steps", "quantizer": "range"}
PLANE = ("clipping", "descent")
MESSAGE = ".gradlab-message[role=alert]:not(:empty)"

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(explored):
    return explored


@pytest.fixture(params=EXPLORERS)
def explorer(page, request):
    """An explorer by its name and its place in the page, as it was at first."""
    found = page.locator(f"{NOTEBOOK} .gradlab-explorer").nth(EXPLORERS.index(request.param))
    found.scroll_into_view_if_needed()
    found.get_by_role("button", name="Reset").click()
    yield request.param, found
    expect(found.locator(MESSAGE)).to_have_count(0)


def digest_of(explorer):
    return explorer.locator(".gradlab-digest").inner_text()


def follows(page, explorer, action):
    """Act; wait until digest and alt text are others; return the new digest. The picture too."""
    figure, digest = explorer.locator(".gradlab-figure"), explorer.locator(".gradlab-digest")
    before, alt = digest_of(explorer), figure.get_attribute("aria-label")
    picture = figure.screenshot()
    action()
    expect(digest).not_to_have_text(before)
    expect(figure).not_to_have_attribute("aria-label", alt)
    page.wait_for_timeout(100)  # the last frame may be on its way
    assert figure.screenshot() != picture
    return digest_of(explorer)


def settled(page, slider):
    """A slider's value, once what moved it before has come back from the kernel."""
    values = [None, slider.input_value()]
    while values[-1] != values[-2]:
        page.wait_for_timeout(500)
        values.append(slider.input_value())
    return float(values[-1])


def slider_of(explorer, name):
    return explorer.get_by_role("slider", name=f"{name} slider")


def test_a_slider_by_mouse(page, explorer):
    name, found = explorer
    slider = slider_of(found, SLIDERS[name])
    box = slider.bounding_box()

    def drag():
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + box["height"] / 2, steps=4)
        page.mouse.up()

    low, high = (float(slider.get_attribute(end)) for end in ("min", "max"))
    follows(page, found, drag)
    assert float(slider.input_value()) == pytest.approx(low + 0.8 * (high - low), abs=0.06 * high)


def test_a_slider_by_keyboard(page, explorer):
    name, found = explorer
    slider = slider_of(found, SLIDERS[name])
    slider.focus()
    before = settled(page, slider)
    follows(page, found, lambda: slider.press("ArrowLeft"))
    assert float(slider.input_value()) == pytest.approx(
        before - float(slider.get_attribute("step"))
    )


def test_the_handle_by_mouse(page, explorer):
    name, found = explorer
    handle = found.locator(".gradlab-probe")
    box = handle.bounding_box()
    middle = box["y"] + box["height"] / 2

    def drag():
        page.mouse.move(box["x"] + 0.75 * box["width"], middle)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.7 * box["width"], middle - 0.2 * box["height"], steps=4)
        page.mouse.up()

    follows(page, found, drag)
    expected = {"clipping": [2, 2], "descent": [3.3, 1], "quantizer": [1.2]}[name]
    moved = [float(each) for each in re.findall(r"-?[\d.]+", words_of(handle))][: len(expected)]
    assert moved == pytest.approx(expected, abs=0.15)


def words_of(handle):
    return handle.get_attribute("aria-valuetext").split(";")[0]


def test_the_handle_by_keyboard(page, explorer):
    name, found = explorer
    handle = found.locator(".gradlab-probe")
    handle.focus()
    before = words_of(handle)
    follows(page, found, lambda: handle.press("ArrowLeft"))
    left = words_of(handle)
    assert left != before
    if name in PLANE:
        follows(page, found, lambda: handle.press("ArrowDown"))
        assert words_of(handle).split(",")[0] == left.split(",")[0]
        assert words_of(handle) != left


def test_choices_by_keyboard(page, explorer):
    name, found = explorer
    choice = {"clipping": "drag", "descent": "clip", "quantizer": "quantizer"}[name]
    label = {"clipping": "second", "descent": "norm", "quantizer": "sign"}[name]
    found.get_by_role("combobox", name=choice).select_option(label)
    if name == "clipping":
        handle = found.locator(".gradlab-probe")
        expect(handle).to_have_attribute("aria-label", "second_x and second_y")
        return
    expect(found.locator(".gradlab-digest")).to_have_text(re.compile(label))
    if name == "quantizer":
        expect(slider_of(found, "bits")).to_be_hidden()


def test_every_control_has_a_name(explorer):
    _, found = explorer
    for control in found.locator("input, select, button, [role=slider]").all():
        named = control.evaluate(
            "one => one.ariaLabel || one.textContent || one.title || one.labels?.length"
        )
        assert named
