"""check_gradient against tf.test.compute_gradient, at 1,024 inputs and with the same verdict."""

import numpy as np
import tensorflow as tf

import gradlab as gl
from benchmarks.timing import Ratio, ratio

_INPUTS = 1024
_TURNS = 5
# What compute_gradient checks; and all that a call without options does, to second order.
_AS_MUCH = {"order": 1, "modes": ("reverse",)}
_WANTED, _WANTED_OF_ALL = 1 / 20, 1 / 5


def ratios() -> list[Ratio]:
    """Rows per function, right and wrong: both checkers must judge it alike."""
    rows = [_row(name, f, right, _AS_MUCH, _WANTED) for name, f, right in _FUNCTIONS]
    name, f, right = _FUNCTIONS[0]
    return [*rows, _row(f"{name}, orders 1 and 2, both modes", f, right, {}, _WANTED_OF_ALL)]


def _row(name, f, right, options, wanted):
    x = tf.constant(np.linspace(-2.0, 2.0, _INPUTS))

    def ours():
        assert bool(gl.check_gradient(f, x, **options)) is right

    def theirs():
        analytic, numeric = tf.test.compute_gradient(f, [x])
        assert np.allclose(analytic[0], numeric[0], rtol=1e-4, atol=1e-5) is right

    label = f"check_gradient, {_INPUTS:,} inputs, {name}"
    return Ratio(label, ratio(ours, theirs, _TURNS), wanted)


def _elementwise(x):
    return tf.sin(x) * x


def _mixing(x):
    return tf.nn.softmax(x) * tf.cumsum(x)


@tf.custom_gradient
def _wrong_in_one_place(x):
    factor = tf.tensor_scatter_nd_update(tf.ones_like(x), [[77]], tf.constant([1.01], x.dtype))
    return tf.sin(x), lambda upstream: upstream * tf.cos(x) * factor


_FUNCTIONS = (
    ("x sin x", _elementwise, True),
    ("softmax x · cumsum x", _mixing, True),
    ("one element of 1,024 wrong by 1 %", _wrong_in_one_place, False),
)
