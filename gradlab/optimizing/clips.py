"""Clips over structures of gradients: functions of tensors, for a loop or an optimizer."""

import functools

import keras
import tensorflow as tf

from gradlab.ops.arguments import as_axes, check_axes, unconverted
from gradlab.optimizing.arguments import (
    as_scalar,
    check_ordered,
    count_examples,
    leaves_of,
    partners_of,
    refuse_complex,
    size_of,
    unit_axes,
)
from gradlab.optimizing.norms import (
    all_shortened,
    among_nones,
    at_least_zero,
    example_norms,
    joined,
    jointly_shortened,
    norm_of,
    of_sums,
    packed,
    shortened,
    shortened_examples,
    shortened_to_rms,
    shortened_units,
    summed,
    widest,
)


def _serializable(function):
    """Give ``function`` a name under which a saved optimizer finds it, and keep autograph out."""
    return keras.saving.register_keras_serializable("gradlab")(unconverted(function))


@_serializable
def clip_by_value(gradients, clip_value_min, clip_value_max, *, nonfinite="propagate"):
    """Clamp each element of each gradient between two bounds.

    ::

        forward:  y = max(min(g, clip_value_max), clip_value_min)          (g: one element)
        gradient: 1 where g is inside the bounds, else 0

    An infinite element becomes a bound; NaN stays NaN. Of IndexedSlices, duplicate indices are
    summed first, and rows that they don't mention stay unmentioned, even where 0 is out of bounds.

    Args:
        gradients: structure (list, dict, …) of float tensors and IndexedSlices of any shape, and
            None, which stays None.
        clip_value_min: number or scalar tensor, cast to the dtype of each gradient.
        clip_value_max: likewise; either may be infinite. Where tensors whose values aren't known
            while tracing cross, the lower bound wins.
        nonfinite: what to do about infinite and NaN elements: ``"propagate"`` lets them take
            their course, ``"zero"`` puts 0 in their place first, ``"raise"`` raises and names
            the gradient.

    Returns:
        The same structure.

    Raises:
        TypeError: a gradient is no tensor, complex or an integer, or a bound is no number.
        ValueError: the bounds cross, or are NaN or no scalars, or nonfinite is none of the three.
        tf.errors.InvalidArgumentError: nonfinite="raise", and a gradient isn't finite.
        NotImplementedError: nonfinite="raise" under jit_compile, where nothing can raise.

    >>> import gradlab as gl, tensorflow as tf
    >>> clipped = gl.clip_by_value({"w": tf.constant([3.0, -0.5]), "b": None}, -1.0, 1.0)
    >>> clipped["w"].numpy().tolist(), clipped["b"]
    ([1.0, -0.5], None)
    """
    op = "clip_by_value"
    leaves = leaves_of(op, gradients, nonfinite)
    low = as_scalar(op, "clip_value_min", clip_value_min)
    high = as_scalar(op, "clip_value_max", clip_value_max)
    check_ordered(op, low, high)

    def clamp(values, _):
        refuse_complex(op, values)
        clamped = tf.minimum(values, tf.cast(high, values.dtype))
        return tf.maximum(clamped, tf.cast(low, values.dtype))

    return packed(gradients, [of_sums(clamp, leaf) for leaf in leaves])


