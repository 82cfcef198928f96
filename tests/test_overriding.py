"""register_gradient and override_gradient: what is reached, what is left alone, what is refused."""

import dataclasses
import gc
import inspect
import subprocess
import sys
import textwrap
import threading
import weakref

import numpy as np
import pytest
import tensorflow as tf
from modes import (
    FORWARD,
    JACOBIAN,
    MODES,
    SECOND_ORDER,
    on_two_replicas,
    save_and_load_all_in_fresh_process,
    taped,
)
from tensorflow.python.distribute import mirrored_run
from tensorflow.python.eager import execute
from tensorflow.python.eager.polymorphic_function import tracing_compilation
from tensorflow.python.framework import ops

import gradlab as gl

X = np.array([[0.3, -0.7, 1.2], [-1.7, 2.5, 0.9]])
U = np.array([[1.0, -2.0, 0.5], [3.0, -1.0, 2.0]])
W = np.array([[1.0, 2.0], [-0.5, 0.25], [3.0, -1.0]])


def tensor(values, dtype=tf.float32):
    return tf.constant(values, dtype)


def gradient(f, x):
    (_,), (of_x,) = taped(f, [x])
    return of_x


def guided(op, upstream):
    return tf.where((op.outputs[0] > 0) & (upstream > 0), upstream, tf.zeros_like(upstream))


def five(op, upstream):
    return 5.0 * upstream


def seven(op, upstream):
    return 7.0 * upstream


def cube_of_input(op, upstream):
    return op.inputs[0] ** 3 * upstream


relu_times_7 = gl.override_gradient({"Relu": seven})


# What is reached: in every mode, against NumPy.

traced_before = tf.function(lambda x: tf.nn.relu(x))
traced_before(tensor(X))
layer = tf.keras.layers.ReLU()
weights = tf.Variable(W, dtype=tf.float32)


def in_cond(x):
    positive = tf.reduce_max(x) > -9.0
    return tf.cond(positive, lambda: tf.nn.relu(x), lambda: x)


def in_while_loop(x):
    body = lambda i, x: (i + 1, tf.nn.relu(x))  # noqa: E731
    shapes = (tf.TensorShape([]), x.shape)
    return tf.while_loop(lambda i, _: i < 2, body, (0, x), shapes, maximum_iterations=2)[1]


def in_autograph(x):
    if tf.reduce_max(x) > -9.0:  # noqa: SIM108
        y = tf.nn.relu(x)
    else:
        y = x
    return y


