"""Roundings whose gradient is that of the identity."""

import math
import numbers

import tensorflow as tf
from tensorflow.python.eager import record

from gradlab.ops.arguments import (
    check_broadcast,
    check_ordered,
    choice,
    flag,
    is_number,
    keeping_shape,
    number_tensor,
    unconverted,
)
from gradlab.ops.substituting import substitute
from gradlab.ops.surrogates.stepping import (
    as_dtype,
    finite,
    one_where,
    positive,
    real_tensor,
    wide,
    widened,
    with_derivative,
)


@unconverted
def round_ste(x):
    """Return x rounded to a whole number, with the gradient of the identity.

    ::

        forward:  y = the whole number next to x; from halfway, the even one
        gradient: g          (g: upstream)
        believed: x

    Args:
        x: float tensor.

    Returns:
        A tensor of the shape and dtype of x.

    Raises:
        TypeError: x isn't one dense real tensor.

    Source: Bengio, Léonard and Courville, Estimating or Propagating Gradients Through Stochastic
    Neurons for Conditional Computation, 2013.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([0.5, 1.5, 2.6])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = gl.round_ste(x)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([0.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    """
    x = real_tensor("round_ste", x)
    with record.stop_recording():
        value = tf.round(x)
    return substitute("round_ste", [value], [x], _as_it_is)[0]


@unconverted
def quantize_ste(
    x,
    bits=8,
    low=None,
    high=None,
    scale=None,
    signed=True,
    narrow_range=False,
    outside="zero",
):
    """Return x on a grid of 2^bits levels, with the gradient of the identity inside the range.

    ::

        forward:  y = the level next to x; the lowest or highest level outside the range
        gradient: g where low ≤ x ≤ high, else 0; g everywhere for outside="pass"   (g: upstream)
        believed: x clamped to low … high; x for outside="pass"

    The grid is given by its range, or by the distance of its levels:

    - ``low``, ``high``: the levels divide low … high evenly, both ends included; −1 … 1 if
      nothing is given. 0 is a level where low is 0, and for low = −high with ``narrow_range``.
    - ``scale``: the levels are n · scale, with n from −2^(bits−1) to 2^(bits−1) − 1, or from 0 to
      2^bits − 1 if not ``signed``. low and high are then the lowest and the highest of them.

    Halfway between two levels, the one with the even number wins, counted from low or by n. No
    gradient goes to the grid. To learn a scale, as learned step size quantization does, divide
    by it in the open: ``scale * round_ste(tf.clip_by_value(x / scale, -128.0, 127.0))``.

    Args:
        x: float tensor.
        bits: int from 1 to 24, or int tensor that broadcasts to x.
        low: number, or tensor that broadcasts to x, such as one per channel.
        high: likewise. Where ends that are tensors cross, which isn't checked, the gradient is 0.
        scale: number above 0, or tensor that broadcasts to x; 0 makes 0 of all.
        signed: whether n goes below 0; only with ``scale``.
        narrow_range: whether to leave out one level, the lowest n if signed, so that the range
            is symmetric around a level at 0.
        outside: "zero" or "pass": what becomes of the gradient outside the range.

    Returns:
        A tensor of the shape and dtype of x.

    Raises:
        TypeError: x isn't one dense real tensor, or a parameter isn't a number.
        ValueError: a parameter is out of its range or doesn't broadcast to x, both a range and a
            scale are given, or only one end of a range.

    Source: Jacob et al., Quantization and Training of Neural Networks for Efficient
    Integer-Arithmetic-Only Inference, 2018, for training with the rounded value; Zhou et al.,
    DoReFa-Net, 2016, for levels that divide a range; Esser et al., Learned Step Size
    Quantization, 2020, for the scale.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([-2.0, 0.2, 0.8])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = gl.quantize_ste(x, bits=2, low=-1.0, high=1.0, narrow_range=True)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([-1.0, 0.0, 1.0], [0.0, 1.0, 1.0])
    """
    op = "quantize_ste"
    x = real_tensor(op, x)
    choice(op, "outside", outside, ("zero", "pass"))
    signed, narrow_range = flag(op, "signed", signed), flag(op, "narrow_range", narrow_range)
    levels = _levels(bits, narrow_range, x)
    steps = levels - (2 if narrow_range else 1)
    with record.stop_recording():
        if scale is None:
            low, high, value = _spread(widened(x), steps, *_range(low, high, x))
        else:
            _check_alone(low, high)
            scale = positive(op, "scale", scale, x)
            top = levels / 2 - 1 if signed else steps
            low, high, value = _scaled(widened(x), scale, top - steps, top)
        value = keeping_shape(tf.cast(value, x.dtype), x, [levels, low, high])
    if outside == "pass":
        return substitute(op, [value], [x], _as_it_is)[0]
    return with_derivative(op, value, x, _between, [low, high])


