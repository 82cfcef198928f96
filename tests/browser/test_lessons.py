"""Each lesson as a reader meets it: opened, run, and its first explorer moved from the keyboard."""

import re
import time

import nbformat
import pytest
from playwright.sync_api import expect

from tools.lab import NOTEBOOK, notebook_of, open_lesson, run_all
from tools.notebooks import NOTEBOOKS

LESSONS = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
ERRORS = (
    "[data-mime-type='application/vnd.jupyter.error']",
    "[data-mime-type='application/vnd.jupyter.stderr']",
    ".jupyter-widgets-error-widget",
    ".gradlab-message[role=alert]:not(:empty)",
)
PICTURE = ".gradlab-figure"
SLIDERS = ("input[type=range]", ".gradlab-probe")  # of a parameter, and over the figure
STEPS = 5
SECONDS = 20

pytestmark = pytest.mark.browser


def errors(page):
    """The text of everything in the lesson that tells of a failure."""
    visible = page.locator(NOTEBOOK).locator(", ".join(ERRORS)).filter(visible=True)
    return visible.all_inner_texts()


def texts(notebook):
    """What each code cell says: what it printed, then its results in words."""
    return [
        ("".join(output.get("text", "") for output in cell.outputs), results(cell))
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def results(cell):
    return [output.data["text/plain"] for output in cell.outputs if "data" in output]


def words(text):
    return " ".join(text.split())


def state(explorer):
    """What an explorer shows: digest, alt text and picture."""
    picture = explorer.locator(PICTURE).first
    return {
        "digest": explorer.locator(".gradlab-digest").first.inner_text(),
        "alt": picture.get_attribute("alt") or picture.get_attribute("aria-label"),
        "picture": picture.screenshot(),
    }


def unchanged_after_keys(page, explorer, slider):
    """Press an arrow key on a slider; give what of the explorer did not follow."""
    slider.focus()  # before the first look: a focused slider may show it over the picture
    before = state(explorer)
    assert before["alt"]
    assert re.search(r"\d", before["digest"])
    for _ in range(STEPS):
        page.keyboard.press("ArrowRight")
    give_up = time.monotonic() + SECONDS
    while time.monotonic() < give_up:
        after = state(explorer)
        unchanged = [name for name in before if before[name] == after[name]]
        if not unchanged:
            break
        page.wait_for_timeout(100)
    return unchanged


@pytest.mark.parametrize("lesson", LESSONS)
def test_lesson(page, lab, lesson):
    open_lesson(page, lab, lesson)
    notebook = page.locator(NOTEBOOK)
    assert notebook.locator(".jp-RenderedImage img").count() > 0, (
        "no stored picture shows before anything runs"
    )
    assert errors(page) == []

    assert run_all(page), errors(page)
    assert errors(page) == []

    stored = texts(nbformat.read(NOTEBOOKS / f"{lesson}.ipynb", as_version=4))
    assert texts(notebook_of(page)) == stored
    said = {words(result) for _, results in stored for result in results}
    expect(notebook.locator(".gradlab-digest").first).to_have_text(re.compile(r"\d"))
    digests = notebook.locator(".gradlab-digest").all_inner_texts()
    assert {words(digest) for digest in digests} <= said

    explorer = notebook.locator(".gradlab-explorer").first
    explorer.scroll_into_view_if_needed()
    expect(explorer.locator(PICTURE).first).to_be_visible()
    sliders = [one for one in (explorer.locator(kind).first for kind in SLIDERS) if one.count()]
    assert sliders
    for slider in sliders:
        assert unchanged_after_keys(page, explorer, slider) == []
    assert errors(page) == []


def test_there_are_lessons():
    assert LESSONS