def with_a_tape_inside(x):
    """The gradient of relu(x)² as a value: what a tape in the wrapped function sees."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.relu(x) ** 2
    return tape.gradient(y, x)


def with_a_tape_around_a_function(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = traced_before(x) ** 2
    return tape.gradient(y, x)


def placed(x):
    with tf.device(None):
        return tf.nn.relu(x)


def split_and_drop(x):
    return tf.split(x, 3, axis=-1)[1]


def gradient_of_split(op, *upstreams):
    assert len(op.outputs) == len(upstreams) == 3
    return None, 2.0 * tf.concat(upstreams, -1)


def gradient_of_product(op, upstream):
    a, b = op.inputs
    assert not op.get_attr("transpose_a")
    return 10.0 * tf.matmul(upstream, b, transpose_b=True), tf.matmul(a, upstream, transpose_a=True)


RELU = np.maximum(X, 0)
DROPPED = np.stack([0 * U[:, 0], U[:, 1], 0 * U[:, 2]], -1)

# name: (f, rules, forward, gradient at upstream U, or at as much of U as f has outputs)
CASES = {
    "python": (lambda x: tf.nn.relu(x), {"Relu": guided}, RELU, np.where((X > 0) & (U > 0), U, 0)),
    "itself": (tf.nn.relu, {"Relu": seven}, RELU, 7 * U),
    "tf.function": (tf.function(lambda x: tf.nn.relu(x)), {"Relu": seven}, RELU, 7 * U),
    "traced_before": (traced_before, {"Relu": seven}, RELU, 7 * U),
    "nested": (lambda x: traced_before(x) * 2, {"Relu": seven}, 2 * RELU, 14 * U),
    "layer": (lambda x: layer(x), {"Relu": seven}, RELU, 7 * U),
    "cond": (in_cond, {"Relu": seven}, RELU, 7 * U),
    "while_loop": (in_while_loop, {"Relu": seven}, RELU, 49 * U),
    "autograph": (in_autograph, {"Relu": seven}, RELU, 7 * U),
    "tf.device": (placed, {"Relu": seven}, RELU, 7 * U),
    "twice": (lambda x: tf.nn.relu(tf.nn.relu(x)), {"Relu": seven}, RELU, 49 * U),
    "by_name": (tf.nn.relu, {"Relu": gl.register_gradient(five)}, RELU, 5 * U),
    "several_rules": (
        lambda x: tf.tanh(tf.nn.relu(x)),
        {"Relu": seven, "Tanh": five},
        np.tanh(RELU),
        35 * U,
    ),
    "identity": (lambda x: tf.identity(x) * 2, {"Identity": five}, 2 * X, 10 * U),
    "matmul": (lambda x: x @ weights, {"MatMul": gradient_of_product}, X @ W, 10 * U[:, :2] @ W.T),
    "split": (split_and_drop, {"Split": gradient_of_split}, X[:, 1:2], 2 * DROPPED),
    "override": (relu_times_7(tf.nn.relu), {"Relu": five}, RELU, 7 * U),
}


TENSORFLOW_CANNOT = {
    ("split", "unknown_rank"),  # it wants to know the rank
    ("matmul", "unknown_rank"),  # that is another op, BatchMatMulV2
    ("while_loop", "vectorized_jit"),  # the loop loses its maximum_iterations
}


def upstream_of(name):
    return {"matmul": U[:, :2], "split": U[:, 1:2]}.get(name, U)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_mode(name, mode):
    f, rules, forward, wanted = CASES[name]
    if (name, mode) in TENSORFLOW_CANNOT:
        return
    f = gl.override_gradient(rules)(f)
    (y,), (of_x,) = MODES[mode](f, [tensor(X)], [tensor(upstream_of(name))])
    np.testing.assert_allclose(y, forward, rtol=1e-6)
    np.testing.assert_allclose(of_x, wanted, rtol=1e-6)


@pytest.mark.parametrize("f", [with_a_tape_inside, with_a_tape_around_a_function])
@pytest.mark.parametrize("mode", ["eager", "function_tape_in", "jit", "cond_tape_in"])
def test_a_tape_inside(f, mode):
    # Its gradient is 7 · 2 relu(x), and the gradient of that again 7 · 2 · 7.
    (y,), (of_x,) = MODES[mode](relu_times_7(f), [tensor(X)], [tensor(U)])
    np.testing.assert_allclose(y, 14 * RELU, rtol=1e-6)
    np.testing.assert_allclose(of_x, 98 * U, rtol=1e-6)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64, tf.complex64])
def test_dtype(dtype):
    rule = lambda op, u: tf.cast(5, u.dtype) * u  # noqa: E731
    f = gl.override_gradient({"Identity": rule})(lambda x: tf.identity(x))
    got = gradient(f, tensor([1.0, -2.0], dtype))
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.numpy().astype(np.complex64), [5, 5])


@pytest.mark.parametrize("how", SECOND_ORDER)
def test_second_order(how):
    # The gradient of Σ relu(x)³ with the rule x³ g: for x > 0, 3 x² · x³, and that of it 15 x⁴.
    # Through relu in 3 relu(x)² it is the rule again: 6 x · x³ · x³ + 3 x² · 3 x² = 6 x⁷ + 9 x⁴.
    f = gl.override_gradient({"Relu": cube_of_input})(tf.nn.relu)
    x = np.abs(X)
    np.testing.assert_allclose(SECOND_ORDER[how](f, tensor(x)), 6 * x**7 + 9 * x**4, rtol=1e-5)


@pytest.mark.parametrize("how", FORWARD)
def test_forward_mode(how):
    got = FORWARD[how](relu_times_7(tf.nn.relu), tensor(X), tensor(U))
    np.testing.assert_allclose(got, 7 * U, rtol=1e-6)


def test_forward_mode_inside():
    def f(x):
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
            y = tf.nn.relu(x)
        return accumulator.jvp(y)

    np.testing.assert_array_equal(relu_times_7(f)(tensor(X)), 7 * np.ones_like(X))


@pytest.mark.parametrize("how", JACOBIAN)
def test_jacobian(how):
    got = JACOBIAN[how](relu_times_7(tf.nn.relu), tensor(X[0]))
    np.testing.assert_allclose(got, 7 * np.eye(3))


def test_two_replicas():
    (y,), (of_x,) = on_two_replicas(relu_times_7(in_cond), [tensor(X)], [tensor(U)])
    np.testing.assert_allclose(y, RELU, rtol=1e-6)
    np.testing.assert_allclose(of_x, 7 * U, rtol=1e-6)


def in_replicas(devices, f, *inner):
    """What f makes of x in the last replica, run by a strategy inside of the wrapped function."""
    strategy = tf.distribute.MirroredStrategy(devices)

    def run(x):
        result = strategy.run(f, (x, *inner))
        return strategy.experimental_local_results(result)[-1]

    return run


@pytest.mark.parametrize("devices", [["CPU:0"], ["CPU:0", "CPU:1"]])
@pytest.mark.parametrize("f", [tf.nn.relu, traced_before, in_cond, relu_times_7(tf.nn.relu)])
def test_replicas_inside(devices, f):
    # -relu(-x), outside of the replicas, has the rule's 7, too, and they cancel but for the signs.
    run = in_replicas(devices, f)
    overridden = relu_times_7(lambda x: run(x) + tf.nn.relu(-x))
    np.testing.assert_allclose(gradient(overridden, tensor(X)), 0 * X)
    np.testing.assert_allclose(gradient(lambda x: overridden(2.0 * x), tensor(X)), 0 * X)
    np.testing.assert_allclose(gradient(relu_times_7(run), tensor(X)), 7 + 0 * X)


def test_replicas_outside_are_left_alone():
    run = in_replicas(["CPU:0"], traced_before)
    np.testing.assert_allclose(gradient(relu_times_7(run), tensor(X)), 7 + 0 * X)
    np.testing.assert_allclose(gradient(tf.function(run), tensor(X)), X > 0)
    np.testing.assert_allclose(gradient(traced_before, tensor(X)), X > 0)


def test_identities_in_a_replica():
    identity = gl.override_gradient({"Identity": five})
    for f in (tf.identity, lambda x: tf.identity(x), tf.function(lambda x: tf.identity(x))):
        overridden = identity(in_replicas(["CPU:0"], f))
        assert gradient(overridden, tensor(1.0)).numpy() == 5.0
        assert len(overridden.matches) == 1


def test_rules_in_a_replica():
    strength = tf.Variable(7.0)
    reading = gl.override_gradient({"Relu": lambda op, u: strength * tf.nn.relu(u)})
    for f in (tf.nn.relu, traced_before, in_cond):
        overridden = reading(in_replicas(["CPU:0", "CPU:1"], f))
        np.testing.assert_array_equal(gradient(overridden, tensor(X)), 7 + 0 * X)
    with pytest.raises(NotImplementedError, match="under tf.recompute_grad"):
        relu_times_7(tf.recompute_grad(in_replicas(["CPU:0"], tf.nn.relu)))(tensor(X))
    # Another override's inner one, and its other types, as without replicas.
    both = gl.override_gradient({"Relu": five, "Tanh": five})
    inner = relu_times_7(lambda x: tf.tanh(tf.nn.relu(x)))
    overridden = both(lambda x: in_replicas(["CPU:0"], lambda x: inner(tf.nn.relu(x)))(x))
    np.testing.assert_array_equal(gradient(overridden, tensor(X)), 175 + 0 * X)


@pytest.mark.parametrize("value", [tf.constant(7.0), tf.Variable(7.0)])
@pytest.mark.parametrize("name", ["python", "nested", "cond", "while_loop", "matmul"])
@pytest.mark.parametrize("mode", ["eager", "function_tape_in", "cond_tape_out", "jit"])
def test_a_rule_may_read_what_is_around_it(name, value, mode):
    f, rules, _, _ = CASES[name]
    (op_type,) = rules
    if op_type == "MatMul":
        rule = lambda op, u: (value * tf.matmul(u, op.inputs[1], transpose_b=True), None)  # noqa: E731
        wanted = 7 * U[:, :2] @ W.T
    else:
        rule = lambda op, u: value * u  # noqa: E731
        wanted = {"nested": 14, "while_loop": 49}.get(name, 7) * U
    f = gl.override_gradient({op_type: rule})(f)
    _, (of_x,) = MODES[mode](f, [tensor(X)], [tensor(upstream_of(name))])
    np.testing.assert_allclose(of_x, wanted, rtol=1e-6)


def test_a_variable_that_a_rule_reads_is_read_anew():
    strength = tf.Variable(1.0)
    f = gl.override_gradient({"Relu": lambda op, u: strength * u})(tf.nn.relu)
    for value in (1.0, 2.0, 3.0):
        strength.assign(value)
        assert gradient(f, tensor(1.0)).numpy() == value


def test_a_rule_whose_global_becomes_a_variable():
    strength = 1.0

    def rule(op, upstream):
        return strength * upstream

    override = gl.override_gradient({"Relu": rule})
    assert gradient(override(in_cond), tensor(1.0)).numpy() == 1.0
    strength = tf.Variable(7.0)
    assert gradient(override(in_cond), tensor(1.0)).numpy() == 7.0


def test_a_rule_that_reads_more_for_some_ops_than_for_others():
    strength = tf.Variable(7.0)
    rule = lambda op, u: strength * u if op.inputs[0].shape.rank == 2 else 5.0 * u  # noqa: E731
    f = gl.override_gradient({"Relu": rule})
    f = f(
        lambda x: tf.cond(x > -9.0, lambda: tf.nn.relu(tf.nn.relu(x)[None, None])[0, 0], lambda: x)
    )
    assert gradient(f, tensor(1.0)).numpy() == 35.0


# Identity.


def test_the_figures_of_the_lesson():
    v = tf.Variable(3.0)
    times_5 = gl.override_gradient({"Identity": five})(lambda: tf.identity(v))
    clip = lambda op, u: tf.clip_by_value(u, -0.1, 0.1)  # noqa: E731
    clipped = gl.override_gradient({"Identity": clip})(lambda: tf.identity(v))
    for f, wanted in ((times_5, 5.0), (clipped, 0.1), (lambda: tf.identity(v), 1.0)):
        with tf.GradientTape() as tape:
            y = f()
        assert y.numpy() == 3.0
        np.testing.assert_allclose(tape.gradient(y, v), wanted)


def test_identities_that_tensorflow_adds_are_left_alone():
    v = tf.Variable(2.0)

    def f(x):
        x = tf.function(lambda x: x * 1.0)(x)
        x = tf.cond(tf.reduce_sum(x) > -99.0, lambda: x * 1.0, lambda: x)
        x = tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, x * 1.0), (0, x))[1]
        for _ in tf.range(2):
            x = x * 1.0
        return tf.identity(x, name="mine") + v.read_value()

    f = gl.override_gradient({"Identity": five})(f)
    with tf.GradientTape() as tape:
        x = tensor(1.0)
        tape.watch(x)
        y = f(x)
    assert [g.numpy() for g in tape.gradient(y, [x, v])] == [5.0, 1.0]
    assert f.matches == [("Identity", "mine")]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tf.identity(x),
        lambda x: tf.raw_ops.Identity(input=x),
        lambda x: tf.cond(x > 0, lambda: tf.identity(x), lambda: x),
        lambda x: tf.function(tf.identity)(x),
        tf.autograph.experimental.do_not_convert(lambda x: tf.identity(x)),
        tf.identity,
    ],
)
def test_identities_that_are_asked_for_are_found(f):
    f = gl.override_gradient({"Identity": five})(f)
    assert gradient(f, tensor(1.0)).numpy() == 5.0
    assert len(f.matches) == 1


# What is listed.


def test_matches():
    f = relu_times_7(lambda x: traced_before(tf.nn.relu(x, name="mine")) + in_cond(x))
    assert f.matches == []
    f(tensor(X))
    assert [m.type for m in f.matches] == ["Relu"] * 3
    assert f.matches[0].name == "mine"
    f(tensor(X[0]))
    assert len(f.matches) == 3  # those of the trace made last


def test_ops_of_the_backward_pass_are_not_overridden():
    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.exp(x) * 2.0  # whose gradient is a product again
        return tape.gradient(y, x)

    f = gl.override_gradient({"Mul": lambda op, u: (u, None)})(f)
    np.testing.assert_allclose(f(tensor(3.0)), np.exp(3.0), rtol=1e-6)
    assert f.matches == [("Mul", "mul")]


def test_integer_ops_are_not_overridden():
    f = gl.override_gradient({"AddV2": lambda op, u: (u, u)})
    f = f(lambda x: tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, x + 1.0), (0, x))[1])
    f(tensor(1.0))
    assert len(f.matches) == 1


# What is left alone.


def test_the_wrapped_function_is_left_as_it_was():
    calls = []

    @tf.function
    def inner(x):
        calls.append(1)
        return tf.nn.relu(x)

    x = tensor([1.0, -1.0])
    f = relu_times_7(lambda x: inner(x))
    np.testing.assert_array_equal(gradient(f, x), [7, 7])  # traced under the override first
    np.testing.assert_array_equal(gradient(inner, x), [1, 0])
    np.testing.assert_array_equal(gradient(f, x), [7, 7])
    traces = inner._list_all_concrete_functions()
    assert len(traces) == 1
    assert len(calls) == 2
    assert not any(
        "_gradient_op_type" in op.node_def.attr for op in traces[0].graph.get_operations()
    )


def test_ops_outside_the_call_are_left_alone():
    @tf.function
    def step(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            inside, outside = f(x), tf.nn.relu(x)
        return tape.gradient(inside, x), tape.gradient(outside, x)

    f = relu_times_7(tf.nn.relu)
    inside, outside = step(tensor([1.0, -1.0]))
    np.testing.assert_array_equal(inside, [7, 7])
    np.testing.assert_array_equal(outside, [1, 0])


def test_a_rules_own_ops_are_not_overridden():
    def rule(op, upstream):
        return tf.nn.relu(upstream) + traced_before(upstream)

    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.relu(x) * tensor([1.0, -1.0])
        return tape.gradient(y, x)

    f = gl.override_gradient({"Relu": rule})(f)
    np.testing.assert_array_equal(f(tensor([1.0, 1.0])), [2, 0])
    assert len(f.matches) == 1


WATCHED = [
    lambda: ops.Graph._create_op_helper,
    lambda: execute.record_gradient,
    lambda: tracing_compilation.trace_function,
    lambda: mirrored_run._call_for_each_replica,
]


def test_tensorflow_is_left_as_it_was():
    before = [place() for place in WATCHED]

    def nosy(x):
        assert all(place() is not was for place, was in zip(WATCHED, before, strict=True))
        return tf.nn.relu(x)

    def failing(x):
        raise KeyError("on the way")

    relu_times_7(nosy)(tensor(X))
    with pytest.raises(KeyError):
        relu_times_7(failing)(tensor(X))
    with pytest.raises(ValueError, match="no op of type"):
        relu_times_7(tf.tanh)(tensor(X))
    assert all(place() is was for place, was in zip(WATCHED, before, strict=True))


def test_other_threads_see_nothing():
    entered, left, got = threading.Event(), threading.Event(), []

    def f(x):
        entered.set()
        assert left.wait(60)
        return tf.nn.relu(x)

    def other():
        assert entered.wait(60)
        got.append(gradient(tf.function(lambda x: tf.nn.relu(x)), tensor([1.0, -1.0])))
        left.set()

    thread = threading.Thread(target=other)
    thread.start()
    np.testing.assert_array_equal(gradient(relu_times_7(f), tensor([1.0, -1.0])), [7, 7])
    thread.join()
    np.testing.assert_array_equal(got[0], [1, 0])


# Nesting.


def test_the_innermost_rule_wins():
    inner = relu_times_7(lambda x: tf.nn.relu(x))
    outer = gl.override_gradient({"Relu": five})
    x = tensor([1.0, -1.0])
    np.testing.assert_array_equal(gradient(outer(lambda x: inner(x)), x), [7, 7])
    np.testing.assert_array_equal(gradient(outer(lambda x: inner(x) + tf.nn.relu(x)), x), [12, 12])
    np.testing.assert_array_equal(gradient(outer(lambda x: inner(tf.nn.relu(x))), x), [35, 35])
    np.testing.assert_array_equal(gradient(inner, x), [7, 7])


def test_other_types_of_an_outer_override_reach_inside():
    inner = relu_times_7(lambda x: tf.tanh(tf.nn.relu(x)))
    f = gl.override_gradient({"Tanh": five})(lambda x: inner(x))
    np.testing.assert_array_equal(gradient(f, tensor([1.0, -1.0])), [35, 35])


def test_inside_a_custom_gradient_and_a_recomputation():
    f = relu_times_7(lambda x: tf.nn.relu(x))

    @tf.custom_gradient
    def custom(x):
        return f(x), lambda upstream: gradient(f, x) * upstream * 10.0

    for g, wanted in ((custom, 70), (tf.recompute_grad(lambda x: f(x)), 7)):
        for wrapped in (g, tf.function(g)):
            np.testing.assert_array_equal(gradient(wrapped, tensor([1.0, -1.0])), [wanted, wanted])


# Arguments, results, traces.


def test_structures_keywords_and_plain_arguments():
    def f(tensors, scale=1.0, *, shout=False):
        return {"y": tf.nn.relu(tensors["x"]) * scale, "nothing": None, "shout": (shout, "no")[0]}

    f = relu_times_7(f)
    x = tensor([1.0, -1.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f({"x": x}, scale=2.0, shout=True)
    assert y["nothing"] is None
    assert y["shout"].numpy()
    np.testing.assert_array_equal(tape.gradient(y["y"], x), [14, 14])


def test_arrays_and_variables_are_arguments():
    v = tf.Variable([1.0, -1.0])
    f = relu_times_7(lambda x, y: tf.nn.relu(x) + y)
    with tf.GradientTape() as tape:
        y = f(v, np.float32([1, 2]))
    np.testing.assert_array_equal(y, [2, 2])
    np.testing.assert_array_equal(tape.gradient(y, v), [7, 7])


def test_a_method():
    class Model(tf.Module):
        @relu_times_7
        def __call__(self, x):
            return tf.nn.relu(x)

        def plain(self, x):
            return tf.nn.relu(x)

    model = Model()
    for f in (model.__call__, relu_times_7(model.plain)):
        np.testing.assert_array_equal(gradient(f, tensor([1.0, -1.0])), [7, 7])


def test_the_signature_shows():
    def f(x, slope: float = 2.0, *, sharp=3.0):
        """Say what f does."""
        return slope * tf.nn.relu(x) * sharp

    overridden = relu_times_7(f)
    assert inspect.signature(overridden) == inspect.signature(f)
    assert overridden.__doc__ == f.__doc__
    assert overridden.__name__ == "f"
    assert overridden(tensor(1.0), sharp=1.0).numpy() == 2.0
    with pytest.raises(TypeError, match="slop"):
        overridden(tensor(1.0), slop=1.0)
    assert {"slope", "sharp"} <= set(gl.explore(overridden).parameters)
    # Some functions have no signature, and take what they are given.
    shapeless = gl.override_gradient({"Relu": five})(Shapeless())
    assert gradient(shapeless, tensor(1.0)).numpy() == 5.0


class Shapeless:
    __signature__ = "none"

    def __call__(self, *args):
        return tf.nn.relu(*args)


def test_tensors_of_a_signature_are_traced_once():
    traces = []
    f = relu_times_7(lambda x: (traces.append(1), tf.nn.relu(x))[1])
    for i in range(5):
        f(tensor([float(i)]))
    assert len(traces) == 1


def test_overrides_in_a_loop_are_quiet(caplog):
    for i in range(8):
        f = gl.override_gradient({"Relu": lambda op, u, i=i: u * float(i)})(tf.nn.relu)
        assert gradient(f, tensor(1.0)).numpy() == i
    assert not caplog.records


def test_sparse_upstreams_arrive_dense_and_rules_may_answer_sparsely():
    table = tf.Variable(np.ones([4, 2], np.float32))
    seen = []

    def rule(op, upstream):
        seen.append(type(upstream))
        return tf.IndexedSlices(10.0 * upstream[:1], tf.constant([0]), tf.shape(upstream))

    f = gl.override_gradient({"Identity": rule})(lambda i: tf.gather(tf.identity(table), i))
    with tf.GradientTape() as tape:
        y = f([0, 0, 2])
    got = tf.convert_to_tensor(tape.gradient(y, table))
    np.testing.assert_array_equal(got, [[20, 20], [0, 0], [0, 0], [0, 0]])
    assert not any(issubclass(t, tf.IndexedSlices) for t in seen)


def test_an_integer_output_has_no_upstream():
    seen = []

    def rule(op, values, indices):
        seen.append(indices)
        return tf.ones_like(op.inputs[0]) * tf.reduce_sum(values), None

    f = gl.override_gradient({"TopKV2": rule})(lambda x: tf.math.top_k(x, 2)[0])
    np.testing.assert_array_equal(gradient(f, tensor([1.0, 2.0, 3.0])), [2, 2, 2])
    assert set(seen) == {None}


def test_reading_a_variable_can_be_overridden():
    v = tf.Variable(3.0)
    f = gl.override_gradient({"ReadVariableOp": five})(lambda: v * 2.0)
    with tf.GradientTape() as tape:
        y = f()
    assert tape.gradient(y, v).numpy() == 10.0


# Keras.


def make_model():
    return tf.keras.Sequential(
        [
            tf.keras.Input((3,)),
            tf.keras.layers.Dense(4, activation="relu", kernel_initializer="ones"),
            tf.keras.layers.Dropout(0.5),
            tf.keras.layers.BatchNormalization(),
            tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones"),
        ]
    )


def test_a_keras_model():
    model = make_model()
    f = gl.override_gradient({"Relu": guided})(model)
    x = tensor(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    gradients = tape.gradient(y, [x, *model.trainable_variables])
    np.testing.assert_allclose(y, model(x), rtol=1e-6)
    assert all(g is not None for g in gradients)
    assert [m.type for m in f.matches] == ["Relu"]
    assert "dense" in f.matches[0].name
    # Upstream of relu is positive, 1 / √(1 + ε): guided and plain agree, and so does NumPy.
    positive = (X.sum(1, keepdims=True) > 0) * 4 / np.sqrt(1 + 1e-3)
    np.testing.assert_allclose(gradients[0], positive * np.ones([1, 3]), rtol=1e-5)
    np.testing.assert_allclose(gradient(relu_times_7(model), x), 28 / np.sqrt(1 + 1e-3), rtol=1e-5)
    np.testing.assert_allclose(gradient(model, x), gradients[0], rtol=1e-6)


def test_training_of_a_keras_model_reaches_it():
    model = make_model()
    f = relu_times_7(model)
    mean = model.layers[2].moving_mean
    f(tensor(X), training=False)
    np.testing.assert_array_equal(mean, np.zeros(4))
    f(tensor(X), training=True)
    assert np.any(np.asarray(mean))


class Doubled(tf.keras.layers.Layer):
    """Twice relu when training; its call is overridden where it is written."""

    @relu_times_7
    def call(self, x, training=None):
        """Say what call does."""
        return tf.nn.relu(x) * (2.0 if training else 1.0)


@pytest.mark.parametrize("functional", [False, True])
def test_an_overridden_call_is_told_of_training(functional):
    layer, other = Doubled(), Doubled()
    model = tf.keras.Sequential([tf.keras.Input((3,)), layer, other][0 if functional else 1 :])
    for training, scale in ((True, 2.0), (False, 1.0), (None, 1.0)):
        (y,), (of_x,) = taped(lambda x, t=training: model(x, training=t), [tensor(X)])
        np.testing.assert_allclose(y, scale**2 * RELU, rtol=1e-6)
        np.testing.assert_allclose(of_x, (7 * scale) ** 2 + 0 * X)
        np.testing.assert_allclose(layer(tensor(X), training=training), scale * RELU, rtol=1e-6)
    assert list(inspect.signature(layer.call).parameters) == ["x", "training"]
    assert [m.type for m in layer.call.matches] == ["Relu"]


def test_a_model_that_is_not_built_yet():
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, activation="relu")])
    f = relu_times_7(model)
    f(tensor(X))
    f(tensor(X[:1]))
    assert len(model.trainable_variables) == 2


def test_mixed_precision():
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = tf.keras.Sequential(
            [tf.keras.Input((3,)), tf.keras.layers.Dense(2, "relu", kernel_initializer="ones")]
        )
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    f = relu_times_7(model)
    with tf.GradientTape() as tape:
        y = f(tensor(X))
    (of_kernel, of_bias) = tape.gradient(y, [v.value for v in model.trainable_variables])
    assert y.dtype == tf.float16
    assert of_kernel.dtype == of_bias.dtype == tf.float32
    np.testing.assert_allclose(of_bias, [14, 14])
    np.testing.assert_allclose(of_kernel, 7 * X.sum(0)[:, None] * np.ones([1, 2]), rtol=2e-3)


def test_inside_a_model_that_trains():
    class Guided(tf.keras.layers.Layer):
        def call(self, x):
            return activation(x)

    activation = relu_times_7(tf.nn.relu)
    model = tf.keras.Sequential(
        [
            tf.keras.Input((1,)),
            tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones"),
            Guided(),
        ]
    )
    model.compile(tf.keras.optimizers.SGD(0.01), "mse")
    model.fit(np.ones([1, 1]), np.zeros([1, 1]), verbose=0)
    np.testing.assert_allclose(model.layers[0].kernel, [[1 - 0.01 * 2 * 7]], rtol=1e-5)


# Graphs of TensorFlow 1.


def in_session(build):
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        x = tf.constant(3.0)
        return session.run(tf.gradients(build(graph, x), x))


def test_registered_names_in_a_v1_graph():
    name = gl.register_gradient(five)

    def build(graph, x):
        with graph.gradient_override_map({"Identity": name}):
            return tf.identity(x)

    assert in_session(build) == [5.0]


def test_override_in_a_v1_graph():
    f = gl.override_gradient({"Identity": five})(lambda x: tf.identity(x))
    assert in_session(lambda _, x: f(x) * 2.0) == [10.0]


def test_names_are_safe_to_make_again():
    def make():
        def rule(op, upstream):
            return upstream

        return rule

    one, other = make(), make()
    assert gl.register_gradient(one) == gl.register_gradient(one)
    assert gl.register_gradient(one) != gl.register_gradient(other)
    before = len(ops.gradient_registry.list())
    gl.register_gradient(one)
    assert len(ops.gradient_registry.list()) == before


@dataclasses.dataclass
class Times:
    """A rule that can't be hashed, as it has an __eq__; nor does it take a weak reference."""

    __slots__ = ("factor",)
    factor: float

    def __call__(self, op, upstream):
        return self.factor * upstream

    def method(self, op, upstream):
        return self.factor * upstream


