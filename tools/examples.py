"""What ``docs/modes.md`` has a row of: each op, layer and rule in its plainest use.

A function that a reader would write is one here too, at the top of a module: ``check_modes``
takes what imports by name to other processes. Nothing is computed before a row is made.
"""

from collections.abc import Callable
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

import gradlab as gl

# Away from the jumps and kinks of every member, and exact in bfloat16.
X = np.array([[-1.125, -0.375, 0.375], [1.125, 1.875, 2.625]], np.float32)


@dataclass(frozen=True)
class Example:
    """A member of a room, as a function of one tensor.

    Attributes:
        make: a function of nothing, that returns the function to check.
        believed: the function whose slope is its gradient. None: it is the gradient of none.

    """

    make: Callable
    believed: Callable | None = None


def scale_gradient(x):
    """Half the gradient."""
    return gl.scale_gradient(x, 0.5)


def mask_gradient(x):
    """The gradient of the positive elements."""
    return gl.mask_gradient(x, tf.math.real(x) > 0)


def record_gradient(x):
    """The gradient, handed to a function that doesn't want it."""
    return gl.record_gradient(x, lambda gradient: None)


def clip_gradient_by_value(x):
    """The gradient between two bounds."""
    return gl.clip_gradient_by_value(x, -0.75, 0.75)


def clip_gradient_by_norm(x):
    """The gradient, no longer than one."""
    return gl.clip_gradient_by_norm(x, 1.0)


def clip_gradients_by_global_norm(x):
    """The gradients of x and of a second tensor, together no longer than one."""
    return gl.clip_gradients_by_global_norm([x, 2.0 * x], 1.0)


def replace_gradient(x):
    """A sign, with the gradient of tanh."""
    return gl.replace_gradient(x, tf.sign, tf.tanh)


def stop_gradient_trick(x):
    """A sign, with the gradient of tanh."""
    return gl.stop_gradient_trick(x, tf.sign, tf.tanh)


def straight_through(x):
    """A sign, with the gradient of x."""
    return gl.straight_through(x, tf.sign)


def clip_by_value_preserve_gradient(x):
    """Clamped, with the gradient of x."""
    return gl.clip_by_value_preserve_gradient(x, -1.0, 1.0)


@gl.custom_gradient
def custom_gradient(x):
    """A sign, with the gradient of tanh, written by hand."""
    return tf.sign(x), lambda upstream: upstream * (1 - tf.tanh(x) ** 2)


def _halved(op, upstream):
    return upstream / 2


def _halves_identity(x):
    return gl.override_gradient({"Identity": _halved})(tf.identity)(x)


def _halves_by_name(x):
    return gl.override_gradient({"Identity": gl.register_gradient(_halved)})(tf.identity)(x)


def _guided(x):
    return gl.override_gradient({"Relu": gl.guided_rule})(tf.nn.relu)(x)


def _deconv(x):
    return gl.override_gradient({"Relu": gl.deconv_rule})(tf.nn.relu)(x)


def _redirected(x):
    return gl.override_gradient({"Relu": gl.redirected_rule})(tf.nn.relu)(x)


@keras.saving.register_keras_serializable("gradlab examples")
def slope_of_square(x, upstream):
    """The rule of NumPy's square, on arrays as on tensors."""
    return 2 * x * upstream


_square = gl.numpy_op(np.square, slope_of_square)
_square_by_tensors = gl.numpy_op(np.square, slope_of_square, rule="tensorflow")


def _square_in_numpy(x):
    return _square(x)


def _square_by_tensorflow_rule(x):
    return _square_by_tensors(x)


def _square_of_op(op, upstream):
    return 2 * op.inputs[0] * upstream


def _square_as_in_tensorflow_1(x):
    y = gl.py_func(np.square, [x], x.dtype, grad=_square_of_op)
    y.set_shape(x.shape)
    return y


class Bump(gl.Surrogate):
    """A surrogate of a reader's own."""

    def derivative(self, x):
        """Where the gradient passes."""
        return 1 / tf.cosh(x) ** 2

    def primitive(self, x):
        """What has that slope."""
        return tf.tanh(x)


