"""numpy_op and py_func against oracles, in every mode, and what they say of bad input."""

import gc

import numpy as np
import pytest
import tensorflow as tf
from modes import (
    FORWARD,
    JACOBIAN,
    MODES,
    SECOND_ORDER,
    function_tape_in,
    function_tape_out,
    on_two_replicas,
    taped,
)
from tensorflow.python.framework import ops

import gradlab as gl

XLA = ("jit", "jit_tape_out", "while_loop_jit", "vectorized_jit")
X = np.array([[0.3, -0.7, 1.2], [1.7, -2.5, 0.9]])
Y = np.array([[0.2, 0.5, 1.0], [2.9, -0.8, 0.4]])
U = np.array([[1.0, -2.0, 0.5], [3.0, -1.0, 2.0]])
TOLERANCE = {"bfloat16": 2e-2, "float16": 4e-3, "float32": 2e-6, "float64": 1e-13}


def tensor(values, dtype=tf.float32):
    return tf.constant(values, dtype)


def mod_gradient(x, y, upstream):
    return upstream, -np.floor(x / y) * upstream


def square_gradient(x, upstream):
    return 2.0 * x * upstream


def square_gradient_of_op(op, upstream):
    return 2.0 * op.inputs[0] * upstream


def square_by_output(op, upstream):
    # d(x²) = 2x = 2 sign(x) √y
    return 2.0 * tf.sign(op.inputs[0]) * tf.sqrt(op.outputs[0]) * upstream


def in_tensorflow(x, y, upstream):
    return upstream, -tf.floor(x / y) * upstream


def by_py_func(func, grad):
    return lambda *xs: gl.py_func(func, list(xs), xs[0].dtype, grad=grad)


def shaped(f):
    """py_func doesn't know its output's shape; some modes need it."""
    return lambda *xs: tf.ensure_shape(f(*xs), xs[0].shape)


def split(x):
    return x[..., :1] * 2.0, x[..., 1:] ** 2


def split_gradient(x, first, second):
    return np.concatenate([2.0 * first, 2.0 * x[..., 1:] * second], -1)


split_op = gl.numpy_op(
    split,
    split_gradient,
    dtype=[tf.float32, tf.float32],
    shape=[lambda x: x[:-1].concatenate(1), lambda x: x[:-1].concatenate(2)],
)


def both_parts(x):
    return tf.concat(split_op(x), -1)


# name: (f, inputs, forward, gradients at upstream U)
CASES = {
    "mod": (gl.numpy_op(np.mod, mod_gradient), [X, Y], X % Y, [U, -np.floor(X / Y) * U]),
    "mod_in_tensorflow": (
        gl.numpy_op(np.mod, in_tensorflow, rule="tensorflow"),
        [X, Y],
        X % Y,
        [U, -np.floor(X / Y) * U],
    ),
    "square": (gl.numpy_op(np.square, square_gradient), [X], X**2, [2 * X * U]),
    "square_in_tensorflow": (
        gl.numpy_op(np.square, square_gradient, rule="tensorflow"),
        [X],
        X**2,
        [2 * X * U],
    ),
    "lie": (gl.numpy_op(np.cos, lambda x, u: 100 * u), [X], np.cos(X), [100 * U]),
    "split": (
        both_parts,
        [X],
        np.concatenate([2 * X[:, :1], X[:, 1:] ** 2], 1),
        [np.concatenate([2 * U[:, :1], 2 * X[:, 1:] * U[:, 1:]], 1)],
    ),
    "py_func": (
        shaped(by_py_func(np.square, square_gradient_of_op)),
        [X],
        X**2,
        [2 * X * U],
    ),
    "py_func_of_outputs": (
        shaped(by_py_func(np.square, square_by_output)),
        [X],
        X**2,
        [2 * X * U],
    ),
}


