"""Bad and odd input: what an argument may be given, what that means, what makes an error clear.

A `Member` says how to call a public name well. Each of its arguments has a kind: a strategy that
draws `Odd` values, each with its meaning. `hold` holds a member to the property: what comes of an
odd value is the value that its meaning gives, or an error that names the argument, what it got,
and the way out.
"""

import contextlib
import inspect
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import keras
import modes  # noqa: F401 - it splits the CPU, which can't be done once there are tensors
import numpy as np
import tensorflow as tf
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import gradlab as gl

HOME = str(Path(gl.__file__).parent)
FEW = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=4,
    phases=(Phase.generate,),
)
MANY = settings(FEW, max_examples=25)
REFUSED = "refused"
"""The meaning of what can't be meant."""

X = np.array([[-1.125, -0.375, 0.375], [1.125, 1.875, 2.625]], np.float32)


# What is drawn.


@dataclass(frozen=True)
class Odd:
    """A value for an argument.

    Attributes:
        label: what a failing test calls it.
        make: gives the value.
        means: what a reader takes it for, as the oracle does; or REFUSED.
        may_refuse: whether an error is right, too.
        loose: whether only dtype and shape of what comes are told by the meaning.
        shape: whether it is only its shape that is wrong, which an unknown one doesn't show.
        says: what the error may say that it got, besides its value, kind, dtype and shape.
    """

    label: str
    make: Callable = field(repr=False)
    means: Any = field(default=REFUSED, repr=False)
    may_refuse: bool = field(default=False, repr=False)
    loose: bool = field(default=False, repr=False)
    shape: bool = field(default=False, repr=False)
    says: tuple = field(default=(), repr=False)


def value(given, **options):
    """An Odd that is this very value."""
    return Odd(repr(given), lambda: given, **options)


def refused(**labelled):
    """Odd values, by label, made by functions, that are to be refused."""
    return [Odd(label.replace("_", " ").strip(), make) for label, make in labelled.items()]


def _nothing():
    return None


def _ragged():
    return tf.ragged.constant([[1.0], [2.0, 3.0]])


def _sparse():
    return tf.sparse.from_dense(X)


def _slices():
    return tf.IndexedSlices(tf.ones([1, 3]), tf.constant([0]), tf.constant([2, 3]))


NO_TENSOR = refused(
    None_=_nothing,
    text=lambda: "0.5",
    bytes_=lambda: b"0.5",
    empty_dict=dict,
    dict_of_numbers=lambda: {"a": 0.5},
    list_of_lists_of_two_lengths=lambda: [[1.0], [1.0, 2.0]],
    list_of_text=lambda: ["a"],
    list_of_None=lambda: [None],
    object_=object,
    function=lambda: np.sin,
    class_=lambda: float,
    string_tensor=lambda: tf.constant("0.5"),
    ragged_tensor=_ragged,
    sparse_tensor=_sparse,
    array_of_objects=lambda: np.array([None, "a"], object),
    array_of_dates=lambda: np.array(["2020-01-01"], "datetime64[D]"),
)
KERAS = refused(keras_tensor=lambda: keras.KerasTensor([2, 3]))
BOOLEANS = refused(
    boolean=lambda: True,
    boolean_of_numpy=lambda: np.bool_(False),
    bool_tensor=lambda: tf.constant(True),
    list_of_booleans=lambda: [True, False, True],
)
NOT_CALLABLE = [
    *refused(
        None_=_nothing,
        number=lambda: 3.0,
        text=lambda: "tanh",
        list_of_functions=lambda: [tf.sin],
        empty_dict=dict,
        tensor=lambda: tf.constant(1.0),
        array=lambda: np.ones(3),
    )
]


def choices(*odds):
    """Draw one of these, which may be lists of them."""
    flat = [odd for one in odds for odd in (one if isinstance(one, (list, tuple)) else [one])]
    return st.sampled_from(flat)


# Tensors that are differentiated.

_INEXACT = {
    "float16": tf.float16,
    "bfloat16": tf.bfloat16,
    "float32": tf.float32,
    "float64": tf.float64,
}
_COMPLEX = {"complex64": tf.complex64, "complex128": tf.complex128}


