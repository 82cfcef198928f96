"""Norms that neither overflow nor underflow, of tensors and IndexedSlices alike.

A norm comes as two tensors, unit · length: unit is the largest element, so that no square of what
is measured in it is too large or too small. A leaf is a gradient: a tensor or IndexedSlices.
"""

import functools

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

# Between these the sum of squares of float32 gradients has lost nothing that matters: what
# underflows in it is below 1e-38 per element, what overflows is infinite.
_ORDINARY_SQUARES = (1e-20, 1e30)
# Above it, a bound over an ordinary norm is a factor that float32 doesn't flush to zero.
_ORDINARY_BOUND = 1e-20
_DOUBLES = (tf.float64, tf.complex128)


def values_of(leaf):
    """The tensor of a leaf."""
    return leaf.values if isinstance(leaf, tf.IndexedSlices) else leaf


def with_values(leaf, values):
    """A leaf like this one, with other values."""
    if isinstance(leaf, tf.IndexedSlices):
        return tf.IndexedSlices(values, leaf.indices, leaf.dense_shape)
    return values


def summed(leaf):
    """IndexedSlices that name each row once, in a dtype their sums don't overflow."""
    if not isinstance(leaf, tf.IndexedSlices):
        return leaf
    rows, place = tf.unique(leaf.indices)
    values = tf.cast(leaf.values, wide(leaf.dtype, keep_complex=True))
    sums = tf.math.unsorted_segment_sum(values, place, tf.shape(rows)[0])
    return tf.IndexedSlices(sums, rows, leaf.dense_shape)


def of_sums(function, leaf):
    """``function(values, rows)`` of a leaf that names no row twice; rows is None for all."""
    if leaf is None:
        return None
    once = summed(leaf)
    rows = once.indices if isinstance(once, tf.IndexedSlices) else None
    return with_values(once, tf.cast(function(values_of(once), rows), leaf.dtype))


def packed(gradients, leaves):
    """The structure of gradients, of these leaves."""
    return tf.nest.pack_sequence_as(gradients, leaves)


def among_nones(leaves, given):
    """What is given, in order, where leaves has something, and None where it has None."""
    given = iter(given)
    return [None if leaf is None else next(given) for leaf in leaves]


def real_parts(values):
    """One or, for complex values, two real tensors."""
    return [tf.math.real(values), tf.math.imag(values)] if values.dtype.is_complex else [values]


def recombined(parts, dtype):
    """What ``real_parts`` took apart."""
    return tf.cast(tf.complex(*parts), dtype) if dtype.is_complex else tf.cast(parts[0], dtype)


def wide(dtype, keep_complex=False):
    """The dtype in which norms are taken."""
    if keep_complex and dtype.is_complex:
        return dtype
    return tf.float64 if dtype in _DOUBLES else tf.float32


def widest(dtypes):
    """The dtype in which a norm over several dtypes is taken."""
    return tf.float64 if any(dtype in _DOUBLES for dtype in dtypes) else tf.float32


def at_least_zero(bound, dtype):
    """A bound as a tensor of ``dtype``, where a negative one counts as 0."""
    return tf.maximum(tf.cast(bound, dtype), tf.zeros((), dtype))


def norm_of(values, axes):
    """Unit and length of values: scalars if axes is None, else with the axes kept, of size 1."""
    keep = axes is not None
    parts = [tf.cast(part, wide(values.dtype)) for part in real_parts(values)]
    peak = functools.reduce(tf.maximum, [tf.reduce_max(tf.abs(p), axes, keep) for p in parts])
    # What is smaller is subnormal: some kernels take that for 0, and would divide by it.
    usable = (peak >= _tiny(peak.dtype)) & (peak < float("inf"))
    # The unit cancels out of the norm: no gradient belongs to it.
    unit = tf.stop_gradient(tf.where(usable, peak, tf.ones_like(peak)))
    squares = tf.add_n([tf.reduce_sum(tf.square(p / unit), axes, keep) for p in parts])
    return unit, _root(squares)


def _tiny(dtype):
    """The smallest number that isn't subnormal; that of float32 is 2⁻¹²⁶."""
    return np.finfo(dtype.as_numpy_dtype).tiny


def joined(norms):
    """Unit and length of what has the given units and lengths, all of one shape, as its parts."""
    units, lengths = (tf.stack(column) for column in zip(*norms, strict=True))
    peak = tf.reduce_max(tf.where(lengths > 0, units, tf.zeros_like(units)), 0)
    unit = tf.stop_gradient(tf.where(peak > 0, peak, tf.ones_like(peak)))
    return unit, _root(tf.reduce_sum(tf.square(units / unit * lengths), 0))


def _root(squares):
    """The square root, with slope 0 at 0."""
    positive = squares > 0
    return tf.where(positive, tf.sqrt(tf.where(positive, squares, tf.ones_like(squares))), squares)


def shortened(values, unit, length, bound):
    """Values, or where their norm exceeds the bound or isn't finite: that direction, or NaN."""
    fits, factor = _fit(unit, length, bound)
    parts = [tf.cast(part, unit.dtype) for part in real_parts(values)]
    result = recombined([tf.where(fits, p, p / unit * factor) for p in parts], values.dtype)
    result.set_shape(values.shape)
    return result


def _fit(unit, length, bound):
    """Whether a norm is within the bound, and the factor for what is measured in units if not."""
    finite = tf.math.is_finite(length)
    fits = finite & (unit * length <= bound)
    # Where it fits, the factor is finite all the same, for the sake of the gradient of a choice.
    least = tf.where(fits, tf.zeros_like(length), bound)
    return fits, tf.where(finite, least / tf.where(length > 0, length, 1), float("nan"))