def close(got, wanted, dtype="float32"):
    for one, other in zip(got, wanted, strict=True):
        assert one.dtype == dtype
        np.testing.assert_allclose(
            one.astype(np.float64), other, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
        )


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in XLA])
@pytest.mark.parametrize("name", CASES)
def test_mode(name, mode):
    f, inputs, forward, gradients = CASES[name]
    if mode == "unknown_rank" and name == "split":
        return  # its shape function slices a known rank
    ys, got = MODES[mode](f, [tensor(x) for x in inputs], [tensor(U)])
    close(ys, [forward])
    close(got, gradients)


@pytest.mark.parametrize("mode", XLA)
@pytest.mark.parametrize("name", ["square", "square_in_tensorflow", "py_func"])
def test_xla_is_refused(name, mode):
    with pytest.raises(NotImplementedError, match="square.*XLA can't compile.*jit_compile"):
        MODES[mode](CASES[name][0], [tensor(X)], [tensor(U)])


def test_xla_is_refused_by_name_where_the_op_was_traced_before():
    traced = tf.function(CASES["square"][0])
    traced(tensor(X))
    with pytest.raises(tf.errors.InvalidArgumentError, match="numpy_op_square_is_Python"):
        tf.function(lambda x: traced(x), jit_compile=True)(tensor(X))


@pytest.mark.parametrize("mode", ["eager", "function_tape_in", "function_tape_out"])
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64])
@pytest.mark.parametrize("name", ["mod", "mod_in_tensorflow", "square", "lie", "py_func"])
def test_dtype(name, dtype, mode):
    f, inputs, _, _ = CASES[name]
    xs = [tensor(x, dtype) for x in inputs]
    ys, got = MODES[mode](f, xs, [tensor(U, dtype)])
    wide = [x.numpy().astype(np.float64) for x in xs]
    if name.startswith("mod"):
        # An x near a multiple of y rounds to the other side of it: what was given decides.
        forward, gradients = np.mod(*wide), [U, -np.floor(wide[0] / wide[1]) * U]
    else:
        forward, gradients = CASES[name][2], CASES[name][3]
    close(ys, [forward], dtype.name)
    close(got, gradients, dtype.name)


def test_complex():
    f = gl.numpy_op(np.square, lambda x, u: np.conj(2 * x) * u)
    x = tensor([1 + 2j, -3j], tf.complex64)
    for mode in ("eager", "function_tape_out"):
        (y,), (gradient,) = MODES[mode](f, [x])
        np.testing.assert_allclose(y, [-3 + 4j, -9])
        np.testing.assert_allclose(gradient, [2 - 4j, 6j])


def test_the_figures_of_the_lesson():
    mod = gl.numpy_op(np.mod, mod_gradient)
    x, y = tensor([0.3, 0.7, 1.2, 1.7]), tensor([0.2, 0.5, 1.0, 2.9])
    (z,), gradients = MODES["eager"](mod, [x, y])
    np.testing.assert_allclose(z, [0.1, 0.2, 0.2, 1.7], rtol=1e-6)
    np.testing.assert_array_equal(gradients, [[1, 1, 1, 1], [-1, -1, -1, 0]])


# Derivatives beyond the first.


@pytest.mark.parametrize("how", SECOND_ORDER)
@pytest.mark.parametrize("name", ["square_in_tensorflow", "py_func", "py_func_of_outputs"])
def test_second_order(name, how):
    # Σ f³ = Σ x⁶ has gradient 6 x⁵ and second derivative 30 x⁴.
    got = SECOND_ORDER[how](CASES[name][0], tensor(X))
    np.testing.assert_allclose(got, 30 * X**4, rtol=1e-5)


@pytest.mark.parametrize("how", FORWARD)
def test_forward_mode(how):
    got = FORWARD[how](CASES["square_in_tensorflow"][0], tensor(X), tensor(U))
    np.testing.assert_allclose(got, 2 * X * U, rtol=1e-6)


@pytest.mark.parametrize("how", JACOBIAN)
@pytest.mark.parametrize("name", ["square", "square_in_tensorflow", "py_func"])
def test_jacobian(name, how):
    got = JACOBIAN[how](CASES[name][0], tensor(X[0]))
    np.testing.assert_allclose(got, np.diag(2 * X[0]), rtol=1e-6)


