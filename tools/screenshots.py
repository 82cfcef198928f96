"""Picture every lesson after Run All: ``python -m tools.screenshots FOLDER [NN …]``.

For people to look at: does anything overlap, is anything cut?
"""

import argparse
from pathlib import Path

from tools.lab import NOTEBOOK, chromium, open_lesson, run_all, serving
from tools.notebooks import NOTEBOOKS, sources

WIDTHS = (1400, 800)
HEIGHT = 900
MARGIN = 120  # the menus above the notebook, and the status line below it


def picture(page, lab, lesson, folder):
    """Run a lesson and write one picture of all of it for each width."""
    page.set_viewport_size({"width": WIDTHS[0], "height": HEIGHT})
    open_lesson(page, lab, lesson)
    page.evaluate(
        "window.jupyterapp.commands.execute('application:set-mode', {mode: 'single-document'})"
    )
    hide_side_bar(page)
    run_all(page)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": HEIGHT})
        page.set_viewport_size({"width": width, "height": whole_height(page)})
        settle(page)
        page.screenshot(path=folder / f"{lesson}-{width}.png")


def hide_side_bar(page):
    """Give the notebook the whole width."""
    if page.locator(".jp-FileBrowser").is_visible():
        page.evaluate("window.jupyterapp.commands.execute('application:toggle-left-area')")


def whole_height(page):
    """Measure how high the window must be to show the notebook without scrolling."""
    settle(page)
    outer = f"{NOTEBOOK} .jp-WindowedPanel-outer"
    return page.locator(outer).evaluate("one => one.scrollHeight") + MARGIN


def settle(page):
    """Wait for the page to be laid out anew: two frames."""
    page.evaluate("() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")


def main():
    """Write a picture of each lesson at two widths."""
    parser = argparse.ArgumentParser(prog="python -m tools.screenshots", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("numbers", nargs="*", metavar="NN", help="the first digits of a lesson")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with serving(NOTEBOOKS) as lab, chromium() as browser:
        for source in sources(numbers=given.numbers):
            page = browser.new_page()
            picture(page, lab, source.stem, given.folder)
            page.close()
            lab.stop_kernels()
            print(f"{source.stem}: {', '.join(map(str, WIDTHS))} pixels in {given.folder}")


if __name__ == "__main__":
    main()
