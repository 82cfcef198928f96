"""A figure alone in a notebook: its probe, its readout, its buttons, and how it fits its page."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from tools.lab import NOTEBOOK, open_lesson, run_all

from .explorers import PICTURE

FIGURE = """\
import gradlab as gl
import matplotlib.figure
import numpy as np

def shown(plane=False):
    figure = matplotlib.figure.Figure(figsize=(6, 3), dpi=100, layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(0, 10), ylim=(-2, 2), xlabel="time")
    x = np.linspace(0, 10, 201)
    (wave,) = axes.plot(x, np.sin(x), color="#0072b2", label="wave")
    (mark,) = axes.plot([], [], "o", color="black", markersize=12)
    view = gl.FigureView(figure, animated=[wave, mark], alt="a wave")
    view.follow(axes, label="moment", step=(0.5, 0.25), plane=plane)

    def move(change):
        x, y = change.new if plane else (change.new, np.sin(change.new))
        mark.set_data([x], [y])
        view.alt = f"a wave at {x:g}, {y:.2f}"
        view.draw()

    view.observe(move, "probe")
    return view

view = shown()
view"""
PLANE = "plane = shown(plane=True)\nplane"
INK, PAPER = (0, 0, 0), (255, 255, 255)
DARK_INK, DARK_PAPER = (0xE8,) * 3, (0x11,) * 3

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def server(serve):
    server = serve("lab")
    server.write("figure", FIGURE, "view", PLANE)
    return server


@pytest.fixture
def opened(browser, server):
    """A function that opens the notebook in a page of its own and runs it."""
    contexts = []

    def opened(**options):
        options = {"viewport": {"width": 1400, "height": 1500}, **options}
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        open_lesson(page, server, "figure")
        assert run_all(page)
        expect(page.locator(PICTURE)).to_have_count(3)
        eventually(page, lambda: all(fits_its_column(page, which) for which in range(3)))
        return page

    yield opened
    for context in contexts:
        context.close()
    server.stop_kernels()


def picture(page, which=0):
    return page.locator(PICTURE).nth(which)


def room(page, which=0):
    """How wide a figure should be: as its column, from 0.6 to 1.4 times what it was made with."""
    column = page.locator(".gradlab-column").nth(which).bounding_box()
    return max(360, min(840, round(column["width"])))


def fits_its_column(page, which=0):
    density = page.evaluate("devicePixelRatio")
    width = int(picture(page, which).get_attribute("width"))
    return abs(width - density * room(page, which)) <= density  # a column may end within a pixel


def says(page, text, which=0):
    expect(picture(page, which)).to_have_attribute("aria-label", re.compile(text))


def pixels(page, which=0):
    """The canvas itself, without what lies over it."""
    data = picture(page, which).evaluate("canvas => canvas.toDataURL().split(',')[1]")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))


def eventually(page, condition):
    for _ in range(300):
        if condition():
            return
        page.wait_for_timeout(100)
    raise AssertionError(condition)


def axes_box(page, which=0):
    """Where the probe of the plane lies, or that of a line: over the axes from left to right."""
    return page.locator(".gradlab-probe").nth(which).bounding_box()


def test_keys_move_the_probe_and_no_cell(opened):
    page = opened()
    probe = page.locator(".gradlab-probe").first
    probe.focus()
    before = pixels(page)
    for key, where in (
        ("ArrowRight", "0.5, 0.48"),
        ("PageUp", "5.5, -0.71"),
        ("ArrowDown", "5, -0.96"),
        ("End", "10, -0.54"),
        ("Home", "0, 0.00"),
    ):
        page.keyboard.press(key)
        says(page, f"^a wave at {where}$")
    expect(probe).to_be_focused()
    expect(probe).to_have_attribute("aria-valuetext", "0; a wave at 0, 0.00")
    expect(probe).to_have_attribute("aria-label", "moment")
    assert page.evaluate("window.jupyterapp.shell.currentWidget.content.mode") == "command"
    eventually(page, lambda: (pixels(page) != before).any())


def test_the_mouse_drags_the_probe_and_both_views_follow(opened):
    page = opened()
    box = axes_box(page)
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.1 * box["width"], y)
    page.mouse.down()
    for part in (0.2, 0.5, 0.75):
        page.mouse.move(box["x"] + part * box["width"], y, steps=4)
    page.mouse.up()
    for which in (0, 1):
        says(page, "^a wave at 7.5, 0.94$", which)
    eventually(page, lambda: (pixels(page) == pixels(page, 1)).all())


def test_in_the_plane_it_goes_both_ways(opened):
    page = opened()
    box = axes_box(page, 2)
    page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + 0.25 * box["height"])
    says(page, "^a wave at 3, 1.00$", 2)
    page.keyboard.press("ArrowUp")
    says(page, "^a wave at 3, 1.25$", 2)
    page.keyboard.press("ArrowLeft")
    says(page, "^a wave at 2.5, 1.25$", 2)
    probe = page.locator(".gradlab-probe").nth(2)
    expect(probe).to_have_attribute("aria-roledescription", "2-D slider")
    expect(probe).to_have_attribute("aria-valuetext", "x 2.5, y 1.25; a wave at 2.5, 1.25")


def touch(page, moves):
    """A finger put down, moved and lifted, as the browser gets it from a screen."""
    session = page.context.new_cdp_session(page)
    kinds = ["touchStart", *["touchMove"] * (len(moves) - 1)]
    for kind, (x, y) in zip(kinds, moves, strict=True):
        points = [{"x": x, "y": y}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        page.wait_for_timeout(30)
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_a_finger_drags_along_and_scrolls_across(opened):
    page = opened(has_touch=True, viewport={"width": 1400, "height": 700})
    picture(page).scroll_into_view_if_needed()
    box = axes_box(page)
    x, y = box["x"], box["y"] + box["height"] / 2
    touch(page, [(x + part * box["width"], y) for part in (0.2, 0.3, 0.4, 0.5)])
    says(page, "^a wave at 5, -0.96$")
    scrolled = f"document.querySelector('{NOTEBOOK} .jp-WindowedPanel-outer').scrollTop"
    before = page.evaluate(scrolled)
    box = axes_box(page)
    x, y = box["x"] + 0.9 * box["width"], box["y"] + box["height"] / 2
    touch(page, [(x, y - down) for down in range(0, 160, 20)])
    eventually(page, lambda: page.evaluate(scrolled) > before)
    says(page, "^a wave at 5, -0.96$")
    box = axes_box(page)
    touch(page, [(box["x"] + 0.7 * box["width"], box["y"] + 100)])
    says(page, "^a wave at 7, 0.66$")


def test_values_are_read_out_under_the_pointer(opened):
    page = opened()
    label = page.locator(".gradlab-readout").first
    expect(label).to_be_hidden()
    box = axes_box(page)
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 100)
    expect(label).to_have_text(re.compile(r"^x = (2|1.98|2.02) · wave 0.9\d*$"))
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 100, steps=5)
    expect(label).to_have_text(re.compile(r"^x = (5|4.98|5.02) · wave -0.9\d*$"))
    page.mouse.move(5, 5)
    expect(label).to_be_hidden()


@pytest.mark.parametrize("format_", ["PNG", "SVG"])
def test_buttons_save_the_figure_as_it_is_shown(opened, format_):
    page = opened()
    button = page.get_by_role("button", name=f"Save the figure as {format_}").first
    with page.expect_download() as waiting:
        button.press("Enter")
    assert waiting.value.suggested_filename == f"a-wave.{format_.lower()}"
    saved = waiting.value.path().read_bytes()
    if format_ == "SVG":
        assert b"<svg" in saved
        assert b"#0072b2" in saved
    else:
        width, height = Image.open(io.BytesIO(saved)).size
        assert (width, height) == (2 * picture(page).bounding_box()["width"], 600)


@pytest.mark.parametrize("density", [1, 2])
def test_it_is_crisp_and_as_wide_as_its_column(opened, density):
    page = opened(device_scale_factor=density)
    widest = room(page)
    assert widest > 700
    expect(picture(page)).to_have_attribute("height", f"{300 * density}")
    assert picture(page).bounding_box()["width"] == pytest.approx(widest, abs=1)
    page.set_viewport_size({"width": 900, "height": 1500})

    def fits():
        width = room(page)
        return width < 600 and fits_its_column(page) and len(pixels(page)) == 300 * density

    eventually(page, fits)
    page.wait_for_timeout(500)
    assert fits()


def test_it_follows_the_theme(opened):
    page = opened()
    assert tuple(pixels(page)[0, 0]) == PAPER
    change = "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})"
    for theme, paper, ink in (
        ("JupyterLab Dark", DARK_PAPER, DARK_INK),
        ("JupyterLab Light", PAPER, INK),
    ):
        page.evaluate(change, theme)
        eventually(page, lambda paper=paper: tuple(pixels(page)[0, 0]) == paper)
        eventually(page, lambda paper=paper: tuple(pixels(page, 1)[0, 0]) == paper)
        inks = (pixels(page).reshape(-1, 3) == ink).all(axis=1).sum()
        assert inks > 1000
