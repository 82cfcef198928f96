"""The layer that calls a NumPy function."""

import functools

import keras
import tensorflow as tf

from gradlab.layers.sharing import GradientLayer, serializable
from gradlab.ops.python import numpy_op
from gradlab.serialising import config_of_function, function_of_config


@serializable
class NumpyOp(GradientLayer):
    """``numpy_op`` as a layer: a NumPy function with a gradient written by hand.

    ::

        forward:  y = forward(x, …)
        gradient: gradient(x, …, g)          (g: upstream)

    Python runs on the host's CPU. A model that holds it trains and saves as ``.keras``; XLA
    can't compile it (Keras trains such a model without, and warns where ``jit_compile=True`` was
    asked for), and ``model.export`` raises. To save the layer, its functions must be found again:
    ufuncs of NumPy, functions of ``tf.math`` or ``keras.ops``, or your own behind
    ``@keras.saving.register_keras_serializable()``.

    Args:
        forward: NumPy function of one or more arrays.
        gradient: the rule, ``gradient(*inputs, *upstreams)``: an array for one input, else a tuple.
        output_dtype: the ``dtype`` of ``numpy_op``: by default that of the first float input.
        output_shape: its ``shape``: with the batch axis, such as ``(None, 1)``; by default the
            function is taken to be elementwise.
        rule: "numpy" if gradient works on arrays, "tensorflow" if it works on tensors.
        **kwargs: of every layer: ``name``, ``dtype``, to which Keras casts float inputs.

    Call with a tensor, or a list of them. Where the function is elementwise, a mask goes on to the
    output; of several, what all of them let through.

    Raises:
        TypeError, ValueError: as ``numpy_op``; or, from ``get_config``, a ValueError if a function
            can't be found again.
        NotImplementedError: under ``tf.function(jit_compile=True)``.

    >>> import gradlab as gl, numpy as np, tensorflow as tf
    >>> mod = gl.layers.NumpyOp(np.mod, lambda x, y, g: (g, -np.floor(x / y) * g))
    >>> x, y = tf.Variable([0.7, 1.2]), tf.Variable([0.5, 1.0])
    >>> with tf.GradientTape() as tape:
    ...     remainder = mod([x, y])
    >>> remainder.numpy().round(3).tolist(), tape.gradient(remainder, y).numpy().tolist()
    ([0.2..., 0.2...], [-1.0, -1.0])
    """

    def __init__(
        self, forward, gradient, output_dtype=None, output_shape=None, rule="numpy", **kwargs
    ):
        super().__init__(**kwargs)
        self.supports_jit = False
        self._op = numpy_op(forward, gradient, dtype=output_dtype, shape=output_shape, rule=rule)
        self.forward = forward
        self.gradient = gradient
        self.output_dtype = output_dtype
        self.output_shape = output_shape
        self.rule = rule

    def call(self, inputs):
        """Return what the NumPy function makes of the input, or of the list of inputs."""
        return self._op(*(inputs if isinstance(inputs, (list, tuple)) else [inputs]))

    def compute_output_shape(self, input_shape):
        """Return the shape of the output, or of each."""
        inputs = keras.tree.map_shape_structure(
            lambda shape: keras.KerasTensor(shape, self.compute_dtype), input_shape
        )
        outputs = self.compute_output_spec(inputs)
        return keras.tree.map_structure(lambda output: output.shape, outputs)

    def compute_mask(self, inputs, previous_mask=None):
        """Return the mask of all inputs together, or None where the shape of the output differs."""
        masks = [mask for mask in keras.tree.flatten(previous_mask) if mask is not None]
        if not masks or self.output_shape is not None:
            return None
        mask = functools.reduce(keras.ops.logical_and, masks)
        several = isinstance(self.output_dtype, (list, tuple))
        return [mask] * len(self.output_dtype) if several else mask

    def get_config(self):
        """Return what ``from_config`` needs; raise ValueError where a function can't be saved."""
        shape = self.output_shape
        return {
            **super().get_config(),
            "forward": config_of_function("NumpyOp", "forward", self.forward),
            "gradient": config_of_function("NumpyOp", "gradient", self.gradient),
            "output_dtype": _dtype_names(self.output_dtype),
            "output_shape": (
                config_of_function("NumpyOp", "output_shape", shape) if callable(shape) else shape
            ),
            "rule": self.rule,
        }

    @classmethod
    def from_config(cls, config):
        """Make the layer that ``get_config`` described."""
        shape = config["output_shape"]
        read = {
            "forward": function_of_config(config["forward"]),
            "gradient": function_of_config(config["gradient"]),
            "output_shape": function_of_config(shape) if isinstance(shape, dict) else shape,
        }
        return super().from_config({**config, **read})


def _dtype_names(dtypes):
    if dtypes is None:
        return None
    if isinstance(dtypes, (list, tuple)):
        return [tf.as_dtype(dtype).name for dtype in dtypes]
    return tf.as_dtype(dtypes).name
