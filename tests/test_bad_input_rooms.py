"""Everything but the ops with bad and odd input: the right value, or a clear error."""

import contextlib
import inspect
import io
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from bad_input import (
    BOOLEANS,
    FEW,
    MANY,
    NO_TENSOR,
    NOT_CALLABLE,
    REFUSED,
    Member,
    Odd,
    X,
    axes,
    called,
    check_all_are_here,
    choice,
    choices,
    eager,
    function,
    number,
    op,
    positive,
    refused,
    returns,
    traced,
    try_all,
    value,
)
from matplotlib.figure import Figure

import gradlab as gl
from gradlab import _ROOMS, optimizing

# Made by another member, and not called.
MADE = {
    "Curve": "curve",
    "Explorer": "explore",
    "optimizing.TransformedOptimizer": "transform_gradients",
    "optimizing.TransformedLossScaleOptimizer": "transform_gradients",
}


# The clips of an optimizer's gradients.


def _dense(value):
    return tf.nest.map_structure(
        lambda g: tf.convert_to_tensor(g) if isinstance(g, tf.IndexedSlices) else g, value
    )


def _same(label, make):
    """An Odd that means itself, made anew, as a dense tensor where it is slices."""
    return Odd(label, make, _Made(make))


class _Made:
    """What is made when it is asked for."""

    def __init__(self, make):
        self.make = make


GRADIENTS = choices(
    [
        _same("a tensor", lambda: tf.constant(X)),
        _same("a dict", lambda: {"w": tf.constant(X)}),
        _same("with None", lambda: (tf.constant(X), None)),
        _same("slices", lambda: tf.IndexedSlices(tf.ones([1, 3]), [1], tf.constant([2, 3]))),
        _same("float16", lambda: [tf.cast(X, tf.float16)]),
        _same("float64", lambda: [tf.cast(X, tf.float64)]),
        _same("empty tensor", lambda: [tf.zeros([0, 3])]),
        _same("array", lambda: [X]),
        _same("NaN", lambda: [tf.fill([2, 3], np.nan)]),
    ],
    refused(
        None_=lambda: None,
        text=lambda: "a",
        number=lambda: 0.5,
        list_of_numbers=lambda: [0.5, 0.25],
        variable=lambda: [tf.Variable(X)],
        variable_of_keras=lambda: [keras.Variable(X)],
        int_tensor=lambda: [tf.constant([1, 2])],
        int_array=lambda: np.arange(3),
        bool_tensor=lambda: tf.constant([True]),
        string_tensor=lambda: {"w": tf.constant(["a"])},
        pairs=lambda: zip([tf.constant(X)], [tf.Variable(X)], strict=True),
        keras_tensor=lambda: [keras.KerasTensor([2, 3])],
        object_=lambda: [object()],
        function=lambda: [np.sin],
        array_of_objects=lambda: [np.array([None], object)],
        sparse=lambda: [tf.sparse.from_dense(X)],
    ),
)
SCALAR = number(lambda v: v >= 0, rows=False, scalar_only=True)


def _clip(name, oracle, **kinds_and_good):
    """Two members: a clip's parameters, held to NumPy, and its gradients."""
    clip = getattr(gl, name)

    def run(gradients, **params):
        if isinstance(gradients, _Made):
            gradients = gradients.make()
        return _dense(clip(gradients, **params))

    good = {argument: good for argument, (_, good) in kinds_and_good.items()}
    kinds = {argument: kind for argument, (kind, _) in kinds_and_good.items()}
    kinds["nonfinite"] = choice("propagate", "zero")
    good = {"gradients": tf.constant(X), **good, "nonfinite": "propagate"}
    by_numpy = Member(run, good, kinds, lambda gradients, nonfinite, **params: oracle(X, **params))
    by_itself = Member(_beside(run, "weights" in good), good, {"gradients": GRADIENTS})
    # What a unit is needs the rank, which a graph of unknown shapes doesn't have.
    known = name != "adaptive_clip"
    return {
        name: replace(by_numpy, graph=known),
        f"{name}, gradients": replace(by_itself, graph=known),
    }


def _beside(run, weighed):
    """Run with weights like the gradients, where there are any."""

    def beside(gradients, weights, **params):
        made = gradients.make() if isinstance(gradients, _Made) else gradients
        return run(made, **params, **({"weights": _dense(made)} if weighed else {}))

    return beside if weighed else run


