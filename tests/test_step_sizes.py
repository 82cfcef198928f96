"""The error of a finite difference against its step, measured again in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

import gradlab as gl
from gradlab.step_sizes import STEPS, WINDOW, Stepper


@pytest.fixture(scope="module")
def sine():
    return Stepper(tf.sin)


def difference(f, x, step, kind, dtype):
    """A difference in NumPy, with the values in a dtype and the quotient in float64."""
    at = np.array([x + step, x - step, x]).astype(dtype)
    ahead, behind, here = f(at).astype(np.float64)
    return (ahead - behind) / (2 * step) if kind == "central" else (ahead - here) / step


@pytest.mark.parametrize("kind", ["central", "forward"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_differences_are_those_of_numpy_up_to_rounding(sine, kind, dtype):
    errors = sine(1.0, 1e-3, kind).by_dtype[dtype]
    own = np.array([difference(np.sin, 1.0, step, kind, dtype) for step in STEPS])
    room = 4 * np.finfo(dtype).eps / STEPS + 1e-9
    assert np.all(np.abs(errors.differences - own) <= room)
    np.testing.assert_allclose(errors.errors, np.abs(errors.differences - np.cos(1.0)), rtol=1e-6)


@pytest.mark.parametrize(
    ("f", "x", "third", "second"),
    [
        (tf.sin, 1.0, -np.cos(1.0), -np.sin(1.0)),
        (tf.exp, -1.0, np.exp(-1.0), np.exp(-1.0)),
        (lambda x: x**3, 0.5, 6.0, 3.0),
    ],
    ids=["sin", "exp", "cube"],
)
def test_truncation_is_the_next_term_of_the_series(f, x, third, second):
    stepper = Stepper(f, x)
    central = stepper(x, 1e-3, "central").by_dtype["float64"].truncation
    forward = stepper(x, 1e-3, "forward").by_dtype["float64"].truncation
    np.testing.assert_allclose(central, abs(third) / 6 * STEPS**2, rtol=0.01)
    np.testing.assert_allclose(forward, abs(second) / 2 * STEPS, rtol=0.05)


@pytest.mark.parametrize("kind", ["central", "forward"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_estimates_hold_the_errors(sine, kind, dtype):
    errors = sine(1.0, 1e-3, kind).by_dtype[dtype]
    seen = 4 * np.finfo(dtype).eps < STEPS  # below, x + step is x
    bound = 2 * (errors.rounding + errors.truncation) + 4 * np.finfo(dtype).eps
    assert np.all(errors.errors[seen] <= bound[seen])


@pytest.mark.parametrize(
    ("kind", "power", "term"), [("central", 2, np.cos(1.0) / 6), ("forward", 1, np.sin(1.0) / 2)]
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_best_step_is_where_the_sum_of_both_is_least(sine, kind, power, term, dtype):
    errors = sine(1.0, 1e-3, kind).by_dtype[dtype]
    fine = 10.0 ** np.linspace(-12, 0, 12001)
    rounding = np.finfo(dtype).eps * (np.sin(1.0) + np.cos(1.0)) / power
    total = term * fine**power + rounding / fine
    np.testing.assert_allclose(errors.best, fine[total.argmin()], rtol=0.03)
    np.testing.assert_allclose(errors.least, total.min(), rtol=0.05)


def test_a_parabola_has_no_truncation_in_central_differences():
    stepper = Stepper(tf.square)
    errors = stepper(1.0, 1e-3, "central").by_dtype["float64"]
    assert not errors.truncation.any()
    assert errors.best == 1.0
    np.testing.assert_allclose(
        stepper(1.0, 1e-3, "forward").by_dtype["float64"].truncation, STEPS, rtol=1e-3
    )


def test_a_wrong_gradient_is_a_gap_that_no_step_closes():
    @tf.custom_gradient
    def wrong(x):
        return tf.sin(x), lambda g: 1.01 * g * tf.cos(x)

    sizes = Stepper(wrong)(1.0, 1e-4, "central")
    np.testing.assert_allclose(sizes.slope, np.cos(1.0), rtol=1e-9)
    np.testing.assert_allclose(sizes.gap, 0.01 * np.cos(1.0), rtol=1e-6)
    assert {errors.why for errors in sizes.by_dtype.values()} == {"gradient and slope differ"}
    assert sizes.by_dtype["float64"].least > sizes.gap


@pytest.mark.parametrize(
    "f", [tf.sin, tf.exp, tf.square, tf.tanh], ids=["sin", "exp", "sq", "tanh"]
)
@pytest.mark.parametrize("x", [-2.0, 0.0, 0.3, 3.0])
def test_a_right_gradient_has_no_gap(f, x):
    assert Stepper(f, x)(x, 1e-3, "central").gap == 0.0


@pytest.mark.parametrize(
    ("step", "float64", "float32"),
    [
        (1e-1, "truncation", "truncation"),
        (1e-4, "truncation", "rounding"),
        (1e-7, "rounding", "rounding"),
        (1e-9, "rounding", "x + step is x"),
    ],
)
def test_why_a_step_is_off(sine, step, float64, float32):
    sizes = sine(1.0, step, "central")
    assert [errors.why for errors in sizes.by_dtype.values()] == [float64, float32]
    sizes = sine(1.0, 1e-16, "forward")
    assert {errors.why for errors in sizes.by_dtype.values()} == {"x + step is x"}


def test_a_kink_within_the_step_is_told():
    sizes = Stepper(tf.abs)(0.05, 0.1, "central")
    errors = sizes.by_dtype["float64"]
    assert errors.why == "a kink nearby"
    np.testing.assert_allclose(errors.size, 0.5)
    assert errors.best < 0.05
    assert sizes.gap == 0.0


def test_the_window_is_what_the_difference_sees(sine):
    sizes = sine(1.0, 1e-7, "central")
    at = 1.0 + 1e-7 * WINDOW
    fine = (np.sin(at) - np.sin(1.0)) / 1e-7
    np.testing.assert_allclose(sizes.by_dtype["float64"].window, fine, atol=1e-8)
    assert len(np.unique(sizes.by_dtype["float32"].window)) < 9  # a staircase
    ends = np.interp([-1, 1], WINDOW, sizes.by_dtype["float32"].window)
    np.testing.assert_allclose(sizes.by_dtype["float32"].secant, np.diff(ends)[0] / 2, rtol=1e-6)


def test_another_x_is_no_other_trace():
    calls = []

    def counted(x):
        calls.append(1)
        return tf.sin(x)

    stepper = Stepper(counted)
    before = len(calls)
    for x in (0.1, 0.7, -2.0):
        np.testing.assert_allclose(stepper(x, 1e-3, "central").gradient, np.cos(x), rtol=1e-6)
    assert len(calls) == before


def test_numpy_functions_and_those_of_float32_alone():
    exp = gl.numpy_op(np.exp, lambda x, g: g * np.exp(x))
    np.testing.assert_allclose(Stepper(exp)(1.0, 1e-3, "central").slope, np.e, rtol=1e-9)
    factor = tf.constant(2.0)
    sizes = Stepper(lambda x: factor * tf.sin(x))(1.0, 1e-3, "central")
    assert list(sizes.by_dtype) == ["float32"]
    np.testing.assert_allclose(sizes.slope, 2 * np.cos(1.0), rtol=1e-4)


def test_a_cast_inside_is_felt():
    def cast(x):
        return tf.cast(tf.sin(tf.cast(x, tf.float32)), x.dtype)

    fine = Stepper(cast, 0.3)(0.3, 1e-3, "central").by_dtype["float64"]
    assert fine.best > 1e-3


@pytest.mark.parametrize(
    ("f", "kind", "words"),
    [
        (3, TypeError, "^f: got 3"),
        (lambda x: None, TypeError, "^f: it returned None"),
        (lambda x: tf.concat([x, x], 0), ValueError, r"^f: returned shape \(2,\)"),
    ],
    ids=["number", "none", "two"],
)
def test_errors_name_f(f, kind, words):
    with pytest.raises(kind, match=words):
        Stepper(f)
