"""Every op with bad and odd input: the right value, or a clear error."""

import re
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from bad_input import (
    BOOLEANS,
    FEW,
    KERAS,
    MANY,
    NO_TENSOR,
    NOT_CALLABLE,
    REFUSED,
    Member,
    Odd,
    X,
    anything,
    axes,
    boolean,
    called,
    check_all_are_here,
    choice,
    choices,
    eager,
    flag,
    function,
    g_of,
    hold,
    not_negative,
    number,
    op,
    positive,
    refused,
    returns,
    tensor,
    traced,
    try_all,
    upstream,
    value,
)

import gradlab as gl
from gradlab import _ROOMS

INF, NAN = np.inf, np.nan
REAL = tensor(complex_=False)


def identity(rule):
    """The oracle of an op whose forward is x, from its rule."""
    return lambda x, **params: (x, [rule(g_of(x), **params)])


def surrogate(forward, derivative):
    """The oracle of an op with a derivative, which where it is 0 stops everything."""
    return lambda x, **params: (forward(x, **params), [g_of(x) * derivative(x, **params)])


def _norm(g):
    return np.sqrt(np.sum(np.abs(g) ** 2))


def _shortened(g, clip_norm, axes=None):
    axes = None if axes is None else tuple(np.atleast_1d(axes).astype(int))
    norm = np.sqrt(np.sum(np.abs(g) ** 2, axis=axes, keepdims=True))
    return g * np.minimum(1.0, clip_norm / np.where(norm == 0, 1e-300, norm))


def _clamped(v, clip_value_min, clip_value_max):
    return np.maximum(np.minimum(v, clip_value_max), clip_value_min)


def _sign(x, **_):
    return np.where(np.isnan(x), NAN, np.where(x >= 0, 1.0, -1.0))


def _step(x, **_):
    return np.where(np.isnan(x), NAN, np.where(x >= 0, 1.0, 0.0))


def _window(x, clip_value=INF, **_):
    return np.where(np.abs(x) <= (INF if clip_value is None else clip_value), 1.0, 0.0)


def _ternary(x, threshold, **_):
    return np.where(np.isnan(x), NAN, np.sign(x) * (np.abs(x) > threshold))


def _rectified(rule):
    def oracle(x, negative_slope, max_value, active=True):
        top = INF if max_value is None else max_value
        y = np.minimum(np.where(x < 0, _times(x, negative_slope), x), top)
        beyond = (x >= top) & (top != INF)

        def own(g):
            return np.where(beyond, 0.0, np.where(x > 0, g, _times(g, negative_slope)))

        return y, [rule(x, g_of(x), own, top, active)]

    return oracle


def _times(v, factor):
    return np.where(factor == 0, 0.0, v * factor)


def _guided(x, g, own, top, active):
    return own(np.maximum(g, 0))


def _deconv(x, g, own, top, active):
    return np.maximum(g, 0)


def _redirected(x, g, own, top, active):
    stuck = np.all(own(g) == 0, axis=tuple(range(1, x.ndim)), keepdims=True)
    climbs = np.where((x <= 0) & (g > 0) | (x >= top) & (g < 0), 0.0, g)
    return np.where(stuck & active, climbs, own(g))


def _quantized(x, bits, low, high, scale, signed, narrow_range, outside):
    bits = np.where((bits >= 1) & (bits <= 24), bits, NAN)
    steps = 2.0**bits - (2 if narrow_range else 1)
    if scale is None:
        low, high = (-1.0, 1.0) if low is None else (low, high)
        width = high - low
        n = np.rint(steps * np.where(width == 0, 0, (np.clip(x, low, high) - low) / width))
        y = ((steps - n) * low + n * high) / steps
    else:
        top = 2.0**bits / 2 - 1 if signed else steps
        low, high = (top - steps) * scale, top * scale
        y = np.clip(np.rint(x / scale), top - steps, top) * scale
    inside = 1.0 if outside == "pass" else (low <= x) & (x <= high)
    return y, [g_of(x) * inside]


