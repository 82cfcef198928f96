"""Each lesson as a reader meets it: opened, run, and its first explorer moved from the keyboard."""

import re

import nbformat
import pytest
from playwright.sync_api import expect

from tools.lab import NOTEBOOK, notebook_of, open_lesson, run_all
from tools.notebooks import NOTEBOOKS

from .explorers import PICTURE, errors, press_arrows, sliders, unchanged_after

LESSONS = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))

pytestmark = pytest.mark.browser


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


@pytest.mark.parametrize("lesson", LESSONS)
def test_lesson(page, lab, lesson):
    open_lesson(page, lab, lesson)
    notebook = page.locator(NOTEBOOK)
    assert notebook.locator(".jp-RenderedImage img").count() > 0, (
        "no stored picture shows before anything runs"
    )
    assert errors(notebook) == []

    assert run_all(page), errors(notebook)
    assert errors(notebook) == []

    stored = texts(nbformat.read(NOTEBOOKS / f"{lesson}.ipynb", as_version=4))
    assert texts(notebook_of(page)) == stored
    said = {words(result) for _, results in stored for result in results}
    expect(notebook.locator(".gradlab-digest").first).to_have_text(re.compile(r"\d"))
    digests = notebook.locator(".gradlab-digest").all_inner_texts()
    assert {words(digest) for digest in digests} <= said

    explorer = notebook.locator(".gradlab-explorer").first
    explorer.scroll_into_view_if_needed()
    expect(explorer.locator(PICTURE).first).to_be_visible()
    assert sliders(explorer)
    for slider in sliders(explorer):
        assert unchanged_after(press_arrows, explorer, slider) == []
    assert errors(notebook) == []


def test_there_are_lessons():
    assert LESSONS