def tensor(complex_=True, exact=True):
    """The kind of x: one dense tensor of a floating, or complex, dtype."""
    dtypes = {**_INEXACT, **(_COMPLEX if complex_ else {})}
    good = [
        *[_cast(name, X, dtype) for name, dtype in dtypes.items()],
        *[_cast(f"empty {shape}", np.zeros(shape), tf.float32) for shape in ((0,), (0, 3), (2, 0))],
        _cast("scalar", np.float32(0.375), tf.float32),
        _taken("array", X),
        _taken("array of float64", X.astype(np.float64)),
        _taken("number", 0.375, np.float32(0.375)),
        _taken("number of numpy", np.float64(0.375)),
        Odd("variable", lambda: tf.Variable(X), X),
        Odd("variable of Keras", lambda: keras.Variable(X), X),
    ]
    bad = [
        *NO_TENSOR,
        *KERAS,
        *BOOLEANS,
        *refused(
            list_=lambda: [0.5, 0.25],
            list_of_tensors=lambda: [tf.constant(X)],
            empty_list=list,
            slices=_slices,
            int_tensor=lambda: tf.constant([1, 2]),
            int64_tensor=lambda: tf.constant([1, 2], tf.int64),
            integer=lambda: 3,
            int_array=lambda: np.arange(3),
            empty_int_tensor=lambda: tf.zeros([0], tf.int32),
        ),
    ]
    if not complex_:
        bad += [*refused(complex_tensor=lambda: tf.constant(1.0 + 2.0j), complex_=lambda: 1j)]
    return st.one_of(choices(good), choices(bad), *([_extreme()] if exact else []))


def _cast(label, array, dtype):
    return Odd(label, lambda: tf.cast(array, dtype), np.asarray(array))


def _taken(label, given, means=None):
    return Odd(label, lambda: given, np.asarray(given if means is None else means))


_ANY = st.one_of(
    st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, -3e38, 1e-30]),
    st.floats(-8.0, 8.0, width=16),
)


@st.composite
def _extreme(draw):
    """A vector with NaN, infinities, huge and tiny numbers in it."""
    array = np.array(draw(st.lists(_ANY, min_size=1, max_size=4)), np.float32)
    return Odd(f"tensor {array}", lambda: tf.constant(array), array)


# Numbers that are parameters.

_FORMS = {
    "number": float,
    "float32 of numpy": np.float32,
    "float64 of numpy": np.float64,
    "float16 of numpy": np.float16,
    "array": lambda v: np.array(v, np.float64),
    "float16 tensor": lambda v: tf.cast(v, tf.float16),
    "bfloat16 tensor": lambda v: tf.cast(v, tf.bfloat16),
    "float32 tensor": lambda v: tf.constant(v, tf.float32),
    "float64 tensor": lambda v: tf.constant(v, tf.float64),
    "variable": lambda v: tf.Variable(v, dtype=tf.float32),
    "variable of Keras": keras.Variable,
}
_ROWS = {
    "list": lambda v: [float(v)] * 3,
    "list of lists": lambda v: [[float(v)], [float(v)]],
    "row of numpy": lambda v: np.full(3, v),
    "row": lambda v: tf.fill([3], tf.constant(v, tf.float64)),
    "column": lambda v: tf.fill([2, 1], tf.constant(v, tf.float32)),
}
_INTEGERS = {
    "integer": int,
    "int32 of numpy": np.int32,
    "int32 tensor": lambda v: tf.constant(int(v), tf.int32),
    "int64 tensor": lambda v: tf.constant(int(v), tf.int64),
    "uint8 tensor": lambda v: tf.cast(abs(int(v)), tf.uint8),
}
_WRONG_SHAPE = [
    Odd(label, make, shape=True)
    for label, make in {
        "row too long": lambda: tf.ones([7]),
        "list too long": lambda: [0.5] * 7,
        "empty list": list,
        "empty tensor": lambda: tf.zeros([0]),
        "tensor with an axis too many": lambda: tf.ones([4, 2, 3]),
    }.items()
]


def number(
    accepts=np.isfinite,
    none=REFUSED,
    rows=True,
    complex_=False,
    scalar_only=False,
    integers=None,
    loose=False,
):
    """The kind of a parameter: a real number, or a tensor of one that broadcasts to x.

    Args:
        accepts: tells of which numbers it must make something; others it may refuse.
        none: what None means.
        rows: whether it may have a shape of its own.
        complex_: whether it may be complex.
        scalar_only: whether another shape is refused.
        integers: as accepts, for those of an integer dtype.
        loose: whether of other numbers, where it takes them, anything may come.
    """
    rest = NO_TENSOR[1:] + BOOLEANS + KERAS + (_WRONG_SHAPE if rows or scalar_only else [])
    if not complex_:
        rest = rest + [
            Odd("complex number", lambda: 1j),
            Odd("complex tensor", lambda: tf.constant(1j), says=("1j",)),
        ]
    rest = [*rest, NO_TENSOR[0] if none is REFUSED else Odd("None", _nothing, none)]
    forms = {**_FORMS, **(_ROWS if rows else {})}
    return st.one_of(
        choices(rest),
        _numbers(forms, _ANY, accepts, loose),
        _numbers(_INTEGERS, st.integers(-3, 8), integers or accepts, loose),
    )


