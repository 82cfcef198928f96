"""One table of the ops: each with its oracle in NumPy.

``CASES`` drives the tests of all members. An oracle is written from the formulas of the
docstring, in float64, and shares no code with the op.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

import gradlab as gl


@dataclass(frozen=True)
class Case:
    """An op with everything but the tensors it differentiates filled in, and its oracle."""

    op: str
    f: Callable  # f(*xs)
    rule: Callable  # rule(xs, upstreams) -> gradients, all NumPy
    forward: Callable = lambda xs: xs  # forward(xs) -> ys
    shapes: tuple = ((2, 3),)
    linear: bool = True
    complex: bool = True
    cannot: dict = field(default_factory=dict)  # mode -> (exception, what its message must say)

    def xs(self, dtype=tf.float32):
        """Values away from kinks of the forward, exact in bfloat16."""
        steps = [np.arange(np.prod(shape)).reshape(shape) for shape in self.shapes]
        return [tf.cast(-1.125 + 0.75 * s + i, dtype) for i, s in enumerate(steps)]

    def upstreams(self, dtype=tf.float32):
        steps = [np.arange(np.prod(shape)).reshape(shape) for shape in self.shapes]
        return [tf.cast(1.75 - 0.875 * s - i, dtype) for i, s in enumerate(steps)]


SCALE = np.array([0.5, -2.0, 3.0])
MASK = np.array([[True, False, True], [False, False, True]])
IN_XLA = ("jit", "jit_tape_out", "while_loop_jit", "vectorized_jit")
_AROUND = (np.array([-2.0, -0.5, -3.0]), np.array([2.0, 0.5, 3.0]))
BATCHED = (
    "vectorized_tape_in",
    "vectorized_tape_out",
    "vectorized_in_function",
    "vectorized_in_function_tape_out",
    "vectorized_jit",
    "vectorized_nested_function",
)
# XLA's own error, where it only compiles what was traced before, has the name of the op.
NO_CALLBACK = dict.fromkeys(
    IN_XLA,
    (
        (NotImplementedError, tf.errors.InvalidArgumentError),
        "(record_gradient|numpy_op|py_func).*Python.*XLA",
    ),
)
NO_SAVING = {"saved": (ValueError, "runs Python, which a SavedModel can't hold")}
UNTRACKED = {"saved": (AssertionError, "untracked")}
_ONCE = ((NotImplementedError, tf.errors.UnimplementedError), "can't be differentiated again")
ONLY_ONCE = {"second order": _ONCE, "forward mode": _ONCE}
NO_BATCH = dict.fromkeys(
    (*BATCHED, "eager jacobian", "in_function jacobian", "of_function jacobian"),
    (ValueError, "a variable can't record the gradients of a batch|experimental_use_pfor"),
)


def _norm(g, axes=None):
    return np.sqrt(np.sum(np.abs(g) ** 2, axis=axes, keepdims=axes is not None))


def _clipped(g, clip_norm, axes=None):
    return g * np.minimum(1.0, clip_norm / np.maximum(_norm(g, axes), 1e-300))


def _jointly(gs, clip_norm):
    norm = np.sqrt(sum(_norm(g) ** 2 for g in gs))
    factor = min(1.0, clip_norm / max(norm, 1e-300))
    return [g * factor for g in gs]


def _sine(x):
    return np.sin(x)


def _recorded(x):
    return gl.record_gradient(x, lambda g: None)


class _VariableRecorder:
    """Its variables are made when it is first called in eager mode, one per dtype."""

    def __init__(self):
        self.variables = {}

    def __call__(self, x):
        if x.dtype not in self.variables:
            self.variables[x.dtype] = tf.Variable(tf.zeros([2, 3], x.dtype))
        return gl.record_gradient(x, self.variables[x.dtype])


@gl.custom_gradient
def _custom(x):
    e = tf.exp(x)
    return e, lambda upstream: upstream * tf.math.conj(e) * 3.0


def _slope_of_square(x, upstream):
    return 2 * x.conj() * upstream if isinstance(x, np.ndarray) else 2 * tf.math.conj(x) * upstream


_square_in_numpy = gl.numpy_op(np.square, _slope_of_square)
_square_by_tensors = gl.numpy_op(np.square, _slope_of_square, rule="tensorflow")


def _square_by_py_func(x):
    y = gl.py_func(np.square, [x], x.dtype, grad=lambda op, g: _slope_of_square(op.inputs[0], g))
    y.set_shape(x.shape)
    return y


def _on_host(op, f, **cannot):
    return Case(
        op,
        f,
        lambda xs, gs: [2 * np.conj(xs[0]) * gs[0]],
        forward=lambda xs: [np.square(xs[0])],
        cannot=NO_CALLBACK | NO_SAVING | cannot,
    )


def _overridden(op_type, rule, f):
    return gl.override_gradient({op_type: rule})(f)


def _beside_its_double(x):
    return tf.add_n(gl.clip_gradients_by_global_norm([x, 2 * x], 2.5))


def _np(value, dtype=np.float32):
    return tf.constant(value, dtype)


def _signs(xs):
    return [np.where(xs[0] >= 0, 1.0, -1.0)]


def _steps(xs):
    return [np.where(xs[0] >= 0, 1.0, 0.0)]


def _times(derivative):
    return lambda xs, gs: [gs[0] * derivative(xs[0])]


def _window(low, high):
    return _times(lambda x: (low <= x) & (x <= high))


def _bump_of_swish(x, beta=3.0):
    return beta * (2 - beta * x * np.tanh(beta * x / 2)) / (1 + np.cosh(beta * x))


def _bump_of_atan(x, alpha):
    return 2 * alpha / (4 + (np.pi * alpha * x) ** 2)


def _slope_of_wave(x):
    angle = np.pi / 4 * np.fmod(x, 8)
    return (np.cos(angle) + np.cos(3 * angle) + np.cos(5 * angle)) / 2


def _bell(x, mean, deviation):
    return np.exp(-(((x - mean) / deviation) ** 2) / 2) / np.sqrt(2 * np.pi) / deviation


def _three_bells(x):
    return 1.15 * _bell(x, 0, 0.5) - 0.15 * (_bell(x, 0.5, 3) + _bell(x, -0.5, 3))


def _surrogate(op, f, forward, rule, **options):
    return Case(op, f, rule, forward=forward, complex=False, **options)


def _spike(surrogate, derivative):
    return _surrogate(
        type(surrogate).__name__,
        lambda x: gl.spike(x, surrogate),
        _steps,
        _times(derivative),
    )


@dataclass(frozen=True)
class _Gaussian(gl.Surrogate):
    """A surrogate of a reader's own."""

    alpha: float = 1.0

    def derivative(self, x):
        return tf.exp(-((self.alpha * x) ** 2))