def _norm(g, axes=None):
    axes = None if axes is None else tuple(np.atleast_1d(axes).astype(int))
    return np.sqrt(np.sum(np.square(g, dtype=np.float64), axis=axes, keepdims=True))


def _by_norm(g, clip_norm, axes=None):
    return g * np.minimum(1.0, np.maximum(clip_norm, 0) / np.maximum(_norm(g, axes), 1e-300))


def _by_global_norm(g, clip_norm, use_norm):
    norm = _norm(g).item() if use_norm is None else np.asarray(use_norm)
    return g * np.minimum(1.0, np.maximum(clip_norm, 0) / norm), norm


def _adaptive(g, clipping, eps, axes, weights):
    axes = 0 if axes is None or np.size(axes) == 0 else axes
    bound = np.maximum(clipping, 0) * np.maximum(_norm(X, axes), np.maximum(eps, 0))
    return g * np.minimum(1.0, bound / _norm(g, axes))


def _by_rms(g, threshold):
    rms = np.sqrt(np.mean(np.square(g, dtype=np.float64)))
    return g * np.minimum(1.0, np.maximum(threshold, 0) / rms)


def _by_example(g, clip_norm):
    return _by_norm(g, clip_norm, 1), _norm(g, 1)[:, 0]


def _clamped(g, clip_value_min, clip_value_max):
    return np.maximum(np.minimum(g, clip_value_max), clip_value_min)


WEIGHTS = choices(
    refused(
        None_=lambda: None,
        text=lambda: "a",
        list_=lambda: [tf.constant(X)],
        other_shape=lambda: tf.ones([3, 2]),
        int_tensor=lambda: tf.ones([2, 3], tf.int32),
        string_tensor=lambda: tf.fill([2, 3], "a"),
        dict_=lambda: {"w": tf.constant(X)},
        object_=object,
        function=lambda: np.sin,
    ),
    Odd("variable", lambda: tf.Variable(X), X),
    Odd("variable of Keras", lambda: keras.Variable(X), X),
    Odd("array", lambda: X, X),
    Odd("float64", lambda: X.astype(np.float64), X),
)

ROOMS = {
    **_clip(
        "clip_by_value",
        _clamped,
        clip_value_min=(number(lambda v: v <= 1, rows=False, scalar_only=True), -1.0),
        clip_value_max=(number(lambda v: v >= -1, rows=False, scalar_only=True), 1.0),
    ),
    **_clip("clip_by_norm", _by_norm, clip_norm=(SCALAR, 1.0), axes=(axes(), None)),
    **_clip(
        "clip_by_global_norm",
        _by_global_norm,
        clip_norm=(SCALAR, 1.0),
        use_norm=(
            number(positive, none=None, rows=False, scalar_only=True, loose=True),
            None,
        ),
    ),
    **_clip(
        "adaptive_clip",
        _adaptive,
        clipping=(SCALAR, 0.1),
        eps=(SCALAR, 1e-3),
        axes=(axes(), None),
        weights=(WEIGHTS, tf.constant(X)),
    ),
    **_clip("clip_by_block_rms", _by_rms, threshold=(SCALAR, 1.0)),
    **_clip("per_example_clip", _by_example, clip_norm=(SCALAR, 1.0)),
}


# Optimizers.


def _stepped(optimizer, fn, with_variables):
    w = tf.Variable(X)
    optimizer = optimizer() if optimizer is _sgd else optimizer
    own = gl.transform_gradients(optimizer, fn, with_variables=with_variables)
    own.apply([tf.ones_like(w)], [w])
    return w.numpy()


def _sgd():
    return keras.optimizers.SGD(1.0)


FN = function(
    returns("None", lambda gs: None, "None"),
    returns("text", lambda gs: "a", "'a'"),
    returns("one tensor", lambda gs: gs[0], "float32"),
    returns("two", lambda gs: gs * 2, "2"),
    returns("a list of None", lambda gs: [None], "None"),
    returns("float64", lambda gs: [tf.cast(g, tf.float64) for g in gs], "float64"),
    returns("another shape", lambda gs: [g[:1] for g in gs], "(1, 3)"),
    returns("nothing, for it takes two", lambda gs, ws, more: gs),
    returns("the same", lambda gs: gs, means=lambda gs: gs),
    returns("a pair", lambda gs: (gs, 1.0), means=lambda gs: gs),
)

