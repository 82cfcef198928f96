"""axe-core finds nothing serious in what we show, in JupyterLab's light and dark themes."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tools.lab import open_lesson, run_all, use_theme

from .conftest import give_up

AXE = Path(__file__).parent / "node_modules/axe-core/axe.min.js"
NO_AXE = "no axe-core here: make test installs it where there is npm (npm ci in tests/browser)"
CELLS = (
    """\
import gradlab as gl
import tensorflow as tf

gl.start()""",
    """\
gl.explore(
    lambda x, alpha: alpha * tf.tanh(x / alpha),
    alpha=(0.1, 5.0),
    upstream=(-2.0, 2.0),
    presets={"steep": {"alpha": 0.2}},
)""",
    """\
# An explorer with something to say: a note, and what was raised.
failing = gl.explore(lambda x, alpha: tf.reshape(x, [int(alpha)]), alpha=(1.0, 5.0))
failing""",
    """\
guess = gl.predict("What is `1 + 1`?", {"2": "In most rings.", "0": "Modulo 2, yes."})
guess.choose("2")
guess.commit()
guess""",
    """gl.predict("And 2 + 2?", {"4": "Yes.", "5": "No."})""",
    """\
from matplotlib.figure import Figure

figure = Figure(figsize=(5, 3))
(line,) = figure.subplots().plot([0, 1], animated=True)
gl.FigureView(figure, animated=[line], alt="a rising line")""",
)
OURS = (".gradlab-explorer", ".gradlab-prediction", ".gradlab-frame", ".gradlab-machine")
RUN = """async (ours) => {
    const { violations, passes } = await axe.run({ include: ours.map(one => [one]) });
    return { violations, passed: passes.map(({ id }) => id) };
}"""

pytestmark = pytest.mark.browser


def axe(script=AXE):
    if not script.exists():
        give_up(NO_AXE)
    return script.read_text()


@pytest.fixture(scope="module")
def notebook(browser, serve):
    script = axe()
    lab = serve("lab")
    lab.write("accessible", *CELLS)
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    open_lesson(page, lab, "accessible")
    assert run_all(page)
    page.evaluate(script)
    yield page
    page.close()


def faults(violations):
    """What is serious, in words: the rule, the help, and each element it is said of."""
    return [
        f"{one['id']}: {one['help']}: {node['html']} {node['failureSummary']}"
        for one in violations
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(notebook, theme):
    use_theme(notebook, theme)
    for selector in OURS:
        expect(notebook.locator(selector).first).to_be_visible()
    expect(notebook.locator(".gradlab-message").filter(visible=True)).to_have_count(1)
    found = notebook.evaluate(RUN, list(OURS))
    assert faults(found["violations"]) == []
    assert {"color-contrast", "label", "button-name", "aria-input-field-name"} <= set(
        found["passed"]
    )


def test_a_fault_would_be_found(notebook):
    notebook.locator(".gradlab-prediction").first.evaluate(
        "one => one.append(document.createElement('input'))"
    )
    found = notebook.evaluate(RUN, [".gradlab-prediction"])
    notebook.locator(".gradlab-prediction > input").evaluate("one => one.remove()")
    assert any("label" in fault for fault in faults(found["violations"]))


@pytest.mark.parametrize(
    ("required", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)]
)
def test_without_axe(monkeypatch, tmp_path, required, outcome):
    monkeypatch.setenv("GRADLAB_REQUIRE_BROWSER", required)
    with pytest.raises(outcome, match="no axe-core here"):
        axe(tmp_path / "axe.min.js")