@st.composite
def _numbers(draw, forms, drawn, accepts, loose):
    v = draw(drawn)
    form = draw(st.sampled_from(sorted(forms)))
    with np.errstate(over="ignore"):
        means = np.asarray(tf.convert_to_tensor(forms[form](v)), np.float64)
        means = means.astype(np.float32).astype(np.float64)
    taken = bool(np.all(accepts(means)))
    return Odd(
        f"{form} {v}",
        lambda: forms[form](v),
        means,
        may_refuse=not taken,
        loose=loose and not taken,
    )


def not_negative(v):
    return v >= 0


def positive(v):
    with np.errstate(invalid="ignore"):
        return (v > 0) & np.isfinite(v)


def anything(v):
    return v == v


# Switches, choices, axes, functions.


def boolean():
    """The kind of a bool, or bool tensor that broadcasts to x."""
    row = [True, False, True]
    good = [
        *[Odd(f"{type(v).__name__} {v}", lambda v=v: v, bool(v)) for v in (True, False)],
        Odd("bool of numpy", lambda: np.bool_(True), True),
        Odd("tensor", lambda: tf.constant(False), False),
        Odd("variable", lambda: tf.Variable(True), True),
        Odd("list", lambda: row, np.array(row)),
        Odd("array", lambda: np.array(row), np.array(row)),
        Odd("row", lambda: tf.constant(row), np.array(row)),
    ]
    bad = refused(
        integer=lambda: 1,
        number=lambda: 0.5,
        list_of_integers=lambda: [1, 0, 1],
        int_tensor=lambda: tf.constant([1, 0, 1]),
        float_array=lambda: np.ones(3),
    )
    long = Odd("row too long", lambda: tf.fill([7], True), shape=True)
    return choices(good, bad, NO_TENSOR, KERAS, long)


def flag():
    """The kind of what is True or False in Python, and known while tracing."""
    good = [
        value(True, means=True),
        value(False, means=False),
        Odd("True of numpy", lambda: np.True_, True),
    ]
    bad = refused(
        None_=_nothing,
        text=lambda: "no",
        integer=lambda: 2,
        number=lambda: np.nan,
        tensor=lambda: tf.constant(True),
        array=lambda: np.array([True, False]),
        list_=list,
    )
    return choices(good, bad)


def choice(*good, none=REFUSED):
    """The kind of what is one of a few words."""
    bad = refused(
        text=lambda: "elsewhere",
        integer=lambda: 1,
        number=lambda: np.nan,
        list_=lambda: list(good),
        array=lambda: np.array(good),
        tensor=lambda: tf.constant(good[0]),
        dict_=dict,
    )
    return choices([value(word, means=word) for word in good], bad, Odd("None", _nothing, none))


def axes(rank=2):
    """The kind of the axes of a tensor."""
    good = [None, 0, -1, [0, 1], (1,), np.int64(1), range(rank), [0, -1], []]
    bad = refused(
        number=lambda: 1.0,
        nan=lambda: np.nan,
        text=lambda: "0",
        boolean=lambda: True,
        dict_=lambda: {"a": 0},
        list_of_numbers=lambda: [0.0],
        list_of_None=lambda: [None],
        float_tensor=lambda: tf.constant(1.0),
        axis_named_twice=lambda: [0, 0],
        huge=lambda: 10**20,
    )
    out = {
        "axis out of range": rank,
        "axes out of range": [0, -rank - 1],
        "axis named twice by two names": [1, -1],
    }
    of_shape = [Odd(label, lambda a=a: a, shape=True) for label, a in out.items()]
    return choices([value(a, means=a) for a in good], bad, of_shape)


def function(*returning, good=(), also=()):
    """The kind of a function; with what it may return that is wrong."""
    return choices(NOT_CALLABLE, returning, good, also)


def returns(label, f, *says, **options):
    """A function that returns what it shouldn't, and what the error should say of it."""
    return Odd(f"a function that returns {label}", lambda: f, says=says, **options)


# The property.