NOT_ONE = [
    returns("None", lambda x: None, "None"),
    returns("text", lambda x: "a", "string"),
    returns("integers", lambda x: tf.cast(x, tf.int32), "int32"),
    returns("a list", lambda x: [x, x], "list"),
    returns("a dict", lambda x: {"a": x}, "dict"),
    returns("itself", lambda x: np.sin, "ufunc"),
]
MISSHAPEN = [
    returns("a row less", lambda x: x[:-1], "(1, 3)", shape=True),
    returns("float64", lambda x: tf.cast(x, tf.float64), "float64"),
    returns("complex numbers", lambda x: tf.cast(x, tf.complex64), "complex64"),
]
_FUNCTION = function(*NOT_ONE, *MISSHAPEN, good=[value(tf.sin, means=tf.sin)])
_BOUNDS = {
    "clip_value_min": number(lambda v: v <= 1),
    "clip_value_max": number(lambda v: v >= -1),
}
_NORM = number(not_negative, rows=False, scalar_only=True)
_RECTIFIER = {"x": REAL, "negative_slope": number(anything), "max_value": number(none=None)}
_OPEN = {"negative_slope": 0.0, "max_value": None}
_LIMIT = number(not_negative, none=None)


# In NumPy, with its derivative.
_KNOWN = {tf.identity: (np.positive, np.ones_like), tf.sin: (np.sin, np.cos)}


def _replaced(x, forward, backward=tf.identity):
    return _KNOWN[forward][0](x), [g_of(x) * np.conj(_KNOWN[backward][1](x))]


_RECORD = choices(
    NOT_CALLABLE,
    value([].append, means=id),
    Odd("variable", lambda: tf.Variable(X), id),
    Odd("variable of another shape", lambda: tf.Variable([1.0, 2.0]), shape=True),
    Odd("variable of another dtype", lambda: tf.Variable(X, dtype=tf.float64)),
)


def bits():
    """The kind of a number of bits: a whole one, of an integer dtype."""
    return number(lambda v: np.zeros_like(v, bool), integers=lambda v: (v >= 1) & (v <= 24))