def _spike_sigmoid(x):
    return gl.spike(x, gl.Sigmoid())


def _spike_fastsigmoid(x):
    return gl.spike(x, gl.FastSigmoid())


def _spike_atan(x):
    return gl.spike(x, gl.ATan())


def _spike_triangular(x):
    return gl.spike(x, gl.Triangular())


def _spike_piecewiseexp(x):
    return gl.spike(x, gl.PiecewiseExp())


def _spike_erf(x):
    return gl.spike(x, gl.Erf())


def _spike_softsign(x):
    return gl.spike(x, gl.SoftSign())


def _spike_boxcar(x):
    return gl.spike(x, gl.Boxcar())


def _spike_leakyrelu(x):
    return gl.spike(x, gl.LeakyReLU())


def _spike_nonzerosignlogabs(x):
    return gl.spike(x, gl.NonzeroSignLogAbs())


def _spike_s2nn(x):
    return gl.spike(x, gl.S2NN())


def _spike_qpseudospike(x):
    return gl.spike(x, gl.QPseudoSpike())


def _spike_logtailedrelu(x):
    return gl.spike(x, gl.LogTailedReLU())


def _spike_squarewavefourierseries(x):
    return gl.spike(x, gl.SquarewaveFourierSeries())


def _spike_triplegaussian(x):
    return gl.spike(x, gl.TripleGaussian())


def _spike_of_ones_own(x):
    return gl.spike(x, Bump())


def quantize_ste(x):
    """Five levels from −2 to 2."""
    return gl.quantize_ste(x, 3, -2.0, 2.0)


def _spike_of_tensor(x):
    return gl.spike(x, gl.Erf(tf.constant(2.0)))


def _itself(x):
    return x


def _clamped(x):
    return tf.clip_by_value(x, -1, 1)


def _swish_of_sign(x):
    """What swish_sign, at its β of 5, is the slope of: 2 σ(βx) (1 + βx σ(−βx)) − 1."""
    steep = 5 * x
    return 2 * tf.sigmoid(steep) * (1 + steep * tf.sigmoid(-steep)) - 1


def _approximate_sign(x):
    return _clamped(x) * (2 - tf.abs(_clamped(x)))