NO_DERIVATIVE = (NotImplementedError, tf.errors.UnimplementedError)


@pytest.mark.parametrize("how", SECOND_ORDER)
def test_second_order_of_a_numpy_rule_is_refused(how):
    with pytest.raises(NO_DERIVATIVE, match="square.*second order.*rule='tensorflow'"):
        SECOND_ORDER[how](CASES["square"][0], tensor(X))


@pytest.mark.parametrize("how", FORWARD)
def test_forward_mode_of_a_numpy_rule_is_refused(how):
    with pytest.raises(NO_DERIVATIVE, match="square.*forward mode.*rule='tensorflow'"):
        FORWARD[how](CASES["square"][0], tensor(X), tensor(U))


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function])
def test_first_order_under_two_tapes(wrap):
    f, x = wrap(CASES["square"][0]), tensor(X)
    with tf.GradientTape() as outer:
        outer.watch(x)
        (y,), (inner,) = taped(f, [x])
    np.testing.assert_allclose(inner, 2 * X, rtol=1e-6)
    np.testing.assert_allclose(outer.gradient(y, x), 2 * X, rtol=1e-6)


# Shapes, dtypes, kinds of inputs.


@pytest.mark.parametrize("rule", ["numpy", "tensorflow"])
@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 3), (3,)),
        ((2, 3), (2, 1)),
        ((), (2, 3)),
        ((1, 3), (2, 1)),
        ((2, 3), (2, 3)),
        ((3,), ()),
    ],
)
@pytest.mark.parametrize("mode", ["eager", "function_tape_out", "unknown_rank", "dynamic_shape"])
def test_broadcast(shapes, rule, mode):
    x, y = (np.arange(1.0, 1 + np.prod(s)).reshape(s) for s in shapes)
    f = gl.numpy_op(np.multiply, lambda x, y, u: (y * u, x * u), rule=rule)
    (z,), (of_x, of_y) = MODES[mode](f, [tensor(x), tensor(y)])
    np.testing.assert_allclose(z, x * y)
    # TensorFlow's own product as the oracle of what is summed where.
    with tf.GradientTape() as tape:
        t = [tensor(x), tensor(y)]
        tape.watch(t)
        product = t[0] * t[1]
    for one, other in zip((of_x, of_y), tape.gradient(product, t), strict=True):
        np.testing.assert_allclose(one, other)


def row_sum_gradient(x, upstream):
    return np.broadcast_to(upstream[..., None], x.shape)


@pytest.mark.parametrize("shape", [lambda x: x[:-1], (2,), (None,), tf.TensorShape(None)])
@pytest.mark.parametrize("mode", ["eager", "function_tape_in", "function_tape_out"])
def test_reduction(shape, mode):
    f = gl.numpy_op(lambda x: x.sum(-1), row_sum_gradient, shape=shape)
    (y,), (gradient,) = MODES[mode](f, [tensor(X)], [tensor([1.0, 2.0])])
    np.testing.assert_allclose(y, X.sum(-1), rtol=1e-6)
    np.testing.assert_allclose(gradient, [[1, 1, 1], [2, 2, 2]])


def test_static_shape_and_dtype_are_set():
    spec = tf.TensorSpec([None, 3], tf.float16)
    for f, shape in [
        (CASES["square"][0], [None, 3]),
        (gl.numpy_op(lambda x: x.sum(-1), row_sum_gradient, shape=lambda x: x[:-1]), [None]),
    ]:
        out = tf.function(f).get_concrete_function(spec).structured_outputs
        assert out.shape.as_list() == shape
        assert out.dtype == tf.float16


def test_static_shape_of_the_gradient_is_set():
    @tf.function
    def step(x):
        _, (gradient,) = taped(CASES["square"][0], [x])
        assert gradient.shape.as_list() == [2, 3]
        return gradient

    step(tensor(X))