ROOMS |= {
    "transform_gradients": Member(
        _stepped,
        {"optimizer": _sgd, "fn": lambda gs: gs, "with_variables": False},
        {
            "optimizer": choices(
                refused(
                    None_=lambda: None,
                    text=lambda: "adam",
                    class_=lambda: keras.optimizers.SGD,
                    dict_=dict,
                    number=lambda: 0.1,
                    function=lambda: np.sin,
                    list_=lambda: [_sgd()],
                    model=lambda: keras.Sequential(),
                ),
            ),
            "fn": FN,
            "with_variables": choices(
                refused(None_=lambda: None, text=lambda: "no", number=lambda: 2, list_=list)
            ),
        },
        graph=False,
        rest={"name": "Keras checks it"},
    ),
}


# Layers.


def _layer(kind, kinds, oracle=None, **good):
    """A layer: what it returns, and its gradient."""

    def call(x, **params):
        return kind(**params)(x)

    # Keras itself turns numbers and lists into tensors.
    odds = [o for o in NO_TENSOR if o.label in ("None", "ragged tensor")]
    return replace(
        op(call, {**kinds, "x": choices(odds)}, oracle, **good),
        called={"x": "x|input 0|inputs", "surrogate": "surrogate|alpha", **_PASSED_ON},
        graph=False,  # its variables are made outside
        rest={"kwargs": "of every layer"},
    )


# What NumpyOp hands on to numpy_op, which calls it so.
_PASSED_ON = {"output_dtype": "dtype", "output_shape": "shape"}


def _real(accepts=np.isfinite, none=REFUSED):
    """The kind of a number that becomes a layer's variable."""
    taken = [3e38, -3e38, np.inf, -np.inf, np.nan, 0.0, -0.0, 0.5, -2.0, 3, np.float16(0.5)]
    taken += [np.float64(-0.25), np.int32(2), 1e300]
    odds = [
        Odd(f"{type(v).__name__} {v}", lambda v=v: v, float(v), may_refuse=not accepts(float(v)))
        for v in taken
    ]
    rest = refused(
        tensor=lambda: tf.constant(0.5),
        variable=lambda: tf.Variable(0.5),
        array=lambda: np.array(0.5),
        list_=lambda: [0.5],
        complex_=lambda: 1j,
    )
    nothing = Odd("None", lambda: None, none, says=("neither",))
    return choices(odds, rest, NO_TENSOR[1:], BOOLEANS, nothing)


def _upstream(x):
    return 1.75 - 0.875 * np.arange(np.size(x)).reshape(np.shape(x))


_FORWARD = function(
    returns("None", lambda x: None, "None"),
    returns("integers", lambda x: tf.cast(x, tf.int32), "int32"),
    returns("a row less", lambda x: x[:-1], "(1, 3)", shape=True),
)
L = gl.layers
ROOMS |= {
    "layers.ScaleGradient": _layer(
        L.ScaleGradient,
        {"scale": _real(lambda v: abs(v) < 3.5e38)},
        lambda x, scale: (x, [scale * _upstream(x)]),
        scale=0.5,
    ),
    "layers.ReverseGradient": _layer(
        L.ReverseGradient,
        {"scale": _real(lambda v: abs(v) < 3.5e38)},
        lambda x, scale: (x, [-scale * _upstream(x)]),
        scale=0.5,
    ),
    "layers.ClipGradient": _layer(
        L.ClipGradient,
        {"clip_norm": _real(lambda v: v >= 0), "norm_over": choice("batch", "example")},
        lambda x, clip_norm, norm_over: (
            x,
            [_by_norm(_upstream(x), clip_norm, 1 if norm_over == "example" else None)],
        ),
        clip_norm=1.0,
        norm_over="batch",
    ),
    "layers.ClipGradient, by value": _layer(
        L.ClipGradient,
        {
            "clip_value_min": _real(lambda v: v <= 1, none=-np.inf),
            "clip_value_max": _real(lambda v: v >= -1, none=np.inf),
        },
        lambda x, **bounds: (x, [_clamped(_upstream(x), **bounds)]),
        clip_value_min=-1.0,
        clip_value_max=1.0,
    ),
    "layers.StraightThrough": _layer(L.StraightThrough, {"forward": _FORWARD}, forward=tf.round),
    "layers.Spike": _layer(
        L.Spike,
        {
            "surrogate": choices(
                NOT_CALLABLE,
                refused(class_=lambda: gl.ATan, function=lambda: np.sin),
                Odd("of a row", lambda: gl.ATan([1.0, 2.0, 3.0]), says=("alpha",)),
            )
        },
        surrogate=gl.ATan(),
    ),
    "layers.NumpyOp": _layer(
        L.NumpyOp,
        {
            "forward": function(),
            "gradient": function(),
            "output_dtype": choices(refused(text=lambda: "floats", number=lambda: 3.5)),
            "output_shape": choices(refused(text=lambda: "a", number=lambda: 2.5)),
            "rule": choice("numpy"),
        },
        forward=np.negative,
        gradient=lambda x, g: 2.0 * g,
        output_dtype=None,
        output_shape=None,
        rule="numpy",
    ),
}


