"""What every op does with its arguments: check them, name them in errors, leave autograph out."""

import functools
import numbers

import numpy as np
import tensorflow as tf
from tensorflow.python.autograph.core.ag_ctx import control_status_ctx
from tensorflow.python.autograph.impl.api import autograph_artifact, tf_convert


def unconverted(op):
    """Mark ``op`` as one that autograph calls as it is, without the cost of a wrapper."""
    return autograph_artifact(op)


def converted(function):
    """Return the caller's ``function`` as ``tf.function`` would trace it: ``if``, ``for`` work."""
    if tf.executing_eagerly():
        return function
    # In a partial, since tf_convert changes TensorFlow's own functions (tf.identity) in place.
    return tf_convert(functools.partial(function), control_status_ctx())


def result_of(op, argument, function, x):
    """Return ``function(x)``, if it is one tensor that has gradients."""
    if not callable(function):
        raise TypeError(
            f"{op}: {argument} must be callable, got {kind(function)}. Pass a function of x."
        )
    return gradient_tensor(op, f"what {argument} returned", converted(function)(x))


def gradient_tensor(op, argument, value):
    """Return ``value`` as a tensor that gradients can flow through, or say why it can't be one."""
    if not isinstance(value, tf.Tensor):
        value = _read(op, argument, value)
    # First the set: asking a dtype what it is takes longer than an op's own work.
    if value.dtype not in _USUAL and not (value.dtype.is_floating or value.dtype.is_complex):
        raise TypeError(
            f"{op}: {argument} must have a floating or complex dtype, got {value.dtype.name}: no "
            f"gradient flows through it. Convert it first: tf.cast({argument}, tf.float32)."
        )
    return value


_USUAL = frozenset((tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.complex64, tf.complex128))


def _read(op, argument, value):
    way_out = _way_out(op, argument, value)
    if way_out:
        raise TypeError(f"{op}: {argument} must be one dense tensor, got {kind(value)}. {way_out}")
    return _as_tensor(op, argument, value)


def _as_tensor(op, argument, value):
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{op}: {argument} must be a tensor, got {kind(value)}, which can't become one: {error}"
        ) from error


def kind(value):
    """Say in an error message what ``value`` is."""
    if isinstance(value, str):
        return repr(value)
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def _way_out(op, argument, value):
    if value is None:
        return "Where a gradient is None, leave the op out."
    if isinstance(value, (list, tuple, dict)):
        return f"For several tensors: tf.nest.map_structure(lambda t: {op}(t, ...), {argument})."
    if isinstance(value, tf.RaggedTensor):
        return f"For a ragged one: tf.ragged.map_flat_values(lambda t: {op}(t, ...), {argument})."
    if isinstance(value, tf.SparseTensor):
        return f"For a sparse one: {argument}.with_values({op}({argument}.values, ...))."
    if isinstance(value, tf.IndexedSlices):
        return f"Make it dense: tf.convert_to_tensor({argument})."
    if type(value).__name__ == "KerasTensor":
        return f"In a functional model: {layer_for(op, argument)}."
    return None


def layer_for(op, argument):
    """Return the call of a layer that does to a Keras tensor what ``op`` does to a tensor."""
    name, _, index = argument.partition("[")
    if op in _LAYERS and name == "x":
        return f"gradlab.layers.{_LAYERS[op]}({argument})"
    if op in _ACTIVATIONS and name == "x":
        return f"keras.layers.Activation(gradlab.{op})({argument})"
    if index or name == "x":
        return f"keras.layers.Lambda(lambda t: {op}(t, ...))({name})"
    return f"keras.layers.Lambda(lambda t: {op}(..., {name}=t))({name})"