OPS = {
    "scale_gradient": op(
        gl.scale_gradient,
        {"x": tensor(), "scale": number(complex_=False)},
        identity(lambda g, scale: scale * g),
        scale=0.5,
    ),
    "reverse_gradient": op(
        gl.reverse_gradient,
        {"x": tensor(), "scale": number()},
        identity(lambda g, scale: -scale * g),
        scale=0.5,
    ),
    "mask_gradient": op(
        gl.mask_gradient,
        {"x": tensor(), "mask": boolean()},
        identity(lambda g, mask: np.where(mask, g, 0.0)),
        mask=True,
    ),
    "zero_nonfinite_gradient": op(
        gl.zero_nonfinite_gradient, {"x": tensor()}, identity(lambda g: g)
    ),
    "record_gradient": op(
        gl.record_gradient,
        {"x": tensor(), "record": _RECORD},
        identity(lambda g, record: g),
        record=id,
    ),
    "clip_gradient_by_value": op(
        gl.clip_gradient_by_value,
        {"x": REAL, **_BOUNDS},
        identity(_clamped),
        clip_value_min=-1.0,
        clip_value_max=1.0,
    ),
    "clip_gradient_by_norm": op(
        gl.clip_gradient_by_norm,
        {
            "x": tensor(),
            "clip_norm": _NORM,
            "axes": axes(),
        },
        identity(_shortened),
        clip_norm=1.0,
        axes=None,
    ),
    "clip_by_value_preserve_gradient": op(
        gl.clip_by_value_preserve_gradient,
        {"x": REAL, **_BOUNDS},
        lambda x, **bounds: (_clamped(x, **bounds), [g_of(x)]),
        clip_value_min=-1.0,
        clip_value_max=1.0,
    ),
    "replace_gradient": op(
        gl.replace_gradient,
        {"x": tensor(), "forward": _FUNCTION, "backward": _FUNCTION},
        _replaced,
        forward=tf.identity,
        backward=tf.identity,
    ),
    "stop_gradient_trick": op(
        gl.stop_gradient_trick,
        {"x": tensor(exact=False), "forward": _FUNCTION, "backward": _FUNCTION},
        _replaced,
        forward=tf.identity,
        backward=tf.identity,
    ),
    "straight_through": op(
        gl.straight_through,
        {"x": tensor(), "forward": _FUNCTION},
        _replaced,
        forward=tf.identity,
    ),
    "round_ste": op(gl.round_ste, {"x": REAL}, surrogate(np.rint, lambda x: 1.0)),
    "sign_ste": op(
        gl.sign_ste, {"x": REAL, "clip_value": _LIMIT}, surrogate(_sign, _window), clip_value=1.0
    ),
    "heaviside_ste": op(
        gl.heaviside_ste,
        {"x": REAL, "clip_value": _LIMIT},
        surrogate(_step, _window),
        clip_value=1.0,
    ),
    "ternary_ste": op(
        gl.ternary_ste,
        {"x": REAL, "threshold": number(not_negative, none=INF, loose=True), "clip_value": _LIMIT},
        surrogate(_ternary, _window),
        threshold=0.5,
        clip_value=1.0,
    ),
    "approx_sign": op(
        gl.approx_sign,
        {"x": REAL},
        surrogate(_sign, lambda x: np.where(np.abs(x) <= 1, 2 - 2 * np.abs(x), 0)),
    ),
    "guided_relu": op(gl.guided_relu, _RECTIFIER, _rectified(_guided), **_OPEN),
    "deconv_relu": op(gl.deconv_relu, _RECTIFIER, _rectified(_deconv), **_OPEN),
    "redirected_relu": op(
        gl.redirected_relu,
        {**_RECTIFIER, "active": boolean()},
        _rectified(_redirected),
        active=True,
        **_OPEN,
    ),
    "quantize_ste": op(
        gl.quantize_ste,
        {
            "x": REAL,
            "bits": bits(),
            "signed": flag(),
            "narrow_range": flag(),
            "outside": choice("zero", "pass"),
        },
        _quantized,
        bits=3,
        low=None,
        high=None,
        scale=None,
        signed=True,
        narrow_range=False,
        outside="zero",
    ),
}

# Beyond 1e18 a slope can't be told from infinite.
_ALPHA = number(lambda v: positive(v) & (v < 1e18), loose=True)
_LEAK = number(loose=True)


def _family(family, derivative, **parameters):
    """A surrogate: its derivative, and what a spike makes of it."""

    def run(x, **params):
        own = family(**params)
        own.primitive(x)
        with tf.GradientTape() as tape:
            tape.watch(tf.nest.map_structure(tf.convert_to_tensor, x))
            y = gl.spike(x, own)
        is_taped = isinstance(x, tf.Tensor)
        gradient = tape.gradient(y, x, output_gradients=upstream(y)) if is_taped else None
        return own.derivative(x), y, gradient

    def oracle(x, **params):
        slope = derivative(x, **params)
        return slope, _step(x), np.where(slope == 0, 0.0, g_of(x) * slope)

    kinds = {
        "alpha": _ALPHA,
        "leak": _LEAK,
        "beta": _ALPHA,
        "height": _LEAK,
        "spread": _ALPHA,
        "q": number(lambda v: (v > 1) & (v < 1e18), loose=True),
        "terms": choices(
            [value(1, means=1), value(3, means=3), Odd("of numpy", lambda: np.int32(2), 2)],
            [value(v) for v in (0, -1, 2.5, INF, NAN, 1j)],
            NO_TENSOR,
            BOOLEANS,
            refused(tensor=lambda: tf.constant(2), list_=lambda: [2], array=lambda: np.array(2)),
        ),
    }
    return Member(
        run,
        {"x": tf.constant(X), **parameters},
        {"x": REAL, **{name: kinds[name] for name in parameters}},
        oracle,
    )


def _swish(x, beta):
    b = np.minimum(np.abs(beta * x), 700.0)
    e = np.exp(-b)
    return beta * (2 - b * np.tanh(b / 2)) * 2 * e / (1 + e) ** 2