@dataclass(frozen=True)
class Member:
    """How to call a public name.

    Attributes:
        run: ``run(**arguments)``; gives what is compared, a structure of tensors, arrays, text.
        good: the arguments of a good call.
        kinds: by argument, the strategy of its odd values.
        oracle: what run should give, from the meanings of the arguments; else run itself is asked.
        called: by argument, what an error calls it, where not by its own name.
        graph: whether it works in a tf.function.
        rest: arguments of the signature with no kind, each with the reason.
    """

    run: Callable
    good: dict
    kinds: dict
    oracle: Callable | None = None
    called: dict = field(default_factory=dict)
    graph: bool = True
    rest: dict = field(default_factory=dict)

    def arguments(self):
        """The names of all arguments that are spoken of."""
        return {*self.kinds, *self.rest}


def op(function, kinds, oracle=None, first="x", **good):
    """A Member that is an op: what it returns, and its gradient."""

    def run(**params):
        x = params.pop(first)
        with tf.GradientTape() as tape:
            taped = tf.nest.flatten(x)
            watched = [t for t in taped if isinstance(t, tf.Tensor) and _has_gradient(t)]
            tape.watch(watched)
            y = function(x, **params)
        if not watched:
            return y, None
        ys = tf.nest.flatten(y)
        return y, tape.gradient(ys, watched, output_gradients=[upstream(y) for y in ys])

    return Member(run, {first: tf.constant(X), **good}, kinds, oracle)


def called(member, **names):
    """The member, with what errors call its arguments, where not by their names."""
    return replace(member, called=names)


def _has_gradient(t):
    return t.dtype.is_floating or t.dtype.is_complex


def upstream(y):
    """What arrives at y: another number for each element."""
    count = tf.cast(tf.range(tf.size(y)), tf.float64)
    return tf.cast(tf.reshape(1.75 - 0.875 * count, tf.shape(y)), y.dtype)


def g_of(x):
    """`upstream`, in NumPy."""
    return 1.75 - 0.875 * np.arange(np.size(x)).reshape(np.shape(x))


def check_all_are_here(table, members):
    """Hold a table to having all members of the package, with each of their arguments.

    An entry of the table is called as its member is, or that and what it's about after a comma.
    """
    spoken = {}
    for name, member in table.items():
        spoken.setdefault(name.partition(",")[0], set()).update(member.arguments())
    assert sorted(spoken) == sorted(members)
    for name, member in members.items():
        wanted = set(inspect.signature(member).parameters) if callable(member) else set()
        assert wanted <= spoken[name], f"{name}: {wanted - spoken[name]} has no kind"


def try_all(member, argument, runs, profile):
    """Hold a member to the property, for whatever is drawn for an argument."""

    @profile
    @given(odd=member.kinds[argument])
    def holds(odd):
        hold(member, argument, odd, runs)

    holds()


def hold(member, argument, odd, runs):
    """Hold a member to the property, with one argument odd, run by ``runs``."""
    given = odd.make()
    arguments = {**member.good, argument: given}
    try:
        got = runs(member.run, arguments)
    except Exception as error:  # of any class: it has to be a clear one
        if odd.means is not REFUSED and not odd.may_refuse:
            raise
        _check_clear(error, member.called.get(argument, argument), given, odd, runs)
        return
    if odd.means is REFUSED:
        raise AssertionError(f"{argument} = {odd.label} was taken, and gave {got}")
    check_same(got, _expected(member, {argument: odd.means}), arguments, odd.loose)


def _expected(member, meant):
    if member.oracle is None:
        return member.run(**{**member.good, **meant})
    plain = {name: _plain(v) for name, v in member.good.items()}
    with np.errstate(all="ignore"):
        return member.oracle(**{**plain, **meant})


def _plain(v):
    return v.numpy() if isinstance(v, tf.Tensor) else v


def eager(run, arguments):
    """Run in eager mode."""
    return run(**arguments)


def traced(run, arguments):
    """Run in a tf.function that knows no shape of the tensors among the arguments."""
    tensors = {k: v for k, v in arguments.items() if isinstance(v, tf.Tensor)}
    rest = {k: v for k, v in arguments.items() if k not in tensors}
    graph = tf.function(lambda tensors: run(**rest, **tensors), autograph=False)
    specs = {k: tf.TensorSpec(None, v.dtype) for k, v in tensors.items()}
    return graph.get_concrete_function(specs)(tensors)


