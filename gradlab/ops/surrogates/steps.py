"""Signs and steps: two or three values forward, a window or a bump back.

0 counts as positive, and so does −0, so that a sign is always 1 or −1. NaN stays NaN.
"""

import tensorflow as tf
from tensorflow.python.eager import record

from gradlab.ops.arguments import keeping_shape, unconverted
from gradlab.ops.surrogates.stepping import (
    clamped,
    either,
    exponent_limit,
    heaviside,
    limit,
    one_where,
    positive,
    product_or_zero,
    real_tensor,
    sign,
    widened,
    with_derivative,
)


@unconverted
def sign_ste(x, clip_value=1.0):
    """Return the sign of x, with the gradient of the identity inside a window.

    ::

        forward:  y = 1 where x ≥ 0, else −1
        gradient: g where |x| ≤ clip_value, else 0          (g: upstream)
        believed: x clamped to −clip_value … clip_value

    Args:
        x: float tensor.
        clip_value: number, 0 or more, or tensor that broadcasts to x; where the gradient stops.
            None lets it pass everywhere.

    Returns:
        A tensor of the shape and dtype of x.

    Raises:
        TypeError: x isn't one dense real tensor, or clip_value isn't a number.
        ValueError: clip_value is negative or NaN, or doesn't broadcast to x.

    Source: Hubara, Courbariaux, Soudry, El-Yaniv and Bengio, Binarized Neural Networks, 2016.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([-2.0, -0.5, 0.0, 1.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = gl.sign_ste(x)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([-1.0, -1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0])
    """
    return _windowed("sign_ste", x, sign, clip_value)


@unconverted
def heaviside_ste(x, clip_value=1.0):
    """Return 1 from 0 on and 0 below, with the gradient of the identity inside a window.

    ::

        forward:  y = 1 where x ≥ 0, else 0
        gradient: g where |x| ≤ clip_value, else 0          (g: upstream)
        believed: x clamped to −clip_value … clip_value

    At 0 the step is 1, as ``spike`` is. For a step that is 0 there: ``1 - heaviside_ste(-x)``.

    Args:
        x: float tensor.
        clip_value: number, 0 or more, or tensor that broadcasts to x; where the gradient stops.
            None lets it pass everywhere.

    Returns:
        A tensor of the shape and dtype of x.

    Raises:
        TypeError: x isn't one dense real tensor, or clip_value isn't a number.
        ValueError: clip_value is negative or NaN, or doesn't broadcast to x.

    Source: Bengio, Léonard and Courville, Estimating or Propagating Gradients Through Stochastic
    Neurons for Conditional Computation, 2013, for the step whose gradient passes; Hubara et al.,
    Binarized Neural Networks, 2016, for the window.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([-2.0, -0.5, 0.0, 1.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = gl.heaviside_ste(x)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0])
    """
    return _windowed("heaviside_ste", x, heaviside, clip_value)


@unconverted
def ternary_ste(x, threshold=0.05, clip_value=1.0):
    """Return x as −1, 0 or 1, with the gradient of the identity inside a window.

    ::

        forward:  y = 1 where x > threshold, −1 where x < −threshold, else 0
        gradient: g where |x| ≤ clip_value, else 0          (g: upstream)
        believed: x clamped to −clip_value … clip_value

    Args:
        x: float tensor.
        threshold: number, 0 or more, or tensor that broadcasts to x. Ternary weight networks
            take 0.7 times the mean of |x|: ``threshold=0.7 * tf.reduce_mean(tf.abs(x))``.
        clip_value: number, 0 or more, or tensor that broadcasts to x; where the gradient stops.
            None lets it pass everywhere.

    Returns:
        A tensor of the shape and dtype of x.

    Raises:
        TypeError: x isn't one dense real tensor, or a parameter isn't a number.
        ValueError: a parameter is negative or NaN, or doesn't broadcast to x.

    Source: Li, Zhang and Liu, Ternary Weight Networks, 2016.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([-2.0, 0.1, 0.5])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = gl.ternary_ste(x, threshold=0.2)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([-1.0, 0.0, 1.0], [0.0, 1.0, 1.0])
    """
    op = "ternary_ste"
    x = real_tensor(op, x)
    threshold = limit(op, "threshold", threshold, x)
    return _windowed(op, x, lambda x: _ternary(x, threshold), clip_value)


