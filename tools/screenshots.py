"""Picture every lesson after Run All: ``python -m tools.screenshots FOLDER [NN …]``.

At two widths, light and dark, on a display of single and of double density. For people to look
at: does anything overlap, is anything cut, can all of it be told apart?
"""

import argparse
import itertools
from pathlib import Path

from tools.lab import NOTEBOOK, READY, chromium, open_lesson, run_all, serving, use_theme
from tools.notebooks import NOTEBOOKS, sources

WIDTHS = (1400, 800)
THEMES = ("light", "dark")
DENSITIES = (1, 2)
HEIGHT = 900
MARGIN = 120  # the menus above the notebook, and the status line below it
PAUSE = 600  # milliseconds in which a figure follows its page


def pictures(page, lab, lesson, folder, density):
    """Run a lesson and write a picture of all of it for each width and theme."""
    page.set_viewport_size({"width": WIDTHS[0], "height": HEIGHT})
    open_lesson(page, lab, lesson)
    page.evaluate(
        "window.jupyterapp.commands.execute('application:set-mode', {mode: 'single-document'})"
    )
    hide_side_bar(page)
    run_all(page)
    for width, theme in itertools.product(WIDTHS, THEMES):
        use_theme(page, theme)
        page.set_viewport_size({"width": width, "height": HEIGHT})
        page.set_viewport_size({"width": width, "height": whole_height(page)})
        settle(page)
        page.screenshot(path=folder / f"{theme}-{density}x" / f"{lesson}-{width}.png")


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
    """Wait for the page to be laid out anew, and for the kernel to have drawn what it asks for."""
    page.wait_for_timeout(PAUSE)
    page.wait_for_function(READY)
    page.evaluate("() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")


def main():
    """Write pictures of each lesson at two widths, light and dark, at both densities."""
    parser = argparse.ArgumentParser(prog="python -m tools.screenshots", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("numbers", nargs="*", metavar="NN", help="the first digits of a lesson")
    given = parser.parse_args()
    with serving(NOTEBOOKS) as lab, chromium() as browser:
        for source, density in itertools.product(sources(numbers=given.numbers), DENSITIES):
            page = browser.new_page(device_scale_factor=density)
            pictures(page, lab, source.stem, given.folder, density)
            page.close()
            lab.stop_kernels()
            print(f"{source.stem}: density {density}, {', '.join(THEMES)}, in {given.folder}")


if __name__ == "__main__":
    main()
