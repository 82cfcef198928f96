"""One table of the ops with identity-like forward: each with its oracle in NumPy.

``CASES`` drives the tests of all members. An oracle is written from the formulas of the
docstring, in float64, and shares no code with the op.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

import gradlab as gl


@dataclass(frozen=True)
class Case:
    """An op with everything but the tensors it differentiates filled in, and its oracle."""

    op: str
    f: Callable  # f(*xs)
    rule: Callable  # rule(xs, upstreams) -> gradients, all NumPy
    forward: Callable = lambda xs: xs  # forward(xs) -> ys
    shapes: tuple = ((2, 3),)
    linear: bool = True
    complex: bool = True
    cannot: dict = field(default_factory=dict)  # mode -> (exception, what its message must say)

    def xs(self, dtype=tf.float32):
        """Values away from kinks of the forward, exact in bfloat16."""
        steps = [np.arange(np.prod(shape)).reshape(shape) for shape in self.shapes]
        return [tf.cast(-1.125 + 0.75 * s + i, dtype) for i, s in enumerate(steps)]

    def upstreams(self, dtype=tf.float32):
        steps = [np.arange(np.prod(shape)).reshape(shape) for shape in self.shapes]
        return [tf.cast(1.75 - 0.875 * s - i, dtype) for i, s in enumerate(steps)]


SCALE = np.array([0.5, -2.0, 3.0])
MASK = np.array([[True, False, True], [False, False, True]])
IN_XLA = ("jit", "jit_tape_out", "while_loop_jit", "vectorized_jit")
BATCHED = (
    "vectorized_tape_in",
    "vectorized_tape_out",
    "vectorized_in_function",
    "vectorized_in_function_tape_out",
    "vectorized_jit",
    "vectorized_nested_function",
)
NO_CALLBACK = dict.fromkeys(IN_XLA, (tf.errors.InvalidArgumentError, "EagerPyFunc"))
NO_BATCH = dict.fromkeys(
    (*BATCHED, "eager jacobian", "in_function jacobian", "of_function jacobian"),
    (ValueError, "a variable can't record the gradients of a batch|experimental_use_pfor"),
)


def _norm(g, axes=None):
    return np.sqrt(np.sum(np.abs(g) ** 2, axis=axes, keepdims=axes is not None))


def _clipped(g, clip_norm, axes=None):
    return g * np.minimum(1.0, clip_norm / _norm(g, axes))


def _jointly(gs, clip_norm):
    factor = min(1.0, clip_norm / np.sqrt(sum(_norm(g) ** 2 for g in gs)))
    return [g * factor for g in gs]


def _sine(x):
    return np.sin(x)


def _recorded(x):
    return gl.record_gradient(x, lambda g: None)


class _VariableRecorder:
    """Its variables are made when it is first called in eager mode, one per dtype."""

    def __init__(self):
        self.variables = {}

    def __call__(self, x):
        if x.dtype not in self.variables:
            self.variables[x.dtype] = tf.Variable(tf.zeros([2, 3], x.dtype))
        return gl.record_gradient(x, self.variables[x.dtype])


@gl.custom_gradient
def _custom(x):
    e = tf.exp(x)
    return e, lambda upstream: upstream * tf.math.conj(e) * 3.0


def _np(value, dtype=np.float32):
    return tf.constant(value, dtype)


CASES = {
    "scale_gradient": Case(
        "scale_gradient", lambda x: gl.scale_gradient(x, 2.5), lambda xs, gs: [2.5 * gs[0]]
    ),
    "scale_gradient, tensor": Case(
        "scale_gradient", lambda x: gl.scale_gradient(x, _np(SCALE)), lambda xs, gs: [SCALE * gs[0]]
    ),
    "reverse_gradient": Case(
        "reverse_gradient", lambda x: gl.reverse_gradient(x), lambda xs, gs: [-gs[0]]
    ),
    "reverse_gradient, tensor": Case(
        "reverse_gradient",
        lambda x: gl.reverse_gradient(x, _np(0.25)),
        lambda xs, gs: [-0.25 * gs[0]],
    ),
    "mask_gradient": Case(
        "mask_gradient", lambda x: gl.mask_gradient(x, MASK), lambda xs, gs: [gs[0] * MASK]
    ),
    "zero_nonfinite_gradient": Case(
        "zero_nonfinite_gradient",
        lambda x: gl.zero_nonfinite_gradient(x),
        lambda xs, gs: [np.where(np.isfinite(gs[0]), gs[0], 0.0)],
    ),
    "record_gradient": Case(
        "record_gradient", _recorded, lambda xs, gs: [gs[0]], cannot=NO_CALLBACK
    ),
    "record_gradient, variable": Case(
        "record_gradient", _VariableRecorder(), lambda xs, gs: [gs[0]], cannot=NO_BATCH
    ),
    "clip_gradient_by_value": Case(
        "clip_gradient_by_value",
        lambda x: gl.clip_gradient_by_value(x, -1.0, 0.5),
        lambda xs, gs: [np.clip(gs[0], -1.0, 0.5)],
        linear=False,
        complex=False,
    ),
    "clip_gradient_by_value, tensor": Case(
        "clip_gradient_by_value",
        lambda x: gl.clip_gradient_by_value(x, _np(-1.0), _np([0.5, 0.25, 1.5])),
        lambda xs, gs: [np.clip(gs[0], -1.0, [0.5, 0.25, 1.5])],
        linear=False,
        complex=False,
    ),
    "clip_gradient_by_norm": Case(
        "clip_gradient_by_norm",
        lambda x: gl.clip_gradient_by_norm(x, 1.5),
        lambda xs, gs: [_clipped(gs[0], 1.5)],
        linear=False,
    ),
    "clip_gradient_by_norm, tensor, axes": Case(
        "clip_gradient_by_norm",
        lambda x: gl.clip_gradient_by_norm(x, _np(2.0), axes=-1),
        lambda xs, gs: [_clipped(gs[0], 2.0, -1)],
        linear=False,
    ),
    "clip_gradients_by_global_norm": Case(
        "clip_gradients_by_global_norm",
        lambda a, b: gl.clip_gradients_by_global_norm([a, b], _np(2.5)),
        lambda xs, gs: _jointly(gs, 2.5),
        shapes=((2, 3), (2,)),
        linear=False,
    ),
    "replace_gradient": Case(
        "replace_gradient",
        lambda x: gl.replace_gradient(x, tf.sign, tf.sin),
        lambda xs, gs: [gs[0] * np.conj(np.cos(xs[0]))],
        forward=lambda xs: [np.sign(xs[0])],
    ),
    "stop_gradient_trick": Case(
        "stop_gradient_trick",
        lambda x: gl.stop_gradient_trick(x, tf.sign, tf.sin),
        lambda xs, gs: [gs[0] * np.conj(np.cos(xs[0]))],
        forward=lambda xs: [np.sign(xs[0])],
    ),
    "straight_through": Case(
        "straight_through",
        lambda x: gl.straight_through(x, tf.sign),
        lambda xs, gs: [gs[0]],
        forward=lambda xs: [np.sign(xs[0])],
    ),
    "clip_by_value_preserve_gradient": Case(
        "clip_by_value_preserve_gradient",
        lambda x: gl.clip_by_value_preserve_gradient(x, -0.5, _np(1.0)),
        lambda xs, gs: [gs[0]],
        forward=lambda xs: [np.clip(xs[0], -0.5, 1.0)],
        complex=False,
    ),
    "custom_gradient": Case(
        "custom_gradient",
        _custom,
        lambda xs, gs: [gs[0] * 3.0 * np.conj(np.exp(xs[0]))],
        forward=lambda xs: [np.exp(xs[0])],
    ),
}
