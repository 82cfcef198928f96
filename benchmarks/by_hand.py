"""Each op beside what an expert would write for it with TensorFlow alone: the same rule.

``PAIRS`` has a row for every op of the table, every surrogate and every layer. The benchmark times
both sides of each; tests/test_kernels.py counts the kernels that XLA makes of them.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

import gradlab as gl
from gradlab import layers

COLUMNS = 32  # of every x
NO_PYTHON = "runs Python, which XLA can't compile"


class Pair(NamedTuple):
    """Two functions of one tensor that return and report the same."""

    name: str
    member: str  # of SPECS, of the surrogates, or of gradlab.layers
    ours: Callable
    peer: Callable
    not_in_xla: str = ""  # what the error says, where XLA can't compile it


def _written(rule, forward=tf.identity):
    """A custom gradient whose rule needs nothing but the upstream."""
    return tf.custom_gradient(lambda x: (forward(x), rule))


def _sloped(forward, rule):
    """A custom gradient whose rule reads x."""
    return tf.custom_gradient(lambda x: (forward(x), lambda g: rule(x, g)))


def _in_graph(f):
    # The function returned by tf.custom_gradient would lose its rule: tf.function unwraps it.
    return tf.function(lambda x: f(x), autograph=False)


def _norm_rule(clip_norm):
    """An overflow-safe clip, as one would write it: relative to the largest element."""

    def rule(g):
        peak = tf.reduce_max(tf.abs(g))
        unit = tf.stop_gradient(tf.where(peak > 0, peak, tf.ones_like(peak)))
        ratios = tf.where(tf.math.is_inf(g), tf.sign(g), g / unit)
        length = tf.sqrt(tf.maximum(tf.reduce_sum(tf.square(ratios)), 1.0))
        fits = (peak * length <= clip_norm) & (clip_norm > 0)
        return tf.where(fits, g, ratios * (clip_norm / length))

    return rule


def _global_norm(xs):
    def rule(*gs):
        peak = tf.reduce_max(tf.stack([tf.reduce_max(tf.abs(g)) for g in gs]))
        unit = tf.stop_gradient(tf.where(peak > 0, peak, tf.ones_like(peak)))
        ratios = [tf.where(tf.math.is_inf(g), tf.sign(g), g / unit) for g in gs]
        squares = tf.add_n([tf.reduce_sum(tf.square(r)) for r in ratios])
        length = tf.sqrt(tf.maximum(squares, 1.0))
        fits = (peak * length <= 1.0) & (tf.constant(1.0) > 0)
        factor = 1.0 / length
        return [tf.where(fits, g, r * factor) for g, r in zip(gs, ratios, strict=True)]

    return tf.custom_gradient(lambda *xs: ([tf.identity(x) for x in xs], rule))(*xs)


def _trick(forward, backward):
    def written(x):
        b = backward(x)
        return b + tf.stop_gradient(forward(x) - b)

    return written


def _replaced(forward, backward):
    def written(x):
        def rule(g):
            with tf.GradientTape() as tape:
                tape.watch(x)
                b = backward(x)
            return tape.gradient(b, x, g)

        return forward(x), rule

    return tf.custom_gradient(written)


def _times(factor):
    return lambda g: g * factor


def _unchanged(g):
    return g


def _clamp(x):
    return tf.maximum(tf.minimum(x, 1.0), -1.0)


def _finite(g):
    return tf.where(tf.math.is_finite(g), g, tf.zeros_like(g))


def _masked(g):
    return tf.where(_MASK, g, tf.zeros_like(g))


def _ignore(_):
    return None


def _recording(g):
    _ignore(g)
    return g


def _recording_in_graph(g):
    # In a graph the call must be tied to what is returned, or nothing runs it.
    with tf.control_dependencies([tf.py_function(_ignore, [g], [])]):
        return tf.identity(g)


def _record_by_hand(x):
    return _written(_recording if tf.executing_eagerly() else _recording_in_graph)(x)


_TENSOR = tf.constant(0.5)
_MASK = tf.constant([True, False] * (COLUMNS // 2))

_MODIFYING = [
    Pair(
        "scale_gradient",
        "scale_gradient",
        lambda x: gl.scale_gradient(x, 0.5),
        _written(_times(0.5)),
    ),
    Pair(
        "scale_gradient, tensor",
        "scale_gradient",
        lambda x: gl.scale_gradient(x, _TENSOR),
        _written(_times(_TENSOR)),
    ),
    Pair("reverse_gradient", "reverse_gradient", gl.reverse_gradient, _written(lambda g: -g)),
    Pair(
        "mask_gradient",
        "mask_gradient",
        lambda x: gl.mask_gradient(x, _MASK),
        _written(_masked),
    ),
    Pair(
        "zero_nonfinite_gradient",
        "zero_nonfinite_gradient",
        gl.zero_nonfinite_gradient,
        _written(_finite),
    ),
    Pair(
        "record_gradient",
        "record_gradient",
        lambda x: gl.record_gradient(x, _ignore),
        _record_by_hand,
        NO_PYTHON,
    ),
]

_CLIPPING = [
    Pair(
        "clip_gradient_by_value",
        "clip_gradient_by_value",
        lambda x: gl.clip_gradient_by_value(x, -0.5, 0.5),
        _written(lambda g: tf.maximum(tf.minimum(g, 0.5), -0.5)),
    ),
    Pair(
        "clip_gradient_by_norm",
        "clip_gradient_by_norm",
        lambda x: gl.clip_gradient_by_norm(x, 1.0),
        _written(_norm_rule(1.0)),
    ),
    Pair(
        "clip_gradients_by_global_norm",
        "clip_gradients_by_global_norm",
        lambda x: gl.clip_gradients_by_global_norm([x, x], 1.0),
        lambda x: _global_norm([x, x]),
    ),
]

_REPLACING = [
    Pair(
        "replace_gradient",
        "replace_gradient",
        lambda x: gl.replace_gradient(x, tf.round, tf.sin),
        _replaced(tf.round, tf.sin),
    ),
    Pair(
        "stop_gradient_trick",
        "stop_gradient_trick",
        lambda x: gl.stop_gradient_trick(x, tf.round, tf.sin),
        _trick(tf.round, tf.sin),
    ),
    Pair(
        "straight_through",
        "straight_through",
        lambda x: gl.straight_through(x, tf.round),
        _written(_unchanged, tf.round),
    ),
    Pair(
        "clip_by_value_preserve_gradient",
        "clip_by_value_preserve_gradient",
        lambda x: gl.clip_by_value_preserve_gradient(x, -1.0, 1.0),
        _written(_unchanged, _clamp),
    ),
    Pair(
        "custom_gradient",
        "custom_gradient",
        gl.custom_gradient(lambda x: (tf.identity(x), _times(0.5))),
        _written(_times(0.5)),
    ),
]


# Both are NaN where x is, and quicker than comparing and picking.
def _sign(x):
    return tf.sign(tf.sign(x) + 0.5)


def _heaviside(x):
    return tf.minimum(tf.sign(x) + 1.0, 1.0)


def _inside(x, g):
    return tf.where(tf.abs(x) <= 1.0, g, tf.zeros_like(g))


def _two_slopes(x, g):
    size = tf.abs(x)
    return tf.where(size <= 1.0, g * (2.0 - 2.0 * size), tf.zeros_like(g))


def _swish_slope(x, g):
    u = 5.0 * x
    return g * (5.0 * (2.0 - u * tf.tanh(u / 2.0)) / (1.0 + tf.cosh(u)))


def _ternary(x):
    return tf.where(tf.abs(x) <= 0.05, 0.0, tf.sign(x))


def _quantized(x):
    # 8 bits between −1 and 1.
    return tf.round((tf.clip_by_value(x, -1.0, 1.0) + 1.0) * (255.0 / 2.0)) * (2.0 / 255.0) - 1.0


def _scaled(x):
    return tf.clip_by_value(tf.round(x / 0.25), -4.0, 3.0) * 0.25


def _in_range(x, g):
    return tf.where((x >= -1.0) & (x <= 0.75), g, tf.zeros_like(g))


_SURROGATES = [
    Pair("round_ste", "round_ste", gl.round_ste, _written(_unchanged, tf.round)),
    Pair("sign_ste", "sign_ste", gl.sign_ste, _sloped(_sign, _inside)),
    Pair("approx_sign", "approx_sign", gl.approx_sign, _sloped(_sign, _two_slopes)),
    Pair("swish_sign", "swish_sign", gl.swish_sign, _sloped(_sign, _swish_slope)),
    Pair("heaviside_ste", "heaviside_ste", gl.heaviside_ste, _sloped(_heaviside, _inside)),
    Pair("ternary_ste", "ternary_ste", gl.ternary_ste, _sloped(_ternary, _inside)),
    Pair("quantize_ste", "quantize_ste", gl.quantize_ste, _sloped(_quantized, _inside)),
    Pair(
        "quantize_ste, scale",
        "quantize_ste",
        lambda x: gl.quantize_ste(x, 3, scale=0.25),
        _sloped(_scaled, _in_range),
    ),
]


def _of_erf(x, alpha=2.0):
    return alpha / math.sqrt(math.pi) * tf.exp(-tf.square(alpha * x))


def _of_s2nn(x):
    below = 4.0 * tf.sigmoid(4.0 * x) * tf.sigmoid(-4.0 * x)
    return tf.where(x < 0, below, tf.math.reciprocal(1.0 + tf.maximum(x, 0.0)))


def _of_wave(x):
    angle = math.pi / 4.0 * (x - 8.0 * tf.round(x / 8.0))
    return tf.where(tf.math.is_inf(x), 0.0, 0.5 * (tf.cos(angle) + tf.cos(3.0 * angle)))


def _of_three_bells(x):
    u = 2.0 * x
    beside = _bell((u - 1.0) / 6.0) + _bell((u + 1.0) / 6.0)
    return 2.0 * (1.15 * _bell(u) - 0.15 / 6.0 * beside)


def _bell(v):
    return tf.exp(-tf.square(v) / 2.0) / math.sqrt(2.0 * math.pi)


# The derivative of each family, with parameters and the defaults that ours has. All are as right
# far out as near by: σ(u)(1 − σ(u)) would be shorter, and 0 from u = 17 on.
_FAMILIES = {
    gl.Sigmoid: lambda x, a=4.0: a * tf.sigmoid(a * x) * tf.sigmoid(-a * x),
    gl.FastSigmoid: lambda x, a=25.0: tf.square(tf.math.reciprocal(1.0 + tf.abs(a * x))),
    gl.ATan: lambda x: _atan_slope(x, 2.0),
    gl.Triangular: lambda x, a=1.0: a * tf.nn.relu(1.0 - tf.abs(a * x)),
    gl.PiecewiseExp: lambda x, a=1.0: a / 2.0 * tf.exp(-tf.abs(a * x)),
    gl.Erf: _of_erf,
    gl.SoftSign: lambda x, a=2.0: a / 2.0 * tf.square(tf.math.reciprocal(1.0 + tf.abs(a * x))),
    gl.Boxcar: lambda x, a=1.0, leak=0.0: tf.where(tf.abs(a * x) <= 0.5, a, leak),
    gl.LeakyReLU: lambda x, a=1.0, leak=0.1: tf.where(x < 0, leak, a),
    gl.NonzeroSignLogAbs: lambda x: tf.math.reciprocal(1.0 + tf.abs(x)),
    gl.S2NN: _of_s2nn,
    gl.QPseudoSpike: lambda x: tf.pow(1.0 + 2.0 * tf.abs(x), -2.0),
    gl.LogTailedReLU: lambda x: tf.where(x < 0, 0.0, tf.math.reciprocal(tf.maximum(x, 1.0))),
    gl.SquarewaveFourierSeries: _of_wave,
    gl.TripleGaussian: _of_three_bells,
}


def _spiking(derivative):
    """Where the derivative is 0, so is the gradient, though the upstream be infinite."""
    return _sloped(_heaviside, lambda x, g: tf.raw_ops.MulNoNan(x=g, y=derivative(x)))


def _spike(family, derivative):
    surrogate = family()
    name = family.__name__
    return Pair(
        f"spike, {name}",
        name,
        lambda x: gl.spike(x, surrogate),
        _spiking(derivative),
    )


_SPIKE = Pair(
    "spike, tensor",
    "spike",
    lambda x: gl.spike(x, gl.ATan(_TENSOR)),
    _spiking(lambda x: _atan_slope(x, _TENSOR)),
)


def _atan_slope(x, alpha):
    return alpha / 2.0 / (1.0 + tf.square(math.pi / 2.0 * alpha * x))


def _guided(x, g):
    return tf.where((x > 0) & (g > 0), g, tf.zeros_like(g))


def _redirected(x, g):
    own = tf.where(x > 0, g, tf.zeros_like(g))
    stuck = ~tf.reduce_any(own != 0, list(range(1, len(g.shape))), keepdims=True)
    pushed_out = (x <= 0) & (g > 0)
    return tf.where(stuck, tf.where(pushed_out, tf.zeros_like(g), g), own)


def _guided_of_op(op, g):
    return _guided(op.inputs[0], g)


_RECTIFIERS = [
    Pair("guided_relu", "guided_relu", gl.guided_relu, _sloped(tf.nn.relu, _guided)),
    Pair("deconv_relu", "deconv_relu", gl.deconv_relu, _written(tf.nn.relu, tf.nn.relu)),
    Pair(
        "redirected_relu", "redirected_relu", gl.redirected_relu, _sloped(tf.nn.relu, _redirected)
    ),
]

_OVERRIDING = [
    Pair(
        "override_gradient",
        "override_gradient",
        gl.override_gradient({"Relu": _guided_of_op})(tf.nn.relu),
        _in_graph(_sloped(tf.nn.relu, _guided)),
    ),
    Pair(
        "register_gradient",
        "register_gradient",
        gl.override_gradient({"Relu": gl.register_gradient(_guided_of_op)})(tf.nn.relu),
        _in_graph(_sloped(tf.nn.relu, _guided)),
    ),
]


def _sine_gradient(x, g):
    return np.cos(x) * g


def _numpy_sine(x):
    return tf.ensure_shape(tf.numpy_function(np.sin, [x], x.dtype), x.shape)


def _numpy_rule(x, g):
    return tf.ensure_shape(tf.numpy_function(_sine_gradient, [x, g], x.dtype), x.shape)


_PYTHON = [
    Pair(
        "numpy_op",
        "numpy_op",
        gl.numpy_op(np.sin, _sine_gradient),
        _sloped(_numpy_sine, _numpy_rule),
        NO_PYTHON,
    ),
    Pair(
        "numpy_op, rule in TensorFlow",
        "numpy_op",
        gl.numpy_op(np.sin, lambda x, g: tf.cos(x) * g, rule="tensorflow"),
        _sloped(_numpy_sine, lambda x, g: tf.cos(x) * g),
        NO_PYTHON,
    ),
    Pair(
        "py_func",
        "py_func",
        lambda x: gl.py_func(np.sin, [x], tf.float32, grad=lambda op, g: tf.cos(op.inputs[0]) * g),
        _sloped(_numpy_sine, lambda x, g: tf.cos(x) * g),
        NO_PYTHON,
    ),
]


class ScaledByHand(keras.layers.Layer):
    """A layer as one writes it by hand: a weight that isn't trained, and a custom gradient."""

    def __init__(self, scale):
        super().__init__()
        self.scale = self.add_weight(
            shape=(), initializer=keras.initializers.Constant(scale), trainable=False
        )

    def call(self, x):
        return _written(_times(tf.convert_to_tensor(self.scale)))(x)