def test_rules_that_cannot_be_hashed():
    def build(graph, x):
        with graph.gradient_override_map({"Identity": names[0]}):
            return tf.identity(x)

    rule = Times(5.0)
    names = [gl.register_gradient(r) for r in (rule, rule, Times(5.0), rule.method, rule.method)]
    assert names[0] == names[1]
    assert names[3] == names[4]
    assert len(set(names)) == 3
    assert in_session(build) == [5.0]
    for each in (rule, rule.method):
        f = gl.override_gradient({"Relu": each})(tf.nn.relu)
        assert gradient(f, tensor(1.0)).numpy() == 5.0


def test_a_name_is_not_given_again_when_a_rule_is_gone():
    names = set()
    for factor in range(20):
        names.add(gl.register_gradient(Times(float(factor))))
        gc.collect()
    assert len(names) == 20


def test_a_registered_rule_is_checked():
    name = gl.register_gradient(lambda op, u: (u, u))

    def build(graph, x):
        with graph.gradient_override_map({"Identity": name}):
            return tf.identity(x)

    with pytest.raises(ValueError, match="returned 2 gradients for 1 input"):
        in_session(build)


# Nothing is kept.


def test_nothing_is_kept():
    def make():
        f = relu_times_7(lambda x: in_cond(traced_before(tf.nn.relu(x))))
        gradient(f, tensor(X))
        gradient(tf.function(lambda x: f(x)), tensor(X))
        return weakref.ref(f)

    make()
    gc.collect()
    before = set(ops.gradient_registry.list())
    dead = make()
    gc.collect()
    assert dead() is None
    assert set(ops.gradient_registry.list()) <= before