def shortened_units(bound, axes, values, rows):
    """Values, each unit of which spans axes and has its bound."""
    if rows is not None and 0 not in axes:
        bound = tf.gather(bound, rows)
    unit, length = norm_of(values, axes)
    return shortened(values, unit, length, tf.cast(bound, unit.dtype))


def shortened_to_rms(threshold, size, values, _):
    """Values, with their root mean square over ``size`` elements no more than the threshold."""
    unit, length = norm_of(values, None)
    root = tf.sqrt(tf.cast(tf.maximum(size, 1), unit.dtype))
    return shortened(values, unit, length / root, at_least_zero(threshold, unit.dtype))


def example_norms(leaf, examples, dtype):
    """Unit and length of each example, [examples] both."""
    values = values_of(leaf)
    unit, length = (
        tf.reshape(norm, [-1]) for norm in norm_of(values, tf.range(1, tf.rank(values)))
    )
    if isinstance(leaf, tf.IndexedSlices):
        unit, length = (
            tf.math.unsorted_segment_sum(norm, leaf.indices, examples) for norm in (unit, length)
        )
    return tf.cast(unit, dtype), tf.cast(length, dtype)


def shortened_examples(leaf, unit, length, bound):
    """A leaf whose examples have the given units and lengths, jointly with other leaves."""
    values = values_of(leaf)
    if isinstance(leaf, tf.IndexedSlices):
        unit, length = (tf.gather(norm, leaf.indices) for norm in (unit, length))
    ones = tf.ones([tf.rank(values) - 1], tf.int32)
    shape = tf.concat([tf.shape(unit), ones], 0)
    unit, length = tf.reshape(unit, shape), tf.reshape(length, shape)
    return with_values(leaf, shortened(values, unit, length, bound))


def jointly_shortened(leaves, bound, dtype):
    """Leaves shortened to a joint norm, and the norm before.

    Of ordinary gradients one look at each is enough for the norm; very large, very small, zero and
    non-finite ones take the careful way.
    """
    if not leaves:
        return [], tf.zeros((), dtype)
    once = [values_of(summed(leaf)) for leaf in leaves]
    half = tf.reduce_sum(tf.stack([_cast(_half_square(values), dtype) for values in once]))
    least, most = _ORDINARY_SQUARES
    ordinary = (half > least) & (half < most) & (bound > _ORDINARY_BOUND)
    found = tf.cond(
        ordinary,
        lambda: _ordinary_factors(tf.sqrt(2 * half), bound),
        lambda: _careful_factors(once, bound, dtype),
    )
    _keep_whole(found[0])
    norm, first, second = found
    second = _apart(second)
    clipped = [_scaled(values_of(leaf), first, second) for leaf in leaves]
    return [with_values(*pair) for pair in zip(leaves, clipped, strict=True)], norm


def _ordinary_factors(norm, bound):
    # In a graph, both branches must give tensors; in eager mode, None spares a product with 1.
    one = None if tf.executing_eagerly() else tf.ones_like(norm)
    return norm, one, tf.minimum(bound, norm) / norm


def _careful_factors(values, bound, dtype):
    norms = [[_cast(part, dtype) for part in norm_of(each, None)] for each in values]
    unit, length = joined(norms)
    fits, factor = _fit(unit, length, bound)
    # Not the unit if its reciprocal is, or may be computed as, subnormal: that's taken for 0.
    measure = tf.minimum(unit, 0.25 / _tiny(dtype))
    first = tf.where(fits, tf.ones_like(unit), 1 / measure)
    return unit * length, first, tf.where(fits, tf.ones_like(unit), factor * (measure / unit))


def _keep_whole(result):
    """Let the ``tf.cond`` that gave ``result`` run as one node, if in a graph.

    TensorFlow takes conditionals apart into a node per input and branch, which costs more than
    the branch that is chosen, as each gradient is an input.
    """
    if tf.executing_eagerly():
        return
    op = result.op.inputs[0].op if result.op.type == "Identity" else result.op
    op._set_attr("_lower_using_switch_merge", attr_value_pb2.AttrValue(b=False))


def _apart(factor):
    """A factor that a graph doesn't multiply with another before it meets a gradient.

    TensorFlow turns (g · a) · b into g · (a · b) where a and b have the shape of scalars.
    """
    if tf.executing_eagerly():
        return factor
    return tf.raw_ops.PlaceholderWithDefault(input=factor, shape=None)


def _half_square(values):
    halves = [tf.nn.l2_loss(_cast(part, wide(values.dtype))) for part in real_parts(values)]
    return halves[0] if len(halves) == 1 else tf.add_n(halves)


def _scaled(values, first, second):
    """Values times two factors, whose product may be too small for a float."""
    parts = [_cast(part, second.dtype) for part in real_parts(values)]
    parts = parts if first is None else [part * first for part in parts]
    parts = [part * second for part in parts]
    result = parts[0] if values.dtype == second.dtype else recombined(parts, values.dtype)
    result.set_shape(values.shape)
    return result


def _cast(values, dtype):
    """Cast as ``tf.cast`` does, without its cost where there's nothing to do."""
    return values if values.dtype == dtype else tf.cast(values, dtype)


def all_shortened(leaves, unit, length, bound):
    """Leaves that share one norm."""
    return [with_values(leaf, shortened(values_of(leaf), unit, length, bound)) for leaf in leaves]
