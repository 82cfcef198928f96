"""The explorer of a spiking neuron: set what it is like, and see what follows."""

import json

import numpy as np
import pytest

import gradlab as gl
from gradlab.registry import SPECS

FAMILIES = [label for label, _ in SPECS["spike"].params[0].choices]


@pytest.fixture(scope="module")
def explorer():
    return gl.explore_spike(steps=24)


@pytest.fixture(autouse=True)
def reset(request):
    yield
    if "explorer" in request.fixturenames:
        request.getfixturevalue("explorer").reset()


def heights(line):
    """The heights of stems, without their feet and the gaps between them."""
    x, y = line.get_data()
    return np.column_stack([x[::3], y[::3]]) if len(x) else np.empty((0, 2))


def test_every_family_can_be_chosen(explorer):
    assert list(explorer._controls["surrogate"].options) == FAMILIES
    for family in ("Sigmoid", "Triangular"):
        assert explorer.set(surrogate=family).digest.startswith(f"{family}(alpha=2)")


def test_the_membrane_follows_current_leak_and_threshold(explorer):
    explorer.set(strength=0.5, leak=0.2, threshold=0.9)
    membrane, fired, expected = 0.0, 0.0, []
    for _ in range(24):
        membrane = 0.8 * membrane - 0.9 * fired + 0.5
        fired = membrane >= 0.9
        expected.append(membrane)
    np.testing.assert_allclose(explorer._plot._membrane.get_ydata(), expected, atol=1e-5)
    assert explorer._plot._threshold.get_ydata()[0] == 0.9
    spikes = heights(explorer._plot._spikes)
    np.testing.assert_array_equal(spikes[:, 0], np.flatnonzero(np.array(expected) >= 0.9))


def test_stems_are_the_gradient_by_its_sign(explorer):
    explorer.set(step=18, alpha=4.0)
    gradient = explorer.run.gradient
    for sign, line in explorer._plot._stems.items():
        shown = np.flatnonzero(sign * gradient >= 1e-6)
        np.testing.assert_array_equal(heights(line)[:, 0], shown)
        np.testing.assert_allclose(heights(line)[:, 1], np.abs(gradient[shown]))
    assert (gradient < -1e-6).any()


def test_without_a_spike_the_gradient_falls_by_the_leak(explorer):
    explorer.set(strength=0.05, leak=0.25, step=20, surrogate="Boxcar", alpha=0.25)
    assert not explorer.run.spikes.any()
    gradient = explorer.set(through_reset=False).run.gradient[:21]
    np.testing.assert_allclose(gradient, 0.25 * 0.75 ** np.arange(20, -1, -1), rtol=1e-4)
    assert explorer.digest.endswith(
        "gradient of the spike at step 20: 0.25 there, at most 0.25; it reaches 20 steps back"
    )


def test_a_narrow_surrogate_stops_it(explorer):
    explorer.set(surrogate="Boxcar", alpha=10.0, step=0)
    assert explorer.digest.endswith("none reaches any step")
    assert explorer._plot._none.get_visible()


def test_dragging_asks_about_another_step(explorer):
    explorer.view.probe = 10.0
    assert explorer.run.of == 10
    assert explorer.parameters["step"] == 10
    assert not explorer.run.gradient[11:].any()


def test_a_slider_never_retraces(explorer):
    before = explorer._neuron.traces
    for value in (0.1, 0.4, 0.7):
        explorer.set(strength=value, leak=value, threshold=1 + value, alpha=value + 1)
        explorer.set(step=int(10 * value), through_reset=value > 0.3, current="wave")
    assert explorer._neuron.traces == before


def test_moving_a_slider_draws_only_what_moves(explorer):
    version = explorer.view.background["version"]
    for alpha in (1.0, 3.0, 9.0):
        explorer.set(alpha=alpha, step=int(alpha))
    assert explorer.view.background["version"] == version


def test_a_current_of_your_own():
    current = [0.5, 0.6, 0.0, 0.0]
    explorer = gl.explore_spike(current, leak=0.0, step=1)
    np.testing.assert_allclose(explorer.run.current, current)
    np.testing.assert_allclose(explorer.run.membrane, [0.5, 1.1, 0.1, 0.1], atol=1e-6)
    assert "your current" in explorer.digest
    assert explorer.code.startswith("import gradlab as gl\n\ngl.explore_spike(current=[0.5, 0.6")


def test_start_values_and_the_code_that_gives_them_back():
    explorer = gl.explore_spike(steps=8, surrogate="Erf", alpha=3.0, leak=0.3, current="ramp")
    assert explorer.parameters["alpha"] == 3.0
    assert explorer.digest.startswith("Erf(alpha=3), leak 0.3, threshold 1, 0.3 times ramp")
    names = {"gl": gl}
    exec(explorer.code.replace("\ngl.", "\nagain = gl."), names)
    assert names["again"].digest == explorer.digest


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"steps": 1}, ValueError, "^steps: got 1"),
        ({"steps": 2.5}, TypeError, "^steps: got 2.5"),
        ({"current": 3.0}, ValueError, "^current: got shape"),
        ({"current": "a"}, ValueError, "^current: got 'a'; choose"),
        ({"current": [0.0, np.nan]}, ValueError, "^current: .*finite"),
        ({"surrogate": "Tanh"}, ValueError, "^surrogate: .*'ATan'"),
        ({"alpha": 0.0}, ValueError, "^alpha: got 0"),
        ({"decay": 0.5}, TypeError, "^decay: "),
        ({"presets": {"a": {"decay": 1}}}, TypeError, "^presets: 'a': decay: "),
    ],
    ids=lambda value: None if not isinstance(value, dict) else "-".join(map(str, value)),
)
def test_errors_name_the_argument(given, kind, words):
    with pytest.raises(kind, match=words):
        gl.explore_spike(**given)


def test_stored_it_is_small(explorer):
    data, _ = explorer._repr_mimebundle_()
    assert len(json.dumps(data)) < 60_000
    assert data["text/plain"] == explorer.digest


def test_a_pinned_run_stays_behind_the_next(explorer):
    pinned = explorer.set(strength=0.5).run
    explorer.pin().set(surrogate="Triangular", leak=0.3)
    membrane, gradient = explorer._plot._pinned
    assert (explorer.run.membrane != pinned.membrane).any()
    np.testing.assert_array_equal(membrane.get_ydata(), pinned.membrane)
    shown = np.isfinite(gradient.get_ydata())
    assert shown.any()
    np.testing.assert_array_equal(gradient.get_ydata()[shown], np.abs(pinned.gradient)[shown])
    assert "pinned: ATan(alpha=2)" in explorer.digest
    legends = [axes.get_legend() for axes in explorer.figure.axes[1:]]
    assert ["pinned" in [text.get_text() for text in each.texts] for each in legends] == [True] * 2
    explorer.unpin()
    legends = [axes.get_legend() for axes in explorer.figure.axes]
    assert not any("pinned" in [text.get_text() for text in each.texts] for each in legends)
    assert not any(line.get_visible() for line in (membrane, gradient))


def test_a_gradient_that_explodes_has_its_heads_in_sight():
    explorer = gl.explore_spike()
    run = explorer.set(surrogate="Triangular", leak=0.3, strength=0.3).run
    assert np.abs(run.gradient).max() > 100
    assert np.abs(run.gradient).max() < explorer._plot.below.get_ylim()[1]