_LAYERS = {
    "scale_gradient": "ScaleGradient(scale)",
    "reverse_gradient": "ReverseGradient(scale)",
    "clip_gradient_by_value": "ClipGradient(clip_value_min=…, clip_value_max=…)",
    "clip_gradient_by_norm": "ClipGradient(clip_norm=…)",
    "straight_through": "StraightThrough(forward)",
    "spike": "Spike(surrogate)",
    "numpy_op": "NumpyOp(forward, gradient)",
    "py_func": "NumpyOp(forward, gradient)",
}
# Those that a Keras layer takes as its activation.
_ACTIVATIONS = frozenset(
    (
        "approx_sign",
        "deconv_relu",
        "guided_relu",
        "heaviside_ste",
        "quantize_ste",
        "redirected_relu",
        "round_ste",
        "sign_ste",
        "swish_sign",
        "ternary_ste",
        "zero_nonfinite_gradient",
    )
)


def refuse_complex_tensor(op, argument, value, way_out):
    """Refuse a complex tensor, for which ``op`` has no meaning."""
    if value.dtype.is_complex:
        raise TypeError(f"{op}: {argument} must be real, got {value.dtype.name}. {way_out}")


def is_number(value):
    """Tell whether ``value`` is a plain number, known while tracing."""
    return isinstance(value, numbers.Number) and not isinstance(value, (bool, np.bool_))


def parameter(op, argument, value, dtype):
    """Return a number as it is, and anything else as a tensor of ``dtype``, cast if need be."""
    if is_number(value):
        _check_real(op, argument, isinstance(value, (complex, np.complexfloating)), value, dtype)
        return value
    value = number_tensor(op, argument, value)
    if value.dtype == dtype:
        return value
    _check_real(op, argument, value.dtype.is_complex, value, dtype)
    return tf.cast(value, dtype)


def number_tensor(op, argument, value):
    """Return ``value`` as a tensor of numbers of any kind."""
    if not isinstance(value, tf.Tensor):
        value = _read_parameter(op, argument, value)
    if value.dtype in _USUAL or value.dtype.is_integer or value.dtype.is_floating:
        return value
    raise TypeError(f"{op}: {argument} must be a number, got a {value.dtype.name} tensor.")


def _read_parameter(op, argument, value):
    if isinstance(value, (list, tuple)):
        return _as_tensor(op, argument, value)
    return _read(op, argument, value)


def _check_real(op, argument, is_complex, value, dtype):
    if is_complex and not dtype.is_complex:
        raise TypeError(
            f"{op}: {argument} must be real, as it meets {dtype.name}, got {value}. Pass its real "
            f"part, or its absolute value."
        )


def boolean(op, argument, value):
    """Return ``value`` as a bool tensor."""
    if not isinstance(value, tf.Tensor):
        value = _read_parameter(op, argument, value)
    if value.dtype != tf.bool:
        raise TypeError(
            f"{op}: {argument} must be boolean, got {value.dtype.name}. Say what counts as true, "
            f"such as {argument} != 0."
        )
    return value


def flag(op, argument, value):
    """Return what must be True or False while tracing."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise TypeError(f"{op}: {argument} must be True or False, got {value!r}.")


def choice(op, argument, value, choices):
    """Return ``value``, if it is one of some words."""
    if isinstance(value, str) and value in choices:
        return value
    wanted = " or ".join(map(repr, choices))
    raise ValueError(f"{op}: {argument} must be {wanted}, got {value!r}.")


def scalar(op, argument, value, way_out):
    """Return a number or scalar tensor; where a shape isn't known, TensorFlow checks it later."""
    if is_number(value) or value.shape.rank == 0:
        return value
    if value.shape.rank is None:
        return tf.ensure_shape(value, [])
    raise ValueError(f"{op}: {argument} must be a scalar, got shape {value.shape}. {way_out}")


def check_broadcast(op, argument, value, shape, of="x"):
    """Refuse a ``value`` whose static shape doesn't broadcast to ``shape``, but enlarges it."""
    if is_number(value) or value.shape.rank == 0:
        return
    try:
        fits = tf.broadcast_static_shape(value.shape, shape).is_compatible_with(shape)
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{op}: {argument} has shape {value.shape}, which doesn't broadcast to that of {of}, "
            f"{shape}. Give it the shape of {of}, or one with fewer axes or axes of length 1."
        )