@pytest.mark.parametrize("mode", ["eager", "function_tape_in", "function_tape_out"])
def test_integer_inputs_and_outputs(mode):
    f = gl.numpy_op(
        lambda x, n: (x * n, np.floor(x)),
        lambda x, n, u, _: (n * u, "whatever"),
        dtype=(tf.float32, tf.float64),
    )
    n = tf.constant([[1, 2, 3], [4, 5, 6]])
    (y, floor), (of_x, of_n) = MODES[mode](f, [tensor(X), n], [tensor(U), tensor(U, tf.float64)])
    np.testing.assert_allclose(y, X * n.numpy(), rtol=1e-6)
    np.testing.assert_array_equal(floor, np.floor(X))
    assert floor.dtype == np.float64
    np.testing.assert_allclose(of_x, n.numpy() * U, rtol=1e-6)
    assert of_n is None


def test_integer_output_beside_a_float():
    f = gl.numpy_op(
        lambda x: (2 * x, np.floor(x).astype(np.int64)),
        lambda x, u, _: 2 * u,
        dtype=[tf.float32, tf.int32],
    )
    for wrapped in (f, tf.function(f)):
        x = tensor(X)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y, n = wrapped(x)
        np.testing.assert_array_equal(n, np.floor(X))
        assert n.dtype == tf.int32
        np.testing.assert_array_equal(tape.gradient(y, x), np.full_like(X, 2))


def test_none_stands_for_zero():
    f = gl.numpy_op(np.mod, lambda x, y, u: (u, None))
    for mode in ("eager", "function_tape_out"):
        _, (of_x, of_y) = MODES[mode](f, [tensor(X), tensor(Y)])
        np.testing.assert_array_equal(of_x, np.ones_like(X))
        np.testing.assert_array_equal(of_y, np.zeros_like(Y))


def test_variables_arrays_and_numbers_are_inputs():
    v = tf.Variable([2.0, 3.0])
    f = gl.numpy_op(np.multiply, lambda x, y, u: (y * u, x * u))
    for wrapped in (f, tf.function(f)):
        with tf.GradientTape() as tape:
            y = wrapped(v, 4) + wrapped(v, np.float32([5, 6])) + wrapped(v, [1.0, 2.0])
        assert y.dtype == tf.float32
        np.testing.assert_array_equal(tape.gradient(y, v), [10, 12])


def test_empty_tensors():
    for mode in ("eager", "function_tape_out"):
        (y,), (gradient,) = MODES[mode](CASES["square"][0], [tf.zeros([0, 3])])
        assert y.shape == gradient.shape == (0, 3)


def test_jacobian_of_nothing():
    # The batch that jacobian makes of the NumPy rule is empty.
    assert JACOBIAN["eager"](CASES["square"][0], tf.zeros([0])).shape == (0, 0)


def test_a_function_that_works_in_place_is_told_to_copy():
    def clear(x):
        x[:] = 0.0
        return x

    x = tensor([1.0, 2.0])
    f = gl.numpy_op(clear, lambda x, u: u)
    for wrapped in (f, tf.function(f)):
        with pytest.raises((RuntimeError, tf.errors.UnknownError), match="'clear'.*copy one"):
            wrapped(x)
        np.testing.assert_array_equal(x, [1, 2])


def test_results_too_large_become_infinite_without_a_warning(recwarn):
    y = gl.numpy_op(lambda x: x.astype(np.float64) * 1e100, lambda x, u: u)(tensor([1e30, 0.0]))
    np.testing.assert_array_equal(y, [np.inf, 0])
    assert not recwarn.list


def test_name_and_docstring_are_those_of_the_function():
    def wiggle(x):
        """Wiggle."""
        return np.sin(x)

    op = gl.numpy_op(wiggle, lambda x, u: np.cos(x) * u)
    assert (op.__name__, op.__doc__) == ("wiggle", "Wiggle.")


def test_nothing_is_retraced_and_python_runs_once_per_call():
    traces, runs = [], []

    def forward(x):
        runs.append(x)
        return x

    op = gl.numpy_op(forward, lambda x, u: u)
    f = tf.function(lambda x: (traces.append(1), op(x))[1], autograph=False)
    for i in range(4):
        f(tensor([float(i)]))
    assert len(traces) == 1
    assert [x.item() for x in runs] == [0, 1, 2, 3]