# Curves, tables, checks, pictures, exercises.


def _drawn(f, x, points, upstream, device, **parameters):
    curve = gl.curve(f, x, points, upstream, device, **parameters)
    return curve.x, curve.forward, curve.gradient


_BAD_RANGES = refused(
    None_=lambda: None,
    number=lambda: 3.0,
    text=lambda: "ab",
    one=lambda: (1.0,),
    three=lambda: (1.0, 2.0, 3.0),
    falling=lambda: (1.0, -1.0),
    empty=lambda: (1.0, 1.0),
    nan=lambda: (np.nan, 1.0),
    infinite=lambda: (0.0, np.inf),
    words=lambda: ("a", "b"),
)
_BAD_COUNTS = refused(
    None_=lambda: None,
    number=lambda: 2.5,
    nan=lambda: np.nan,
    text=lambda: "5",
    one=lambda: 1,
    negative=lambda: -3,
    list_=lambda: [5],
)
_BAD_UPSTREAMS = refused(
    None_=lambda: None, text=lambda: "a", list_=lambda: [1.0, 2.0], dict_=dict, function=lambda: id
)
_BAD_DEVICES = refused(text=lambda: "tpu", number=lambda: 3, list_=list)


def _checked(check):
    def run(f, args, backward=None, **options):
        functions = [f] if backward is None and check is not gl.check_surrogate else [f, backward]
        return bool(check(*functions, *args, **options))

    return run


_FINE = {"order": 1, "modes": ("reverse",), "rtol": None, "atol": 0.0, "every_element": None}
_OPTIONS = {
    "order": choices(
        refused(
            None_=lambda: None, zero=lambda: 0, four=lambda: 4, text=lambda: "2", nan=lambda: np.nan
        )
    ),
    "modes": choices(
        refused(
            None_=lambda: None,
            text=lambda: "reverse",
            empty=tuple,
            other=lambda: ("sideways",),
            number=lambda: 3,
        )
    ),
    "rtol": choices(
        refused(
            text=lambda: "a",
            negative=lambda: -1.0,
            nan=lambda: np.nan,
            inf=lambda: np.inf,
            list_=list,
        )
    ),
    "atol": choices(
        refused(text=lambda: "a", negative=lambda: -1.0, nan=lambda: np.nan, list_=list)
    ),
}
_ARGS = choices(
    [
        value(([0.5, 1.0],), means=([0.5, 1.0],)),
        value((0.5,), means=(0.5,)),
        Odd("array", lambda: (X,), (X,)),
        Odd("empty", lambda: (tf.zeros([0]),), (X,)),
    ],
    Odd("none", tuple, says=("no arguments",)),
    [
        Odd(
            odd.label,
            lambda odd=odd: (odd.make(),),
            says=(
                "NaN",
                "float",
            ),
        )
        for odd in refused(
            None_=lambda: None,
            text=lambda: "a",
            integer=lambda: 3,
            int_tensor=lambda: tf.constant([1, 2]),
            nan=lambda: np.nan,
            infinite=lambda: tf.constant([np.inf]),
        )
    ],
)
_F = function(
    returns("None", lambda x: None, "None"),
    returns("text", lambda x: "a", "'a'", "str"),
    returns("integers", lambda x: tf.cast(x, tf.int32), "int32"),
)
_UNCHECKED = {"seed": "any number", "every_element": "only its truth counts"}


def _parameter(**fields):
    spec = gl.ParamSpec(**fields)
    return spec.default, spec.low, spec.high, spec.kind


def _spec(**fields):
    return gl.OpSpec(**fields).compose


def _swapped(model, swaps):
    return [
        tuple(swap)
        for swap in gl.swap_activations(_model() if model is _model else model, swaps)[1]
    ]


