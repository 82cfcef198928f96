"""Another gradient for the ops of a type: ``register_gradient`` and ``override_gradient``."""

import tensorflow as tf


def listed_gradients(who, gradients, n_inputs):
    """Return what a rule returned as a list of one gradient per input."""
    listed = list(gradients) if isinstance(gradients, (list, tuple)) else [gradients]
    if len(listed) != n_inputs:
        raise ValueError(
            f"{who} returned {_count(len(listed), 'gradient')} for {_count(n_inputs, 'input')}: "
            "return one per input, and None where there is none"
        )
    return listed


def checked_gradients(who, gradients, inputs):
    """Return one gradient per input, each with its input's shape and dtype, or None."""
    gradients = listed_gradients(who, gradients, len(inputs))
    return [
        _checked(f"{who} returned, for input {i}, a gradient", gradient, x)
        for i, (gradient, x) in enumerate(zip(gradients, inputs, strict=True))
    ]


def _checked(where, gradient, x):
    if gradient is None or x.dtype in (tf.resource, tf.variant):
        return gradient
    if not isinstance(gradient, (tf.Tensor, tf.IndexedSlices)):
        gradient = _converted(where, gradient, x)
    if gradient.dtype != x.dtype:
        raise TypeError(
            f"{where} of dtype {gradient.dtype.name}, expected {x.dtype.name}: use tf.cast"
        )
    if not x.shape.is_compatible_with(gradient.shape):
        raise ValueError(
            f"{where} of shape {gradient.shape}, expected {x.shape}, the shape of the input"
        )
    return gradient


def _converted(where, gradient, x):
    try:
        return tf.convert_to_tensor(gradient, dtype=x.dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{where} that is no tensor: {gradient!r}, expected {x.dtype.name}{x.shape}"
        ) from error


def _count(n, noun):
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
