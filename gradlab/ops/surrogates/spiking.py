"""A spike, and what a surrogate is."""

import copy
import dataclasses
import functools

import tensorflow as tf
from tensorflow.python.eager import record

from gradlab.ops.arguments import (
    check_broadcast,
    gradient_tensor,
    is_number,
    kind,
    unconverted,
)
from gradlab.ops.surrogates.stepping import (
    check_finite,
    check_positive,
    fitting,
    heaviside,
    real_tensor,
    widened,
    with_derivative,
)


@unconverted
def spike(x, surrogate):
    """Return 1 where x has reached 0, else 0, with the derivative of a surrogate.

    ::

        forward:  y = 1 where x ≥ 0, else 0
        gradient: g · surrogate.derivative(x)          (g: upstream)
        believed: surrogate.primitive(x)

    x is a membrane potential less its threshold, so that a neuron fires when it reaches the
    threshold. NaN stays NaN. No gradient goes to the parameters of the surrogate. To damp it,
    put ``scale_gradient`` before or after.

    Args:
        x: float tensor.
        surrogate: a ``Sigmoid``, ``FastSigmoid``, ``ATan``, ``Triangular``, ``PiecewiseExp``,
            ``Erf``, ``SoftSign``, ``Boxcar``, ``LeakyReLU``, ``NonzeroSignLogAbs``, ``S2NN``,
            ``QPseudoSpike``, ``LogTailedReLU``, ``SquarewaveFourierSeries``, ``TripleGaussian``,
            or another ``Surrogate``.

    Returns:
        A tensor of the shape and dtype of x.

    Raises:
        TypeError: x isn't one dense real tensor, surrogate isn't a ``Surrogate``, or a parameter
            of it isn't a number.
        ValueError: a parameter of the surrogate doesn't broadcast to x.

    Source: Neftci, Mostafa and Zenke, Surrogate Gradient Learning in Spiking Neural Networks,
    2019.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([-0.5, 0.0, 0.25])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = gl.spike(x, gl.Triangular(alpha=1.0))
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([0.0, 1.0, 1.0], [0.5, 1.0, 0.75])
    """
    x = real_tensor("spike", x)
    parameters = checked("spike", surrogate).fitted("spike", x)
    with record.stop_recording():
        value = heaviside(x)

    def derivative(x, *values):
        own = _with(surrogate, zip(parameters, values, strict=True))
        return _derivative(own, x)

    return with_derivative("spike", value, x, derivative, parameters.values())


def _derivative(own, x):
    """The derivative at an x that is wide, of a surrogate whose parameters fit it."""
    method = type(own).derivative
    if hasattr(method, "formula"):  # evaluated, which would look at both once more
        return method.formula(own, x)
    return _checked_derivative(own, own.derivative(x), x)


def _checked_derivative(surrogate, value, x):
    what = f"what {type(surrogate).__name__}.derivative, of the surrogate, returned"
    value = gradient_tensor("spike", what, value)
    check_broadcast("spike", what, value, x.shape)
    return value


def checked(op, surrogate):
    """Return ``surrogate``, if it is one."""
    if isinstance(surrogate, Surrogate):
        return surrogate
    if isinstance(surrogate, type) and issubclass(surrogate, Surrogate):
        name = surrogate.__name__
        raise TypeError(f"{op}: surrogate must be an instance, got the class {name}: {name}().")
    raise TypeError(
        f"{op}: surrogate must be a Surrogate, got {kind(surrogate)}. Give one such as "
        f"gradlab.ATan(alpha=2.0), or derive a frozen dataclass from gradlab.Surrogate."
    )


@dataclasses.dataclass(frozen=True)
class Surrogate:
    """The derivative that a spike pretends to have, and the primitive it is the derivative of.

    One of your own is a frozen dataclass whose fields are numbers or tensors, each of which
    broadcasts to x: ``alpha`` must be above 0, others finite. ``spike`` hands it x in float32 or
    float64, and parameters that fit.

    >>> import dataclasses, gradlab as gl, tensorflow as tf
    >>> @dataclasses.dataclass(frozen=True)
    ... class Cosine(gl.Surrogate):
    ...     alpha: float = 1.0
    ...
    ...     def derivative(self, x):
    ...         return tf.square(tf.cos(tf.clip_by_value(self.alpha * x, -1.5708, 1.5708)))
    >>> x = tf.constant([0.0, 5.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = gl.spike(x, Cosine())
    >>> tape.gradient(y, x).numpy().round(6).tolist()
    [1.0, 0.0]
    """

    def __post_init__(self):
        for name, value in self._parameters().items():
            if is_number(value):
                self._check_of(name)(type(self).__name__, name, value)

    # What a parameter must be, where it must be more than finite.
    _checks = {"alpha": check_positive}

    def _check_of(self, name):
        return self._checks.get(name, check_finite)

    def _parameters(self):
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def get_config(self):
        """Return the parameters by name, which is what Keras saves of a surrogate."""
        return self._parameters()

    @classmethod
    def from_config(cls, config):
        """Make the surrogate that ``get_config`` described."""
        return cls(**config)

    def fitted(self, op, x):
        """Return the parameters by name, as numbers or as tensors that fit x."""
        return {
            name: fitting(op, name, value, x, self._check_of(name))
            for name, value in self._parameters().items()
        }

    def derivative(self, x):
        """Return the derivative at x, with the shape and dtype of x."""
        raise NotImplementedError(
            f"{type(self).__name__} defines no derivative. Give a surrogate that does, such as "
            f"gradlab.ATan(), or write it."
        )

    def primitive(self, x):
        """Return the function that has this derivative at x, with the shape and dtype of x."""
        raise NotImplementedError(f"{type(self).__name__} defines no primitive. Write one.")


def _with(surrogate, numbers):
    """The surrogate with other numbers, which have been checked: no __init__ does so again."""
    own = copy.copy(surrogate)
    for name, value in numbers:
        object.__setattr__(own, name, value)
    return own


def evaluated(formula):
    """Let a method take any float tensor: it sees float32 or float64, and parameters that fit."""

    @functools.wraps(formula)
    def method(self, x):
        x = real_tensor(type(self).__name__, x)
        own = _with(self, self.fitted(type(self).__name__, x).items())
        return tf.cast(formula(own, widened(x)), x.dtype)

    method.formula = formula
    return method
