"""What becomes of the ranges a reader writes."""

import ipywidgets
import numpy as np
import pytest
import tensorflow as tf

import gradlab as gl
from gradlab.specs import LOSSES, op_spec, param_spec

ABBREVIATIONS = {
    "two floats": ((0.0, 2.0), None, ("float", 1.0, 0.0, 2.0)),
    "two whole numbers": ((1, 8), None, ("int", 4, 1, 8)),
    "a default within": ((0.0, 2.0), 0.25, ("float", 0.25, 0.0, 2.0)),
    "a default outside": ((0.0, 2.0), 9.0, ("float", 1.0, 0.0, 2.0)),
    "a default between whole numbers": ((0, 3), 0.5, ("float", 0.5, 0, 3)),
    "a number": (2.0, None, ("float", 2.0, -2.0, 6.0)),
    "a negative number": (-1.0, None, ("float", -1.0, -3.0, 1.0)),
    "zero": (0.0, None, ("float", 0.0, 0.0, 1.0)),
    "a slider": (ipywidgets.FloatSlider(2.5, min=2.0, max=3.0), None, ("float", 2.5, 2.0, 3.0)),
}


@pytest.mark.parametrize("name", ABBREVIATIONS)
def test_a_range_becomes_a_slider(name):
    abbreviation, default, expected = ABBREVIATIONS[name]
    spec = param_spec("alpha", abbreviation, default)
    assert (spec.kind, spec.default, spec.low, spec.high) == expected


def test_a_step_is_kept_or_chosen():
    assert param_spec("a", (0.0, 2.0, 0.25)).step == 0.25
    assert param_spec("a", (0.0, 5.0)).step == 0.05
    assert param_spec("a", (0.0, 1e-4)).step == 1e-6
    assert param_spec("a", (0, 500)).step == 5
    assert param_spec("a", (0, 5)).step == 1


def test_choices_have_labels():
    assert param_spec("mode", ["up", "down"]).choices == (("up", "up"), ("down", "down"))
    functions = param_spec("f", [tf.sin, tf.cos], default=tf.cos)
    assert functions.default == "cos"
    assert functions.value_of("sin") is tf.sin
    named = param_spec("size", {"small": 1, "large": 2})
    assert named.value_of(named.checked(2)) == 2
    assert named.checked("small") == "small"
    assert param_spec("m", ipywidgets.Dropdown(options=["a", "b"], value="b")).default == "b"
    assert param_spec("hard", True).kind == "bool"


def test_a_function_brings_its_own_defaults():
    def f(x, alpha=2.0, hard=True, name="untouched"):
        return alpha * x

    spec = op_spec(f, x=(0, 1), alpha=(1.0, 3.0))
    assert [(param.name, param.default) for param in spec.params] == [
        ("alpha", 2.0),
        ("hard", True),
    ]
    assert spec.name == "f"
    assert 0 < spec.probe < 1


BAD = {
    "alpha: got 'fast'": lambda: param_spec("alpha", "fast"),
    "alpha: got the range (2.0, 1.0)": lambda: param_spec("alpha", (2.0, 1.0)),
    "alpha: got no choices": lambda: param_spec("alpha", []),
    "alpha: got 7; it goes from 0 to 1": lambda: param_spec("alpha", (0.0, 1.0)).checked(7),
    "alpha: got 'a'; give a number": lambda: param_spec("alpha", (0.0, 1.0)).checked("a"),
    "alpha: got nan": lambda: param_spec("alpha", (0.0, 1.0)).checked(np.nan),
    "alpha: got 1.5; give a whole": lambda: param_spec("alpha", (0, 3)).checked(1.5),
    "alpha: got 'c'; choose one of 'a', 'b'": lambda: param_spec("alpha", ["a", "b"]).checked("c"),
    "alpha: got 3; give True or False": lambda: param_spec("alpha", True).checked(3),
    "alpha: a log slider needs": lambda: gl.ParamSpec("alpha", 1.0, 0.0, 2.0, log=True),
    "kind: got 'text'": lambda: gl.ParamSpec("alpha", "a", kind="text"),
    "compose: got 'cube'": lambda: gl.OpSpec("f", None, (), tf.sin, compose="cube"),
    "f: got 3": lambda: op_spec(3),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_says_what_would_do(message):
    with pytest.raises((TypeError, ValueError)) as caught:
        BAD[message]()
    assert str(caught.value).startswith(message)


def test_losses_are_what_they_are_called():
    y = np.linspace(-2, 2, 9)
    oracle = {
        "x": y,
        "x²/2": y**2 / 2,
        "|x|": np.abs(y),
        "sin x": np.sin(y),
        "quartic": y**4 / 4 - y**2 / 2,
    }
    assert set(oracle) == set(LOSSES)
    for name, loss in LOSSES.items():
        np.testing.assert_allclose(loss(tf.constant(y)), oracle[name], atol=1e-12)


def test_a_choice_among_arrays_goes_by_its_label():
    spec = param_spec("current", {"up": np.ones(3), "down": np.zeros(3)})
    assert spec.checked("down") == "down"
    assert spec.checked(spec.value_of("down")) == "down"
    with pytest.raises(ValueError, match="current: got 'left'"):
        spec.checked("left")