class ClippedByHand(keras.layers.Layer):
    def __init__(self, low, high):
        super().__init__()
        self.low, self.high = (
            self.add_weight(shape=(), initializer=keras.initializers.Constant(v), trainable=False)
            for v in (low, high)
        )

    def call(self, x):
        low, high = tf.convert_to_tensor(self.low), tf.convert_to_tensor(self.high)
        return _written(lambda g: tf.maximum(tf.minimum(g, high), low))(x)


class ShortenedByHand(keras.layers.Layer):
    def __init__(self, clip_norm):
        super().__init__()
        self.clip_norm = self.add_weight(
            shape=(), initializer=keras.initializers.Constant(clip_norm), trainable=False
        )

    def call(self, x):
        return _written(_norm_rule(tf.convert_to_tensor(self.clip_norm)))(x)


class CalledByHand(keras.layers.Layer):
    """A layer that has nothing but a function to call."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def call(self, x):
        return self.function(x)


class FiringByHand(keras.layers.Layer):
    def __init__(self, alpha):
        super().__init__()
        self.alpha = self.add_weight(
            shape=(), initializer=keras.initializers.Constant(alpha), trainable=False
        )

    def call(self, x):
        alpha = tf.convert_to_tensor(self.alpha)

        return _spiking(lambda x: _atan_slope(x, alpha))(x)


_LAYERS = [
    Pair("layer ScaleGradient", "ScaleGradient", layers.ScaleGradient(0.5), ScaledByHand(0.5)),
    Pair(
        "layer ReverseGradient", "ReverseGradient", layers.ReverseGradient(0.5), ScaledByHand(-0.5)
    ),
    Pair(
        "layer ClipGradient, by value",
        "ClipGradient",
        layers.ClipGradient(clip_value_min=-0.5, clip_value_max=0.5),
        ClippedByHand(-0.5, 0.5),
    ),
    Pair(
        "layer ClipGradient, by norm",
        "ClipGradient",
        layers.ClipGradient(clip_norm=1.0),
        ShortenedByHand(1.0),
    ),
    Pair(
        "layer StraightThrough",
        "StraightThrough",
        layers.StraightThrough(tf.round),
        CalledByHand(_written(_unchanged, tf.round)),
    ),
    Pair("layer Spike", "Spike", layers.Spike(gl.ATan(2.0)), FiringByHand(2.0)),
    Pair(
        "layer NumpyOp",
        "NumpyOp",
        layers.NumpyOp(np.sin, _sine_gradient),
        CalledByHand(_sloped(_numpy_sine, _numpy_rule)),
        NO_PYTHON,
    ),
]

PAIRS = (
    *_MODIFYING,
    *_CLIPPING,
    *_REPLACING,
    *_SURROGATES,
    _SPIKE,
    *(_spike(family, derivative) for family, derivative in _FAMILIES.items()),
    *_RECTIFIERS,
    *_OVERRIDING,
    *_PYTHON,
    *_LAYERS,
)
"""Every member, with what it is measured against."""


def gradient(f, x, upstream):
    """The results of f, and the gradient to x, which the upstream has for each of them."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        ys = tf.nest.flatten(f(x))
    return ys, tape.gradient(ys, x, [upstream] * len(ys))


def example(rows):
    """An x and an upstream: values of both signs on both sides of every bound."""
    return [2.0 * tf.random.stateless_normal([rows, COLUMNS], [1, seed]) for seed in (2, 3)]


def check_same(pair, x, upstream):
    """Raise where the two return or report something else, in eager mode or in a graph."""
    for mode in (lambda f: f, _in_graph):
        ours, peer = (
            tf.nest.flatten(gradient(mode(f), x, upstream)) for f in (pair.ours, pair.peer)
        )
        for one, other in zip(ours, peer, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=pair.name)