def test_vectorized_map_and_jacobian_log_nothing(caplog):
    tf.vectorized_map(CASES["square"][0], tensor(X))
    JACOBIAN["eager"](CASES["square"][0], tensor(X[0]))
    assert not caplog.records


def test_two_replicas():
    ys, gradients = on_two_replicas(CASES["square"][0], [tensor(X)], [tensor(U)])
    close(ys, [X**2])
    close(gradients, [2 * X * U])


def test_keras_trains_through_it():
    inputs = tf.keras.Input((3,))
    layer = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    model = tf.keras.Model(inputs, tf.keras.layers.Lambda(CASES["square"][0])(layer(inputs)))
    model.compile("sgd", "mse", jit_compile=False)
    x, z = X.astype(np.float32), np.zeros([2, 1], np.float32)
    model.fit(x, z, batch_size=2, verbose=0)
    s = X.sum(1, keepdims=True)
    step = 0.01 * (2 * s**2 * 2 * s * X).mean(0)
    np.testing.assert_allclose(layer.kernel.numpy()[:, 0], 1 - step, rtol=1e-5)


# Saving.


@pytest.mark.parametrize("options", [None, False])
@pytest.mark.parametrize("branch", [False, True])
def test_saving_is_refused_when_saving(tmp_path, options, branch):
    square = CASES["square"][0]

    def f(x):
        return tf.cond(x[0] > 0, lambda: square(x), lambda: x) if branch else square(x)

    module = tf.Module()
    inner = tf.function(f, autograph=False)
    module.f = tf.function(lambda x: inner(x), input_signature=[tf.TensorSpec([3])])
    options = (
        options
        if options is None
        else tf.saved_model.SaveOptions(experimental_custom_gradients=options)
    )
    with pytest.raises(ValueError, match="numpy_op 'square' runs Python.*SavedModel"):
        tf.saved_model.save(module, str(tmp_path), options=options)


# Bad input.


def misshapen(x):
    return x[:1]


def failing(x):
    raise KeyError("no such thing")


CALL_ERRORS = {
    "another shape": (
        {"forward": misshapen},
        (ValueError, tf.errors.InvalidArgumentError),
        r"'misshapen': output 0 of forward has shape \(1, 3\), expected \(2, 3\).*shape=",
    ),
    "another dtype": (
        {"forward": lambda x: x * 1j},
        (TypeError, tf.errors.InvalidArgumentError),
        "output 0 of forward has dtype complex64, expected float32: declare",
    ),
    "a fraction for an integer": (
        {"forward": lambda x: x, "dtype": tf.int32},
        (TypeError, tf.errors.InvalidArgumentError),
        "dtype float32, expected int32",
    ),
    "None": (
        {"forward": lambda x: None},
        (TypeError, tf.errors.InvalidArgumentError),
        "dtype object, expected float32",
    ),
    "too few outputs": (
        {"forward": np.square, "dtype": [tf.float32, tf.float32]},
        (ValueError, tf.errors.InvalidArgumentError),
        "'square': forward returned 1 array, and 2 dtypes declared: return a tuple",
    ),
    "an exception": (
        {"forward": failing},
        (RuntimeError, tf.errors.UnknownError),
        r"'failing': forward raised KeyError: 'no such thing'.*float32\[2, 3\].*copy",
    ),
}


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function])
@pytest.mark.parametrize("name", CALL_ERRORS)
def test_bad_forward(name, wrap):
    kwargs, error, message = CALL_ERRORS[name]
    with pytest.raises(error, match=message):
        wrap(gl.numpy_op(gradient=lambda x, u: u, **kwargs))(tensor(X))


