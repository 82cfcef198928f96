"""What the surrogates share: their op, the precision they compute in, checks of parameters."""

import math
import numbers

import tensorflow as tf

from gradlab.ops.arguments import (
    check_broadcast,
    gradient_tensor,
    is_number,
    keeping_shape,
    kind,
    parameter,
    refuse_complex_tensor,
)
from gradlab.ops.substituting import substitute


def real_tensor(op, x):
    """Return x as a real tensor that gradients can flow through, or say why it can't be one."""
    x = gradient_tensor(op, "x", x)
    refuse_complex_tensor(op, "x", x, "Complex numbers have no order: step its parts apart.")
    return x


def widened(x):
    """Return x in the precision that derivatives are computed in: float32 at least."""
    return as_dtype(x, wide(x.dtype))


def as_dtype(x, dtype):
    """Return x in a dtype: at once where it has that one, which tf.cast takes longer to see."""
    if getattr(x, "dtype", None) == dtype:
        return x
    # tf.cast would round a Python number to float32 first.
    return tf.cast(x, dtype) if tf.is_tensor(x) else tf.constant(x, dtype)


def wide(dtype):
    """Return the dtype that ``dtype`` is computed in."""
    return tf.float32 if dtype.size < 4 else dtype


def with_derivative(op, value, x, derivative, params=()):
    """Return ``value``, with the gradient g · derivative(x, *params).

    Where the derivative is 0 the gradient is 0, whatever g is: infinite and NaN, too.
    """

    def rule(upstreams, params):
        x, *params = params
        product = product_or_zero(widened(upstreams[0]), derivative(widened(x), *params))
        return [keeping_shape(as_dtype(product, x.dtype), x, params)]

    return substitute(op, [value], [x], rule, [x, *params])[0]


def product_or_zero(x, factor):
    """Return x · factor, and 0 where the factor is 0, for an infinite or NaN x too."""
    return tf.raw_ops.MulNoNan(x=x, y=as_dtype(factor, x.dtype))


def sign(x):
    """Return 1 where x ≥ 0, −1 where it is less, NaN where it is NaN."""
    # Signs and sums take a quarter of the time of comparing and picking.
    return tf.sign(tf.sign(x) + 0.5)


def heaviside(x):
    """Return 1 where x ≥ 0, 0 where it is less, NaN where it is NaN."""
    return tf.minimum(tf.sign(x) + 1.0, 1.0)


def one_where(condition, x):
    """Return 1 where the condition holds and 0 elsewhere, with the dtype of x."""
    return tf.cast(condition, x.dtype)


def either(condition, one, other, x):
    """Return one number where the condition holds and another elsewhere, with the dtype of x."""
    return tf.where(condition, as_dtype(one, x.dtype), as_dtype(other, x.dtype))


def clamped(x, limit):
    """Return x between −limit and limit."""
    return tf.maximum(tf.minimum(x, limit), -limit)  # quicker than tf.clip_by_value


def downhill(u):
    """Return −|u|, whose slope at 0 is −1, as from above; that of TensorFlow is 0 there."""
    return tf.minimum(-u, u)  # where they are the same, TensorFlow takes the first


def exponent_limit(dtype):
    """Return a bound u beyond which exp(−u) is 0, subnormal numbers included."""
    return 1.25 * math.log(float(dtype.max))


def log_beyond(x, edge):
    """Return ln(x / edge) from an edge above 0 on, and 0 below it."""
    edge = tf.minimum(as_dtype(edge, x.dtype), x.dtype.max)
    # x comes second: at the edge the slope is 0, as from below. A quotient could overflow.
    return tf.math.log(tf.maximum(edge, x)) - tf.math.log(edge)


def log1p_of_product(factor, size):
    """Return ln(1 + factor · size) for a size of 0 or more, though the product overflow."""
    edge = 2.0**60 / factor  # beyond which the 1 is lost in rounding
    return tf.math.log1p(factor * tf.minimum(size, edge)) + log_beyond(size, edge)


def limit(op, argument, value, x):
    """Return a bound, 0 or more, that fits x; None is no bound."""
    return fitting(op, argument, math.inf if value is None else value, x, _check_limit)


def positive(op, argument, value, x):
    """Return a parameter, above 0 and finite, that fits x."""
    return fitting(op, argument, value, x, check_positive)


def finite(op, argument, value, x):
    """Return a finite parameter that fits x."""
    return fitting(op, argument, value, x, check_finite)


def fitting(op, argument, value, x, check):
    """Return a parameter that fits x, if a number after a check."""
    dtype = wide(x.dtype)
    value = parameter(op, argument, value, dtype)
    if is_number(value):
        check(op, argument, value, dtype)
        return min(max(float(value), -math.inf), math.inf)
    check_broadcast(op, argument, value, x.shape)
    return value


def _check_limit(op, argument, value, dtype):
    if not value >= 0:
        raise ValueError(f"{op}: {argument} must be 0 or more, got {value}. None sets no bound.")


def check_real(op, argument, value):
    """Refuse a complex number."""
    if isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real):
        raise TypeError(f"{op}: {argument} must be real, got {value}. Pass its absolute value.")


def check_positive(op, argument, value, dtype=tf.float64):
    """Refuse a number that isn't above 0, or that ``dtype`` can't hold."""
    _check_above(0, op, argument, value, dtype)


def check_above_1(op, argument, value, dtype=tf.float64):
    """Refuse a number that isn't above 1, or that ``dtype`` can't hold."""
    _check_above(1, op, argument, value, dtype)


def _check_above(least, op, argument, value, dtype):
    check_real(op, argument, value)
    if not least < float(value) <= float(dtype.max):
        raise ValueError(
            f"{op}: {argument} must be above {least} and finite in {dtype.name}, got {value}."
        )


def check_finite(op, argument, value, dtype=tf.float64):
    """Refuse a number that ``dtype`` can't hold."""
    check_real(op, argument, value)
    if not abs(float(value)) <= float(dtype.max):
        raise ValueError(f"{op}: {argument} must be finite in {dtype.name}, got {value}.")


def check_count(op, argument, value):
    """Refuse what isn't a whole number, 1 or more: a tensor, too."""
    if not is_number(value):
        raise TypeError(f"{op}: {argument} must be a whole number, got {kind(value)}.")
    if not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(f"{op}: {argument} must be a whole number, 1 or more, got {value}.")