def _nearest(x, low, high, levels):
    """The nearest of some levels, found by looking at each."""
    grid = low + (high - low) / (levels - 1) * np.arange(levels)
    return grid[np.argmin(np.abs(x[..., np.newaxis] - grid), axis=-1)]


def _rectifier(op, f, rule, slope=0.0, top=np.inf, shift=0.0):
    def forward(xs):
        x = xs[0] - shift
        return [np.minimum(np.maximum(x, 0) + slope * np.minimum(x, 0), top)]

    def on_lists(xs, gs):
        x = xs[0] - shift
        own = np.select([x <= 0, x < top], [slope, 1.0], 0.0)
        return [rule(x, gs[0], own)]

    return Case(op, f, on_lists, forward=forward, complex=False, linear=False)


def _guided(x, g, own):
    return own * np.maximum(g, 0)


def _deconv(x, g, own):
    return np.maximum(g, 0)


def _redirected(top=np.inf):
    def rule(x, g, own):
        rows = range(1, x.ndim)
        stuck = np.all(own * g == 0, axis=tuple(rows), keepdims=True)
        climbs = np.select([x <= 0, x >= top], [np.minimum(g, 0), np.maximum(g, 0)], g)
        return np.where(stuck, climbs, own * g)

    return rule


CASES = {
    "scale_gradient": Case(
        "scale_gradient", lambda x: gl.scale_gradient(x, 2.5), lambda xs, gs: [2.5 * gs[0]]
    ),
    "scale_gradient, tensor": Case(
        "scale_gradient", lambda x: gl.scale_gradient(x, _np(SCALE)), lambda xs, gs: [SCALE * gs[0]]
    ),
    "reverse_gradient": Case(
        "reverse_gradient", lambda x: gl.reverse_gradient(x), lambda xs, gs: [-gs[0]]
    ),
    "reverse_gradient, tensor": Case(
        "reverse_gradient",
        lambda x: gl.reverse_gradient(x, _np(0.25)),
        lambda xs, gs: [-0.25 * gs[0]],
    ),
    "mask_gradient": Case(
        "mask_gradient", lambda x: gl.mask_gradient(x, MASK), lambda xs, gs: [gs[0] * MASK]
    ),
    "zero_nonfinite_gradient": Case(
        "zero_nonfinite_gradient",
        lambda x: gl.zero_nonfinite_gradient(x),
        lambda xs, gs: [np.where(np.isfinite(gs[0]), gs[0], 0.0)],
    ),
    "record_gradient": Case(
        "record_gradient", _recorded, lambda xs, gs: [gs[0]], cannot=NO_CALLBACK
    ),
    "record_gradient, variable": Case(
        "record_gradient", _VariableRecorder(), lambda xs, gs: [gs[0]], cannot=NO_BATCH | UNTRACKED
    ),
    "clip_gradient_by_value": Case(
        "clip_gradient_by_value",
        lambda x: gl.clip_gradient_by_value(x, -1.0, 0.5),
        lambda xs, gs: [np.clip(gs[0], -1.0, 0.5)],
        linear=False,
        complex=False,
    ),
    "clip_gradient_by_value, tensor": Case(
        "clip_gradient_by_value",
        lambda x: gl.clip_gradient_by_value(x, _np(-1.0), _np([0.5, 0.25, 1.5])),
        lambda xs, gs: [np.clip(gs[0], -1.0, [0.5, 0.25, 1.5])],
        linear=False,
        complex=False,
    ),
    "clip_gradient_by_norm": Case(
        "clip_gradient_by_norm",
        lambda x: gl.clip_gradient_by_norm(x, 1.5),
        lambda xs, gs: [_clipped(gs[0], 1.5)],
        linear=False,
    ),
    "clip_gradient_by_norm, tensor, axes": Case(
        "clip_gradient_by_norm",
        lambda x: gl.clip_gradient_by_norm(x, _np(2.0), axes=-1),
        lambda xs, gs: [_clipped(gs[0], 2.0, -1)],
        linear=False,
    ),
    "clip_gradients_by_global_norm": Case(
        "clip_gradients_by_global_norm",
        lambda a, b: gl.clip_gradients_by_global_norm([a, b], _np(2.5)),
        lambda xs, gs: _jointly(gs, 2.5),
        shapes=((2, 3), (2,)),
        linear=False,
    ),
    "replace_gradient": Case(
        "replace_gradient",
        lambda x: gl.replace_gradient(x, tf.sign, tf.sin),
        lambda xs, gs: [gs[0] * np.conj(np.cos(xs[0]))],
        forward=lambda xs: [np.sign(xs[0])],
    ),
    "stop_gradient_trick": Case(
        "stop_gradient_trick",
        lambda x: gl.stop_gradient_trick(x, tf.sign, tf.sin),
        lambda xs, gs: [gs[0] * np.conj(np.cos(xs[0]))],
        forward=lambda xs: [np.sign(xs[0])],
    ),
    "straight_through": Case(
        "straight_through",
        lambda x: gl.straight_through(x, tf.sign),
        lambda xs, gs: [gs[0]],
        forward=lambda xs: [np.sign(xs[0])],
    ),
    "clip_by_value_preserve_gradient": Case(
        "clip_by_value_preserve_gradient",
        lambda x: gl.clip_by_value_preserve_gradient(x, -0.5, _np(1.0)),
        lambda xs, gs: [gs[0]],
        forward=lambda xs: [np.clip(xs[0], -0.5, 1.0)],
        complex=False,
    ),
    "custom_gradient": Case(
        "custom_gradient",
        _custom,
        lambda xs, gs: [gs[0] * 3.0 * np.conj(np.exp(xs[0]))],
        forward=lambda xs: [np.exp(xs[0])],
    ),
    "round_ste": _surrogate(
        "round_ste", lambda x: gl.round_ste(x), lambda xs: [np.rint(xs[0])], lambda xs, gs: [gs[0]]
    ),
    "sign_ste": _surrogate("sign_ste", lambda x: gl.sign_ste(x), _signs, _window(-1, 1)),
    "sign_ste, tensor": _surrogate(
        "sign_ste", lambda x: gl.sign_ste(x, _np([2.0, 0.5, 3.0])), _signs, _window(*_AROUND)
    ),
    "heaviside_ste": _surrogate(
        "heaviside_ste", lambda x: gl.heaviside_ste(x, 2.0), _steps, _window(-2, 2)
    ),
    "heaviside_ste, no window": _surrogate(
        "heaviside_ste", lambda x: gl.heaviside_ste(x, None), _steps, lambda xs, gs: [gs[0]]
    ),
    "ternary_ste": _surrogate(
        "ternary_ste",
        lambda x: gl.ternary_ste(x, 0.5, 2.0),
        lambda xs: [np.select([xs[0] > 0.5, xs[0] < -0.5], [1.0, -1.0])],
        _window(-2, 2),
    ),
    "ternary_ste, tensor": _surrogate(
        "ternary_ste",
        lambda x: gl.ternary_ste(x, 0.7 * tf.reduce_mean(tf.abs(x)), _np(1.5)),
        lambda xs: [np.sign(xs[0]) * (np.abs(xs[0]) > 0.7 * np.mean(np.abs(xs[0])))],
        _window(-1.5, 1.5),
    ),
    "approx_sign": _surrogate(
        "approx_sign",
        lambda x: gl.approx_sign(x),
        _signs,
        _times(lambda x: np.where(np.abs(x) <= 1, 2 - 2 * np.abs(x), 0)),
    ),
    "swish_sign": _surrogate(
        "swish_sign", lambda x: gl.swish_sign(x, 3.0), _signs, _times(_bump_of_swish)
    ),
    "swish_sign, tensor": _surrogate(
        "swish_sign",
        lambda x: gl.swish_sign(x, _np([1.0, 2.0, 3.0])),
        _signs,
        _times(lambda x: _bump_of_swish(x, np.array([1.0, 2.0, 3.0]))),
    ),
    "quantize_ste": _surrogate(
        "quantize_ste",
        lambda x: gl.quantize_ste(x, 3, -1.0, 2.0),
        lambda xs: [_nearest(xs[0], -1, 2, 8)],
        _window(-1, 2),
    ),
    "quantize_ste, tensor": _surrogate(
        "quantize_ste",
        lambda x: gl.quantize_ste(x, _np(2, np.int32), _np(-2.0), _np(2.0), narrow_range=True),
        lambda xs: [_nearest(xs[0], -2, 2, 3)],
        _window(-2, 2),
    ),
    "quantize_ste, scale": _surrogate(
        "quantize_ste",
        lambda x: gl.quantize_ste(x, 3, scale=0.5, outside="pass"),
        lambda xs: [np.clip(np.rint(2 * xs[0]), -4, 3) / 2],
        lambda xs, gs: [gs[0]],
    ),
    "quantize_ste, scale, tensor": _surrogate(
        "quantize_ste",
        lambda x: gl.quantize_ste(x, 2, scale=_np(SCALE**2), signed=False),
        lambda xs: [np.clip(np.rint(xs[0] / SCALE**2), 0, 3) * SCALE**2],
        _window(0, 3 * SCALE**2),
    ),
    "spike, tensor": _surrogate(
        "spike",
        lambda x: gl.spike(x, gl.ATan(_np([0.5, 1.0, 2.0]))),
        _steps,
        _times(lambda x: _bump_of_atan(x, np.array([0.5, 1.0, 2.0]))),
    ),
    "Sigmoid": _spike(gl.Sigmoid(), lambda x: 1 / np.cosh(2 * x) ** 2),
    "FastSigmoid": _spike(gl.FastSigmoid(2.0), lambda x: (1 + 2 * np.abs(x)) ** -2),
    "ATan": _spike(gl.ATan(), lambda x: _bump_of_atan(x, 2.0)),
    "Triangular": _spike(gl.Triangular(0.5), lambda x: np.clip(0.5 - np.abs(x) / 4, 0, 1)),
    "PiecewiseExp": _spike(gl.PiecewiseExp(3.0), lambda x: 1.5 * np.exp(-3 * np.abs(x))),
    "Erf": _spike(gl.Erf(), lambda x: 2 / np.sqrt(np.pi) * np.exp(-4 * x**2)),
    "SoftSign": _spike(gl.SoftSign(4.0), lambda x: 2 / (1 + 4 * np.abs(x)) ** 2),
    "Boxcar": _spike(gl.Boxcar(0.25, leak=0.125), lambda x: np.where(np.abs(x) <= 2, 0.25, 0.125)),
    "LeakyReLU": _spike(gl.LeakyReLU(1.5, leak=0.25), lambda x: np.where(x >= 0, 1.5, 0.25)),
    "NonzeroSignLogAbs": _spike(gl.NonzeroSignLogAbs(2.0), lambda x: 2 / (1 + 2 * np.abs(x))),
    "S2NN": _spike(
        gl.S2NN(beta=0.5),
        lambda x: np.where(x >= 0, 0.5 / (1 + np.abs(x)), 1 / np.cosh(2 * x) ** 2),
    ),
    "QPseudoSpike": _spike(gl.QPseudoSpike(2.0, q=3.0), lambda x: 2 / (1 + 2 * np.abs(x)) ** 3),
    "QPseudoSpike, tensor": _surrogate(
        "QPseudoSpike",
        lambda x: gl.spike(x, gl.QPseudoSpike(q=_np([2.0, 3.0, 5.0]))),
        _steps,
        _times(lambda x: (1 + np.abs(x) * [2.0, 1.0, 0.5]) ** np.array([-2.0, -3.0, -5.0])),
    ),
    "LogTailedReLU": _spike(
        gl.LogTailedReLU(2.0, leak=0.25),
        lambda x: np.where(x >= 0, np.minimum(2, 1 / np.maximum(x, 0.25)), 0.25),
    ),
    "SquarewaveFourierSeries": _spike(gl.SquarewaveFourierSeries(terms=3), _slope_of_wave),
    "TripleGaussian": _spike(gl.TripleGaussian(), _three_bells),
    "Surrogate": _surrogate(
        "Surrogate",
        lambda x: gl.spike(x, _Gaussian(_np(0.5))),
        _steps,
        _times(lambda x: np.exp(-(x**2) / 4)),
    ),
    "guided_relu": _rectifier("guided_relu", lambda x: gl.guided_relu(x), _guided),
    "guided_relu, tensor": _rectifier(
        "guided_relu", lambda x: gl.guided_relu(x, _np(0.25), _np(2.0)), _guided, 0.25, 2.0
    ),
    "deconv_relu": _rectifier("deconv_relu", lambda x: gl.deconv_relu(x), _deconv),
    "deconv_relu, options": _rectifier(
        "deconv_relu", lambda x: gl.deconv_relu(x, 0.25, 2.0), _deconv, 0.25, 2.0
    ),
    "redirected_relu": _rectifier(
        "redirected_relu",
        lambda x: gl.redirected_relu(x - 1.5),
        _redirected(),
        shift=1.5,
    ),
    "redirected_relu, highest": _rectifier(
        "redirected_relu",
        lambda x: gl.redirected_relu(x, max_value=1.0),
        _redirected(1.0),
        top=1.0,
    ),
    "redirected_relu, off, tensor": _rectifier(
        "redirected_relu",
        lambda x: gl.redirected_relu(x - 1.5, tf.zeros([1], tf.bool)),
        lambda x, g, own: own * g,
        shift=1.5,
    ),
    "clip_gradients_by_global_norm, of one": Case(
        "clip_gradients_by_global_norm",
        _beside_its_double,
        lambda xs, gs: [3 * _jointly(gs * 2, 2.5)[0]],
        forward=lambda xs: [3 * xs[0]],
        linear=False,
    ),
    "numpy_op": _on_host("numpy_op", lambda x: _square_in_numpy(x), **ONLY_ONCE),
    "numpy_op, tensorflow": _on_host("numpy_op", lambda x: _square_by_tensors(x)),
    "py_func": _on_host("py_func", _square_by_py_func),
    "override_gradient": Case(
        "override_gradient",
        _overridden("Identity", lambda op, g: 5 * g, tf.identity),
        lambda xs, gs: [5 * gs[0]],
    ),
    "register_gradient": Case(
        "register_gradient",
        _overridden("Identity", gl.register_gradient(lambda op, g: -3 * g), tf.identity),
        lambda xs, gs: [-3 * gs[0]],
    ),
}
