"""Each lesson as a reader meets it: opened, run, and its first slider moved from the keyboard."""

import re

import pytest
from playwright.sync_api import expect

from tools.lab import NOTEBOOK, open_lesson, run_all
from tools.notebooks import NOTEBOOKS

LESSONS = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
ERRORS = (
    "[data-mime-type='application/vnd.jupyter.error']",
    "[data-mime-type='application/vnd.jupyter.stderr']",
    ".jupyter-widgets-error-widget",
    ".gradlab-message[role=alert]:not(:empty)",
)
PICTURE = ".gradlab-figure"
STEPS = 5

pytestmark = pytest.mark.browser


def errors(page):
    """The text of everything in the lesson that tells of a failure."""
    visible = page.locator(NOTEBOOK).locator(", ".join(ERRORS)).filter(visible=True)
    return visible.all_inner_texts()


def state(explorer):
    """What an explorer shows: digest, alt text and picture."""
    picture = explorer.locator(PICTURE).first
    return {
        "digest": explorer.locator(".gradlab-digest").first.inner_text(),
        "alt": picture.get_attribute("alt") or picture.get_attribute("aria-label"),
        "picture": picture.screenshot(),
    }


def press_until_changed(page, explorer, before):
    """Press the arrow key on the explorer's first slider; wait for the digest to follow."""
    explorer.locator("[role=slider], input[type=range]").first.focus()
    for _ in range(STEPS):
        page.keyboard.press("ArrowRight")
    expect(explorer.locator(".gradlab-digest").first).not_to_have_text(before["digest"])


@pytest.mark.parametrize("lesson", LESSONS)
def test_lesson(page, lab, lesson):
    open_lesson(page, lab, lesson)
    stored = page.locator(NOTEBOOK).locator(".jp-OutputArea-output img")
    assert stored.count() > 0, "no stored picture shows before anything runs"
    assert errors(page) == []

    assert run_all(page), errors(page)
    assert errors(page) == []

    explorer = page.locator(NOTEBOOK).locator(".gradlab-explorer").first
    expect(explorer.locator(PICTURE).first).to_be_visible()
    explorer.scroll_into_view_if_needed()
    before = state(explorer)
    assert before["alt"]
    assert re.search(r"\d", before["digest"])

    press_until_changed(page, explorer, before)
    after = state(explorer)
    unchanged = [name for name in before if before[name] == after[name]]
    assert unchanged == []
    assert errors(page) == []


def test_there_are_lessons():
    assert LESSONS
