"""Ops that go forward by one function and back by another."""

import tensorflow as tf
from tensorflow.python.eager import record

from gradlab.ops.arguments import (
    clip_values,
    gradient_tensor,
    refuse_complex_tensor,
    result_of,
    same_form,
    unconverted,
)
from gradlab.ops.substituting import substitute


@unconverted
def replace_gradient(x, forward, backward):
    """Return forward(x), with the gradient of backward at x.

    ::

        forward:  y = forward(x), to the last bit
        gradient: g · backward′(x)          (g: upstream)

    Higher orders, forward mode and jacobians are those of backward. Variables that backward reads
    get their gradient; variables that forward reads get none.

    Args:
        x: float or complex tensor.
        forward: callable of x; returns one tensor.
        backward: callable of x; returns one tensor of the shape and dtype of forward(x).

    Returns:
        A tensor equal to forward(x).

    Raises:
        TypeError: x isn't one dense float tensor, or a function isn't callable, doesn't return
            one float tensor, or returns another dtype than the other.
        ValueError: forward and backward return different shapes.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([0.2, 1.7])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = gl.replace_gradient(x, tf.round, tf.square)
    >>> print(y.numpy(), tape.gradient(y, x).numpy())
    [0. 2.] [0.4 3.4]
    """
    op = "replace_gradient"
    x = gradient_tensor(op, "x", x)
    value = _untracked(op, x, forward)
    surrogate = result_of(op, "backward", backward, x)
    return _swapped(op, value, "backward", surrogate)


def _untracked(op, x, forward):
    with record.stop_recording():
        return result_of(op, "forward", forward, x)


def _swapped(op, value, source, surrogate):
    """The value, with the gradient of the surrogate, which comes from ``source``."""
    with record.stop_recording():
        value = same_form(op, "forward", value, source, surrogate)
    return substitute(op, [value], [surrogate], _as_it_is)[0]


def _as_it_is(upstreams, params):
    return upstreams


@unconverted
def stop_gradient_trick(x, forward, backward):
    """Return b + stop_gradient(f − b), as people write it, with f = forward(x), b = backward(x).

    ::

        forward:  y = b + (f − b), in floating point
        gradient: g · backward′(x)          (g: upstream)

    The sum is f only up to rounding: where b is far larger than f, f drowns (b = 10⁸, f = 1 gives
    0 in float32), and where b is infinite y is NaN. ``replace_gradient`` returns f itself.

    Args:
        x: float or complex tensor.
        forward: callable of x; returns one tensor.
        backward: callable of x; returns one tensor of the shape and dtype of forward(x).

    Returns:
        A tensor close to forward(x).

    Raises:
        TypeError: x isn't one dense float tensor, or a function isn't callable, doesn't return
            one float tensor, or returns another dtype than the other.
        ValueError: forward and backward return different shapes.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant(1e8)
    >>> gl.stop_gradient_trick(x, tf.ones_like, tf.identity).numpy().item()
    0.0
    >>> gl.replace_gradient(x, tf.ones_like, tf.identity).numpy().item()
    1.0
    """
    op = "stop_gradient_trick"
    x = gradient_tensor(op, "x", x)
    f = _untracked(op, x, forward)
    b = result_of(op, "backward", backward, x)
    with record.stop_recording():
        difference = same_form(op, "forward", f, "backward", b) - b
    # Nothing was recorded, which is enough in eager mode; a graph still has the path.
    return b + (difference if tf.executing_eagerly() else tf.stop_gradient(difference))


@unconverted
def straight_through(x, forward):
    """Return forward(x), with the gradient of the identity: the straight-through estimator.

    ::

        forward:  y = forward(x)
        gradient: g          (g: upstream)

    Args:
        x: float or complex tensor.
        forward: callable of x; returns one tensor of the shape and dtype of x.

    Returns:
        A tensor equal to forward(x).

    Raises:
        TypeError: x isn't one dense float tensor, or forward isn't callable or doesn't return one
            tensor of the dtype of x.
        ValueError: forward returns another shape than that of x.

    Source: Bengio, Léonard and Courville, Estimating or Propagating Gradients Through Stochastic
    Neurons for Conditional Computation, 2013.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([0.2, 1.7])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = gl.straight_through(x, tf.round)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([0.0, 2.0], [1.0, 1.0])
    """
    op = "straight_through"
    x = gradient_tensor(op, "x", x)
    return _swapped(op, _untracked(op, x, forward), "x", x)


@unconverted
def clip_by_value_preserve_gradient(x, clip_value_min, clip_value_max):
    """Return x clamped between two bounds, with a gradient that ignores the clamping.

    ::

        forward:  y = max(min(x, clip_value_max), clip_value_min)
        gradient: g          (g: upstream)

    Args:
        x: float tensor.
        clip_value_min: number, or tensor that broadcasts to x; cast to the dtype of x.
        clip_value_max: likewise. Where bounds that are tensors cross, which isn't checked, the
            lower one wins.

    Returns:
        A tensor of the shape and dtype of x.

    Raises:
        TypeError: x isn't one dense real tensor, or a bound isn't a number.
        ValueError: the bounds are numbers and cross, or a bound doesn't broadcast to x.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([0.5, 7.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = gl.clip_by_value_preserve_gradient(x, -1.0, 1.0)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([0.5, 1.0], [1.0, 1.0])
    """
    op = "clip_by_value_preserve_gradient"
    x = gradient_tensor(op, "x", x)
    refuse_complex_tensor(op, "x", x, "Clamp its real and imaginary parts apart.")
    low, high = clip_values(op, clip_value_min, clip_value_max, x)
    with record.stop_recording():
        value = tf.maximum(tf.minimum(x, high), low)
    return _swapped(op, value, "x", x)