def _model():
    return keras.Sequential([keras.Input([2]), keras.layers.Dense(3, "relu", name="hidden")])


def _said(name, answer):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        gl.check(name, answer)
    return said.getvalue()


def _started():
    with contextlib.redirect_stdout(io.StringIO()) as said:
        gl.start()
    return said.getvalue()


def _not_one(*names):
    return {name: f"no wrong one is told from a right one: {why}" for name, why in names}


ROOMS |= {
    "curve": Member(
        _drawn,
        {"f": tf.sin, "x": (-1.0, 1.0), "points": 3, "upstream": 1.0, "device": None},
        {
            "f": function(
                returns("None", lambda x: None, "None"),
                returns("integers", lambda x: tf.cast(x, tf.int32), "int32"),
                returns("one value", lambda x: 1.0, "shape ()"),
            ),
            "x": choices(_BAD_RANGES, value([-1, 1], means=(-1.0, 1.0))),
            "points": choices(_BAD_COUNTS, Odd("int of numpy", lambda: np.int64(3), 3)),
            "upstream": choices(_BAD_UPSTREAMS, Odd("tensor", lambda: tf.constant(2.0), 2.0)),
            "device": choices(_BAD_DEVICES, value("cpu", means=None)),
        },
        graph=False,
        rest={"parameters": "what f takes"},
        called={"parameters": "a"},
    ),
    "check_gradient": Member(
        _checked(gl.check_gradient),
        {"f": tf.sin, "args": (0.5,), **_FINE},
        {"f": _F, "args": _ARGS, **_OPTIONS},
        graph=False,
        rest=_UNCHECKED,
        called={"args": r"args\[0\]|arguments"},
    ),
    "check_surrogate": Member(
        _checked(gl.check_surrogate),
        {"f": tf.sin, "backward": tf.sin, "args": (0.5,), **_FINE},
        {"f": _F, "backward": function(), "args": _ARGS, **_OPTIONS},
        graph=False,
        rest=_UNCHECKED,
        called={"args": r"args\[0\]|arguments"},
    ),
    "check_modes": Member(
        _checked(gl.check_modes),
        {"f": tf.sin, "args": (tf.constant([0.5]),), "modes": ("eager",)},
        {
            "f": _F,
            "args": _ARGS,
            "modes": choices(refused(text=lambda: "eager", other=lambda: ("sideways",))),
        },
        graph=False,
        rest={**_UNCHECKED, "backward": "as f of check_surrogate", "rtol": "as in check_gradient"},
        called={"args": r"args\[0\]|arguments"},
    ),
    "ParamSpec": called(
        Member(
            _parameter,
            {"name": "a", "default": 0.5, "low": 0.0, "high": 1.0, "kind": "float", "step": None},
            {
                "default": choices(
                    refused(
                        None_=lambda: None, text=lambda: "a", high=lambda: 2.0, nan=lambda: np.nan
                    )
                ),
                "low": choices(refused(None_=lambda: None, high=lambda: 2.0, nan=lambda: np.nan)),
                "high": choices(refused(None_=lambda: None, low=lambda: -2.0, inf=lambda: np.inf)),
                "kind": choices(refused(None_=lambda: None, text=lambda: "number")),
                "step": choices(refused(zero=lambda: 0.0, negative=lambda: -1.0, wide=lambda: 9.0)),
            },
            graph=False,
            rest={
                "name": "any text",
                "choices": "with kind='choice'",
                "log": "only its truth counts",
                "unit": "any text",
                "help": "any text",
            },
        ),
        default="a",
        low="a",
        high="a",
        step="a",
    ),
    "OpSpec": Member(
        _spec,
        {"name": "a", "op": None, "params": (), "apply": tf.sin, "compose": "x"},
        {"compose": choices(refused(None_=lambda: None, text=lambda: "y", number=lambda: 3))},
        graph=False,
        rest=dict.fromkeys(
            (
                "name",
                "op",
                "params",
                "apply",
                "x",
                "forward_formula",
                "gradient_formula",
                "room",
                "probe",
            ),
            "a row of our own table, which test_registry holds to its oracle",
        ),
    ),
    "swap_activations": Member(
        _swapped,
        {"model": _model, "swaps": {"relu": "tanh"}},
        {
            "model": choices(
                refused(
                    None_=lambda: None,
                    text=lambda: "relu",
                    class_=lambda: keras.Sequential,
                    layer=lambda: keras.layers.Dense(1),
                    list_=lambda: [_model()],
                )
            ),
            "swaps": choices(
                refused(
                    None_=lambda: None,
                    empty=dict,
                    list_=lambda: ["relu"],
                    text=lambda: "relu",
                    unknown=lambda: {"gelu": "tanh"},
                    nothing=lambda: {"relu": None},
                    number=lambda: {"relu": 3.0},
                )
            ),
        },
        graph=False,
        called={"swaps": "swaps|activation"},
    ),
    "check": Member(
        _said,
        {"name": "square-1", "answer": lambda x: None},
        {
            "name": choices(refused(None_=lambda: None, text=lambda: "square", number=lambda: 3)),
            "answer": choices(
                [value(v, means=v) for v in (None, 3.0, "a", ..., [], tf.sin)],
            ),
        },
        graph=False,
        called={"name": "named"},
    ),
    "predict": Member(
        lambda **arguments: gl.predict(**arguments).text,
        {"question": "Which?", "choices": {"a": "no", "b": "yes"}},
        {
            "choices": choices(
                refused(
                    None_=lambda: None,
                    list_=lambda: ["a", "b"],
                    one=lambda: {"a": "no"},
                    text=lambda: "ab",
                )
            )
        },
        graph=False,
        rest={"question": "any text"},
    ),
    # They draw what other members made, and ask nothing of it.
    "CurvePlot": Member(
        lambda xlabel: (
            gl.CurvePlot(gl.curve(tf.sin, points=3), xlabel=xlabel).figure.axes[1].get_xlabel()
        ),
        {"xlabel": "x"},
        {"xlabel": choices(value("time", means="time"), value("", means=""))},
        graph=False,
        rest={"curve": "a Curve", "others": "Curves"},
    ),
    "plot_check": Member(
        lambda: len(gl.plot_check(gl.check_gradient(tf.sin, 0.5)).axes),
        {},
        {},
        graph=False,
        rest={"check": "what check_gradient gave"},
    ),
    "FigureView": Member(
        lambda alt: gl.FigureView(Figure(), alt=alt).alt,
        {"alt": "a figure"},
        {"alt": choices(value("a line", means="a line"), value("", means=""))},
        graph=False,
        rest=dict.fromkeys(
            inspect.signature(gl.FigureView).parameters,
            "test_figure_view draws them",
        ),
    ),
    "start": Member(_started, {}, {}, graph=False),
    "SPECS": Member(lambda: list(gl.SPECS), {}, {}, graph=False),
    "explore": Member(
        lambda f, **options: gl.explore(f, points=5, **options).digest,
        {"f": tf.sin, "x": (-1.0, 1.0)},
        {"f": choices(NOT_CALLABLE[1:2]), "x": choices(_BAD_RANGES[3:])},
        graph=False,
        called={"f": "f|op"},
        rest=dict.fromkeys(
            (
                "op",
                "compose",
                "presets",
                "upstream",
                "probe",
                "believed",
                "points",
                "device",
                "ranges",
            ),
            "test_explorer",
        ),
    ),
}