def _spread(x, steps, low, high):
    """The range, and x on levels that divide it."""
    inside = tf.maximum(tf.minimum(x, high), low)
    # In sixteenths, as the distance of two floats may be larger than any float.
    n = tf.round((inside / 16 - low / 16) * _levels_per(steps, high / 16 - low / 16, x))
    # A share of 0, ½ or 1 is exact, and so are the ends, and the 0 in the middle of a symmetric
    # range, also where XLA adds one product to the other before it is rounded. A product with the
    # reciprocal, which XLA makes of a quotient anyhow; the minimum, which changes nothing, keeps it
    # from multiplying that by the ends.
    share = tf.minimum(n * _like(x, 1 / steps), 1.0)
    return low, high, (1 - share) * _like(x, low) + share * _like(x, high)


def _levels_per(steps, width, x):
    """How many levels lie in a unit of x; 0 in a range that is a point."""
    if is_number(steps) and is_number(width):
        return steps / width if width else 0.0
    return tf.math.divide_no_nan(_like(x, steps), _like(x, width))


def _scaled(x, scale, bottom, top):
    """The range, and x on levels that are multiples of a scale."""
    n = tf.round(tf.math.divide_no_nan(x, _like(x, scale)))
    n = tf.maximum(tf.minimum(n, top), bottom)
    return bottom * scale, top * scale, n * scale


def _like(x, value):
    return as_dtype(value, x.dtype)


def _as_it_is(upstreams, _):
    return upstreams


def _between(x, low, high):
    return one_where((x >= low) & (x <= high), x)


def _check_alone(low, high):
    if low is not None or high is not None:
        raise ValueError(
            f"quantize_ste: give a range or a scale, got low {low}, high {high} and a scale. For a "
            f"range that doesn't start at 0, subtract its start before and add it after."
        )


def _range(low, high, x):
    if low is None and high is None:
        return -1.0, 1.0
    if low is None or high is None:
        raise ValueError(
            f"quantize_ste: a range has two ends, got low {low} and high {high}. Give both."
        )
    low, high = (
        finite("quantize_ste", name, end, x) for name, end in (("low", low), ("high", high))
    )
    check_ordered("quantize_ste", "low", low, "high", high)
    return low, high


def _levels(bits, narrow_range, x):
    fewest = 2 if narrow_range else 1
    if is_number(bits):
        _check_bits(bits, fewest)
        return 2.0**bits
    bits = _whole(bits)
    check_broadcast("quantize_ste", "bits", bits, x.shape)
    levels = tf.cast(tf.bitwise.left_shift(tf.ones_like(bits), bits), wide(x.dtype))
    # What can't be checked here shows: too few or too many bits make NaN of x.
    return tf.where((bits >= fewest) & (bits <= _MOST_BITS), levels, math.nan)


_MOST_BITS = 24


def _whole(bits):
    bits = number_tensor("quantize_ste", "bits", bits)
    if not bits.dtype.is_integer:
        raise TypeError(
            f"quantize_ste: bits must be whole numbers, got {bits.dtype.name}. Cast them: "
            f"tf.cast(bits, tf.int32)."
        )
    return tf.cast(bits, tf.int32)


def _check_bits(bits, fewest):
    if not isinstance(bits, numbers.Integral) or not fewest <= bits <= _MOST_BITS:
        raise ValueError(
            f"quantize_ste: bits must be a whole number, {fewest} to {_MOST_BITS}, got {bits}."
        )
