"""What the members leave alone: no copy where the forward is x, nothing kept of a trace."""

import gc
import weakref

import modes  # noqa: F401 - makes devices, which must be done before there is a tensor
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import ops

import gradlab as gl
from benchmarks.by_hand import PAIRS, example, gradient
from gradlab.registry import SPECS

ROWS = 64  # small tensors are copied whatever one does
every_member = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)


def results(pair, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        return tf.nest.flatten(pair.ours(x))


def is_x(pair):
    x, _ = example(ROWS)
    return all(np.array_equal(y, x) for y in results(pair, x))


PASSING = [pair for pair in PAIRS if is_x(pair)]


def test_the_members_whose_forward_is_x_are_known():
    said = {name for name, spec in SPECS.items() if spec.forward_formula in ("x", "x₁, x₂, …")}
    layers = {"ScaleGradient", "ReverseGradient", "ClipGradient"}
    assert {pair.member for pair in PASSING} - {"custom_gradient"} == said | layers


@pytest.mark.parametrize("pair", PASSING, ids=lambda pair: pair.name)
def test_the_forward_copies_no_memory(pair):
    x, _ = example(ROWS)
    for y in results(pair, x):
        assert y is not x
        # Unlike numpy(), _numpy() shows the tensor's own buffer.
        assert np.shares_memory(y._numpy(), x._numpy())


def trace(pairs, times):
    """Trace each member with its gradient; what the process then holds."""
    x, upstream = example(2)
    for pair in pairs:
        for _ in range(times):
            compiled = tf.function(lambda x, u, f=pair.ours: gradient(f, x, u), autograph=False)
            compiled.get_concrete_function(x, upstream)
    gc.collect()
    return len(ops.gradient_registry.list()), len(gc.get_objects())


@every_member
def test_traces_grow_neither_registry_nor_memory(pair):
    trace([pair], 3)
    registered, objects = trace([pair], 1)
    again, more = trace([pair], 20)
    assert again <= registered
    assert more - objects < 20  # less than one object for each trace


# One of each kind; test_custom does it with what all the others stand on.
@pytest.mark.parametrize("name", ["custom_gradient", "override_gradient", "numpy_op"])
def test_a_thousand_traces_grow_neither_registry_nor_memory(name):
    pair = next(pair for pair in PAIRS if pair.name == name)
    trace([pair], 3)
    registered, objects = trace([pair], 1)
    again, more = trace([pair], 1000)
    assert again <= registered
    assert more - objects < 100


def outer_function(x):
    """A function that calls another that calls Python, and what tells when that is gone."""
    op = gl.numpy_op(np.square, lambda x, g: 2 * x * g)
    inner = tf.function(lambda x: op(x), autograph=False)
    outer = tf.function(lambda x: inner(x), autograph=False)
    return outer.get_concrete_function(x), weakref.ref(op)


def test_a_python_function_lives_as_long_as_what_calls_it():
    x = tf.constant([1.0, 2.0])
    outer, op = outer_function(x)
    trace([pair for pair in PAIRS if pair.name == "numpy_op"], 1)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = outer(x)
    np.testing.assert_array_equal(tape.gradient(y, x), [2.0, 4.0])
    del outer, tape, y
    gc.collect()
    assert op() is None
