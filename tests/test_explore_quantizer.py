"""Quantizers and fits through them: against NumPy, and what the explorer shows of it."""

import json

import numpy as np
import pytest
import tensorflow as tf

import gradlab as gl
from gradlab.experiments import quantizing
from gradlab.experiments.quantizing import (
    OUTSIDE,
    QUANTIZERS,
    RATE,
    START,
    STEPS,
    WEIGHTS,
    examples,
    fit,
    quantize,
)


def on_levels(x, reach, bits):
    step = 2 * reach / (2**bits - 1)
    return np.clip(np.round((x + reach) / step) * step - reach, -reach, reach)


ORACLES = {
    "round": lambda x, reach, bits, threshold: np.round(np.clip(x, -reach, reach)),
    "levels": lambda x, reach, bits, threshold: on_levels(x, reach, bits),
    "sign": lambda x, reach, bits, threshold: np.where(x >= 0, 1.0, -1.0),
    "ternary": lambda x, reach, bits, threshold: np.sign(x) * (np.abs(x) > threshold),
}
SETTINGS = {"wide": (2.0, 3, 0.5), "narrow": (0.5, 2, 0.2), "fine": (2.5, 6, 1.0)}
SCAN = np.linspace(-2.93, 2.93, 60)  # meets no step and no end


def window(x, reach, outside):
    return np.where((np.abs(x) <= reach) | (outside == "pass"), 1.0, 0.0)