def _slope_of_wave(x, alpha, terms):
    angle = np.pi / 2 * np.fmod(alpha * x, 4)
    slope = alpha * sum(np.cos((2 * i + 1) * angle) for i in range(terms))
    return np.where(np.isinf(x), 0.0, slope)


def _bell(v):
    return np.exp(-(v**2) / 2) / np.sqrt(2 * np.pi)


def _three_bells(x, alpha, height, spread):
    u = alpha * x
    beside = _bell((u - 1) / spread) + _bell((u + 1) / spread)
    return alpha * ((1 + height) * _bell(u) - height / spread * beside)


def _logistic(x, alpha):
    e = np.exp(-np.abs(alpha * x))
    return alpha * e / (1 + e) ** 2


OPS |= {
    "swish_sign": op(
        gl.swish_sign, {"x": REAL, "beta": _ALPHA}, surrogate(_sign, _swish), beta=5.0
    ),
    "Sigmoid": _family(gl.Sigmoid, _logistic, alpha=4.0),
    "FastSigmoid": _family(
        gl.FastSigmoid, lambda x, alpha: (1 + np.abs(alpha * x)) ** -2.0, alpha=2.0
    ),
    "ATan": _family(
        gl.ATan, lambda x, alpha: 2 * alpha / (4 + (np.pi * alpha * x) ** 2), alpha=2.0
    ),
    "Triangular": _family(
        gl.Triangular, lambda x, alpha: alpha * np.maximum(0, 1 - np.abs(alpha * x)), alpha=1.0
    ),
    "PiecewiseExp": _family(
        gl.PiecewiseExp, lambda x, alpha: alpha / 2 * np.exp(-np.abs(alpha * x)), alpha=1.0
    ),
    "Erf": _family(
        gl.Erf, lambda x, alpha: alpha / np.sqrt(np.pi) * np.exp(-((alpha * x) ** 2)), alpha=2.0
    ),
    "SoftSign": _family(
        gl.SoftSign, lambda x, alpha: alpha / 2 * (1 + np.abs(alpha * x)) ** -2.0, alpha=2.0
    ),
    "Boxcar": _family(
        gl.Boxcar,
        lambda x, alpha, leak: np.where(np.abs(alpha * x) <= 0.5, alpha, leak),
        alpha=1.0,
        leak=0.0,
    ),
    "LeakyReLU": _family(
        gl.LeakyReLU, lambda x, alpha, leak: np.where(x < 0, leak, alpha), alpha=1.0, leak=0.1
    ),
    "NonzeroSignLogAbs": _family(
        gl.NonzeroSignLogAbs, lambda x, alpha: alpha / (1 + np.abs(alpha * x)), alpha=1.0
    ),
    "S2NN": _family(
        gl.S2NN,
        lambda x, alpha, beta: np.where(x < 0, _logistic(x, alpha), beta / (1 + np.abs(x))),
        alpha=4.0,
        beta=1.0,
    ),
    "QPseudoSpike": _family(
        gl.QPseudoSpike,
        lambda x, alpha, q: alpha * (1 + 2 / (q - 1) * np.abs(alpha * x)) ** -q,
        alpha=1.0,
        q=2.0,
    ),
    "LogTailedReLU": _family(
        gl.LogTailedReLU,
        lambda x, alpha, leak: np.where(x < 0, leak, np.minimum(alpha, 1 / np.maximum(x, 1e-300))),
        alpha=1.0,
        leak=0.1,
    ),
    "SquarewaveFourierSeries": _family(
        gl.SquarewaveFourierSeries, _slope_of_wave, alpha=0.5, terms=2
    ),
    "TripleGaussian": _family(gl.TripleGaussian, _three_bells, alpha=2.0, height=0.15, spread=6.0),
}


def _quantize(argument, kind, **good):
    """quantize_ste with a grid of its own, for the arguments that others rule out."""
    rest = {name: v for name, v in OPS["quantize_ste"].good.items() if name != "x"}
    return op(gl.quantize_ste, {argument: kind}, _quantized, **{**rest, **good})


