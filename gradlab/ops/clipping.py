"""Ops that leave the forward alone and clip the gradient on its way back."""

import tensorflow as tf

from gradlab.ops.arguments import (
    as_axes,
    check_axes,
    check_broadcast,
    check_not_negative,
    clip_values,
    gradient_tensor,
    parameter,
    refuse_complex_tensor,
    scalar,
    unconverted,
)
from gradlab.ops.substituting import no_forward_mode, pass_through, substitute


@unconverted
def clip_gradient_by_value(x, clip_value_min, clip_value_max):
    """Return x, and clamp each element of the gradient between two bounds.

    ::

        forward:  y = x
        gradient: max(min(g, clip_value_max), clip_value_min)          (g: upstream)

    An infinite g becomes a bound, which hides an overflow from an optimizer that scales the loss;
    NaN stays NaN. No forward mode: the rule isn't linear in g.

    Args:
        x: float tensor.
        clip_value_min: number, or tensor that broadcasts to x; cast to the dtype of x.
        clip_value_max: likewise. May be infinite. Where bounds that are tensors cross, which
            isn't checked, the lower one wins.

    Returns:
        A tensor equal to x.

    Raises:
        TypeError: x isn't one dense real tensor, or a bound isn't a number.
        ValueError: the bounds are numbers and cross, or a bound doesn't broadcast to x.
        NotImplementedError: in forward mode.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([0.01, 3.0, -3.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = tf.reduce_sum(gl.clip_gradient_by_value(x, -1.0, 1.0) ** 2)
    >>> print(tape.gradient(loss, x).numpy())
    [ 0.02  1.   -1.  ]
    """
    op = "clip_gradient_by_value"
    x = gradient_tensor(op, "x", x)
    refuse_complex_tensor(op, "x", x, "Clip by norm, or its real and imaginary parts apart.")
    low, high = clip_values(op, clip_value_min, clip_value_max, x)
    return pass_through(op, x, _clamped, [low, high], no_forward_mode(op))


def _one_per_norm(op, clip_norm, axes, x):
    """The clip_norm, if its shape is that of a scalar or broadcasts against the norms."""
    if axes is None:
        return scalar(op, "clip_norm", clip_norm, "For a limit per norm, give axes.")
    if x.shape.rank is not None:
        spanned = {axis % x.shape.rank for axis in axes}
        sizes = [1 if axis in spanned else size for axis, size in enumerate(x.shape)]
        check_broadcast(op, "clip_norm", clip_norm, tf.TensorShape(sizes), "the norms")
    return clip_norm


def _clamped(upstream, low, high):
    # Not the ClipByValue kernel: compiled by XLA, it turns NaN into the lower bound.
    return tf.maximum(tf.minimum(upstream, high), low)


@unconverted
def clip_gradient_by_norm(x, clip_norm, axes=None):
    """Return x, and shorten the gradient to a norm.

    ::

        forward:  y = x
        gradient: g · min(1, clip_norm / ‖g‖)          (g: upstream, ‖·‖ Euclidean, over axes)

    The norm neither overflows nor underflows: half precision computes in float32, and every
    dtype relative to the largest element. g = 0 gives 0. With clip_norm = ∞ g passes unchanged,
    with 0 it is 0. Where elements of g are infinite the gradient is the limit: they share
    clip_norm, the finite ones are 0; that hides an overflow from an optimizer that scales the
    loss. A NaN makes everything it shares a norm with NaN. No forward mode: the rule isn't linear
    in g.

    Args:
        x: float or complex tensor.
        clip_norm: number or scalar tensor, not negative (checked where it is a number). With
            ``axes``, also a tensor that broadcasts against the norms, taken with kept dimensions.
        axes: int or ints, the axes that one norm spans; None for all of them. To clip each
            example of a batch by itself, leave the batch axis out.

    Returns:
        A tensor equal to x.

    Raises:
        TypeError: x isn't one dense float tensor, clip_norm no number, or axes not integers.
        ValueError: clip_norm is negative, or an axis is out of range.
        NotImplementedError: in forward mode.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([3.0, 4.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = tf.reduce_sum(gl.clip_gradient_by_norm(x, 1.0) ** 2)
    >>> print(tape.gradient(loss, x).numpy().round(2))
    [0.6 0.8]
    """
    op = "clip_gradient_by_norm"
    x = gradient_tensor(op, "x", x)
    clip_norm = parameter(op, "clip_norm", clip_norm, _wide([x]))
    check_not_negative(op, "clip_norm", clip_norm)
    axes = as_axes(op, "axes", axes)
    check_axes(op, "axes", axes, x.shape, "x")
    clip_norm = _one_per_norm(op, clip_norm, axes, x)

    def rule(upstream, clip_norm):
        return _shortened([upstream], clip_norm, axes)[0]

    return pass_through(op, x, rule, [clip_norm], no_forward_mode(op))