RULE_ERRORS = {
    "too many": (
        lambda x, u: (u, u),
        (ValueError, tf.errors.InvalidArgumentError),
        "'square': gradient returned 2 gradients for 1 input: return one per input",
    ),
    "a constant": (
        lambda x, u: 1.0,
        (ValueError, tf.errors.InvalidArgumentError),
        r"gradient.* input 0.* shape \(\), expected \(2, 3\)",
    ),
    "transposed": (
        lambda x, u: tf.transpose(u) if tf.is_tensor(u) else u.T,
        (ValueError, tf.errors.InvalidArgumentError),
        r"gradient.* input 0.* shape \(3, 2\), expected \(2, 3\)",
    ),
    "another dtype": (
        lambda x, u: tf.cast(u, tf.complex64) if tf.is_tensor(u) else u * 1j,
        (TypeError, tf.errors.InvalidArgumentError),
        "gradient.* input 0.* dtype complex64, expected float32",
    ),
    "no tensor": (
        lambda x, u: "none",
        (TypeError, ValueError, tf.errors.InvalidArgumentError),
        "gradient.* input 0.*expected",
    ),
}


@pytest.mark.parametrize("mode", [MODES["eager"], function_tape_in, function_tape_out])
@pytest.mark.parametrize("rule", ["numpy", "tensorflow"])
@pytest.mark.parametrize("name", RULE_ERRORS)
def test_bad_rule(name, rule, mode):
    gradient, error, message = RULE_ERRORS[name]
    with pytest.raises(error, match=message):
        mode(gl.numpy_op(np.square, gradient, rule=rule), [tensor(X)])


@pytest.mark.parametrize("mode", [MODES["eager"], function_tape_in])
def test_a_numpy_rule_that_raises(mode):
    with pytest.raises((RuntimeError, tf.errors.UnknownError), match="gradient raised KeyError"):
        mode(gl.numpy_op(np.square, lambda x, u: failing(x)), [tensor(X)])


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"forward": 3}, TypeError, "forward must be a function, got 3"),
        ({"gradient": None}, TypeError, "gradient must be a function, got None"),
        ({"rule": "np"}, ValueError, "rule must be 'numpy'.*or 'tensorflow'.*got 'np'"),
        ({"dtype": "float33"}, TypeError, "dtype must be a dtype.*float33"),
        ({"shape": "square"}, ValueError, "shape must be.*got 'square'"),
        ({"dtype": [tf.float32] * 2, "shape": (2, 3, 4)}, ValueError, "list of 2 shapes"),
    ],
)
def test_bad_arguments(kwargs, error, message):
    kwargs = {"forward": np.square, "gradient": square_gradient} | kwargs
    with pytest.raises(error, match=message):
        gl.numpy_op(**kwargs)


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ((), TypeError, "at least one input"),
        ((None,), TypeError, "input 0 must be a dense tensor.*None"),
        ((tf.ragged.constant([[1.0], []]),), TypeError, "input 0 must be a dense tensor.*Ragged"),
        (([1.0, 2.0], [1.0, 2.0, 3.0]), ValueError, r"shapes \(2,\), \(3,\).*shape="),
    ],
)
def test_bad_inputs(inputs, error, message):
    with pytest.raises(error, match=message):
        gl.numpy_op(np.mod, mod_gradient)(*inputs)


# py_func.


def in_session(make, feed):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [None])
        y = make(x)
        return session.run([y, tf.gradients(y, x)], {x: feed})


def test_py_func_in_a_v1_graph():
    y, (gradient,) = in_session(by_py_func(np.square, square_by_output), [3.0, -4.0])
    np.testing.assert_allclose(y, [9, 16])
    np.testing.assert_allclose(gradient, [6, -8])


def test_numpy_op_in_a_v1_graph():
    y, (gradient,) = in_session(CASES["square"][0], [3.0, -4.0])
    np.testing.assert_allclose(y, [9, 16])
    np.testing.assert_allclose(gradient, [6, -8])


def test_py_func_with_several_inputs_and_outputs():
    seen = []

    def grad(op, of_sum, of_product):
        x, y = op.inputs
        seen.append((op.type, op.name, len(op.outputs), op.get_attr("Tin"), op.get_attr("Tout")))
        return of_sum + y * of_product, of_sum + x * of_product

    def make(x, y):
        return gl.py_func(
            lambda x, y: [x + y, x.astype(np.float64) * y],
            [x, y],
            [tf.float32, tf.float32],
            name="both",
            grad=grad,
        )

    upstreams = [tensor(U), tensor(2 * U)]
    for mode in ("eager", "function_tape_in", "function_tape_out"):
        ys, gradients = MODES[mode](make, [tensor(X), tensor(Y)], upstreams)
        close(ys, [X + Y, X * Y])
        close(gradients, [U + Y * 2 * U, U + X * 2 * U])
    assert set(map(str, seen)) == {str(("PyFunc", "both", 2, [tf.float32] * 2, [tf.float32] * 2))}


