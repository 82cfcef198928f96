"""One function forward, another one back."""

import numpy as np
import pytest
import tensorflow as tf
from modes import (
    MODES,
    eager,
    forward_mode,
    function_tape_in,
    function_tape_out,
    jacobian,
    jit,
    second_order,
)

import gradlab as gl

WAYS = pytest.mark.parametrize("mode", [eager, function_tape_in, function_tape_out, jit])
WRAPS = pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "function"])


@WAYS
def test_forward_to_the_last_bit_where_the_trick_rounds(mode):
    x = tf.constant([1e8, 0.1, -3e38, 7.0])
    for forward in (lambda x: x / 3.0, tf.ones_like, tf.math.rsqrt):
        (f,), _ = mode(forward, [x])
        (y,), (g,) = mode(lambda x, f=forward: gl.replace_gradient(x, f, lambda x: x * 2.0), [x])
        assert y.tobytes() == f.tobytes()
        assert g.tolist() == [2.0] * 4
    (trick,), _ = mode(lambda x: gl.stop_gradient_trick(x, tf.ones_like, tf.identity), [x])
    assert trick[0] == 0.0
    assert trick[3] == 1.0


@WAYS
def test_forward_may_be_infinite_where_the_trick_is_nan(mode):
    x = tf.constant([1.0, 2.0])
    forward, backward = (lambda x: x * np.inf), tf.identity
    (y,), (g,) = mode(lambda x: gl.replace_gradient(x, forward, backward), [x])
    assert y.tolist() == [np.inf] * 2
    assert g.tolist() == [1.0] * 2
    forward, backward = tf.identity, (lambda x: x * np.inf)
    (y,), _ = mode(lambda x: gl.replace_gradient(x, forward, backward), [x])
    assert y.tolist() == [1.0, 2.0]
    (y,), _ = mode(lambda x: gl.stop_gradient_trick(x, forward, backward), [x])
    assert np.isnan(y).all()


@WAYS
def test_shape_may_change(mode):
    x = tf.constant([[1.0, 2.0, 2.0], [0.0, 3.0, 4.0]])
    rows = [[1 / 3, 2 / 3, 2 / 3], [0.0, 0.6, 0.8]]
    (y,), (g,) = mode(
        lambda x: gl.replace_gradient(
            x,
            lambda x: tf.reduce_max(x, 1),
            lambda x: tf.sqrt(tf.reduce_sum(x**2, 1)),
        ),
        [x],
    )
    assert y.tolist() == [2.0, 4.0]
    np.testing.assert_allclose(g, rows, rtol=1e-6)


