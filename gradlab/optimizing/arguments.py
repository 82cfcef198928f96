"""What the clips do with their arguments: flatten, check, and name them in errors."""

import keras
import tensorflow as tf
from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext

from gradlab.ops.arguments import check_axes, choice, gradient_tensor, is_number, scalar
from gradlab.optimizing.norms import real_parts, recombined, values_of, with_values

_POLICIES = ("propagate", "raise", "zero")


def leaves_of(op, gradients, nonfinite):
    """The gradients of a structure in a flat list: tensors, IndexedSlices and None."""
    choice(op, "nonfinite", nonfinite, _POLICIES)
    if gradients is None:
        raise TypeError(
            f"{op}: gradients must be a structure of tensors, got None: the tape found no way "
            f"from the loss to the variable. Leave it out, or put it into a list."
        )
    flat = tf.nest.flatten(gradients)
    leaves = [_leaf(op, gradients, index, value) for index, value in enumerate(flat)]
    if nonfinite == "propagate":
        return leaves
    return [_made_finite(op, gradients, i, leaf, nonfinite) for i, leaf in enumerate(leaves)]


def _leaf(op, gradients, index, value):
    if value is None:
        return None
    if not isinstance(value, (tf.Tensor, tf.IndexedSlices)):
        value = _read(op, gradients, index, value)
    if not (value.dtype.is_floating or value.dtype.is_complex):
        raise TypeError(
            f"{op}: {_place(gradients, index)} must have a floating or complex dtype, got "
            f"{value.dtype.name}. Convert it first: tf.cast(gradient, tf.float32)."
        )
    return value


def _read(op, gradients, index, value):
    way_out = _way_out(value)
    if way_out:
        raise TypeError(
            f"{op}: {_place(gradients, index)} must be a tensor, IndexedSlices or None, got a "
            f"{type(value).__name__}. {way_out}"
        )
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{op}: {_place(gradients, index)} must be a tensor, IndexedSlices or None, got a "
            f"{type(value).__name__}, which can't become one: {error}"
        ) from error


def _way_out(value):
    if isinstance(value, (tf.Variable, keras.Variable)):
        return "Pass the gradients alone, without their variables."
    if isinstance(value, (bool, int, float, complex)):
        return "A list holds gradients, not their elements: make it one tensor, tf.constant(list)."
    if isinstance(value, tf.RaggedTensor):
        return "Pass its flat_values."
    if isinstance(value, tf.SparseTensor):
        return "Pass its values, or tf.sparse.to_dense(gradient)."
    if isinstance(value, (zip, map)):
        return "Pass a list of the gradients alone."
    return None


def _place(structure, index):
    """The leaf ``index`` of a structure, in the words of the caller: gradients['w'][0]."""
    path, _ = keras.tree.flatten_with_path(structure)[index]
    return "gradients" + "".join(f"[{key!r}]" for key in path)


def _made_finite(op, gradients, index, leaf, nonfinite):
    if leaf is None:
        return None
    if nonfinite == "zero":
        return with_values(leaf, _zeroed(values_of(leaf)))
    _refuse_xla(op)
    message = f"{op}: {_place(gradients, index)} isn't finite, and nonfinite='raise'"
    return with_values(leaf, _checked(values_of(leaf), message))


def _zeroed(values):
    parts = [tf.where(tf.math.is_finite(p), p, tf.zeros_like(p)) for p in real_parts(values)]
    return recombined(parts, values.dtype)


def _checked(values, message):
    parts = [tf.debugging.check_numerics(p, message) for p in real_parts(values)]
    return recombined(parts, values.dtype)


def _refuse_xla(op):
    if tf.executing_eagerly():
        return
    if GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
        raise NotImplementedError(
            f"{op}: nonfinite='raise' doesn't work under jit_compile=True: what XLA compiles can't "
            f"raise. Use 'zero' or 'propagate', or leave XLA out: model.compile(…, "
            f"jit_compile=False)."
        )


def as_scalar(op, argument, value, low=None, nan=False):
    """A parameter as a scalar tensor, of float64 where the caller gave a plain number."""
    tensor = _number(op, argument, value)
    tensor = scalar(op, argument, tensor, f"For one bound per gradient, call {op} for each.")
    known = tf.get_static_value(tensor)
    if known is not None and known != known and not nan:
        raise ValueError(f"{op}: {argument} must be a number, got NaN. Use inf for no limit.")
    if known is not None and low is not None and known < low:
        raise ValueError(
            f"{op}: {argument} must not be negative, got {known}. Use 0 to stop the gradients."
        )
    return tensor