@unconverted
def approx_sign(x):
    """Return the sign of x, with the gradient of a parabola on each side of 0.

    ::

        forward:  y = 1 where x ≥ 0, else −1
        gradient: g · (2 − 2|x|) where |x| ≤ 1, else 0          (g: upstream)
        believed: 2x − x|x| where |x| ≤ 1, else the sign of x

    Args:
        x: float tensor.

    Returns:
        A tensor of the shape and dtype of x.

    Raises:
        TypeError: x isn't one dense real tensor.

    Source: Liu, Wu, Luo, Yang, Liu and Cheng, Bi-Real Net, 2018.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([-2.0, -0.5, 0.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = gl.approx_sign(x)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([-1.0, -1.0, 1.0], [0.0, 1.0, 2.0])
    """
    x = real_tensor("approx_sign", x)
    return with_derivative("approx_sign", _untracked(sign, x), x, _two_slopes)


@unconverted
def swish_sign(x, beta=5.0):
    """Return the sign of x, with the gradient of a swish made odd, which overshoots the sign.

    ::

        forward:  y = 1 where x ≥ 0, else −1
        gradient: g · β (2 − βx tanh(βx/2)) / (1 + cosh(βx))          (g: upstream)
        believed: 2σ(βx) (1 + βx (1 − σ(βx))) − 1

    The gradient is β g at 0 and turns negative from |βx| ≈ 2.4 on.

    Args:
        x: float tensor.
        beta: number above 0, or tensor that broadcasts to x: how steep it is at 0.

    Returns:
        A tensor of the shape and dtype of x.

    Raises:
        TypeError: x isn't one dense real tensor, or beta isn't a number.
        ValueError: beta isn't above 0 and finite, or doesn't broadcast to x.

    Source: Darabi, Belbahri, Courbariaux and Partovi Nia, BNN+: Improved Binary Network Training,
    2018.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([0.0, 1.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = gl.swish_sign(x)
    >>> print(y.numpy(), tape.gradient(y, x).numpy().round(3))
    [1. 1.] [ 5.    -0.195]
    """
    op = "swish_sign"
    x = real_tensor(op, x)
    beta = positive(op, "beta", beta, x)
    return with_derivative(op, _untracked(sign, x), x, _swish_slope, [beta])


def _windowed(op, x, forward, clip_value):
    x = real_tensor(op, x)
    clip_value = limit(op, "clip_value", clip_value, x)
    return with_derivative(op, _untracked(forward, x), x, _inside, [clip_value])


def _untracked(forward, x):
    with record.stop_recording():
        return forward(x)


def _ternary(x, threshold):
    size = widened(tf.abs(x))
    value = either(size <= threshold, 0.0, tf.sign(x), x)  # the sign of NaN is NaN
    return keeping_shape(value, x, [threshold])


def _inside(x, clip_value):
    return one_where(tf.abs(x) <= clip_value, x)


def _two_slopes(x):
    # Not a rectifier, which makes NaN of NaN.
    size = tf.abs(x)
    return product_or_zero(2.0 - 2.0 * size, one_where(size <= 1.0, x))


def _swish_slope(x, beta):
    # 1 / (1 + cosh u) is 2σ(u)σ(−u), which doesn't overflow. Where σ is 0, u may as well stay.
    u = clamped(beta * x, exponent_limit(x.dtype))
    return 2.0 * beta * tf.sigmoid(u) * tf.sigmoid(-u) * (2.0 - u * tf.tanh(u / 2.0))