def _spike(x, surrogate):
    return gl.spike(x, surrogate)


def _end(beyond):
    """The kind of an end of a range."""
    return number(lambda v: beyond(v) & np.isfinite(v), loose=True)


def _broken(derivative):
    """A surrogate with a derivative that isn't one."""
    return type("Broken", (gl.Surrogate,), {"derivative": lambda self, x: derivative(x)})()


def _wrong_surrogates():
    return [
        *refused(
            None_=lambda: None,
            class_=lambda: gl.ATan,
            text=lambda: "ATan",
            number=lambda: 2.0,
            function=lambda: tf.sin,
            dict_=dict,
            list_=lambda: [gl.ATan()],
        ),
        Odd("base", lambda: gl.Surrogate(), says=("Surrogate",)),
        *[
            Odd(f"of a derivative that gives {label}", lambda f=f: _broken(f), says=(said,))
            for label, f, said in [
                ("None", lambda x: None, "None"),
                ("text", lambda x: "a", "string"),
                ("a list", lambda x: [x, x], "list"),
            ]
        ],
    ]


def _global_norm(xs, clip_norm):
    return gl.clip_gradients_by_global_norm(xs, clip_norm)


_XS = choices(
    *[Odd(str(type(s)), lambda s=s: s, s) for s in ([tf.constant(X)], {"a": tf.constant(X)})],
    [odd for odd in NO_TENSOR if not re.search("dict|two lengths", odd.label)],
    refused(
        list_with_None=lambda: [tf.constant(X), None],
        list_with_integers=lambda: [tf.constant(X), 3],
        list_with_text=lambda: [tf.constant(X), "a"],
        int_tensor=lambda: tf.constant([1, 2]),
        slices=lambda: tf.IndexedSlices(tf.ones([1, 3]), tf.constant([0])),
    ),
    Odd("empty list", list, says=("no tensors",)),
    Odd("empty dict", dict, says=("no tensors",)),
)


def _custom(x, f):
    return gl.custom_gradient(f)(x)


def _doubled(x):
    return x, lambda g: 2.0 * g


def _ruled(label, rule, *says):
    return returns(f"a rule that returns {label}", lambda x: (x, rule), *says)


_F = choices(
    [odd for odd in NOT_CALLABLE if odd.label != "None"],
    returns("None", lambda x: None, "None"),
    returns("no pair", lambda x: x, "tf.Tensor", "Tensor("),
    returns("a pair without a rule", lambda x: (x, x), "tf.Tensor", "Tensor("),
    returns("no tensor", lambda x: (None, lambda g: g), "None"),
    returns("a ragged tensor", lambda x: (tf.RaggedTensor.from_tensor(X), lambda g: g), "Ragged"),
    _ruled("two", lambda g: (g, g), "2"),
    _ruled("none of them", lambda g: (), "0"),
    _ruled("text", lambda g: "a", "string"),
    _ruled("float64", lambda g: tf.cast(g, tf.float64), "float64"),
    _ruled("integers", lambda g: tf.cast(g, tf.int32), "int32"),
    Odd(
        "a function that returns a rule that returns a row less",
        lambda: lambda x: (x, lambda g: g[:1]),
        says=("(1, 3)",),
        shape=True,
    ),
)
_COMPOSITE = [odd for odd in NO_TENSOR if odd.label in ("ragged tensor", "sparse tensor")]


def _numpy(x, forward, gradient, dtype, shape, rule):
    return gl.numpy_op(forward, gradient, dtype=dtype, shape=shape, rule=rule)(x)


def _twice(x, g):
    return 2.0 * g


def _py_func(inp, **rest):
    return gl.py_func(inp=[inp], **rest)