def _number(op, argument, value):
    try:
        tensor = tf.convert_to_tensor(value, tf.float64 if is_number(value) else None)
    except (TypeError, ValueError) as error:
        raise TypeError(_no_number(op, argument, value)) from error
    if not (tensor.dtype.is_floating or tensor.dtype.is_integer):
        raise TypeError(_no_number(op, argument, value))
    return tensor


def _no_number(op, argument, value):
    got = getattr(value, "dtype", None) or repr(value)
    return f"{op}: {argument} must be a real number or scalar tensor, got {got}. Such as 1.0."


def check_ordered(op, low, high):
    """Refuse bounds that are known and cross."""
    low, high = tf.get_static_value(low), tf.get_static_value(high)
    if low is not None and high is not None and low > high:
        raise ValueError(
            f"{op}: clip_value_min must not exceed clip_value_max, got {low} and {high}. Swap them."
        )


def refuse_complex(op, values):
    """Refuse complex values, for which ``op`` has no meaning."""
    if values.dtype.is_complex:
        raise TypeError(
            f"{op}: gradients must be real, got {values.dtype.name}, which has no order. Use "
            f"clip_by_norm."
        )


def partners_of(op, gradients, leaves, weights):
    """The weight of each gradient, in a flat list."""
    try:
        tf.nest.assert_same_structure(gradients, weights, check_types=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{op}: weights must have the structure of gradients: {error}. Pass the variables "
            f"that the gradients belong to, in the same order."
        ) from error
    flat = tf.nest.flatten(weights)
    pairs = zip(leaves, flat, strict=True)
    return [_partner(op, gradients, i, *pair) for i, pair in enumerate(pairs)]


def _partner(op, gradients, index, leaf, weight):
    if leaf is None:
        return None
    place = _place(gradients, index)
    if weight is None:
        raise ValueError(f"{op}: weights has None for {place}, its weight must be given.")
    weight = gradient_tensor(op, f"the one of weights for {place}", weight)
    if not weight.shape.is_compatible_with(leaf.shape):
        raise ValueError(
            f"{op}: weights must have the shapes of their gradients, got {weight.shape} for "
            f"{place}, of shape {leaf.shape}. Pass the variables in the order of the gradients."
        )
    return weight


def unit_axes(op, weight, axes):
    """The axes that one unit of a weight spans, as a list of ints that aren't negative."""
    rank = weight.shape.rank
    if rank is None:
        raise ValueError(
            f"{op}: gradients and weights must have a known rank, which tells what a unit is; got "
            f"an unknown shape. Call tf.ensure_shape first."
        )
    if rank < 2:
        return list(range(rank))
    check_axes(op, "axes", axes, weight.shape, "a gradient")
    return sorted(axis % rank for axis in axes) if axes else list(range(rank - 1))


def size_of(op, leaf):
    """How many elements a gradient has, those that slices leave out too."""
    if not isinstance(leaf, tf.IndexedSlices):
        return tf.size(leaf, tf.int64)
    return tf.reduce_prod(tf.cast(_dense_shape_of(op, leaf), tf.int64))


def _dense_shape_of(op, leaf):
    if leaf.dense_shape is None:
        raise ValueError(
            f"{op}: IndexedSlices must have a dense_shape, which tells how many rows are 0; got "
            f"None. Give it one: tf.IndexedSlices(values, indices, dense_shape)."
        )
    return leaf.dense_shape


def count_examples(op, leaves):
    """How many examples there are, as a scalar tensor."""
    if not leaves:
        raise ValueError(f"{op}: gradients holds no gradient, so no examples. Leave {op} out.")
    shapes = [leaf.shape for leaf in leaves]
    if any(shape.rank == 0 for shape in shapes):
        raise ValueError(
            f"{op}: gradients must be [examples, …] each, got a scalar. Take the gradient of each "
            f"example's loss: tape.jacobian(losses, variables)."
        )
    known = {shape[0] for shape in shapes if shape.rank} - {None}
    if len(known) > 1:
        raise ValueError(
            f"{op}: gradients must agree in the number of examples, their first axis, got "
            f"{sorted(known)}. Take them of the same batch."
        )
    first = leaves[0]
    shape = _dense_shape_of(op, first) if isinstance(first, tf.IndexedSlices) else tf.shape(first)
    return shape[0]