@WRAPS
@pytest.mark.parametrize("op", [gl.replace_gradient, gl.stop_gradient_trick])
def test_variables_of_backward_learn_and_those_of_forward_do_not(wrap, op):
    v, w = tf.Variable(2.0), tf.Variable(3.0)
    f = wrap(lambda x: op(x, lambda x: v * x, lambda x: w * x))
    x = tf.constant(5.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
    assert y.numpy() == 10.0
    assert tape.gradient(y, x).numpy() == 3.0
    assert tape.gradient(y, w).numpy() == 5.0
    assert tape.gradient(y, v) is None


def test_higher_orders_are_those_of_backward():
    x, tangent = tf.constant([0.3, -1.2], tf.float64), tf.constant([2.0, 0.5], tf.float64)

    def f(x):
        return gl.replace_gradient(x, tf.round, tf.sin)

    np.testing.assert_allclose(forward_mode(f, x, tangent), np.cos(x) * tangent)
    np.testing.assert_allclose(jacobian(f, x), np.diag(np.cos(x)))
    # Σ 3 y² cos x, with y = round x that goes back as sin x does
    y = np.round(x)
    np.testing.assert_allclose(
        second_order(f, x), 6 * y * np.cos(x) ** 2 - 3 * y**2 * np.sin(x), rtol=1e-12
    )


@WRAPS
def test_hessian(wrap):
    x = tf.constant([1.0, 2.0])

    @wrap
    def hessian(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.reduce_sum(gl.replace_gradient(x, tf.round, lambda x: x**3))
            first = inner.gradient(y, x)
        return outer.jacobian(first, x)

    np.testing.assert_allclose(hessian(x), [[6.0, 0.0], [0.0, 12.0]])


@pytest.mark.parametrize("op", [gl.replace_gradient, gl.stop_gradient_trick])
def test_python_control_flow_in_functions_is_converted(op):
    def forward(x):
        if tf.reduce_sum(x) > 0:  # noqa: SIM108, conditional expressions aren't converted
            y = tf.sign(x)
        else:
            y = x
        return y

    @tf.function
    def step(x):
        return op(x, forward, forward)

    assert step(tf.constant([2.0])).numpy() == [1.0]
    assert step(tf.constant([-2.0])).numpy() == [-2.0]


@pytest.mark.parametrize("mode", MODES)
def test_functions_that_read_tensors_around_them(mode):
    w = tf.constant([2.0, -3.0])

    def f(x):
        return gl.replace_gradient(x, lambda x: tf.round(x * w), lambda x: x * w)

    (y,), (g,) = MODES[mode](f, [tf.constant([0.6, 0.6])])
    assert y.tolist() == [1.0, -2.0]
    np.testing.assert_allclose(g, [2.0, -3.0])


def test_straight_through_matches_what_it_stands_for():
    x = tf.constant([-1.5, 0.4, 2.6])
    for mode in (eager, jit):
        (y,), (g,) = mode(lambda x: gl.straight_through(x, tf.round) * [1.0, 2.0, 3.0], [x])
        assert y.tolist() == [-2.0, 0.0, 9.0]
        assert g.tolist() == [1.0, 2.0, 3.0]


@WAYS
def test_clip_by_value_preserve_gradient(mode):
    x = tf.constant([-9.0, 0.25, 9.0, np.inf, -np.inf, np.nan])
    (y,), (g,) = mode(lambda x: gl.clip_by_value_preserve_gradient(x, -1.0, tf.constant(2.0)), [x])
    np.testing.assert_array_equal(y, [-1.0, 0.25, 2.0, 2.0, -1.0, np.nan])
    assert g.tolist() == [1.0] * 6


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: gl.replace_gradient(x, tf.round, lambda x: tf.cast(x, tf.float64)),
            TypeError,
            "forward and backward must agree in dtype, got float32 and float64",
        ),
        (
            lambda x: gl.replace_gradient(x, tf.round, tf.reduce_sum),
            ValueError,
            r"forward and backward must agree in shape, got \(3,\) and \(\)",
        ),
        (
            lambda x: gl.stop_gradient_trick(x, tf.reduce_sum, tf.identity),
            ValueError,
            "forward and backward must agree in shape",
        ),
        (
            lambda x: gl.straight_through(x, tf.reduce_sum),
            ValueError,
            "forward and x must agree in shape",
        ),
        (
            lambda x: gl.straight_through(x, lambda x: tf.cast(x, tf.int32)),
            TypeError,
            "what forward returned must have a floating or complex dtype, got int32",
        ),
        (
            lambda x: gl.replace_gradient(x, lambda x: None, tf.identity),
            TypeError,
            "what forward returned must be one dense tensor, got None",
        ),
        (
            lambda x: gl.replace_gradient(x, tf.identity, lambda x: [x, x]),
            TypeError,
            "what backward returned must be one dense tensor, got a list",
        ),
        (lambda x: gl.replace_gradient(x, 2.0, tf.identity), TypeError, "forward must be callable"),
        (lambda x: gl.replace_gradient(x, tf.round, x), TypeError, "backward must be callable"),
        (lambda x: gl.straight_through(x, None), TypeError, "forward must be callable, got None"),
        (lambda x: gl.stop_gradient_trick(x, 1, tf.round), TypeError, "forward must be callable"),
    ],
)
def test_bad_functions(call, error, message):
    with pytest.raises(error, match=message):
        call(tf.ones([3]))
    with pytest.raises(error, match=message):
        tf.function(call)(tf.ones([3]))


def test_shapes_known_only_when_it_runs_must_agree_too():
    @tf.function(input_signature=[tf.TensorSpec(None)])
    def f(x):
        return gl.replace_gradient(x, tf.reduce_sum, tf.identity)

    assert f(tf.constant(2.0)).numpy() == 2.0
    with pytest.raises(tf.errors.InvalidArgumentError):
        f(tf.ones([3]))
