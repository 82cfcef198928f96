"""One Chromium and one server of a kind for the browser tests of a file; both end with them."""

import contextlib
import os

import pytest

from tools.lab import chromium, open_lesson, run_all, serving
from tools.notebooks import NOTEBOOKS


@pytest.fixture(scope="module")
def browser():
    with contextlib.ExitStack() as ending:
        try:
            running = ending.enter_context(chromium())
        except LookupError as missing:
            give_up(str(missing))
        yield running


def give_up(why):
    """Skip, or fail where a browser is required: in CI a skip would hide that nothing was tried."""
    if os.environ.get("GRADLAB_REQUIRE_BROWSER") == "1":
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture(scope="module")
def lab(browser):
    with serving(NOTEBOOKS) as running:
        yield running


@pytest.fixture(scope="module")
def serve(browser, tmp_path_factory):
    """A function that starts a place where notebooks open, in an empty folder."""
    with contextlib.ExitStack() as ending:
        yield lambda place: ending.enter_context(serving(tmp_path_factory.mktemp(place), place))


@pytest.fixture(scope="module")
def explored(browser, serve, request):
    """One page with the explorers that a module names: a kernel takes its time to start."""
    server = serve("lab")
    cells = [f"gl.explore_{name}()" for name in request.module.EXPLORERS]
    server.write("scratch", "import gradlab as gl", *cells)
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    open_lesson(page, server, "scratch")
    assert run_all(page)
    yield page
    page.close()


@pytest.fixture
def page(browser, lab):
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    yield page
    page.close()
    lab.stop_kernels()