def test_a_temporary_override_outlives_its_call():
    x = tensor([1.0, -1.0])

    @tf.function
    def step(x):
        return relu_times_7(in_while_loop)(x)

    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, z = relu_times_7(in_cond)(x), step(x)
    gc.collect()
    np.testing.assert_array_equal(tape.gradient(y, x), [7, 7])
    np.testing.assert_array_equal(tape.gradient(z, x), [49, 49])
    np.testing.assert_array_equal(gradient(step, x), [49, 49])


# Saving.


def test_saved_and_loaded_where_gradlab_is_unknown(tmp_path):
    strength = tf.Variable(3.0)
    read = gl.override_gradient({"Relu": lambda op, u: u * 3.0 * op.inputs[0]})
    functions = {
        "plain": (relu_times_7(tf.nn.relu), [tensor(X)]),
        "nested": (relu_times_7(lambda x: traced_before(x)), [tensor(X)]),
        "guided": (gl.override_gradient({"Relu": guided})(lambda x: -tf.nn.relu(-x)), [tensor(X)]),
        "reading": (read(lambda x: tf.nn.relu(x)), [tensor(X)]),
        "identity": (gl.override_gradient({"Identity": five})(tf.identity), [tensor(X)]),
        "by_name": (
            gl.override_gradient({"Relu": gl.register_gradient(cube_of_input)})(tf.nn.relu),
            [tensor(X)],
        ),
    }
    assert strength.numpy() == 3.0
    got = save_and_load_all_in_fresh_process(functions, tmp_path)
    wanted = {
        "plain": (RELU, 7 + 0 * X),
        "nested": (RELU, 7 + 0 * X),
        "guided": (np.minimum(X, 0), 0 * X),
        "reading": (RELU, 3 * X),
        "identity": (X, 5 + 0 * X),
        "by_name": (RELU, X**3),
    }
    for name, (y, of_x) in wanted.items():
        np.testing.assert_allclose(got[name][0][0], y, rtol=1e-6)
        np.testing.assert_allclose(got[name][1][0], of_x, rtol=1e-6)