@unconverted
def clip_gradients_by_global_norm(xs, clip_norm):
    """Return xs, and shorten their gradients jointly, which keeps the direction of the whole.

    ::

        forward:  y₁ … = x₁ …
        gradient: gᵢ · min(1, clip_norm / √(‖g₁‖² + …))          (gᵢ: upstream of xᵢ)

    What no loss depends on counts as a zero upstream. Numbers are treated as in
    ``clip_gradient_by_norm``. No forward mode: the rule isn't linear in the upstreams.

    Args:
        xs: structure (list, dict, …) of float or complex tensors, of any shapes and dtypes.
        clip_norm: number or scalar tensor, not negative (checked where it is a number).

    Returns:
        The same structure, of tensors equal to xs.

    Raises:
        TypeError: xs holds something that isn't a dense float tensor, or clip_norm is no number.
        ValueError: xs is empty, or clip_norm is negative.
        NotImplementedError: in forward mode.

    Source: Pascanu, Mikolov and Bengio, On the Difficulty of Training Recurrent Neural Networks,
    2013.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = {"a": tf.constant(3.0), "b": tf.constant(4.0)}
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = gl.clip_gradients_by_global_norm(x, 1.0)
    ...     loss = y["a"] ** 2 + y["b"] ** 2
    >>> {name: round(g.numpy().item(), 2) for name, g in tape.gradient(loss, x).items()}
    {'a': 0.6, 'b': 0.8}
    """
    op = "clip_gradients_by_global_norm"
    flat = [gradient_tensor(op, f"xs[{i}]", x) for i, x in enumerate(tf.nest.flatten(xs))]
    if not flat:
        raise ValueError(f"{op}: xs holds no tensors. Leave the op out.")
    clip_norm = parameter(op, "clip_norm", clip_norm, _wide(flat))
    check_not_negative(op, "clip_norm", clip_norm)
    clip_norm = scalar(op, "clip_norm", clip_norm, "For a limit each, use clip_gradient_by_norm.")
    ys = substitute(op, flat, flat, _joint, [clip_norm], no_forward_mode(op))
    return tf.nest.pack_sequence_as(xs, ys)


def _joint(upstreams, params):
    return _shortened(upstreams, params[0], None)


def _wide(tensors):
    """The dtype in which norms of ``tensors`` are taken."""
    doubles = (tf.float64, tf.complex128)
    return tf.float64 if any(t.dtype in doubles for t in tensors) else tf.float32


def _shortened(gs, clip_norm, axes):
    """Shorten ``gs`` so that their joint norm over ``axes`` is at most ``clip_norm``."""
    parts = [_real_parts(g, _wide(gs)) for g in gs]
    shortened = iter(_shortened_parts([p for ps in parts for p in ps], clip_norm, axes))
    return [
        _recombined([next(shortened) for _ in ps], g.dtype) for g, ps in zip(gs, parts, strict=True)
    ]


def _real_parts(g, dtype):
    parts = [tf.math.real(g), tf.math.imag(g)] if g.dtype.is_complex else [g]
    return [tf.cast(part, dtype) for part in parts]


def _recombined(parts, dtype):
    if dtype.is_complex:
        return tf.cast(tf.complex(*parts), dtype)
    return tf.cast(parts[0], dtype)


def _shortened_parts(parts, clip_norm, axes):
    """Each part relative to the largest element, so that no square over- or underflows."""
    keepdims = axes is not None
    peaks = [tf.reduce_max(tf.abs(p), axes, keepdims) for p in parts]
    peak = peaks[0] if len(peaks) == 1 else tf.reduce_max(tf.stack(peaks), 0)
    # What we divide by cancels out of the result: no gradient of second order belongs to it.
    unit = tf.stop_gradient(tf.where(peak > 0, peak, tf.ones_like(peak)))
    # Infinite elements outweigh the finite ones, alike: ±1 each, and ∞/∞ never arises.
    ratios = [tf.where(tf.math.is_inf(p), tf.sign(p), p / unit) for p in parts]
    squares = tf.add_n([tf.reduce_sum(tf.square(r), axes, keepdims) for r in ratios])
    # At least the largest element's own 1; the maximum keeps the root's slope finite at g = 0.
    length = tf.sqrt(tf.maximum(squares, 1.0))
    fits = (peak * length <= clip_norm) & (clip_norm > 0)
    factor = clip_norm / length
    return [tf.where(fits, p, r * factor) for p, r in zip(parts, ratios, strict=True)]
