"""What trials ask of an answer: its value and its gradient, in the modes a reader meets.

Inputs are numbers, lists or arrays and become float32 tensors unless they are tensors or
variables already; what comes back is NumPy, None, or a tuple of these.
"""

import tensorflow as tf


def forward(f, *xs):
    """The value f(*xs), as NumPy."""
    return _plain(f(*_tensors(xs)))


def gradient(f, *xs, upstream=None):
    """The gradient of f at xs, eager: one array for one input, a tuple for more; None stays None.

    Args:
        f: the function, of as many tensors as there are xs.
        *xs: where.
        upstream: what arrives at f's output; ones when None.
    """
    return _plain(_taped(f, _tensors(xs), upstream))


def gradient_in_function(f, *xs, upstream=None):
    """As `gradient`, with the tape inside a ``tf.function``."""
    run = tf.function(lambda *tensors: _taped(f, tensors, upstream), autograph=False)
    return _plain(run(*_tensors(xs)))


def gradient_of_function(f, *xs, upstream=None):
    """As `gradient`, with f inside a ``tf.function`` and the tape outside it."""
    return _plain(_taped(tf.function(f, autograph=False), _tensors(xs), upstream))


def second_gradient(f, x):
    """The gradient of the gradient of f at x: the slope of what backprop reports."""
    return gradient(lambda x: _taped(f, [x], None), x)


def _taped(f, xs, upstream):
    with tf.GradientTape() as tape:
        for x in xs:
            tape.watch(x)
        # An answer in NumPy has a gradient too, None, and its hint is waiting for it.
        y = tf.convert_to_tensor(f(*xs))
    if upstream is not None:
        upstream = tf.convert_to_tensor(upstream, y.dtype)
    gradients = tape.gradient(y, xs, output_gradients=upstream)
    return gradients[0] if len(gradients) == 1 else tuple(gradients)


def _tensors(xs):
    return [x if tf.is_tensor(x) else tf.constant(x, tf.float32) for x in xs]


def _plain(value):
    if isinstance(value, (tuple, list)):
        return tuple(map(_plain, value))
    return value.numpy() if hasattr(value, "numpy") else value