def module_of(f, shape, **tracked):
    module = tf.Module()
    for name, value in tracked.items():
        setattr(module, name, value)
    module.f = tf.function(lambda x: f(x), input_signature=[tf.TensorSpec(shape)])
    return module


def test_saving_an_op_whose_outputs_differ_from_its_inputs(tmp_path):
    f, rules, _, _ = CASES["matmul"]
    module = module_of(gl.override_gradient(rules)(f), [2, 3], weights=weights)
    with pytest.raises(ValueError, match="Error when tracing gradients") as caught:
        tf.saved_model.save(module, str(tmp_path))
    assert "can't hold the rule for MatMul" in str(caught.value.__cause__)
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(module, str(tmp_path), options=options)
    loaded = tf.saved_model.load(str(tmp_path))
    np.testing.assert_allclose(loaded.f(tensor(X)), X @ W, rtol=1e-6)


def test_saving_by_name_alone_says_what_to_use(tmp_path):
    def f(x):
        with tf.compat.v1.get_default_graph().gradient_override_map({"Relu": name}):
            return tf.nn.relu(x)

    name = gl.register_gradient(cube_of_input)
    with pytest.raises(ValueError, match="Error when tracing gradients") as caught:
        tf.saved_model.save(module_of(f, [2]), str(tmp_path))
    assert "cube_of_input by its name alone" in str(caught.value.__cause__)