EACH = [(name, argument) for name, member in ROOMS.items() for argument in member.kinds]
TRACED = [(name, argument) for name, argument in EACH if ROOMS[name].graph]


@pytest.mark.parametrize(("name", "argument"), EACH)
def test_eager(name, argument):
    try_all(ROOMS[name], argument, eager, MANY)


@pytest.mark.parametrize(("name", "argument"), TRACED)
def test_in_a_function_of_unknown_shapes(name, argument):
    try_all(ROOMS[name], argument, traced, FEW)


def _is_explorer(name, member):
    """Whether a file of its own tries it: tests/test_explore*.py."""
    return name.startswith("explore_") or isinstance(member, type) and "Explorer" in name


def test_everything_but_the_ops_has_an_entry():
    rooms = [room for room in _ROOMS if not room.startswith("gradlab.ops.")]
    members = {name: getattr(gl, name) for room in rooms for name in _ROOMS[room]}
    members |= {f"layers.{name}": getattr(gl.layers, name) for name in gl.layers.__all__}
    more = set(optimizing.__all__) - set(gl.__all__)
    members |= {f"optimizing.{name}": getattr(optimizing, name) for name in more}
    assert set(MADE) <= set(members)
    elsewhere = {*MADE, *[name for name, member in members.items() if _is_explorer(name, member)]}
    check_all_are_here(ROOMS, {n: m for n, m in members.items() if n not in elsewhere})
