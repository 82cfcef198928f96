"""How far each way of clipping turns two gradients, each by itself and both together."""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from gradlab.experiments.tracing import traced
from gradlab.ops.clipping import (
    clip_gradient_by_norm,
    clip_gradient_by_value,
    clip_gradients_by_global_norm,
)

CLIPS = {
    "value": lambda xs, value, norm: [clip_gradient_by_value(x, -value, value) for x in xs],
    "norm": lambda xs, value, norm: [clip_gradient_by_norm(x, norm) for x in xs],
    "global norm": lambda xs, value, norm: clip_gradients_by_global_norm(xs, norm),
}
"""The ways of clipping, of two tensors on their way back."""


@dataclasses.dataclass(frozen=True)
class Turned:
    """Two gradients after a clip.

    Attributes:
        gradients: shape (2, 2), a row for each.
        angles: how far the clip turned the first, the second and both together, in degrees; NaN
            where there is no direction.

    """

    gradients: np.ndarray
    angles: tuple[float, float, float]


def turned(first, second, clip_value, clip_norm):
    """Send two gradients back through each way of clipping.

    Args:
        first: the gradient of one variable, a pair.
        second: that of another.
        clip_value: the limit of the clip by value.
        clip_norm: the limit of the clips by norm and by global norm.

    Returns:
        A `Turned` for each of `CLIPS`.

    >>> each = turned((3.0, 4.0), (0.6, 0.0), clip_value=1.0, clip_norm=1.0)
    >>> {name: round(clip.angles[2]) for name, clip in each.items()}
    {'value': 18, 'norm': 24, 'global norm': 0}

    """
    given = np.array([first, second], np.float64)
    limits = (tf.constant(limit, tf.float64) for limit in (clip_value, clip_norm))
    clipped = _program()(tf.constant(given), *limits).numpy()
    return {
        name: Turned(each, _angles(given, each)) for name, each in zip(CLIPS, clipped, strict=True)
    }


@functools.cache
def _program():
    gradients, number = (tf.TensorSpec(shape, tf.float64) for shape in ((2, 2), ()))
    return traced(_clipped, gradients, number, number)


def _clipped(gradients, clip_value, clip_norm):
    return tf.stack([_sent_back(gradients, clip, clip_value, clip_norm) for clip in CLIPS.values()])


def _sent_back(gradients, clip, clip_value, clip_norm):
    """What arrives at two variables where a clip stands before a loss with these gradients."""
    variables = tf.unstack(tf.zeros_like(gradients))
    with tf.GradientTape() as tape:
        tape.watch(variables)
        loss = tf.reduce_sum(tf.stack(clip(variables, clip_value, clip_norm)) * gradients)
    return tf.stack(tape.gradient(loss, variables))


def _angles(given, clipped):
    pairs = [*zip(given, clipped, strict=True), (given.ravel(), clipped.ravel())]
    return tuple(angle(*pair) for pair in pairs)


def angle(u, v):
    """The angle between two vectors in degrees, small ones to the last digit; NaN if one is 0.

    >>> round(angle([3.0, 0.0], [1.0, 1.0]), 6)
    45.0
    """
    u, v = (np.asarray(each, np.float64) for each in (u, v))
    if not (u.any() and v.any()):
        return float("nan")
    u, v = (each / np.abs(each).max() for each in (u, v))  # no square overflows
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    return float(np.degrees(2 * np.arctan2(np.linalg.norm(u - v), np.linalg.norm(u + v))))