def _check_clear(error, argument, given, odd, runs):
    message = str(error)
    if odd.shape and runs is traced and isinstance(error, tf.errors.InvalidArgumentError):
        return None  # no shape is known before it runs, and then TensorFlow refuses
    if HOST.search(message) and isinstance(error, HOSTS):
        return _check_words(message, argument, given, odd)
    where = [frame.filename for frame in traceback.extract_tb(error.__traceback__)][-1]
    kind = f"{type(error).__name__}, {where}: {message}"
    assert isinstance(error, CLASSES), f"{argument} = {odd.label}: of a class of no help: {kind}"
    assert where.startswith(HOME), f"{argument} = {odd.label}: raised in the depths: {kind}"
    return _check_words(message, argument, given, odd)


def _check_words(message, argument, given, odd):
    for wrong, complaint in {
        "doesn't name the argument": not re.search(rf"(?<!\w)({argument})(?!\w)", message),
        "doesn't say what it got": not any(word in message for word in _words(given, odd)),
        "doesn't say the way out": not WAY_OUT.search(message),
    }.items():
        assert not complaint, f"{argument} = {odd.label}: the error {wrong}: {message}"


CLASSES = (TypeError, ValueError, NotImplementedError)
# What a graph makes of an error in a NumPy function, with the same message.
HOSTS = (tf.errors.InvalidArgumentError, tf.errors.UnknownError, RuntimeError)
HOST = re.compile("numpy_op|py_func")
WAY_OUT = re.compile(
    r"\b(must|give|pass|use|such as|choose|convert|cast|leave|return|make|declare|write|sum|say"
    r"|multiply|did you mean|it has|at least|goes from|there are)\b",
    re.I,
)


def _words(given, odd):
    """What an error may call a value: itself, its kind, its dtype, its shape."""
    words = ["NaN", *odd.says, repr(given), str(given), type(given).__name__]
    if given is None:
        words.append("None")
    if isinstance(given, np.generic):
        words.append(str(given.item()))
    if isinstance(given, tf.Tensor):
        words.append("Tensor")
    if hasattr(given, "dtype"):
        words.append(str(getattr(given.dtype, "name", given.dtype)))
    if hasattr(given, "shape"):
        words.append(str(given.shape))
        with contextlib.suppress(Exception):
            words += [str(np.asarray(given).item()), str(float(tf.cast(given, tf.float64)))]
    if isinstance(given, dict):
        words += [word for pair in given.items() for one in pair for word in _words(one, odd)]
    if isinstance(given, (list, tuple)):
        words += [word for one in given for word in _words(one, odd)]
        words += [str(np.shape(given))] if _even(given) else []
    if isinstance(given, type):
        words.append(given.__name__)
    if isinstance(given, (str, bytes, bool, int, list, np.generic)):
        with contextlib.suppress(Exception):
            words.append(tf.convert_to_tensor(given).dtype.name)
    return words


def _even(given):
    try:
        return np.shape(given) is not None
    except Exception:
        return False


def check_same(got, wanted, arguments, loose=False):
    """Hold what came to what should have come; to its dtype and shape, where loose."""
    got, wanted = (tf.nest.flatten(v) for v in (got, wanted))
    assert len(got) == len(wanted), (got, wanted)
    for one, other in zip(got, wanted, strict=True):
        if one is None or other is None or isinstance(other, (str, bool)):
            assert one is None or other is None or one == other, (one, other)
            continue
        like = other if tf.is_tensor(other) else arguments.get("x")
        dtype = _dtype_of(one)
        assert not tf.is_tensor(like) or dtype == like.dtype, f"{dtype.name} for {like.dtype.name}"
        one, other = _numbers_of(one), _numbers_of(other)
        _check_close(one, one if loose else other, dtype)
        assert np.shape(one) == np.shape(other), (np.shape(one), np.shape(other))


def _numbers_of(v):
    array = np.asarray(v)
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)


def _dtype_of(v):
    return tf.as_dtype(getattr(v, "dtype", np.asarray(v).dtype))


def _check_close(one, other, dtype):
    if not (dtype.is_floating or dtype.is_complex):
        np.testing.assert_array_equal(one, other)
        return
    real = dtype.real_dtype
    with np.errstate(all="ignore"):
        other = np.asarray(tf.cast(other, dtype)).astype(one.dtype)
    rtol = {tf.bfloat16: 4e-2, tf.float16: 4e-3}.get(real, 1e-5)
    np.testing.assert_allclose(one, other, rtol=rtol, atol=max(rtol / 10, 1e-6))
