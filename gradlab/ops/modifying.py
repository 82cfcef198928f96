"""Ops that leave the forward alone and modify the gradient on its way back."""

import tensorflow as tf

from gradlab.ops.arguments import (
    boolean,
    check_broadcast,
    gradient_tensor,
    parameter,
    receiver,
    unconverted,
)
from gradlab.ops.substituting import pass_through


@unconverted
def scale_gradient(x, scale):
    """Return x, and scale the gradient.

    ::

        forward:  y = x
        gradient: scale · g          (g: upstream)

    A scale of 0 gives 0, and where g is infinite NaN, as 0 · ∞ is; to block whatever comes,
    use ``mask_gradient``. For complex x the gradient is conj(scale) · g: TensorFlow's gradient of
    scale · x.

    Args:
        x: float or complex tensor.
        scale: number, or tensor that broadcasts to x; cast to the dtype of x. May be negative.

    Returns:
        A tensor equal to x.

    Raises:
        TypeError: x isn't one dense float tensor, or scale isn't a number.
        ValueError: scale doesn't broadcast to x.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = tf.reduce_sum(gl.scale_gradient(x, 0.5) ** 2)
    >>> tape.gradient(loss, x).numpy().tolist()
    [1.0, 2.0]
    """
    return _scaled("scale_gradient", x, scale, 1)


@unconverted
def reverse_gradient(x, scale=1.0):
    """Return x, and reverse the gradient: what a domain classifier learns, the features unlearn.

    ::

        forward:  y = x
        gradient: −scale · g          (g: upstream)

    Args:
        x: float or complex tensor.
        scale: number, or tensor that broadcasts to x; cast to the dtype of x.

    Returns:
        A tensor equal to x.

    Raises:
        TypeError: x isn't one dense float tensor, or scale isn't a number.
        ValueError: scale doesn't broadcast to x.

    Source: Ganin and Lempitsky, Unsupervised Domain Adaptation by Backpropagation, 2015.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = tf.reduce_sum(gl.reverse_gradient(x) ** 2)
    >>> tape.gradient(loss, x).numpy().tolist()
    [-2.0, -4.0]
    """
    return _scaled("reverse_gradient", x, scale, -1)


def _scaled(op, x, scale, sign):
    x = gradient_tensor(op, "x", x)
    scale = parameter(op, "scale", scale, x.dtype)
    check_broadcast(op, "scale", scale, x)
    return pass_through(op, x, _times if sign > 0 else _minus_times, [scale])


def _times(upstream, scale):
    return upstream * (tf.math.conj(scale) if upstream.dtype.is_complex else scale)


def _minus_times(upstream, scale):
    return -_times(upstream, scale)


@unconverted
def mask_gradient(x, mask):
    """Return x, and let the gradient through where the mask is true.

    ::

        forward:  y = x
        gradient: g where mask, else 0          (g: upstream)

    It picks and doesn't multiply: where the mask is false, the gradient of an infinite or NaN
    upstream is 0.

    Args:
        x: float or complex tensor.
        mask: bool, or bool tensor that broadcasts to x.

    Returns:
        A tensor equal to x.

    Raises:
        TypeError: x isn't one dense float tensor, or mask isn't boolean.
        ValueError: mask doesn't broadcast to x.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = tf.reduce_sum(gl.mask_gradient(x, [True, False]) ** 2)
    >>> tape.gradient(loss, x).numpy().tolist()
    [2.0, 0.0]
    """
    x = gradient_tensor("mask_gradient", "x", x)
    mask = boolean("mask_gradient", "mask", mask)
    check_broadcast("mask_gradient", "mask", mask, x)
    return pass_through("mask_gradient", x, _where, [mask])


def _where(upstream, mask):
    return tf.where(mask, upstream, tf.zeros_like(upstream))


@unconverted
def zero_nonfinite_gradient(x):
    """Return x, and put 0 where the gradient is infinite or NaN.

    ::

        forward:  y = x
        gradient: g where g is finite, else 0          (g: upstream)

    A complex element counts as finite where both its parts do. Beware of hiding an overflow from
    an optimizer that scales the loss: it then neither skips the step nor lowers the scale.

    Args:
        x: float or complex tensor.

    Returns:
        A tensor equal to x.

    Raises:
        TypeError: x isn't one dense float tensor.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([0.0, 4.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = tf.reduce_sum(tf.sqrt(gl.zero_nonfinite_gradient(x)))
    >>> tape.gradient(loss, x).numpy().tolist()
    [0.0, 0.25]
    """
    x = gradient_tensor("zero_nonfinite_gradient", "x", x)
    return pass_through("zero_nonfinite_gradient", x, _finite)


def _finite(upstream):
    return _where(upstream, _is_finite(upstream))


def _is_finite(x):
    if x.dtype.is_complex:
        return tf.math.is_finite(tf.math.real(x)) & tf.math.is_finite(tf.math.imag(x))
    return tf.math.is_finite(x)


@unconverted
def record_gradient(x, record):
    """Return x, and hand the gradient to ``record`` on its way back.

    ::

        forward:  y = x
        gradient: g, after record(g)          (g: upstream)

    ``record`` sees values, not symbols, in eager mode and in a ``tf.function``, where it runs on
    the host through ``tf.py_function``: once for each time that g is computed, not again when g
    itself is differentiated. ``jit_compile`` and a SavedModel can't call back into Python: give
    a ``tf.Variable`` there.

    Args:
        x: float or complex tensor.
        record: callable of one tensor, such as ``a_list.append``; or a ``tf.Variable`` of the
            shape and dtype of x, to which g is assigned.

    Returns:
        A tensor equal to x.

    Raises:
        TypeError: x isn't one dense float tensor, or record is neither callable nor a variable.

    >>> import gradlab as gl, tensorflow as tf
    >>> x, seen = tf.constant(3.0), []
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = gl.record_gradient(x, seen.append) ** 2
    >>> tape.gradient(loss, x).numpy().item(), seen[0].numpy().item()
    (6.0, 6.0)
    """
    x = gradient_tensor("record_gradient", "x", x)
    rule, params = receiver("record_gradient", "record", record, x)
    return pass_through("record_gradient", x, rule, params, forward=list)
