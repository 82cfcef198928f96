"""custom_gradient, and the primitive under all ops: what TensorFlow's own gets wrong, and leaks."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf
from cases import CASES
from modes import MODES, eager, flat, forward_mode, function_tape_out, second_order
from tensorflow.python.framework import ops

import gradlab as gl

WRAPS = pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "function"])


def gradients(f, *xs):
    with tf.GradientTape() as tape:
        tape.watch(xs)
        y = f(*xs)
    return [None if g is None else g.numpy().tolist() for g in tape.gradient(y, xs)]


@gl.custom_gradient
def product(a, b, power=1):
    y = (a * b) ** power
    rule = {1: lambda g: (10.0 * g, 20.0 * g), 2: lambda g: (30.0 * g, 40.0 * g, None)}
    return y, rule[power]


A, B = tf.constant(2.0), tf.constant(3.0)


@WRAPS
def test_keywords_are_bound(wrap):
    f = wrap(product)
    assert gradients(lambda a, b: f(a, b), A, B) == [10.0, 20.0]
    assert gradients(lambda a, b: f(a=a, b=b), A, B) == [10.0, 20.0]
    assert gradients(lambda a, b: f(b=b, a=a), A, B) == [10.0, 20.0]
    assert gradients(lambda a, b: f(a, b=b, power=2), A, B) == [30.0, 40.0]


def test_tensorflow_drops_the_rule_when_all_are_keywords():
    # The trap itself: should TensorFlow mend it, the docstring is to say so.
    f = tf.custom_gradient(lambda x: (x * 2.0, lambda g: 10.0 * g))
    assert gradients(lambda x: f(x=x), A) == [2.0]


class Scaler:
    factor = 7.0

    @gl.custom_gradient
    def scaled(self, x, *, by=1.0):
        return x * by, lambda g: (g * self.factor, None)

    @gl.custom_gradient
    def alone(self, x):
        return x, lambda g: g * self.factor

    @staticmethod
    @gl.custom_gradient
    def free(x):
        return x, lambda g: g * 9.0


@WRAPS
def test_methods(wrap):
    assert gradients(wrap(lambda x: Scaler().scaled(x, by=2.0)), A) == [7.0]
    assert gradients(wrap(lambda x: Scaler().scaled(by=2.0, x=x)), A) == [7.0]
    assert gradients(wrap(Scaler().alone), A) == [7.0]
    assert gradients(wrap(Scaler.free), A) == [9.0]


def test_the_decorator_keeps_name_doc_and_signature():
    @gl.custom_gradient()
    def named(x, *, scale):
        """Doc."""
        return x, lambda g: (g, None)

    assert (named.__name__, named.__doc__) == ("named", "Doc.")
    with pytest.raises(TypeError, match="scale"):
        named(A)


@WRAPS
def test_as_argument_of_a_function(wrap):
    # tf.function takes a tf.custom_gradient apart when it is an argument.
    apply = wrap(lambda f, x: f(x))
    assert gradients(lambda x: apply(Scaler.free, x), A) == [9.0]


@WRAPS
def test_structures_numbers_and_things_without_gradient(wrap):
    @gl.custom_gradient
    def f(xs, number, nothing, function, text):
        def rule(g, h):
            return {"u": [g * 2.0, h * 3.0]}, None, None

        assert (nothing, callable(function), text) == (None, True, "text")
        return (xs["u"][0] * number, [xs["u"][1]]), rule

    def call(a, b):
        y, (z,) = f({"u": [a, b]}, 5.0, None, print, "text")
        return y + z

    assert gradients(wrap(call), A, B) == [2.0, 3.0]


@WRAPS
def test_several_outputs_of_which_the_loss_uses_one(wrap):
    seen = []

    @gl.custom_gradient
    def f(x):
        def rule(g, h):
            seen.append((g.shape.rank, h.shape.rank))
            return tf.reduce_sum(g) * 2.0 + h

        return (tf.stack([x, x]), x), rule

    assert gradients(wrap(lambda x: f(x)[1]), A) == [1.0]
    assert gradients(wrap(lambda x: f(x)[0]), A) == [4.0]
    assert seen[0] == (1, 0)


@WRAPS
def test_integer_outputs_and_inputs(wrap):
    @gl.custom_gradient
    def top(x, k):
        values, indices = tf.math.top_k(x, 2)
        return (values, indices), lambda g, _: (tf.ones_like(x) * tf.reduce_sum(g), None)

    x = tf.constant([1.0, 5.0, 3.0])
    values, indices = wrap(top)(x, tf.constant(2))
    assert (values.numpy().tolist(), indices.numpy().tolist()) == ([5.0, 3.0], [1, 2])
    assert gradients(wrap(lambda x: top(x, tf.constant(2))[0]), x) == [[2.0, 2.0, 2.0]]


@WRAPS
def test_variables_read_by_the_forward(wrap):
    v, w = tf.Variable(2.0), tf.Variable([1.0, 1.0])
    still = tf.Variable(9.0, trainable=False)

    @gl.custom_gradient
    def f(x):
        def rule(g, variables):
            assert {id(u) for u in variables} == {id(v), id(w)}
            return g * 5.0, [tf.fill(u.shape, 7.0) * g for u in variables]

        return x * v * tf.reduce_sum(w) * still, rule

    g = wrap(f)
    with tf.GradientTape() as tape:
        tape.watch(A)
        y = g(A)
    got = tape.gradient(y, [A, v, w, still])
    assert y.numpy() == 72.0
    assert got[0].numpy() == 5.0
    assert (got[1].numpy(), got[2].numpy().tolist(), got[3]) == (7.0, [7.0, 7.0], None)


@WRAPS
@pytest.mark.parametrize("make", [tf.Variable, tf.keras.Variable])
def test_variables_as_arguments(wrap, make):
    v = make([2.0, 3.0])
    f, x = wrap(lambda x: product(x, v)), tf.ones([2])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    source = v if make is tf.Variable else v.value
    got_x, got_v = tape.gradient(y, [x, source])
    assert got_x.numpy().tolist() == [10.0, 10.0]
    assert got_v.numpy().tolist() == [20.0, 20.0]


def test_variables_under_mixed_precision():
    class Layer(tf.keras.layers.Layer):
        def build(self, shape):
            self.w = self.add_weight(shape=(), initializer="ones")

        def call(self, x):
            @gl.custom_gradient
            def f(x):
                w = tf.convert_to_tensor(self.w)
                assert w.dtype == tf.float16

                def rule(g, variables):
                    return g * w, [tf.reduce_sum(g * x) for _ in variables]

                return x * w, rule

            return f(x)

    layer = Layer(dtype="mixed_float16")
    x = tf.constant([1.0, 2.0])
    layer(x)
    for wrap in (lambda f: f, tf.function):
        f = wrap(lambda x: layer(x))
        with tf.GradientTape() as tape:
            y = f(x)
        g = tape.gradient(y, layer.trainable_variables[0].value)
        assert (g.dtype, g.numpy()) == (tf.float32, 3.0)


def test_forward_mode_transposes_the_rule():
    @gl.custom_gradient
    def f(x):
        y = tf.square(x)
        return y, lambda g: g * x * 10.0

    x = tf.constant([1.0, 2.0])
    assert forward_mode(f, x, tf.constant([1.0, 0.5])).tolist() == [10.0, 10.0]


def test_second_order_goes_through_what_the_forward_computed():
    @gl.custom_gradient
    def f(x):
        e = tf.exp(x)
        return e, lambda g: g * e

    # Σ 3 e³ˣ, and its slope
    x = tf.constant([0.5, -0.25], tf.float64)
    np.testing.assert_allclose(second_order(f, x), 9 * np.exp(3 * x.numpy()), rtol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_a_rule_that_reads_tensors_and_variables_around_it(mode):
    # Large, so that TensorFlow can't put it into the graph as a constant.
    around = tf.reshape(tf.range(4096.0), [4096])
    v = tf.Variable(2.0, trainable=False)

    def f(x):
        inner = x * 2.0

        @gl.custom_gradient
        def g(x):
            e = tf.square(x)
            return e, lambda upstream: upstream * (e + inner * around[3] + v)

        return g(x)

    x = tf.constant([1.0, 2.0, -1.0])
    (y,), (gradient,) = MODES[mode](f, [x], [tf.constant([1.0, 0.5, 2.0])])
    assert y.tolist() == [1.0, 4.0, 1.0]
    upstream = np.array([1.0, 0.5, 2.0])
    wanted = upstream * (x.numpy() ** 2 + 6 * x.numpy() + 2.0)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-6)


def faulty(rule):
    return gl.custom_gradient(lambda x: (x * 1.0, rule))


@pytest.mark.parametrize("wrap", [eager, function_tape_out])
@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (faulty(lambda g: (g, g)), ValueError, "one gradient per argument, 1 for x; got 2"),
        (faulty(lambda g: []), ValueError, "one gradient per argument, 1 for x; got 0"),
        (faulty(lambda g: 0.0), ValueError, r"gradient of shape \(\) for x, expected \(3,\)"),
        (faulty(tf.reduce_sum), ValueError, r"gradient of shape \(\) for x, expected \(3,\)"),
        (faulty(lambda g: g[:, None]), ValueError, r"gradient of shape \(3, 1\) for x"),
        (faulty(lambda g: tf.cast(g, tf.float64)), TypeError, "float64 for x, expected float32"),
        (faulty(lambda g: tf.cast(g, tf.int32)), TypeError, "int32 for x, expected float32"),
        (faulty(lambda g: "no"), TypeError, "string for x, expected float32"),
        (faulty(lambda g: print), TypeError, "returned <built-in.*expected a tensor of dtype"),
        (gl.custom_gradient(lambda x: x), TypeError, r"must return \(y, rule\)"),
        (gl.custom_gradient(lambda x: (x, x)), TypeError, r"must return \(y, rule\)"),
        (gl.custom_gradient(lambda x: None), TypeError, r"must return \(y, rule\).*got None"),
        (gl.custom_gradient(lambda x: (print, print)), TypeError, "dense tensors, got <built-in"),
    ],
)
def test_what_a_rule_returns_is_checked(wrap, f, error, message):
    with pytest.raises(error, match=message):
        wrap(f, [tf.ones([3])])


def test_errors_name_the_argument():
    @gl.custom_gradient
    def f(a, weights):
        return a * weights[0], lambda g: (g, [g, tf.zeros([7])])

    with pytest.raises(ValueError, match=r"the rule of f.*shape \(7,\) for weights, expected \(\)"):
        gradients(lambda a, b: f(a, [b, b]), A, B)


def test_variables_need_a_rule_that_takes_them():
    v = tf.Variable(2.0)
    f = gl.custom_gradient(lambda x: (x * v, lambda g: g))
    with pytest.raises(TypeError, match="reads variables.*Variable:0.*variables="):
        f(A)
    f = gl.custom_gradient(lambda x: (x * v, lambda g, variables: (g, [])))
    with pytest.raises(ValueError, match="one gradient per variable, 1 for Variable:0; got 0"):
        gradients(f, A)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tf.ragged.constant([[1.0]]), "argument x of .* must be dense, got a RaggedTensor"),
        (lambda: tf.sparse.from_dense([1.0]), "must be dense, got a SparseTensor"),
        (lambda: tf.keras.Input([2]), "argument x .* Keras.*Lambda"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(TypeError, match=message):
        faulty(lambda g: g)(make())


def registered():
    return sum(name.startswith("gradlab") for name in ops.gradient_registry.list())


def differentiated(f, xs):
    f(*xs)  # once in eager mode, where variables may be made
    compiled = tf.function(flat(f), autograph=False)
    with tf.GradientTape() as tape:
        tape.watch(xs)
        ys = compiled(*xs)
    tape.gradient(ys, xs)
    return weakref.ref(compiled.get_concrete_function(*xs).graph)


def test_traces_leave_nothing_behind():
    for case in CASES.values():
        differentiated(case.f, case.xs())
    gc.collect()
    before = registered()
    graphs = {
        name: differentiated(case.f, case.xs()) for name, case in CASES.items() for _ in range(3)
    }
    gc.collect()
    assert [name for name, graph in graphs.items() if graph() is not None] == []
    # Fewer, where the graphs of an earlier test took their time.
    assert registered() <= before


def test_a_thousand_traces_grow_neither_registry_nor_memory():
    @tf.autograph.experimental.do_not_convert
    def f(x):
        return gl.clip_gradient_by_norm(gl.scale_gradient(x, tf.constant(2.0)), 1.0)

    def trace_often(times):
        for _ in range(times):
            tf.function(f).get_concrete_function(tf.TensorSpec([3]))
        gc.collect()
        return registered(), sum(type(o).__name__ == "_Layout" for o in gc.get_objects())

    before = trace_often(10)
    assert trace_often(1000) == before


def test_the_forward_copies_no_memory():
    x = tf.random.stateless_normal([4096], [1, 2])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = gl.clip_gradient_by_norm(x, 1.0)
    # Unlike numpy(), _numpy() shows the tensor's own buffer.
    assert y is not x
    assert np.shares_memory(y._numpy(), x._numpy())


def test_an_op_traced_in_a_function_outlives_the_function_around():
    @tf.function
    def inner(x):
        return gl.scale_gradient(x, 3.0)

    outer = tf.function(lambda x: inner(x))
    outer(A)
    del outer
    gc.collect()
    assert gradients(inner, A) == [3.0]


def test_a_lost_gradient_raises():
    graph = tf.function(lambda x: gl.scale_gradient(x, 3.0)).get_concrete_function(A).graph
    definition = graph.as_graph_def()
    for node in definition.node:
        node.attr.pop("_gradient_op_type", None)
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [])
        names = {graph.inputs[0].op.name: x}
        (y,) = tf.graph_util.import_graph_def(
            definition, names, [graph.outputs[0].name], name="copy"
        )
        with pytest.raises(LookupError, match="the gradient of scale_gradient was lost"):
            tf.gradients(y, x)


def test_a_copied_graph_keeps_its_gradient():
    concrete = tf.function(lambda x, s: gl.scale_gradient(x, s)).get_concrete_function(A, B)
    definition = concrete.graph.as_graph_def()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x, s = (tf.compat.v1.placeholder(tf.float32, []) for _ in range(2))
        names = dict(zip([i.op.name for i in concrete.graph.inputs], (x, s), strict=True))
        (y,) = tf.graph_util.import_graph_def(definition, names, [concrete.graph.outputs[0].name])
        (g,) = tf.gradients(y, x)
        assert session.run(g, {x: 1.0, s: 4.0}) == 4.0


@pytest.mark.parametrize("name", CASES)
def test_in_a_v1_graph_with_a_session(name):
    case = CASES[name]
    if name == "record_gradient, variable":
        return  # a variable of eager mode, which no session knows
    fed = [x.numpy() for x in case.xs()]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        xs = [tf.compat.v1.placeholder(tf.float32, x.shape) for x in fed]
        ys = flat(case.f)(*xs)
        got = session.run(tf.gradients(ys, xs), dict(zip(xs, fed, strict=True)))
    wanted = case.rule([x.astype(float) for x in fed], [np.ones_like(x, float) for x in fed])
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


SINGLE = [name for name, case in CASES.items() if len(case.shapes) == 1]


class Branches(tf.keras.layers.Layer):
    """Each op of the table after a kernel of its own."""

    def build(self, shape):
        self.kernels = {
            name: self.add_weight(shape=(shape[-1], 3), initializer="ones", name=f"kernel{i}")
            for i, name in enumerate(SINGLE)
        }

    def call(self, x):
        return tf.stack([CASES[name].f(x @ kernel) for name, kernel in self.kernels.items()], 1)


@pytest.mark.parametrize(
    ("policy", "dtype"), [("float32", tf.float32), ("mixed_float16", tf.float16)]
)
def test_fit(policy, dtype):
    for name in SINGLE:
        CASES[name].f(tf.zeros([2, 3], dtype))  # variables are made outside of the model
    layer = Branches(dtype=policy)
    model = tf.keras.Sequential([layer])
    model.compile(optimizer=tf.keras.optimizers.SGD(1.0), loss="mse", jit_compile=False)
    x = np.float32([[0.25, 0.5], [-0.75, -0.5]])
    targets = np.float32([[2.0, -3.0, 1.5], [-1.0, 4.0, 0.5]])
    y = np.stack([targets] * len(SINGLE), 1)
    model.fit(x, y, batch_size=2, shuffle=False, verbose=0)
    before = x @ np.ones([2, 3])
    tolerance = 1e-5 if policy == "float32" else 5e-3
    for name, kernel in layer.kernels.items():
        case = CASES[name]
        (forward,) = case.forward([before])
        upstream = 2 * (forward - targets) / y.size
        # In units of the upstream: Keras divides by the number of outputs.
        step = (1.0 - kernel.numpy()) * y.size
        wanted = x.T @ case.rule([before], [upstream])[0] * y.size
        np.testing.assert_allclose(step, wanted, tolerance, tolerance * 10, err_msg=name)


def test_fit_compiled_by_xla():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(3, kernel_initializer="ones"),
            tf.keras.layers.Lambda(lambda x: gl.clip_gradient_by_value(x, -1e-3, 1e-3)),
        ]
    )
    model.compile(optimizer=tf.keras.optimizers.SGD(1.0), loss="mse", jit_compile=True)
    model.fit(np.ones([2, 4], np.float32), np.zeros([2, 3], np.float32), verbose=0)
    np.testing.assert_allclose(1 - model.get_weights()[0], 2e-3, rtol=1e-4)