EXAMPLES = {
    "modifying": {
        "scale_gradient": Example(lambda: scale_gradient, lambda x: x / 2),
        "reverse_gradient": Example(lambda: gl.reverse_gradient, tf.negative),
        "mask_gradient": Example(lambda: mask_gradient, tf.nn.relu),
        "zero_nonfinite_gradient": Example(lambda: gl.zero_nonfinite_gradient, _itself),
        "record_gradient": Example(lambda: record_gradient, _itself),
    },
    "clipping": {
        "clip_gradient_by_value": Example(lambda: clip_gradient_by_value),
        "clip_gradient_by_norm": Example(lambda: clip_gradient_by_norm),
        "clip_gradients_by_global_norm": Example(lambda: clip_gradients_by_global_norm),
    },
    "replacing": {
        "replace_gradient": Example(lambda: replace_gradient, tf.tanh),
        "stop_gradient_trick": Example(lambda: stop_gradient_trick, tf.tanh),
        "straight_through": Example(lambda: straight_through, _itself),
        "clip_by_value_preserve_gradient": Example(
            lambda: clip_by_value_preserve_gradient, _itself
        ),
    },
    "surrogates": {
        "round_ste": Example(lambda: gl.round_ste, _itself),
        "sign_ste": Example(lambda: gl.sign_ste, _clamped),
        "approx_sign": Example(lambda: gl.approx_sign, _approximate_sign),
        "swish_sign": Example(lambda: gl.swish_sign, _swish_of_sign),
        "heaviside_ste": Example(lambda: gl.heaviside_ste, _clamped),
        "ternary_ste": Example(lambda: gl.ternary_ste, _clamped),
        "quantize_ste": Example(lambda: quantize_ste, lambda x: tf.clip_by_value(x, -2, 2)),
        "spike": Example(lambda: _spike_of_tensor, lambda x: gl.Erf(2.0).primitive(x)),
        "Sigmoid": Example(lambda: _spike_sigmoid, lambda x: gl.Sigmoid().primitive(x)),
        "FastSigmoid": Example(lambda: _spike_fastsigmoid, lambda x: gl.FastSigmoid().primitive(x)),
        "ATan": Example(lambda: _spike_atan, lambda x: gl.ATan().primitive(x)),
        "Triangular": Example(lambda: _spike_triangular, lambda x: gl.Triangular().primitive(x)),
        "PiecewiseExp": Example(
            lambda: _spike_piecewiseexp, lambda x: gl.PiecewiseExp().primitive(x)
        ),
        "Erf": Example(lambda: _spike_erf, lambda x: gl.Erf().primitive(x)),
        "SoftSign": Example(lambda: _spike_softsign, lambda x: gl.SoftSign().primitive(x)),
        "Boxcar": Example(lambda: _spike_boxcar, lambda x: gl.Boxcar().primitive(x)),
        "LeakyReLU": Example(lambda: _spike_leakyrelu, lambda x: gl.LeakyReLU().primitive(x)),
        "NonzeroSignLogAbs": Example(
            lambda: _spike_nonzerosignlogabs, lambda x: gl.NonzeroSignLogAbs().primitive(x)
        ),
        "S2NN": Example(lambda: _spike_s2nn, lambda x: gl.S2NN().primitive(x)),
        "QPseudoSpike": Example(
            lambda: _spike_qpseudospike, lambda x: gl.QPseudoSpike().primitive(x)
        ),
        "LogTailedReLU": Example(
            lambda: _spike_logtailedrelu, lambda x: gl.LogTailedReLU().primitive(x)
        ),
        "SquarewaveFourierSeries": Example(
            lambda: _spike_squarewavefourierseries,
            lambda x: gl.SquarewaveFourierSeries().primitive(x),
        ),
        "TripleGaussian": Example(
            lambda: _spike_triplegaussian, lambda x: gl.TripleGaussian().primitive(x)
        ),
        "Surrogate": Example(lambda: _spike_of_ones_own, tf.tanh),
    },
    "rectifiers": {
        "guided_relu": Example(lambda: gl.guided_relu),
        "deconv_relu": Example(lambda: gl.deconv_relu),
        "redirected_relu": Example(lambda: gl.redirected_relu),
        "guided_rule": Example(lambda: _guided),
        "deconv_rule": Example(lambda: _deconv),
        "redirected_rule": Example(lambda: _redirected),
    },
    "custom": {
        "custom_gradient": Example(lambda: custom_gradient, tf.tanh),
    },
    "overriding": {
        "override_gradient": Example(lambda: _halves_identity, lambda x: x / 2),
        "register_gradient": Example(lambda: _halves_by_name, lambda x: x / 2),
    },
    "python": {
        "numpy_op": Example(lambda: _square_in_numpy, tf.square),
        'numpy_op, rule="tensorflow"': Example(lambda: _square_by_tensorflow_rule, tf.square),
        "py_func": Example(lambda: _square_as_in_tensorflow_1, tf.square),
    },
    "layers": {
        "ScaleGradient": Example(lambda: gl.layers.ScaleGradient(0.5), lambda x: x / 2),
        "ReverseGradient": Example(lambda: gl.layers.ReverseGradient(), tf.negative),
        "ClipGradient": Example(lambda: gl.layers.ClipGradient(clip_norm=1.0)),
        "StraightThrough": Example(lambda: gl.layers.StraightThrough(tf.sign), _itself),
        "Spike": Example(lambda: gl.layers.Spike(gl.Erf(2.0)), lambda x: gl.Erf(2.0).primitive(x)),
        "NumpyOp": Example(lambda: gl.layers.NumpyOp(np.square, slope_of_square), tf.square),
    },
}
"""Room -> member -> its example. What a member's name needs to be told apart follows a comma."""