_ARRAYS = [
    returns("None", lambda *a: None, "object", "None"),
    returns("text", lambda *a: "a", "<U1", "shape ()"),
    returns("two arrays", lambda *a: np.ones((2, 2, 3)), "(2, 2, 3)"),
    returns("complex numbers", lambda *a: np.ones((2, 3), complex), "complex128"),
    returns("a ragged list", lambda *a: [[1.0], [1.0, 2.0]], "[1.0, 2.0]", "2 gradient", "2 arr"),
    returns("float64", lambda *a: np.ones((2, 3)), means=lambda *a: np.ones((2, 3), np.float32)),
    returns("integers", lambda *a: np.ones((2, 3), int), means=lambda *a: np.ones((2, 3))),
]
_GRADIENTS = [
    returns("two of them", lambda op, g: (g, g), "2"),
    returns("text", lambda op, g: "a", "'a'"),
    returns("float64", lambda op, g: tf.cast(g, tf.float64), "float64"),
    returns("None", lambda op, g: None, means=lambda op, g: None),
    returns("a row less", lambda op, g: g[:1], "(1, 3)", shape=True),
]
_INPUT = choices([odd for odd in NO_TENSOR if not re.search("text|bytes|string", odd.label)], KERAS)
_DTYPES = [
    value(tf.float64, means=tf.float64),
    value("float64", means=tf.float64),
    value(np.float64, means=tf.float64),
    *refused(text=lambda: "floats", number=lambda: 3.5, tensor=lambda: tf.ones([]), dict_=dict),
]


def _registered(x, rule):
    return gl.override_gradient({"Sin": gl.register_gradient(rule)})(tf.sin)(x)


def _overridden(x, rules, f):
    return gl.override_gradient(rules)(f)(x)


def _ruling(odd):
    """The same as the rule for Sin."""
    means = odd.means if odd.means is REFUSED else {"Sin": odd.means}
    label = f"for Sin, {odd.label}"
    return replace(odd, label=label, make=lambda: {"Sin": odd.make()}, means=means)


class _Op:
    """A rectifier's op, as a rule is handed it."""

    type = "Relu"
    inputs = (tf.constant(X),)


def _rule(rule, oracle, **more):
    kinds = {
        "op": refused(
            None_=lambda: None,
            text=lambda: "Relu",
            tensor=lambda: tf.constant(X),
            function=lambda: tf.nn.relu,
        ),
        "upstream": [
            *NO_TENSOR,
            *BOOLEANS,
            *refused(int_tensor=lambda: tf.constant([1]), list_=lambda: [1.0]),
        ],
    }
    kinds = {name: choices(odds) for name, odds in kinds.items()}
    good = {"op": _Op, "upstream": tf.constant(g_of(X), tf.float32)}
    switch = {"active": boolean()} if more else {}
    return Member(rule, {**good, **more}, {**kinds, **switch}, oracle)


def _rule_oracle(rule):
    oracle = _rectified(rule)
    return lambda op, upstream, **more: oracle(X, 0.0, None, **more)[1][0]


def called_input(*args, **kwargs):
    return called(op(*args, **kwargs), x="input 0", inp="input 0")


def called_rules(*args, **kwargs):
    return called(op(*args, **kwargs), rules="rules|rule|to override|PartitionedCall|an op type")