def keeping_shape(value, x, params):
    """Return ``value``, made of x and ``params``: of the shape of x, which TensorFlow checks.

    Where shapes are known, ``check_broadcast`` has seen to it. Where they aren't, a parameter might
    enlarge it in silence.
    """
    if tf.executing_eagerly() or all(_surely_broadcasts(param, x) for param in params):
        return value
    return _same_size(value, x)


def _surely_broadcasts(param, x):
    if not tf.is_tensor(param) or param.shape.rank == 0:
        return True
    if None in (param.shape.rank, x.shape.rank) or param.shape.rank > x.shape.rank:
        return False
    own = param.shape.as_list()
    pairs = zip(own, x.shape.as_list()[x.shape.rank - len(own) :], strict=True)
    return all(size == 1 or size == of_x is not None for size, of_x in pairs)


def check_ordered(op, low_argument, low, high_argument, high):
    """Refuse two bounds that are numbers and cross."""
    if is_number(low) and is_number(high) and low > high:
        raise ValueError(
            f"{op}: {low_argument} must not exceed {high_argument}, got {low} and {high}. "
            f"Swap them."
        )


def clip_values(op, low, high, x):
    """Return the two bounds of a clip by value of ``x``."""
    low = parameter(op, "clip_value_min", low, x.dtype)
    high = parameter(op, "clip_value_max", high, x.dtype)
    check_ordered(op, "clip_value_min", low, "clip_value_max", high)
    check_broadcast(op, "clip_value_min", low, x.shape)
    check_broadcast(op, "clip_value_max", high, x.shape)
    return low, high


def check_not_negative(op, argument, value):
    """Refuse a limit that is a number and negative."""
    if is_number(value) and value < 0:
        raise ValueError(
            f"{op}: {argument} must not be negative, got {value}. Use 0 to block the gradient, "
            f"and reverse_gradient to reverse it."
        )


def as_axes(op, argument, axes):
    """Return ``axes`` as None or a list of ints."""
    if axes is None:
        return None
    axes = list(axes) if isinstance(axes, (list, tuple, range)) else [axes]
    if not all(isinstance(a, (int, np.integer)) and not isinstance(a, bool) for a in axes):
        raise TypeError(f"{op}: {argument} must be None, an int or ints, got {axes}.")
    return axes


_HIGHEST_RANK = 254  # that TensorFlow has


def check_axes(op, argument, axes, shape, of):
    """Refuse axes that a tensor of this shape doesn't have, or that are named twice."""
    rank = _HIGHEST_RANK if shape.rank is None else shape.rank
    if any(not -rank <= axis < rank for axis in axes or ()):
        raise ValueError(
            f"{op}: {argument} names an axis that {of}, of shape {shape}, doesn't have: got "
            f"{axes}. Give some of {-rank} to {rank - 1}, or None."
        )
    if axes and len({axis % rank for axis in axes}) < len(axes):
        raise ValueError(
            f"{op}: {argument} names an axis of {of}, of shape {shape}, twice: got {axes}. Give "
            f"each once."
        )


def same_form(op, one, value, other, surrogate):
    """Return ``value``, if it can stand in for ``surrogate``."""
    if value.dtype != surrogate.dtype:
        raise TypeError(
            f"{op}: {one} and {other} must agree in dtype, got {value.dtype.name} and "
            f"{surrogate.dtype.name}. Cast what {one} returns."
        )
    if not value.shape.is_compatible_with(surrogate.shape):
        raise ValueError(
            f"{op}: {one} and {other} must agree in shape, got {value.shape} and "
            f"{surrogate.shape}. Broadcast what they return to one shape."
        )
    return shaped_like(surrogate, value)


def shaped_like(like, value):
    """Return ``value``, of a static shape that may be that of ``like``, so that it is."""
    if value.shape.is_fully_defined() and like.shape.is_fully_defined():
        return value
    reshaped = _same_size(value, like)
    reshaped.set_shape(value.shape)
    return reshaped


def _same_size(value, like):
    if like.shape.is_fully_defined():
        return tf.ensure_shape(value, like.shape)
    # Shapes known only when it runs: a reshape that fails where they differ in size.
    reshaped = tf.reshape(value, tf.shape(like))
    reshaped.set_shape(like.shape)
    return reshaped
