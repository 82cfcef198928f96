"""Curves against functions whose derivative and integral are known on paper."""

import math
import warnings

import numpy as np
import pytest
import tensorflow as tf

import gradlab as gl
from gradlab.curves import Evaluator, curve, integral, parted, slopes, slopes_between

SMOOTH = {
    "sin": (tf.sin, np.sin, np.cos),
    "square": (tf.square, np.square, lambda x: 2 * x),
    "exp": (tf.exp, np.exp, np.exp),
    "tanh": (tf.tanh, np.tanh, lambda x: 1 / np.cosh(x) ** 2),
    "constant times": (lambda x: 7.0 * x, lambda x: 7 * x, lambda x: np.full_like(x, 7.0)),
}


@tf.custom_gradient
def clip_to_one(x):
    return tf.identity(x), lambda g: tf.clip_by_value(g, tf.cast(-1, g.dtype), tf.cast(1, g.dtype))


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions_agree_with_calculus(name):
    f, forward, slope = SMOOTH[name]
    curve = gl.curve(f, x=(-2, 3), points=101)
    np.testing.assert_allclose(curve.x, np.linspace(-2, 3, 101), atol=1e-6)
    np.testing.assert_allclose(curve.forward, forward(curve.x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(curve.gradient, slope(curve.x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(curve.slope, slope(curve.x), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(curve.believed, forward(curve.x), rtol=1e-5, atol=1e-5)
    assert not curve.parted.any()
    assert curve.notes == ()


def test_upstream_scales_gradient_slope_and_believed():
    curve = gl.curve(tf.sin, upstream=-3.0)
    np.testing.assert_allclose(curve.forward, np.sin(curve.x), atol=1e-6)
    np.testing.assert_allclose(curve.gradient, -3 * np.cos(curve.x), atol=1e-5)
    np.testing.assert_allclose(curve.slope, -3 * np.cos(curve.x), atol=1e-7)
    np.testing.assert_allclose(curve.believed, -3 * np.sin(curve.x), atol=1e-5)


def test_clipping_the_gradient_of_a_square_believes_in_the_huber_loss():
    curve = gl.curve(lambda x: clip_to_one(x) ** 2 / 2)
    size = np.abs(curve.x)
    huber = np.where(size <= 1, size**2 / 2, size - 0.5)
    np.testing.assert_allclose(curve.believed, huber, atol=1e-4)
    np.testing.assert_allclose(curve.slope, curve.x, atol=1e-7)
    np.testing.assert_allclose(curve.gradient, np.clip(curve.x, -1, 1), atol=1e-6)
    np.testing.assert_array_equal(curve.parted, size > 1.002)


def test_a_kink_and_a_jump_have_no_slope():
    kink, jump, root = (gl.curve(f, x=(-1, 1), points=5) for f in (tf.abs, tf.sign, _cube_root))
    np.testing.assert_allclose(kink.slope, [-1, -1, np.nan, 1, 1], atol=1e-9)
    np.testing.assert_allclose(jump.slope, [0, 0, np.nan, 0, 0])
    assert np.isnan(root.slope[2])
    assert np.nanmax(np.abs(root.slope)) < 1


def _cube_root(x):
    return tf.sign(x) * tf.abs(x) ** (1 / 3)


@pytest.mark.parametrize("f", [tf.square, lambda x: x**3, tf.cos, lambda x: x**4 + 1e6])
def test_a_flat_point_is_no_kink(f):
    curve = gl.curve(f, x=(-1, 1), points=3)
    np.testing.assert_allclose(curve.slope[1], 0, atol=1e-6)


def test_where_a_function_is_undefined_the_curve_has_a_gap(capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        curve = gl.curve(tf.math.log, x=(-1, 1), points=5)
    assert capfd.readouterr().err == ""
    np.testing.assert_array_equal(np.isfinite(curve.forward), [0, 0, 0, 1, 1])
    np.testing.assert_array_equal(np.isnan(curve.gradient), [1, 1, 0, 0, 0])
    np.testing.assert_array_equal(np.isnan(curve.slope), [1, 1, 1, 0, 0])
    np.testing.assert_array_equal(np.isnan(curve.believed), [1, 1, 1, 0, 0])
    assert not curve.parted.any()


def test_believed_begins_anew_behind_a_pole():
    curve = gl.curve(lambda x: 1 / x, x=(-2, 2), points=401)
    there = np.abs(curve.x) > 0.02
    np.testing.assert_allclose(curve.believed[there], 1 / curve.x[there], rtol=1e-3)


def test_no_gradient_is_a_gap_with_its_reason():
    curve = gl.curve(lambda x: tf.numpy_function(np.sin, [x], x.dtype), points=11)
    np.testing.assert_allclose(curve.forward, np.sin(curve.x), atol=1e-6)
    assert np.isnan(curve.gradient).all()
    assert np.isnan(curve.believed).all()
    assert "None" in curve.notes[0]
    np.testing.assert_allclose(curve.slope, np.cos(curve.x), atol=1e-7)


@pytest.mark.parametrize("f", [lambda x: np.cos(x), lambda x: tf.constant(np.cos(x.numpy()))])
def test_what_cannot_be_traced_runs_in_eager_mode(f):
    curve = gl.curve(f, points=11)
    np.testing.assert_allclose(curve.forward, np.cos(curve.x), atol=1e-6)


def test_a_branch_on_a_parameter_runs():
    def branching(x, alpha):
        return x * alpha if alpha > 1 else -x

    np.testing.assert_allclose(gl.curve(branching, points=3, alpha=2.0).gradient, [2, 2, 2])
    np.testing.assert_allclose(gl.curve(branching, points=3, alpha=0.5).gradient, [-1, -1, -1])


@pytest.mark.parametrize(
    ("f", "alone"),
    [
        (lambda x: x / tf.norm(x), np.sign),
        (lambda x: x - tf.reduce_mean(x), np.zeros_like),
        (lambda x: x / tf.reduce_max(tf.abs(x)), np.sign),
        (lambda x: gl.clip_gradient_by_norm(x, 1.0) ** 2, np.square),
    ],
)
def test_a_function_that_mixes_points_is_evaluated_one_by_one(f, alone):
    curve = gl.curve(f, x=(-2, 3), points=10)
    np.testing.assert_allclose(curve.forward, alone(curve.x), atol=1e-6)
    assert "one point at a time" in " ".join(curve.notes)


def test_a_norm_clip_of_single_points_clips_each():
    curve = gl.curve(lambda x: gl.clip_gradient_by_norm(x, 1.0) ** 2, x=(-2, 3), points=10)
    np.testing.assert_allclose(curve.gradient, np.clip(2 * curve.x, -1, 1), atol=1e-6)
    np.testing.assert_allclose(curve.slope, 2 * curve.x, atol=1e-6)


def test_a_function_for_float32_alone_has_a_slope_too():
    curve = gl.curve(lambda x: x**3 + tf.constant(1.0) * x, x=(-1, 1), points=21)
    np.testing.assert_allclose(curve.slope, 3 * curve.x**2 + 1, atol=1e-3)
    assert not curve.parted.any()


def _tanh_net():
    tf.keras.utils.set_random_seed(0)
    hidden = tf.keras.layers.Dense(8, activation="tanh")
    net = tf.keras.Sequential([tf.keras.Input((1,)), hidden, tf.keras.layers.Dense(1)])
    return lambda x: net(x[:, tf.newaxis])[:, 0]


def _square_gradient(op, upstream):
    return 2 * tf.cast(op.inputs[0], tf.float32) * upstream


FLOAT32_INSIDE = {
    "a Keras layer": lambda: tf.keras.layers.Activation("gelu"),
    "a Keras model": _tanh_net,
    "a cast": lambda: lambda x: tf.sin(tf.cast(x, tf.float32)),
    "a cast and back": lambda: lambda x: tf.cast(tf.sin(tf.cast(x, tf.float32)), x.dtype) * 0.3,
    "a cast in one branch": lambda: (
        lambda x: tf.where(x > 0, tf.cast(tf.sin(tf.cast(x, tf.float32)), x.dtype), tf.sin(x))
    ),
    "py_func": lambda: lambda x: gl.py_func(np.square, [x], tf.float32, grad=_square_gradient) / 2,
    "numpy_op": lambda: gl.numpy_op(np.sin, lambda x, g: g * np.cos(x), dtype=tf.float32),
}


@pytest.mark.parametrize("name", FLOAT32_INSIDE)
def test_float32_inside_a_function_is_not_taken_for_kinks_and_slopes(name):
    curve = gl.curve(FLOAT32_INSIDE[name]())
    assert np.isfinite(curve.slope).all()
    np.testing.assert_allclose(curve.slope, curve.gradient, atol=1e-3)
    assert not curve.parted.any()


@pytest.mark.parametrize(
    "f", [tf.sin, tf.nn.relu, tf.round, lambda x: tf.sin(x) ** 2 + tf.cos(x) ** 2, tf.math.log]
)
def test_a_function_in_float64_is_measured_in_float64(f):
    evaluate = Evaluator(f)
    evaluate()
    (program,) = evaluate._programs.values()
    assert program._precision == "float64"


def test_parameters_move_without_retracing():
    traces = []

    def f(x, alpha, hard):
        traces.append(x)
        return tf.where(hard, x, alpha * x)

    evaluate = Evaluator(f, points=5)
    evaluate(alpha=1.0, hard=False)
    before = len(traces)
    for alpha in (2, 3.5, np.float32(4), tf.constant(5.0)):
        np.testing.assert_allclose(evaluate(alpha=alpha, hard=False).gradient, [float(alpha)] * 5)
    np.testing.assert_allclose(evaluate(alpha=2.0, hard=True).gradient, [1] * 5)
    evaluate.at(0.5, upstream=2.0, alpha=1.0, hard=True)
    assert len(traces) == before
    assert evaluate.traces == 1


def test_a_choice_is_traced_once_for_each_value():
    evaluate = Evaluator(lambda x, f: f(x), points=3)
    for _ in range(3):
        np.testing.assert_allclose(evaluate(f=tf.square).gradient, [-6, 0, 6])
        np.testing.assert_allclose(evaluate(f=tf.negative).gradient, [-1, -1, -1])
    assert evaluate.traces == 2


def test_curve_sees_what_the_function_reads_now():
    factor = [1.0]
    f = lambda x: factor[0] * x  # noqa: E731
    assert gl.curve(f, points=2).gradient[0] == 1
    factor[0] = 2.0
    assert gl.curve(f, points=2).gradient[0] == 2


def test_a_point_is_evaluated_where_it_is_and_not_on_the_grid():
    _, point = Evaluator(tf.square, points=4).at(0.7)
    np.testing.assert_allclose((point.x, point.forward), (0.7, 0.49), rtol=1e-6)
    np.testing.assert_allclose((point.gradient, point.slope), (1.4, 1.4), rtol=1e-6)


def test_the_device_is_named():
    assert gl.curve(tf.sin, points=2, device="cpu").device.name == "/CPU:0"


def column(x):
    return x[:, tf.newaxis]


def forgetful(x):
    x + 1


def weighted(w, x):
    return w * x


def picking(x):
    return x[0] if x > 0 else x[1]


def bent(x):
    return 2.0 * x if x > 0 else tf.square(x)


@pytest.mark.filterwarnings("error")
def test_the_whole_of_float32_is_a_range():
    curve = gl.curve(lambda x: 0.5 * x, x=(-3e38, 3e38), points=11)
    np.testing.assert_allclose(curve.gradient, 0.5)
    np.testing.assert_allclose(curve.slope[1:-1], 0.5)


def test_an_if_on_x_is_evaluated_on_single_numbers():
    curve = gl.curve(bent, points=13)
    truth = np.where(curve.x > 0, 2, 2 * curve.x)
    np.testing.assert_allclose(curve.forward, np.where(curve.x > 0, 2 * curve.x, curve.x**2))
    np.testing.assert_allclose(curve.gradient, truth)
    np.testing.assert_allclose(np.delete(curve.slope, 6), np.delete(truth, 6), atol=1e-6)
    assert "tf.where" in curve.notes[0]


def test_python_math_has_a_slope_and_no_gradient():
    curve = gl.curve(lambda x: math.sin(x), points=13)
    np.testing.assert_allclose(curve.forward, np.sin(curve.x), atol=1e-6)
    np.testing.assert_allclose(curve.slope, np.cos(curve.x), atol=1e-4)
    assert np.isnan(curve.gradient).all()


BAD = {
    "f": (lambda: gl.curve(3), TypeError),
    "x": (lambda: gl.curve(tf.sin, x=3), TypeError),
    "x: got (1, 2, 3)": (lambda: gl.curve(tf.sin, x=(1, 2, 3)), TypeError),
    "x: got (3, -3)": (lambda: gl.curve(tf.sin, x=(3, -3)), ValueError),
    "x: got (0, inf)": (lambda: gl.curve(tf.sin, x=(0, np.inf)), ValueError),
    "points: got 1": (lambda: gl.curve(tf.sin, points=1), ValueError),
    "points: got 2.5": (lambda: gl.curve(tf.sin, points=2.5), TypeError),
    "upstream: got 'a'": (lambda: gl.curve(tf.sin, upstream="a"), TypeError),
    "device: there is no 'gpu:7' here": (lambda: gl.curve(tf.sin, device="gpu:7"), ValueError),
    "device: got 'tpu'": (lambda: gl.curve(tf.sin, device="tpu"), ValueError),
    "beta: sin has no such parameter": (lambda: gl.curve(tf.sin, beta=1.0), TypeError),
    "alpha: <lambda> needs it": (lambda: gl.curve(lambda x, alpha: x), TypeError),
    "f: returned int32": (lambda: gl.curve(lambda x: tf.cast(x, tf.int32)), ValueError),
    "f: returned shape () for x of shape (n,)": (lambda: gl.curve(tf.reduce_sum), ValueError),
    "f: returned shape (n, 1) for x of shape (n,); return one value for each x, such as "
    "lambda x: column(x[:, None])[:, 0]": (lambda: gl.curve(column), ValueError),
    "f: forgetful returned None": (lambda: gl.curve(forgetful), TypeError),
    "f: picking branches on x": (lambda: gl.curve(picking), TypeError),
    "x: weighted has a parameter of this name": (lambda: gl.curve(weighted, w=2.0), TypeError),
    "points: <lambda> has a parameter of this name": (
        lambda: gl.curve(lambda x, points: x, points=3),
        TypeError,
    ),
    "upstream: <lambda> has a parameter of this name": (
        lambda: gl.curve(lambda x, upstream: x, upstream=3),
        TypeError,
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_names_the_argument(message):
    call, error = BAD[message]
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_what_the_function_raises_comes_through():
    def broken(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        gl.curve(broken)


def test_slopes_tell_noise_from_kinks():
    at = np.linspace(-1, 1, 21)[:, None] + np.array([-1, -0.5, 0, 0.5, 1]) * 2.0**-20
    noisy = 1e3 + np.sin(at) + 1e-13 * np.random.default_rng(0).normal(size=at.shape)
    found = slopes(noisy, 2.0**-20, np.abs(at[:, 2]), np.finfo(float).eps)
    np.testing.assert_allclose(found, np.cos(at[:, 2]), atol=1e-5)


def test_an_integral_of_a_jump_stays_within_an_interval():
    x = np.linspace(-1, 1, 41)
    inner = x[:-1, None] + np.diff(x)[:, None] * (1 + np.array([-0.7745967, 0, 0.7745967])) / 2
    step = np.where(inner.ravel() > 0.013, 1.0, 0.0)
    expected = np.maximum(x - 0.013, 0)
    np.testing.assert_allclose(integral(x, np.zeros(41), step), expected, atol=0.05)


NOTHING_BUT_ROUNDING = {
    "sin² + cos²": lambda x: tf.sin(x) ** 2 + tf.cos(x) ** 2,
    "sin² + cos² by XLA": tf.function(
        lambda x: tf.sin(x) ** 2 + tf.cos(x) ** 2, jit_compile=True, autograph=False
    ),
    "in float32": lambda x: (
        tf.sin(tf.cast(x, tf.float32)) ** 2 + tf.cos(tf.cast(x, tf.float32)) ** 2
    ),
    "softmax of one": lambda x: tf.nn.softmax(x[:, tf.newaxis])[:, 0],
    "log exp": lambda x: tf.math.log(tf.exp(x)) - x,
    "sin - sin": lambda x: tf.sin(x) - tf.sin(x) + 1,
    "large": lambda x: (x + 1000) ** 2 - x**2 - 2000 * x,
}


@pytest.mark.parametrize("upstream", [1.0, -1000.0])
@pytest.mark.parametrize("name", NOTHING_BUT_ROUNDING)
def test_a_constant_with_rounding_has_a_gradient_that_agrees(name, upstream):
    curve = gl.curve(NOTHING_BUT_ROUNDING[name], upstream=upstream)
    there = np.isfinite(curve.slope)
    assert np.all(np.abs(curve.gradient - curve.slope)[there] < curve.rounding[there] / 2)
    assert not curve.parted.any()


@pytest.mark.parametrize(("offset", "x"), [(0, (-3, 3)), (1e3, (-3, 3)), (1, (1, 1.001))])
@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
def test_what_is_small_is_not_taken_for_rounding(offset, x, size):
    curve = gl.curve(lambda x: size * (gl.scale_gradient(x, 0.5) + offset), x=x)
    assert curve.parted.all()


def test_parting_ignores_rounding_on_any_scale():
    for scale in (1e-12, 1.0, 1e12):
        slope = scale * np.array([1.0, 2.0, 0.0])
        assert not parted(slope * (1 + 1e-6), slope).any()
        assert parted(slope + 0.1 * scale, slope).all()


@pytest.mark.parametrize(
    "f",
    [
        tf.square,
        tf.abs,
        tf.sign,
        tf.round,
        tf.sin,
        tf.exp,
        lambda x: tf.sin(50 * x),
        lambda x: 1 / x,
        tf.math.log,
        lambda x: tf.clip_by_value(x, -1.0, 1.0) + tf.stop_gradient(x),
    ],
)
def test_many_points_have_the_slopes_that_few_have(f, monkeypatch):
    asked_for = curve(f, points=40_001)
    monkeypatch.setattr("gradlab.curves._FINE", 1000)
    neighbours = curve(f, points=40_001)
    both = np.isfinite(asked_for.slope) & np.isfinite(neighbours.slope)
    np.testing.assert_allclose(neighbours.slope[both], asked_for.slope[both], rtol=4e-4, atol=4e-4)
    # A kink or a jump takes the slope of two more points to either side, a pole of a few dozen.
    here, there = np.isnan(asked_for.slope), np.isnan(neighbours.slope)
    assert not (here & ~there).any()
    assert np.count_nonzero(there & ~here) < 130
    if np.abs(asked_for.believed).max(where=np.isfinite(asked_for.believed), initial=0) < 1e6:
        # An integral through a pole means nothing.
        away = np.abs(asked_for.x) > 0.01
        one, other = neighbours.believed[away], asked_for.believed[away]
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=8e-3)
    np.testing.assert_allclose(neighbours.forward, asked_for.forward, rtol=1e-6)
    np.testing.assert_allclose(neighbours.gradient, asked_for.gradient, rtol=1e-6)


def test_what_many_points_are_too_few_for_is_asked_at_each(monkeypatch):
    monkeypatch.setattr("gradlab.curves._FINE", 100)
    line = curve(lambda x: tf.sin(200 * x), points=1000)
    assert np.isfinite(line.slope).all()
    assert not line.parted.any()


@pytest.mark.parametrize("f", [tf.math.log, lambda x: 1 / x])
def test_beside_a_pole_many_points_part_no_more_than_few(f, monkeypatch):
    monkeypatch.setattr("gradlab.curves._FINE", 1000)
    assert not curve(f, points=40_001).parted.any()


def test_a_jump_at_the_edge_of_a_block_is_seen(monkeypatch):
    monkeypatch.setattr("gradlab.curves._BLOCK", 7)
    at = np.arange(-30, 31) / 1024.0
    slope = slopes_between(np.sign(at), 2 / 1024, at[2:-2], 2e-16)
    whole = np.abs(at[2:-2]) > 2.5 / 1024
    assert (slope[whole] == 0).all()
    assert np.isnan(slope[28 - 1 : 28 + 2]).all()


def test_a_reader_sees_believed_when_asking_for_it():
    line = curve(tf.square, points=11)
    np.testing.assert_allclose(line.believed, line.forward, atol=1e-6)
    assert line.believed is line.believed