@_serializable
def clip_by_norm(gradients, clip_norm, axes=None, *, nonfinite="propagate"):
    """Shorten each gradient by itself to a norm.

    ::

        forward:  yᵢ = gᵢ · min(1, clip_norm / ‖gᵢ‖)          (‖·‖ Euclidean, over axes)
        gradient: that of the formula, finite at gᵢ = 0 too

    This bends the direction of the whole: ``clip_by_global_norm`` doesn't. Norms neither overflow
    nor underflow (half precision computes in float32, every dtype relative to its largest
    element), but TensorFlow's kernels take subnormal numbers for 0. Of IndexedSlices, duplicate
    indices are summed first; the result is IndexedSlices without duplicates.

    Args:
        gradients: structure (list, dict, …) of float or complex tensors and IndexedSlices, and
            None, which stays None.
        clip_norm: number or scalar tensor, in the unit of the gradients. Infinite means don't
            clip; 0 gives zeros. A negative value that isn't known while tracing counts as 0.
        axes: int or ints, the axes that one norm spans, for every gradient; None for all axes.
        nonfinite: ``"propagate"``: everything that shares a norm with an infinite or NaN element
            becomes NaN, so that nobody takes it for a step. ``"zero"`` puts 0 in place of such
            elements first. ``"raise"`` raises and names the gradient.

    Returns:
        The same structure.

    Raises:
        TypeError: a gradient is no float tensor, clip_norm no number, or axes no integers.
        ValueError: clip_norm is negative, NaN or no scalar, or a gradient lacks one of the axes.
        tf.errors.InvalidArgumentError: nonfinite="raise", and a gradient isn't finite.
        NotImplementedError: nonfinite="raise" under jit_compile, where nothing can raise.

    >>> import gradlab as gl, tensorflow as tf
    >>> print(gl.clip_by_norm([tf.constant([3.0, 4.0])], 1.0)[0].numpy().round(2))
    [0.6 0.8]
    """
    op = "clip_by_norm"
    leaves = leaves_of(op, gradients, nonfinite)
    bound = as_scalar(op, "clip_norm", clip_norm, low=0)
    axes = as_axes(op, "axes", axes)

    def shorten(values, _):
        check_axes(op, "axes", axes, values.shape, "a gradient")
        unit, length = norm_of(values, axes)
        return shortened(values, unit, length, at_least_zero(bound, unit.dtype))

    return packed(gradients, [of_sums(shorten, leaf) for leaf in leaves])


@_serializable
def clip_by_global_norm(gradients, clip_norm, *, use_norm=None, nonfinite="propagate"):
    """Shorten all gradients jointly to a norm, which keeps the direction of the whole.

    ::

        forward:  yᵢ = gᵢ · min(1, clip_norm / ‖g‖),   ‖g‖ = √(‖g₁‖² + …)
        gradient: that of the formula, finite at g = 0 too

    As ``tf.clip_by_global_norm``, and with its two results. Beyond it: any structure; duplicate
    indices of IndexedSlices are summed before the norm is taken (the result keeps them); norms
    neither overflow nor underflow. TensorFlow's kernels take subnormal numbers for 0.

    Args:
        gradients: structure (list, dict, …) of float or complex tensors and IndexedSlices, of any
            shapes and dtypes, and None, which stays None.
        clip_norm: number or scalar tensor, in the unit of the gradients. Infinite means don't
            clip; 0 gives zeros. A negative value that isn't known while tracing counts as 0.
        use_norm: number or scalar tensor, the norm to go by, where it is known already.
        nonfinite: ``"propagate"``: with one infinite or NaN element every gradient becomes NaN,
            as in TensorFlow, so that nobody takes it for a step. ``"zero"`` puts 0 in place of
            such elements first. ``"raise"`` raises and names the gradient.

    Returns:
        A pair: the same structure, clipped; and ‖g‖ before clipping, a scalar, float32, or
        float64 where a gradient is of double precision. Without any gradient the norm is 0.

    Raises:
        TypeError: a gradient is no float tensor, or clip_norm no number.
        ValueError: clip_norm is negative, NaN or no scalar, or nonfinite is none of the three.
        tf.errors.InvalidArgumentError: nonfinite="raise", and a gradient isn't finite.
        NotImplementedError: nonfinite="raise" under jit_compile, where nothing can raise.

    Source: Pascanu, Mikolov and Bengio, On the Difficulty of Training Recurrent Neural Networks,
    2013.

    >>> import gradlab as gl, tensorflow as tf
    >>> clipped, norm = gl.clip_by_global_norm([tf.constant(3.0), None, tf.constant(4.0)], 1.0)
    >>> norm.numpy().item(), [g if g is None else round(g.numpy().item(), 2) for g in clipped]
    (5.0, [0.6, None, 0.8])
    """
    op = "clip_by_global_norm"
    leaves = leaves_of(op, gradients, nonfinite)
    bound = as_scalar(op, "clip_norm", clip_norm, low=0)
    given = [leaf for leaf in leaves if leaf is not None]
    dtype = widest([leaf.dtype for leaf in given])
    bound = at_least_zero(bound, dtype)
    if use_norm is not None:
        norm = tf.cast(as_scalar(op, "use_norm", use_norm, low=0, nan=True), dtype)
        shortened = all_shortened(given, tf.ones((), dtype), norm, bound)
    else:
        shortened, norm = jointly_shortened(given, bound, dtype)
    return packed(gradients, among_nones(leaves, shortened)), norm


