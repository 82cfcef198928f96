"""Gradient descent on surfaces that are hard to descend, with and without a clip."""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from gradlab.experiments.tracing import traced
from gradlab.ops.clipping import clip_gradient_by_norm, clip_gradient_by_value

STEPS = 100  # of every descent; who wants fewer looks at the first


def cliff(x, y):
    """A slope that ends, at its foot, before a cliff that is 4 high and 0.4 wide."""
    up = tf.clip_by_value(-(x + 0.4 * y) / 0.4, 0.0, 1.0)
    return 0.3 * tf.sqrt(1 + (x + 1) ** 2 + y**2) + 4 * up**2 * (3 - 2 * up)


def ravine(x, y):
    """A ravine with a bend: its floor falls gently towards (3.5, 0.54), its walls are steep."""
    return 0.1 * (x - 3.5) ** 2 + 2 * (y - x**2 / 6 + 1.5) ** 2


SURFACES = {"cliff": cliff, "ravine": ravine}
CLIPS = ("none", "value", "norm")


@dataclasses.dataclass(frozen=True)
class Descent:
    """Where a descent went.

    Attributes:
        points: shape (1 + steps, 2), the start first.
        values: what the surface is there, as many; neither need be finite where it diverges.

    """

    points: np.ndarray
    values: np.ndarray


def descend(surface, clip, start, learning_rate, limit, steps=STEPS):
    """Descend a surface from a start, the gradient clipped on its way back at each step.

    Args:
        surface: a name in `SURFACES`.
        clip: "none", "value" or "norm".
        start: a pair x, y.
        learning_rate: how long a step is, times the gradient.
        limit: that of the clip.
        steps: at most `STEPS`.

    Returns:
        A `Descent`.

    >>> path = descend("ravine", "norm", (-2.0, 2.0), learning_rate=0.3, limit=1.0, steps=2)
    >>> np.linalg.norm(np.diff(path.points, axis=0), axis=1).round(6)
    array([0.3, 0.3])

    """
    limits = (limit if clip == kind else np.inf for kind in ("value", "norm"))
    numbers = (tf.constant(number, tf.float64) for number in (learning_rate, *limits))
    points, values = _program(surface)(tf.constant(start, tf.float64), *numbers)
    return Descent(points.numpy()[: steps + 1], values.numpy()[: steps + 1])


def heights(surface, x, y):
    """What a surface is at each point of a grid: shape (len(y), len(x))."""
    with tf.device("/CPU:0"):
        return SURFACES[surface](*map(tf.constant, np.meshgrid(x, y))).numpy()


@functools.cache
def _program(surface):
    """The descent of a surface, traced; a limit of ∞ clips nothing, so one does for all clips."""
    start, number = (tf.TensorSpec(shape, tf.float64) for shape in ((2,), ()))
    descent = functools.partial(_descent, SURFACES[surface])
    return traced(descent, start, number, number, number)


def _descent(surface, start, learning_rate, value, norm):
    def step(i, point, points, values):
        height, gradient = _value_and_gradient(surface, point, value, norm)
        points, values = points.write(i, point), values.write(i, height)
        return i + 1, point - learning_rate * gradient, points, values

    points = tf.TensorArray(tf.float64, STEPS + 1, element_shape=(2,))
    values = tf.TensorArray(tf.float64, STEPS + 1, element_shape=())
    *_, points, values = tf.while_loop(
        lambda i, *_: i <= STEPS, step, (tf.constant(0), start, points, values)
    )
    return points.stack(), values.stack()


def _value_and_gradient(surface, point, value, norm):
    with tf.GradientTape() as tape:
        tape.watch(point)
        clipped = clip_gradient_by_value(clip_gradient_by_norm(point, norm), -value, value)
        height = surface(*tf.unstack(clipped))
    return height, tape.gradient(height, point)