OPS |= {
    "spike": called(
        op(
            gl.spike,
            {"x": REAL, "surrogate": choices(_wrong_surrogates())},
            surrogate(_step, lambda x, surrogate: 4 / (4 + (np.pi * 2 * x) ** 2)),
            surrogate=gl.ATan(),
        ),
        surrogate="surrogate|Surrogate",
    ),
    "quantize_ste, low": _quantize(
        "low", number(lambda v: (v <= 1.0) & np.isfinite(v), loose=True), high=1.0
    ),
    "quantize_ste, high": _quantize(
        "high", number(lambda v: (v >= -1.0) & np.isfinite(v), loose=True), low=-1.0
    ),
    "quantize_ste, scale": _quantize("scale", number(positive, none=None, loose=True), scale=0.5),
    "clip_gradients_by_global_norm": op(
        gl.clip_gradients_by_global_norm,
        {"xs": _XS, "clip_norm": _NORM},
        first="xs",
        clip_norm=1.0,
    ),
    "custom_gradient": called(
        op(_custom, {"x": choices(_COMPOSITE), "f": _F}, f=_doubled), f="f|<lambda>"
    ),
    "numpy_op": called_input(
        _numpy,
        {
            "x": _INPUT,
            "forward": function(*_ARRAYS),
            "gradient": function(*_ARRAYS[1:-2]),
            "dtype": choices(_DTYPES),
            "shape": choices(
                value((2, 3), means=(2, 3)),
                *refused(text=lambda: "a", number=lambda: 2.5, other=lambda: (3, 2)),
            ),
            "rule": choice("numpy"),
        },
        forward=np.negative,
        gradient=_twice,
        dtype=None,
        shape=None,
        rule="numpy",
    ),
    "py_func": called_input(
        _py_func,
        {
            "inp": _INPUT,
            "func": function(*[odd for odd in _ARRAYS if "two arrays" not in odd.label]),
            "Tout": choices(_DTYPES[3:], refused(None_=lambda: None)),
            "stateful": flag(),
            "name": choices(value("own", means="own"), refused(number=lambda: 3, list_=list)),
            "grad": choices([odd for odd in NOT_CALLABLE if odd.label != "None"], _GRADIENTS),
        },
        first="inp",
        func=np.negative,
        Tout=tf.float32,
        stateful=True,
        name=None,
        grad=lambda op, g: 2.0 * g,
    ),
    "register_gradient": op(
        _registered, {"rule": function(*_GRADIENTS)}, rule=lambda op, g: 2.0 * g
    ),
    "override_gradient": called_rules(
        _overridden,
        {
            "rules": choices(
                NOT_CALLABLE,
                [_ruling(odd) for odd in [*NOT_CALLABLE, *_GRADIENTS]],
                value({1: tf.sin}),
                value({"Sni": tf.sin}),
                value({"Cos": tf.sin}),
                value({"PartitionedCall": tf.sin}),
            ),
            "f": function(),
        },
        rules={"Sin": lambda op, g: 2.0 * g},
        f=tf.sin,
    ),
    "Surrogate": Member(
        lambda x, method: getattr(gl.Surrogate(), method)(x),
        {"x": tf.constant(X), "method": "derivative"},
        {
            "method": choices(
                value("derivative", says=("Surrogate",)), value("primitive", says=("Surrogate",))
            )
        },
        called={"method": "derivative|primitive"},
    ),
    "guided_rule": _rule(gl.guided_rule, _rule_oracle(_guided)),
    "deconv_rule": _rule(gl.deconv_rule, _rule_oracle(_deconv)),
    "redirected_rule": _rule(gl.redirected_rule, _rule_oracle(_redirected), active=True),
}

EACH = [(name, argument) for name, member in OPS.items() for argument in member.kinds]


@pytest.mark.parametrize(("name", "argument"), EACH)
def test_eager(name, argument):
    try_all(OPS[name], argument, eager, MANY)


@pytest.mark.parametrize(("name", "argument"), EACH)
def test_in_a_function_of_unknown_shapes(name, argument):
    try_all(OPS[name], argument, traced, FEW)


def test_every_op_and_each_of_its_arguments_has_an_entry():
    rooms = [room for room in _ROOMS if room.startswith("gradlab.ops.")]
    check_all_are_here(OPS, {name: getattr(gl, name) for room in rooms for name in _ROOMS[room]})


ENLARGING = {"mask": lambda shape: tf.fill(shape, True), "bits": lambda shape: tf.fill(shape, 3)}
ENLARGED = [
    (name, argument)
    for name, argument in EACH
    if argument in {*ENLARGING, "scale", "clip_value_min", "clip_value_max", "clip_norm"}
    or argument in {"threshold", "clip_value", "beta", "alpha", "leak", "low", "high"}
    or argument in {"negative_slope", "max_value"}
]


@pytest.mark.parametrize(("name", "argument"), ENLARGED)
def test_a_shape_not_known_before_it_runs_enlarges_nothing(name, argument):
    make = ENLARGING.get(argument, tf.ones)
    hold(OPS[name], argument, Odd("too large", lambda: make([4, 2, 3]), shape=True), traced)