@_serializable
def adaptive_clip(gradients, weights, clipping=0.01, eps=1e-3, axes=None, *, nonfinite="propagate"):
    """Shorten the gradient of each unit to a fraction of the norm of the unit's weights.

    ::

        forward:  yⱼ = gⱼ · min(1, clipping · max(‖wⱼ‖, eps) / ‖gⱼ‖)          (j: one unit)
        gradient: that of the formula, finite at gⱼ = 0 too

    A unit is what one output of a layer sees: an index of the last axis of a kernel as Keras lays
    it out (dense: input × output; convolution: … × input × output). A depthwise kernel has its
    channels in the last two: clip it apart, with ``axes=(0, 1)``. Gradients of rank 0 and 1,
    biases and gains, are one unit. The paper leaves the last layer alone: so can the caller.
    Norms are treated as in ``clip_by_norm``.

    Args:
        gradients: structure (list, dict, …) of float or complex tensors and IndexedSlices of
            known rank, and None, which stays None.
        weights: the same structure of tensors or variables, each of its gradient's shape.
        clipping: number or scalar tensor, the fraction λ, without unit.
        eps: number or scalar tensor, the least norm a unit counts as having, so that weights that
            start at 0 can move.
        axes: int or ints, what a unit spans in gradients of rank 2 and more; None for all axes
            but the last.
        nonfinite: as in ``clip_by_norm``; what shares a norm is a unit.

    Returns:
        The structure of the gradients.

    Raises:
        TypeError: a gradient is no float tensor, or clipping or eps is no number.
        ValueError: weights don't match the gradients; a rank is unknown; clipping or eps is
            negative, NaN or no scalar; an axis is missing.
        tf.errors.InvalidArgumentError: nonfinite="raise", and a gradient isn't finite.
        NotImplementedError: nonfinite="raise" under jit_compile, where nothing can raise.

    Source: Brock, De, Smith and Simonyan, High-Performance Large-Scale Image Recognition Without
    Normalization, 2021.

    >>> import gradlab as gl, tensorflow as tf
    >>> kernel = tf.constant([[3.0], [4.0]])          # one unit, of norm 5
    >>> print(gl.adaptive_clip([10 * kernel], [kernel], clipping=0.1)[0].numpy().round(3))
    [[0.3]
     [0.4]]
    """
    op = "adaptive_clip"
    leaves = leaves_of(op, gradients, nonfinite)
    partners = partners_of(op, gradients, leaves, weights)
    clipping = as_scalar(op, "clipping", clipping, low=0)
    eps = as_scalar(op, "eps", eps, low=0)
    axes = as_axes(op, "axes", axes)

    def shorten(leaf, weight):
        if leaf is None:
            return None
        spanned = unit_axes(op, weight, axes)
        unit, length = norm_of(weight, spanned)
        least = at_least_zero(eps, unit.dtype)
        bound = at_least_zero(clipping, unit.dtype) * tf.maximum(unit * length, least)
        return of_sums(functools.partial(shortened_units, bound, spanned), leaf)

    pairs = zip(leaves, partners, strict=True)
    return packed(gradients, [shorten(leaf, weight) for leaf, weight in pairs])


