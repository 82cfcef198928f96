"""Layers with a function forward and another gradient: the identity's, or a surrogate's."""

import dataclasses

import keras
import tensorflow as tf

from gradlab.layers.sharing import GradientLayer, serializable
from gradlab.ops.replacing import straight_through
from gradlab.ops.surrogates import spike
from gradlab.ops.surrogates.spiking import checked
from gradlab.serialising import config_of_function, function_of_config, is_registered


@serializable
class StraightThrough(GradientLayer):
    """``straight_through`` as a layer: any function forward, the identity back.

    ::

        forward:  y = forward(x)
        gradient: g          (g: upstream)

    To save the layer, ``forward`` must be found again: a function of ``tf.math`` or
    ``keras.ops``, an op of gradlab that can be an activation, or one of your own behind
    ``@keras.saving.register_keras_serializable()``; or a ``functools.partial`` of such.

    Args:
        forward: function of one tensor; returns one of the same shape and dtype.
        **kwargs: of every layer: ``name``, ``dtype``.

    Call with a float or complex tensor; the output has its shape and dtype.

    Raises:
        TypeError: forward isn't callable, or doesn't return one tensor of the dtype of x; or x
            isn't one dense float tensor.
        ValueError: forward returns another shape than that of x; or, from ``get_config``, can't
            be found again.

    Source: Bengio, Léonard and Courville, Estimating or Propagating Gradients Through Stochastic
    Neurons for Conditional Computation, 2013.

    >>> import gradlab as gl, tensorflow as tf
    >>> rounded, x = gl.layers.StraightThrough(tf.round), tf.Variable([0.2, 1.7])
    >>> with tf.GradientTape() as tape:
    ...     y = rounded(x)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([0.0, 2.0], [1.0, 1.0])
    """

    def __init__(self, forward, **kwargs):
        super().__init__(**kwargs)
        if not callable(forward):
            raise TypeError(
                f"StraightThrough: forward must be a function of one tensor, got {forward!r}. Such "
                f"as tf.round."
            )
        self.forward = forward

    def call(self, inputs):
        """Return forward of the input, whose gradient is handed on as it is."""
        return straight_through(inputs, self.forward)

    def get_config(self):
        """Return what ``from_config`` needs; raise ValueError where forward can't be saved."""
        forward = config_of_function("StraightThrough", "forward", self.forward)
        return {**super().get_config(), "forward": forward}

    @classmethod
    def from_config(cls, config):
        """Make the layer that ``get_config`` described."""
        return super().from_config({**config, "forward": function_of_config(config["forward"])})


@serializable
class Spike(GradientLayer):
    """``spike`` as a layer: 1 where x has reached 0, with the derivative of a surrogate.

    ::

        forward:  y = 1 where x ≥ 0, else 0
        gradient: g · surrogate.derivative(x)          (g: upstream)
        believed: surrogate.primitive(x)

    The numbers of the surrogate are variables, for a schedule that sharpens it:
    ``layer.parameters["alpha"].assign(8.0)``, which must stay above 0.

    To save the layer with a surrogate of your own, write
    ``@keras.saving.register_keras_serializable()`` before its class.

    Args:
        surrogate: ``gl.ATan(alpha=2.0)`` or another ``Surrogate``, whose fields are numbers.
        **kwargs: of every layer: ``name``, ``dtype``.

    Call with a real float tensor; the output has its shape and dtype.

    Raises:
        TypeError: surrogate isn't a ``Surrogate``, or a field of it isn't a real number; or x isn't
            one dense real tensor.
        ValueError: a field of surrogate is NaN; or, from ``get_config``, its class can't be found
            again.

    Source: Neftci, Mostafa and Zenke, Surrogate Gradient Learning in Spiking Neural Networks,
    2019.

    >>> import gradlab as gl, tensorflow as tf
    >>> fire, x = gl.layers.Spike(gl.Triangular(alpha=1.0)), tf.Variable([-0.5, 0.25, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     y = fire(x)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([0.0, 1.0, 1.0], [0.5, 0.75, 0.0])
    """

    def __init__(self, surrogate, **kwargs):
        super().__init__(**kwargs)
        self._surrogate = checked("Spike", surrogate)
        numbers = surrogate.get_config()
        self.parameters = {name: self.number(name, value) for name, value in numbers.items()}

    @property
    def surrogate(self):
        """The surrogate that the layer began with; ``parameters`` has its numbers as they are."""
        return self._surrogate

    def call(self, inputs):
        """Return a spike where the input has reached 0."""
        numbers = {name: tf.convert_to_tensor(v) for name, v in self.parameters.items()}
        return spike(inputs, dataclasses.replace(self.surrogate, **numbers))

    def get_config(self):
        """Return what ``from_config`` needs; raise ValueError where surrogate can't be saved."""
        if not is_registered(type(self.surrogate)):
            raise ValueError(
                f"Spike: surrogate must be registered to be saved, got "
                f"{self.surrogate!r}. Write @keras.saving.register_keras_serializable() before "
                f"class {type(self.surrogate).__name__}; or save weights only."
            )
        surrogate = keras.saving.serialize_keras_object(self.surrogate)
        return {**super().get_config(), "surrogate": surrogate}

    @classmethod
    def from_config(cls, config):
        """Make the layer that ``get_config`` described."""
        surrogate = keras.saving.deserialize_keras_object(config["surrogate"])
        return super().from_config({**config, "surrogate": surrogate})
