"""A small regression whose weights are quantised, learnt through a surrogate."""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from gradlab.experiments.tracing import traced
from gradlab.ops.replacing import clip_by_value_preserve_gradient
from gradlab.ops.surrogates import quantize_ste, round_ste, sign_ste, ternary_ste

STEPS = 100
RATE = 0.1  # at first; it falls to 0, so that weights between two levels come to rest
EXAMPLES = 24
# What the targets are made with, and where the fit begins: three of six on the wrong side of 0.
WEIGHTS = np.array([1.3, -0.83, 0.12, 1.87, -1.62, 0.46])
START = np.array([0.9, 0.6, -0.7, 0.8, -0.55, -0.65])


def _rounded(x, reach, outside):
    clip = {"zero": tf.clip_by_value, "pass": clip_by_value_preserve_gradient}[outside]
    return round_ste(clip(x, -reach, reach))


def _on_levels(x, reach, bits, outside):
    return quantize_ste(x, bits, low=-reach, high=reach, outside=outside)


def _sign(x, reach, outside):
    return sign_ste(x, clip_value=_window(reach, outside))


def _ternary(x, reach, threshold, outside):
    return ternary_ste(x, threshold, clip_value=_window(reach, outside))


def _window(reach, outside):
    return reach if outside == "zero" else np.inf


QUANTIZERS = {"round": _rounded, "levels": _on_levels, "sign": _sign, "ternary": _ternary}
"""Functions of x, of how far the range reaches from 0, and of what else each of them takes."""
TAKES = {"round": (), "levels": ("bits",), "sign": (), "ternary": ("threshold",)}
OUTSIDE = ("zero", "pass")


def quantize(x, quantizer, outside, reach, bits, threshold):
    """Apply a quantizer to a tensor: the library's surrogate, with the parameters that it takes."""
    given = {"bits": bits, "threshold": threshold}
    own = {name: given[name] for name in TAKES[quantizer]}
    return QUANTIZERS[quantizer](x, reach, outside=outside, **own)


@dataclasses.dataclass(frozen=True)
class Fit:
    """How a fit went: mean squared errors.

    Attributes:
        errors: with the quantised weights before each step, and after the last.
        whole: the same for weights that aren't quantised.
        afterwards: of the weights that aren't, quantised when all is learnt.

    """

    errors: np.ndarray
    whole: np.ndarray
    afterwards: float


def fit(quantizer, outside="zero", reach=2.0, bits=3, threshold=0.5):
    """Fit six weights to 24 targets by descent, the weights quantised in each forward.

    Args:
        quantizer: a name in `QUANTIZERS`.
        outside: the gradient outside the range, "zero" or "pass".
        reach: the range goes from −reach to reach.
        bits: of "levels".
        threshold: of "ternary".

    Returns:
        A `Fit`.

    >>> coarse, fine = fit("levels", bits=2), fit("levels", bits=6)
    >>> bool(coarse.errors[-1] > 20 * fine.errors[-1])
    True

    """
    numbers = (
        tf.constant(reach, tf.float64),
        tf.constant(bits),
        tf.constant(threshold, tf.float64),
    )
    errors, afterwards = _program(quantizer, outside)(*numbers)
    return Fit(*errors.numpy().T, float(afterwards))


def examples():
    """Inputs whose columns resemble one another, and their targets: the same on every machine."""
    rows, columns = np.ogrid[1 : EXAMPLES + 1, 1 : len(WEIGHTS) + 1]
    inputs = np.sin(1.7 * rows * columns + columns) + np.cos(2.3 * rows)
    return inputs, inputs @ WEIGHTS


@functools.cache
def _program(quantizer, outside):
    def run(reach, bits, threshold):
        def quantized(weights):
            return quantize(weights, quantizer, outside, reach, bits, threshold)

        return _fit(quantized)

    dtypes = (tf.float64, tf.int32, tf.float64)
    return traced(run, *(tf.TensorSpec((), dtype) for dtype in dtypes))


def _fit(quantized):
    """The errors of both fits, shape (1 + STEPS, 2), and that of the whole weights quantised."""
    inputs, targets = map(tf.constant, examples())
    kinds = (quantized, tf.identity)

    def error_and_gradient(kind, weights):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            error = tf.reduce_mean((tf.linalg.matvec(inputs, kind(weights)) - targets) ** 2)
        return error, tape.gradient(error, weights)

    def step(i, weights, errors):
        now, gradients = zip(*map(error_and_gradient, kinds, tf.unstack(weights)), strict=True)
        rate = RATE * (1 - tf.cast(i, tf.float64) / STEPS)
        return i + 1, weights - rate * tf.stack(gradients), errors.write(i, tf.stack(now))

    errors = tf.TensorArray(tf.float64, STEPS + 1, element_shape=(2,))
    _, weights, errors = tf.while_loop(
        lambda i, *_: i <= STEPS,
        step,
        (tf.constant(0), tf.constant(np.stack([START, START])), errors),
    )
    return errors.stack(), error_and_gradient(quantized, weights[1])[0]