@_serializable
def clip_by_block_rms(gradients, threshold, *, nonfinite="propagate"):
    """Shorten each gradient by itself to a root mean square.

    ::

        forward:  yᵢ = gᵢ · min(1, threshold / rms(gᵢ)),   rms(g) = ‖g‖ / √(number of elements)
        gradient: that of the formula, finite at gᵢ = 0 too

    Unlike a norm, the threshold means the same for large and small gradients. Numbers and
    IndexedSlices are treated as in ``clip_by_norm``; rows that slices don't mention count as 0.

    Args:
        gradients: structure (list, dict, …) of float or complex tensors and IndexedSlices (with
            their dense_shape), and None, which stays None.
        threshold: number or scalar tensor, in the unit of the gradients. Infinite means don't
            clip; 0 gives zeros. A negative value that isn't known while tracing counts as 0.
        nonfinite: as in ``clip_by_norm``.

    Returns:
        The same structure.

    Raises:
        TypeError: a gradient is no float tensor, or threshold no number.
        ValueError: threshold is negative, NaN or no scalar, or slices have no dense_shape.
        tf.errors.InvalidArgumentError: nonfinite="raise", and a gradient isn't finite.
        NotImplementedError: nonfinite="raise" under jit_compile, where nothing can raise.

    Source: Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost, 2018.

    >>> import gradlab as gl, tensorflow as tf
    >>> gl.clip_by_block_rms([tf.constant([6.0, 6.0, 6.0])], 2.0)[0].numpy().round(2).tolist()
    [2.0, 2.0, 2.0]
    """
    op = "clip_by_block_rms"
    leaves = leaves_of(op, gradients, nonfinite)
    threshold = as_scalar(op, "threshold", threshold, low=0)

    def shorten(leaf):
        if leaf is None:
            return None
        size = size_of(op, leaf)
        return of_sums(functools.partial(shortened_to_rms, threshold, size), leaf)

    return packed(gradients, [shorten(leaf) for leaf in leaves])


@_serializable
def per_example_clip(gradients, clip_norm, *, nonfinite="propagate"):
    """Shorten the gradient of each example to a norm, taken over all weights jointly.

    ::

        forward:  yᵢ[b] = gᵢ[b] · min(1, clip_norm / ‖g[b]‖),   ‖g[b]‖ = √(‖g₁[b]‖² + …)
        gradient: that of the formula, finite at g[b] = 0 too

    The first step of differentially private SGD: then sum over the examples, add noise, and
    divide. Nothing is summed here, so that the caller may also mask or count. Numbers are treated
    as in ``clip_by_norm``.

    Args:
        gradients: structure (list, dict, …) of float or complex tensors and IndexedSlices (with
            their dense_shape), [examples, …] each, as ``tape.jacobian`` of the losses gives; and
            None, which stays None.
        clip_norm: number or scalar tensor, in the unit of the gradients. Infinite means don't
            clip; 0 gives zeros. A negative value that isn't known while tracing counts as 0.
        nonfinite: as in ``clip_by_norm``; what shares a norm is an example.

    Returns:
        A pair: the same structure, clipped; and the norms before clipping, [examples], float32,
        or float64 where a gradient is of double precision.

    Raises:
        TypeError: a gradient is no float tensor, or clip_norm no number.
        ValueError: gradients are scalars or differ in their number of examples, there are none,
            or clip_norm is negative, NaN or no scalar.
        tf.errors.InvalidArgumentError: nonfinite="raise", and a gradient isn't finite.
        NotImplementedError: nonfinite="raise" under jit_compile, where nothing can raise.

    Source: Abadi et al., Deep Learning with Differential Privacy, 2016.

    >>> import gradlab as gl, tensorflow as tf
    >>> clipped, norms = gl.per_example_clip([tf.constant([[3.0, 4.0], [0.3, 0.4]])], 1.0)
    >>> print(tf.reduce_mean(clipped[0], 0).numpy().round(2), norms.numpy())
    [0.45 0.6 ] [5.  0.5]
    """
    op = "per_example_clip"
    leaves = leaves_of(op, gradients, nonfinite)
    bound = as_scalar(op, "clip_norm", clip_norm, low=0)
    given = [summed(leaf) for leaf in leaves if leaf is not None]
    examples = count_examples(op, given)
    dtype = widest([leaf.dtype for leaf in given])
    unit, length = joined([example_norms(leaf, examples, dtype) for leaf in given])
    bound = at_least_zero(bound, dtype)
    shortened = [shortened_examples(leaf, unit, length, bound) for leaf in given]
    return packed(gradients, among_nones(leaves, shortened)), unit * length