@pytest.mark.parametrize("outside", OUTSIDE)
@pytest.mark.parametrize("name", QUANTIZERS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_quantizer_and_its_surrogate(setting, name, outside):
    reach, bits, threshold = SETTINGS[setting]
    x = tf.constant(SCAN)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = quantize(x, name, outside, reach, bits, threshold)
    np.testing.assert_allclose(y, ORACLES[name](SCAN, *SETTINGS[setting]), atol=1e-12)
    np.testing.assert_array_equal(tape.gradient(y, x), window(SCAN, reach, outside))


def error(weights):
    inputs, targets = examples()
    return np.mean((inputs @ weights - targets) ** 2)


def learnt(quantizer, outside, reach):
    """The errors of a fit, in NumPy."""
    inputs, targets = examples()
    weights, errors = START.copy(), []
    for step in range(STEPS + 1):
        quantized = quantizer(weights)
        errors.append(error(quantized))
        gradient = 2 / len(targets) * inputs.T @ (inputs @ quantized - targets)
        rate = RATE * (1 - step / STEPS)
        weights = weights - rate * gradient * window(weights, reach, outside)
    return np.array(errors), weights


@pytest.mark.parametrize("outside", OUTSIDE)
@pytest.mark.parametrize("name", QUANTIZERS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_fit_goes_where_numpy_goes(setting, name, outside):
    reach, bits, threshold = SETTINGS[setting]
    found = fit(name, outside, reach, bits, threshold)
    errors, _ = learnt(lambda w: ORACLES[name](w, *SETTINGS[setting]), outside, reach)
    whole, weights = learnt(lambda w: w, "pass", reach)
    np.testing.assert_allclose(found.errors, errors, rtol=1e-8)
    np.testing.assert_allclose(found.whole, whole, rtol=1e-8)
    afterwards = error(ORACLES[name](weights, *SETTINGS[setting]))
    np.testing.assert_allclose(found.afterwards, afterwards, rtol=1e-8)


def test_the_targets_are_made_with_the_weights_and_whole_ones_find_them():
    assert error(WEIGHTS) == 0
    assert fit("levels").whole[-1] < 0.01 < fit("levels").whole[0] / 100


def test_outside_a_narrow_range_nothing_is_learnt_unless_the_gradient_passes():
    stuck, moved = (fit("levels", outside, reach=0.5) for outside in OUTSIDE)
    assert np.ptp(stuck.errors) == 0
    assert moved.errors[-1] < stuck.errors[-1]


@pytest.mark.parametrize("name", QUANTIZERS)
def test_the_curve_is_the_librarys(name):
    explorer = gl.explore_quantizer(name, range=1.5)
    curve = explorer.curve
    away = np.abs(curve.x) > 1e-6
    forward = ORACLES[name](curve.x, 1.5, 2, 0.5)
    assert np.mean(np.isclose(curve.forward, forward, atol=1e-6)[away]) > 0.98  # but on edges
    np.testing.assert_allclose(curve.believed, np.clip(curve.x, -1.5, 1.5), atol=2e-3)
    assert not np.nan_to_num(curve.slope).any()


def test_the_explorer_shows_the_fit_and_names_its_error():
    explorer = gl.explore_quantizer("ternary").set(threshold=0.4)
    found = fit("ternary", "zero", 2.0, 2, 0.4)
    line = explorer._plot._errors["learnt through the surrogate"]
    np.testing.assert_array_equal(line.get_ydata(), found.errors)
    assert f"mean squared error {found.errors[-1]:.3g}" in explorer.digest
    assert explorer.digest.startswith("ternary(threshold=0.4, range=2), gradient outside zero")


def test_only_the_sliders_of_the_quantizer_show():
    explorer = gl.explore_quantizer()

    def shown():
        return {n for n, control in explorer._controls.items() if control.layout.display != "none"}

    assert shown() == {"quantizer", "bits", "range", "outside"}
    explorer.set(quantizer="ternary")
    assert shown() == {"quantizer", "threshold", "range", "outside"}
    explorer.set(quantizer="sign")
    assert shown() == {"quantizer", "range", "outside"}


def test_the_range_is_dragged_and_stays_within_its_slider():
    explorer = gl.explore_quantizer()
    explorer.view.probe = 1.25
    assert explorer.parameters["range"] == 1.25
    assert [line.get_xdata()[0] for line in explorer._plot._ends[:2]] == [-1.25, 1.25]
    explorer.view.probe = 0.1
    assert explorer.parameters["range"] == 0.25
    assert explorer.view.probe == 0.25


def test_either_end_of_the_range_is_dragged():
    explorer = gl.explore_quantizer()
    explorer.view.probe = -1.5
    assert (explorer.parameters["range"], explorer.view.probe) == (1.5, 1.5)


def test_nothing_is_traced_anew_as_parameters_move(monkeypatch):
    explorer = gl.explore_quantizer("levels").set(quantizer="ternary").set(quantizer="levels")
    monkeypatch.setattr(quantizing, "traced", None)
    monkeypatch.setattr(quantizing, "quantize", None)
    for bits in range(1, 9):
        explorer.set(bits=bits, range=bits / 4)
    explorer.set(quantizer="ternary", threshold=1.0)
    assert explorer.error is None


def test_pin_keeps_the_errors():
    explorer = gl.explore_quantizer()
    errors = explorer.fit.errors
    explorer.pin().set(bits=4)
    np.testing.assert_array_equal(explorer._plot._pinned.get_ydata(), errors)
    assert explorer._plot._pinned.get_visible()
    assert "pinned: levels(bits=2, range=2)" in explorer.digest
    assert not explorer.unpin()._plot._pinned.get_visible()


def test_code_makes_it_again():
    explorer = gl.explore_quantizer("sign", range=1.0).set(outside="pass")
    line = explorer.code.splitlines()[-1]
    assert line == "gl.explore_quantizer(quantizer='sign', range=1.0).set(outside='pass')"
    assert eval(line).digest == explorer.digest


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"quantizer": "floor"}, "quantizer: got 'floor'; choose one of 'round', 'levels'"),
        ({"bits": 9}, "bits: got 9; it goes from 1 to 8"),
        ({"bits": 1.5}, "bits: got 1.5; give a whole number"),
        ({"range": 0}, "range: got 0; it goes from 0.25 to 3"),
        ({"threshold": "a"}, "threshold: got 'a'; give a number"),
        ({"outside": "clip"}, "outside: got 'clip'; choose one of 'zero', 'pass'"),
    ],
)
def test_errors_name_the_argument(given, problem):
    with pytest.raises((TypeError, ValueError)) as raised:
        gl.explore_quantizer(**given)
    assert str(raised.value).startswith(problem)


@pytest.mark.parametrize("name", QUANTIZERS)
def test_the_stored_form_is_small(name):
    data, _ = gl.explore_quantizer(name)._repr_mimebundle_()
    assert len(json.dumps(data)) < 60_000
