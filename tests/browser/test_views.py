"""In JupyterLab: views of one explorer, a kernel that starts anew, and one that ends."""

import pytest
from playwright.sync_api import expect

from tools.lab import NOTEBOOK, notebook_of, open_lesson, restart_and_run_all, run_all

from .explorers import drag, errors, press_arrows, unchanged_after

MAKE = """\
import threading
import gradlab as gl
import tensorflow as tf

gl.start()
threads = set(threading.enumerate())
explorer = gl.explore(lambda x, alpha: alpha * tf.tanh(x / alpha), alpha=(0.1, 5.0))
explorer"""
AGAIN = "explorer"
CLOSE = """\
import atexit, pathlib

# A kernel that has to be killed never comes to this.
atexit.register(pathlib.Path("ended").touch)
explorer._controls["alpha"].value = 1.0
explorer.widget.close()
names = [thread.name for thread in set(threading.enumerate()) - threads]
# In a subshell the kernel listens to JupyterLab's widgets: a thread of its own, not of ours.
[name for name in names if not name.startswith("subshell-")]"""
NEW_VIEW = "window.jupyterapp.commands.execute('notebook:create-output-view')"
TO_THE_NOTEBOOK = """() => {
    const { shell } = window.jupyterapp;
    shell.activateById([...shell.widgets('main')].find(one => one.context).id);
}"""
SAME_PICTURES = """() => new Set(
    [...document.querySelectorAll('.gradlab-explorer canvas')].map(one => one.toDataURL())
).size === 1"""

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def lab(serve):
    server = serve("lab")
    server.write("views", MAKE, AGAIN)
    server.write("ending", MAKE, AGAIN, CLOSE)
    return server


@pytest.fixture(scope="module")
def views(browser, lab):
    """All views of an explorer that two cells show: one page, which the tests leave as it is."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    open_lesson(page, lab, "views")
    assert run_all(page)
    yield page.locator(".gradlab-explorer")
    page.close()
    lab.stop_kernels()


def check_in_step(views, count):
    """Move each view in turn, by keyboard and by mouse; the others must follow."""
    expect(views).to_have_count(count)
    for number, act in zip(range(count), [press_arrows, drag, press_arrows], strict=False):
        moved = views.nth(number)
        slider = moved.locator("input[type=range]").first
        assert unchanged_after(act, moved, slider) == []
        for view in views.all():
            expect(view.locator("input[type=range]").first).to_have_value(slider.input_value())
        digest = moved.locator(".gradlab-digest").inner_text()
        expect(views.locator(".gradlab-digest")).to_have_text([digest] * count)
        views.page.wait_for_function(SAME_PICTURES)
    assert errors(views.page.locator(NOTEBOOK)) == []


def test_two_views_stay_in_step(views):
    check_in_step(views, 2)


def test_a_new_view_of_an_output_stays_in_step(views):
    views.page.evaluate(NEW_VIEW)
    check_in_step(views, 3)


def test_another_tab_follows(views, browser, lab):
    views.page.evaluate(TO_THE_NOTEBOOK)
    views.page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    tab = browser.new_page(viewport={"width": 1400, "height": 900})
    open_lesson(tab, lab, "views")
    there, slider = (
        page.locator(".gradlab-explorer input[type=range]").first for page in (tab, views.page)
    )
    expect(there).to_have_value(slider.input_value())
    press_arrows(slider)
    expect(there).to_have_value(slider.input_value())
    expect(tab.locator(".gradlab-digest").first).to_have_text(
        views.locator(".gradlab-digest").first.inner_text()
    )
    tab.close()


def test_a_restart_leaves_nothing_stale(views):
    count = views.count()
    views.page.evaluate(TO_THE_NOTEBOOK)
    assert restart_and_run_all(views.page)
    check_in_step(views, count)


def test_closing_leaves_no_thread_and_a_kernel_that_ends_by_itself(page, lab):
    open_lesson(page, lab, "ending")
    assert run_all(page)
    assert notebook_of(page).cells[-1].outputs[0].data["text/plain"] == "[]"
    lab.stop_kernels()
    assert (lab.folder / "ended").exists()