@pytest.mark.parametrize("stateful", [True, False])
def test_py_func_casts_what_numpy_made_wide(stateful):
    def f(x):
        return gl.py_func(lambda x: x.astype(np.float64) / 3, [x], tf.float32, stateful, "third")

    for wrapped in (f, tf.function(f)):
        y = wrapped(tensor([1.0]))
        assert y.dtype == tf.float32
        np.testing.assert_allclose(y, [1 / 3], rtol=1e-6)


def test_py_func_without_grad_has_no_gradient():
    for mode in ("eager", "function_tape_in"):
        _, gradients = MODES[mode](by_py_func(np.square, None), [tensor(X)])
        assert gradients == [None]


def test_py_func_takes_lists_as_tensorflow_1_did():
    assert gl.py_func(lambda x: [x], [1.0], tf.float32).numpy() == 1.0
    assert [y.numpy() for y in gl.py_func(lambda x: x, 1.0, [tf.float32])] == [1.0]
    assert gl.py_func(lambda x: [], [1.0], []) == []


def test_py_func_skips_integer_inputs():
    def grad(op, upstream):
        return upstream, tf.constant("whatever")

    f = lambda x, n: gl.py_func(np.multiply, [x, n], tf.float32, grad=grad)  # noqa: E731
    for mode in ("eager", "function_tape_out"):
        _, (of_x, of_n) = MODES[mode](f, [tensor([1.0]), tf.constant([2])])
        np.testing.assert_array_equal(of_x, [1])
        assert of_n is None


@pytest.mark.parametrize(
    ("grad", "error", "message"),
    [
        (lambda op, u: (u, u), ValueError, "py_func 'square': grad returned 2 gradients for 1"),
        (
            lambda op, u: tf.transpose(u),
            (ValueError, tf.errors.InvalidArgumentError),
            r"shape \(3, 2\), expected \(2, 3\)|\[3,2\] is not compatible.*expected shape \[2,3\]",
        ),
        (lambda op, u: tf.cast(u, tf.float64), TypeError, "float64, expected float32.*tf.cast"),
        (lambda op, u: op.get_attr("T"), ValueError, "'Tin', 'Tout', not 'T'"),
    ],
)
def test_py_func_with_a_bad_grad(grad, error, message):
    for mode in (MODES["eager"], function_tape_in):
        with pytest.raises(error, match=message):
            mode(by_py_func(np.square, grad), [tensor(X)])


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"func": None}, TypeError, "func must be a function"),
        ({"grad": "square"}, TypeError, "grad must be a function.*'square'"),
        ({"Tout": "float33"}, TypeError, "Tout must be a dtype"),
        ({"inp": []}, TypeError, "at least one input"),
        ({"Tout": [tf.float32] * 2}, ValueError, "func returned 1 array, and 2 dtypes"),
        ({"func": failing}, RuntimeError, "func raised KeyError"),
    ],
)
def test_py_func_with_bad_arguments(kwargs, error, message):
    with pytest.raises(error, match=message):
        gl.py_func(**{"func": np.square, "inp": [tensor(X)], "Tout": tf.float32} | kwargs)


@pytest.mark.parametrize("name", ["square", "square_in_tensorflow", "py_func"])
def test_the_registry_does_not_grow(name):
    def use():
        MODES["eager"](CASES[name][0], [tensor(X)])
        MODES["function_tape_out"](CASES[name][0], [tensor(X)])

    use()
    gc.collect()
    before = set(ops.gradient_registry.list())
    for _ in range(3):
        use()
    gc.collect()
    assert set(ops.gradient_registry.list()) <= before
