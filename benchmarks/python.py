"""NumPy ops against a numpy_function in a hand-written custom gradient; overrides against none."""

from functools import partial

import numpy as np
import tensorflow as tf

import gradlab as gl
from benchmarks.timing import compared, ratio

NUMPY_WANTED, PY_FUNC_WANTED, CALL_WANTED, TRACE_WANTED = 1.1, 1.2, 1.05, 1.7
SIZES = (1_024, 262_144)


def _gradient(f, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return y, tape.gradient(y, x)


def _square_gradient(x, upstream):
    return np.float32(2.0) * x * upstream


@tf.custom_gradient
def _numpy_by_hand(x):
    def rule(upstream):
        gradient = tf.numpy_function(_square_gradient, [x, upstream], x.dtype)
        return tf.ensure_shape(gradient, x.shape)

    return tf.ensure_shape(tf.numpy_function(np.square, [x], x.dtype), x.shape), rule


@tf.custom_gradient
def _tensorflow_by_hand(x):
    y = tf.ensure_shape(tf.numpy_function(np.square, [x], x.dtype), x.shape)
    return y, lambda upstream: 2.0 * x * upstream


def _of_op(op, upstream):
    return 2.0 * op.inputs[0] * upstream


def _numpy_pairs():
    numpy_rule = gl.numpy_op(np.square, _square_gradient)
    tensorflow_rule = gl.numpy_op(np.square, lambda x, g: 2.0 * x * g, rule="tensorflow")
    return [
        ("numpy_op", numpy_rule, _numpy_by_hand, NUMPY_WANTED),
        ("numpy_op, rule in TensorFlow", tensorflow_rule, _tensorflow_by_hand, NUMPY_WANTED),
        (
            "py_func",
            lambda x: gl.py_func(np.square, [x], tf.float32, grad=_of_op),
            _tensorflow_by_hand,
            PY_FUNC_WANTED,
        ),
    ]


def _numpy(name, op, peer, wanted, size):
    x = tf.random.stateless_normal([size], [1, 2])
    ours, theirs = partial(_gradient, op), partial(_gradient, peer)
    yield compared(f"{name}, {size}, eager", partial(ours, x), partial(theirs, x), wanted)
    ours, theirs = (partial(tf.function(f, autograph=False), x) for f in (ours, theirs))
    yield compared(f"{name}, {size}, graph", ours, theirs, wanted)


def _network(depth):
    weights = [tf.Variable(tf.random.stateless_normal([64, 64], [i, 1])) for i in range(depth)]

    def network(x):
        for w in weights:
            x = tf.nn.relu(x @ w)
        return x

    return network


def _guided(op, upstream):
    return tf.where((op.outputs[0] > 0) & (upstream > 0), upstream, tf.zeros_like(upstream))


def _override(f):
    return gl.override_gradient({"Relu": _guided})(f)


@tf.custom_gradient
def _guided_by_hand(x):
    y = tf.nn.relu(x)
    return y, lambda u: tf.where((y > 0) & (u > 0), u, tf.zeros_like(u))


def _network_by_hand(network):
    """The same network with the rule written into it."""
    weights = network.__closure__[0].cell_contents

    def by_hand(x):
        for w in weights:
            x = _guided_by_hand(x @ w)
        return x

    return by_hand


def _calls():
    x, network = tf.random.stateless_normal([64, 64], [1, 2]), _network(5)
    ours = partial(_gradient, _override(network))
    theirs = partial(_gradient, tf.function(_network_by_hand(network)))
    yield compared("override, eager", partial(ours, x), partial(theirs, x), CALL_WANTED)
    ours, theirs = (partial(tf.function(f, autograph=False), x) for f in (ours, theirs))
    yield compared("override, graph", ours, theirs, CALL_WANTED)


def _traces():
    x = tf.random.stateless_normal([64, 64], [1, 2])
    for depth in (1, 5, 30):
        network = _network(depth)
        ours = lambda f=network: _override(f).get_concrete_function(x)  # noqa: E731
        peer = lambda f=network: tf.function(f).get_concrete_function(x)  # noqa: E731
        yield f"override, tracing {depth} of its ops", ratio(ours, peer, 15), TRACE_WANTED


def ratios():
    """The rows for `make bench`."""
    rows = [row for pair in _numpy_pairs() for size in SIZES for row in _numpy(*pair, size)]
    return [*rows, *_calls(), *_traces()]