def test_saving_with_a_stable_name(tmp_path):
    if "gradlab_test_stable" not in ops.gradient_registry.list():
        tf.RegisterGradient("gradlab_test_stable")(five)
    f = gl.override_gradient({"Relu": "gradlab_test_stable"})(tf.nn.relu)
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(module_of(f, [1]), str(tmp_path), options=options)
    script = """
        import sys, tensorflow as tf
        tf.RegisterGradient("gradlab_test_stable")(lambda op, upstream: 6.0 * upstream)
        f, x = tf.saved_model.load(sys.argv[1]).f, tf.constant([-1.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        assert tape.gradient(y, x).numpy() == [6.0]
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# What is refused.


def test_no_match():
    f = gl.override_gradient({"relu": seven})(lambda x: tf.exp(tf.nn.relu(x)) * 2.0)
    with pytest.raises(ValueError, match=r"no op of type 'relu'.*mean 'Relu'\?.*Exp, Mul, Relu"):
        f(tensor(X))
    f = gl.override_gradient({"Relu": seven, "Rellu6": seven})(lambda x: tf.nn.relu6(tf.nn.relu(x)))
    with pytest.raises(ValueError, match="no op of type 'Rellu6'.*mean 'Relu6'"):
        f(tensor(X))
    with pytest.raises(ValueError, match="It has: no op that has a gradient"):
        relu_times_7(lambda x: x)(tensor(X))


def test_all_matches_inside_a_custom_gradient():
    @tf.custom_gradient
    def custom(x):
        return tf.nn.relu(x), lambda upstream: upstream

    with pytest.raises(ValueError, match="every Relu in custom is inside a tf.custom_gradient"):
        relu_times_7(custom)(tensor(X))
    f = relu_times_7(lambda x: custom(x) + tf.nn.relu(x))
    np.testing.assert_array_equal(gradient(f, tensor([1.0, -1.0])), [8, 8])
    assert len(f.matches) == 1


def test_functions_that_cannot_be_traced_again(tmp_path):
    concrete = traced_before.get_concrete_function(tensor(X))
    calling = tf.function(lambda x: concrete(x)).get_concrete_function(tensor(X))
    tf.saved_model.save(module_of(traced_before, [2, 3]), str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    for f in (concrete, calling, loaded.f, lambda x: tf.nn.relu(concrete(x))):
        with pytest.raises(NotImplementedError, match="can't reach the Relu in it: call"):
            relu_times_7(f)(tensor(X))
    with pytest.raises(NotImplementedError, match="can't reach the Relu"):
        relu_times_7(with_a_tape_inside_of(concrete))(tensor(X))
    # One that holds no such op is no obstacle.
    f = gl.override_gradient({"Tanh": five})(lambda x: tf.tanh(concrete(x)))
    np.testing.assert_array_equal(gradient(f, tensor(X)), 5.0 * (X > 0))


def with_a_tape_inside_of(f):
    def taped_inside(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    return taped_inside


def test_recomputation():
    with pytest.raises(NotImplementedError, match="Relu.*tf.recompute_grad.*override inside"):
        relu_times_7(tf.recompute_grad(lambda x: tf.nn.relu(x)))(tensor(X))


def test_functions_that_run_eagerly():
    f = relu_times_7(tf.nn.relu)
    tf.config.run_functions_eagerly(True)
    try:
        with pytest.raises(RuntimeError, match=r"run_functions_eagerly\(False\)"):
            f(tensor(X))
    finally:
        tf.config.run_functions_eagerly(False)


BAD_RULES = {
    "too many": (lambda op, u: (u, u), ValueError, "returned 2 gradients for 1 input"),
    "too few": (lambda op, u: (), ValueError, "returned 0 gradients for 1 input"),
    "shape": (lambda op, u: tf.transpose(u), ValueError, r"shape \(3, 2\), expected \(2, 3\)"),
    "dtype": (lambda op, u: tf.cast(u, tf.float64), TypeError, "float64, expected float32"),
    "no tensor": (lambda op, u: "none", TypeError, "no tensor: 'none', expected float32"),
}


@pytest.mark.parametrize("mode", ["eager", "function_tape_in", "jit"])
@pytest.mark.parametrize("name", BAD_RULES)
def test_a_bad_rule(name, mode):
    def bad_rule(op, upstream):
        return rule(op, upstream)

    rule, error, message = BAD_RULES[name]
    with pytest.raises(error, match=rf"the rule bad_rule for Relu \(Relu\) {'.*'}{message}"):
        MODES[mode](gl.override_gradient({"Relu": bad_rule})(lambda x: tf.nn.relu(x)), [tensor(X)])


def test_a_bad_rule_whose_shape_shows_only_when_it_runs():
    f = gl.override_gradient({"Relu": lambda op, u: tf.boolean_mask(u, u > 9.0)})(tf.nn.relu)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[0\] is not compatible.*\[3\]"):
        gradient(f, tensor(X[0]))


@pytest.mark.parametrize(
    ("rules", "error", "message"),
    [
        ({}, TypeError, "rules must be a dict.*got {}"),
        (seven, TypeError, "rules must be a dict of op type: rule"),
        ({"Relu": 7.0}, TypeError, "the rule for Relu must be a function.*got 7.0"),
        ({tf.nn.relu: seven}, TypeError, "an op type must be a string like 'Relu'"),
        ({"Relu": "unheard of"}, ValueError, "no gradient is registered as 'unheard of'"),
        ({"PartitionedCall": seven}, ValueError, "give their types"),
    ],
)
def test_bad_arguments(rules, error, message):
    with pytest.raises(error, match=message):
        gl.override_gradient(rules)


def test_keras_tensors():
    x = tf.keras.Input((3,))
    overridden = relu_times_7(tf.nn.relu)
    with pytest.raises(TypeError, match=r"relu got a KerasTensor.*keras\.layers\.Lambda\(f\)\(x\)"):
        overridden(x)
    with pytest.raises(TypeError, match="KerasTensor.*a layer whose call uses f"):
        relu_times_7(lambda x: tf.nn.relu(x["x"]))(x={"x": x})
    with pytest.raises(ValueError, match="on the way"):
        relu_times_7(failing_with_a_value_error)(tensor(X))
    model = tf.keras.Model(x, tf.keras.layers.Lambda(overridden)(x))  # the way out
    np.testing.assert_array_equal(gradient(model, tensor(X)), 7 + 0 * X)


def failing_with_a_value_error(x):
    raise ValueError("on the way")


@pytest.mark.parametrize("in_body", [False, True])
def test_tracing_calls_a_rule_only_where_captures_must_be_known(in_body):
    calls = []

    def rule(op, upstream):
        calls.append(op.name)
        return upstream

    gl.override_gradient({"Relu": rule})(in_a_branch if in_body else tf.nn.relu)(tensor(X))
    assert bool(calls) == in_body


def in_a_branch(x):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.nn.relu(x), lambda: x)


def test_bad_functions_and_names():
    with pytest.raises(TypeError, match="f must be a function or a model, got 3"):
        relu_times_7(3)
    with pytest.raises(TypeError, match="rule must be a function.*got 'name'"):
        gl.register_gradient("name")
