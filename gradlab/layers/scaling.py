"""Layers whose input goes through and whose gradient is scaled or reversed."""

import tensorflow as tf

from gradlab.layers.sharing import GradientLayer, serializable, settable
from gradlab.ops.modifying import reverse_gradient, scale_gradient


class _Scaling(GradientLayer):
    """A layer with a scale."""

    def __init__(self, scale, **kwargs):
        super().__init__(**kwargs)
        self._scale = self.number("scale", scale)
        self._first = float(scale)

    scale = settable("scale")

    def check_number(self, argument, value):
        """Refuse a scale that the variable can't hold."""
        dtype = tf.as_dtype(self.variable_dtype)
        if abs(value) > float(dtype.max):
            raise ValueError(
                f"{type(self).__name__}: {argument} must be finite in {dtype.name}, got {value}. "
                f"Only a smaller one scales: an infinite one makes 0 · ∞ = NaN of what is 0."
            )

    def get_config(self):
        """Return what ``from_config`` needs: the scale is the one that the layer began with."""
        return {**super().get_config(), "scale": self._first}


@serializable
class ScaleGradient(_Scaling):
    """``scale_gradient`` as a layer: the input goes through, its gradient is scaled.

    ::

        forward:  y = x
        gradient: scale · g          (g: upstream)

    Args:
        scale: finite number, of either sign; a variable, ``layer.scale``.
        **kwargs: of every layer: ``name``, ``dtype``. Under ``mixed_float16`` x is cast to float16,
            as by any layer.

    Call with a float or complex tensor; the output has its shape and dtype.

    Raises:
        TypeError: scale isn't a real number, or x not one dense float tensor.
        ValueError: scale isn't finite, in the dtype of the layer's variables.

    >>> import gradlab as gl, tensorflow as tf
    >>> slow, x = gl.layers.ScaleGradient(0.5), tf.Variable([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     loss = tf.reduce_sum(slow(x) ** 2)
    >>> tape.gradient(loss, x).numpy().tolist()
    [1.0, 2.0]
    """

    def call(self, inputs):
        """Return the input, whose gradient is scaled."""
        return scale_gradient(inputs, tf.convert_to_tensor(self.scale))


@serializable
class ReverseGradient(_Scaling):
    """``reverse_gradient`` as a layer: what comes after it learns, what comes before it unlearns.

    ::

        forward:  y = x
        gradient: −scale · g          (g: upstream)

    Domain adaptation raises the scale while it trains, from 0 on. A callback does that, and
    nothing is traced again::

        reverse = gl.layers.ReverseGradient(0.0)
        …
        rise = keras.callbacks.LambdaCallback(
            on_epoch_begin=lambda epoch, logs: reverse.scale.assign(math.tanh(epoch / 4))
        )
        model.fit(x, y, epochs=20, callbacks=[rise])

    Args:
        scale: finite number; a variable, ``layer.scale``.
        **kwargs: of every layer: ``name``, ``dtype``.

    Call with a float or complex tensor; the output has its shape and dtype.

    Raises:
        TypeError: scale isn't a real number, or x not one dense float tensor.
        ValueError: scale isn't finite, in the dtype of the layer's variables.

    Source: Ganin and Lempitsky, Unsupervised Domain Adaptation by Backpropagation, 2015.

    >>> import gradlab as gl, tensorflow as tf
    >>> reverse, x = gl.layers.ReverseGradient(), tf.Variable(3.0)
    >>> reverse.scale = 0.5
    >>> with tf.GradientTape() as tape:
    ...     loss = reverse(x) ** 2
    >>> tape.gradient(loss, x).numpy().item()
    -3.0
    """

    def __init__(self, scale=1.0, **kwargs):
        super().__init__(scale, **kwargs)

    def call(self, inputs):
        """Return the input, whose gradient is reversed."""
        return reverse_gradient(inputs, tf.convert_to_tensor(self.scale))
