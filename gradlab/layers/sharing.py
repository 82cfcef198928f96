"""What the layers share: masks pass, the op tells the output, numbers are variables."""

import math

import keras
import numpy as np
import tensorflow as tf

from gradlab.ops.arguments import is_number, kind

serializable = keras.saving.register_keras_serializable("gradlab")


class GradientLayer(keras.layers.Layer):
    """What the layers share: no weights to train, masks pass, the op tells the output."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.built = True

    def number(self, argument, value):
        """Return a variable that holds a number: a weight that isn't trained."""
        return self.add_weight(
            name=argument,
            shape=(),
            initializer=keras.initializers.Constant(_checked_number(self, argument, value)),
            trainable=False,
            autocast=False,
        )

    def check_number(self, argument, value):
        """Refuse a number that this argument can't be."""

    def compute_output_shape(self, input_shape):
        """Return the shape of the input."""
        return input_shape

    def compute_output_spec(self, *args, **kwargs):
        """Return the shape and dtype of the output, which may be complex, as the op has them."""
        return keras.Operation.compute_output_spec(self, *args, **kwargs)


def _checked_number(layer, argument, value):
    if not is_number(value) or isinstance(value, (complex, np.complexfloating)):
        raise TypeError(
            f"{type(layer).__name__}: {argument} must be a real number, got {kind(value)}. Give a "
            f"float; to change it later, assign to its variable."
        )
    if math.isnan(value):
        raise ValueError(f"{type(layer).__name__}: {argument} must be a number, got {value}.")
    layer.check_number(argument, value)
    value = float(value)
    fits = abs(value) <= float(tf.as_dtype(layer.variable_dtype).max)
    return value if fits else math.copysign(math.inf, value)


def settable(argument):
    """Return a property: the variable that holds a number; setting it checks and assigns."""

    def get(layer):
        return getattr(layer, f"_{argument}")

    def put(layer, value):
        if get(layer) is None:
            raise ValueError(
                f"{type(layer).__name__}: {argument} can't be set: this layer clips by another "
                f"measure. Make a new one."
            )
        get(layer).assign(_checked_number(layer, argument, value))

    return property(get, put, doc=f"The variable that holds {argument}.")
