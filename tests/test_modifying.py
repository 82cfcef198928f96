"""Scaling, reversing, masking, sanitising and recording gradients."""

import numpy as np
import pytest
import tensorflow as tf
from modes import eager, function_tape_in, function_tape_out, jit

import gradlab as gl

INF, NAN = np.inf, np.nan
WAYS = pytest.mark.parametrize("mode", [eager, function_tape_in, function_tape_out, jit])


def gradient(mode, f, upstream, dtype=tf.float32):
    upstream = tf.constant(upstream, dtype)
    (y,), (g,) = mode(f, [tf.ones_like(upstream)], [upstream])
    np.testing.assert_array_equal(y, np.ones(upstream.shape))
    return g


@WAYS
def test_scale_is_ieee(mode):
    got = gradient(mode, lambda x: gl.scale_gradient(x, 0.0), [1.0, -2.0, INF, NAN])
    np.testing.assert_array_equal(got, [0.0, -0.0, NAN, NAN])
    got = gradient(mode, lambda x: gl.scale_gradient(x, INF), [1.0, -2.0, 0.0])
    np.testing.assert_array_equal(got, [INF, -INF, NAN])
    got = gradient(mode, lambda x: gl.scale_gradient(x, -2.0), [3e38, -INF])
    np.testing.assert_array_equal(got, [-INF, INF])


@WAYS
def test_complex_scale_gives_the_gradient_of_the_product(mode):
    x, scale = tf.constant([1 + 2j, -3j], tf.complex64), 2 - 1j
    upstream = tf.constant([0.5 - 1j, 2 + 0j], tf.complex64)
    _, product = mode(lambda x: x * scale, [x], [upstream])
    for given in (scale, tf.constant(scale, tf.complex64)):
        _, got = mode(lambda x, given=given: gl.scale_gradient(x, given), [x], [upstream])
        np.testing.assert_allclose(got[0], product[0], rtol=1e-6)
    np.testing.assert_allclose(got[0], np.conj(scale) * upstream.numpy(), rtol=1e-6)


@WAYS
def test_mask_picks_where_multiplying_would_mix(mode):
    mask = [True, False, False, True, False]
    got = gradient(mode, lambda x: gl.mask_gradient(x, mask), [1.0, INF, NAN, NAN, -INF])
    np.testing.assert_array_equal(got, [1.0, 0.0, 0.0, NAN, 0.0])


@WAYS
def test_zero_nonfinite(mode):
    tiny = np.finfo(np.float32).tiny
    got = gradient(mode, gl.zero_nonfinite_gradient, [INF, -INF, NAN, 0.0, -3e38, tiny])
    np.testing.assert_array_equal(got, np.float32([0.0, 0.0, 0.0, 0.0, -3e38, tiny]))


@WAYS
def test_zero_nonfinite_of_half_finite_complex(mode):
    upstream = [1 + 2j, complex(INF, 1), complex(0, NAN)]
    got = gradient(mode, gl.zero_nonfinite_gradient, upstream, tf.complex64)
    np.testing.assert_array_equal(got, [1 + 2j, 0, 0])


@pytest.mark.parametrize("scale", [2.0, np.float32(2.0), np.int64(2), 2])
def test_numbers_of_every_kind_scale(scale):
    for dtype in (tf.float16, tf.float32, tf.float64):
        got = gradient(eager, lambda x: gl.scale_gradient(x, scale), [1.5], dtype)
        assert got.dtype == dtype.as_numpy_dtype
        assert got.tolist() == [3.0]


@pytest.mark.parametrize(
    "scale",
    [
        tf.constant(2.0, tf.float64),
        tf.constant(2),
        np.array([2.0]),
        [2.0],
        tf.Variable(2.0),
        tf.keras.Variable(2.0),
    ],
    ids=["float64", "int", "array", "list", "variable", "keras variable"],
)
def test_tensor_parameters_are_cast(scale):
    for mode in (eager, function_tape_out, jit):
        got = gradient(mode, lambda x: gl.scale_gradient(x, scale), [1.5], tf.float32)
        assert got.tolist() == [3.0]


def test_parameter_tensors_do_not_retrace():
    traces = []

    @tf.function
    def step(x, scale, mask):
        traces.append(1)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = gl.mask_gradient(gl.reverse_gradient(gl.scale_gradient(x, scale), scale), mask)
        return tape.gradient(y, x)

    for scale in (1.0, 2.0, 3.0):
        got = step(tf.ones([2]), tf.constant(scale), tf.constant([True, False]))
        assert got.numpy().tolist() == [-(scale**2), 0.0]
    assert len(traces) == 1


def test_the_scale_gets_no_gradient_but_the_gradient_depends_on_it():
    x, scale = tf.constant([1.0, 2.0]), tf.Variable(3.0)
    for wrap in (lambda f: f, tf.function):
        f = wrap(lambda x: tf.reduce_sum(gl.scale_gradient(x, scale) ** 2))
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(x)
                loss = f(x)
            total = tf.reduce_sum(tape.gradient(loss, x))
        # Two tapes make TensorFlow hand the scale out of the function, with a gradient of zero.
        assert tape.gradient(loss, scale) in (None, 0.0)
        assert outer.gradient(total, scale).numpy() == 6.0  # Σ 2x


def test_sparse_upstreams_are_made_dense():
    table = tf.ones([4, 2])
    for wrap in (lambda f: f, tf.function):
        f = wrap(lambda x: tf.gather(gl.scale_gradient(x, 3.0), [1, 1]))
        with tf.GradientTape() as tape:
            tape.watch(table)
            y = f(table)
        got = tf.convert_to_tensor(tape.gradient(y, table)).numpy()
        assert got.tolist() == [[0, 0], [6, 6], [0, 0], [0, 0]]


def numbers(seen):
    return [np.asarray(g).tolist() for g in seen]


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "function"])
def test_record_sees_each_gradient_once(wrap):
    seen = []
    x = tf.constant(2.0)

    @wrap
    def second(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                loss = gl.record_gradient(x, lambda g: seen.append(g.numpy())) ** 3
            first = inner.gradient(loss, x)
        return outer.gradient(first, x)

    assert second(x).numpy() == 12.0
    # 3x², and 6x on the second way back through y; the first isn't recorded twice.
    assert sorted(numbers(seen)) == [12.0, 12.0]
    second(x)
    assert len(seen) == 4


def test_record_sees_a_batch_at_once():
    seen = []
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.vectorized_map(lambda row: gl.record_gradient(row, seen.append) * 2.0, x)
    tape.gradient(y, x)
    assert numbers(seen) == [[[2.0, 2.0], [2.0, 2.0]]]


def test_record_sees_a_batch_for_which_one_upstream_arrives():
    seen, x, upstream = [], tf.ones([2, 3]), tf.constant([1.0, -2.0, 3.0])

    def of_row(row):
        with tf.GradientTape() as tape:
            tape.watch(row)
            y = gl.record_gradient(row, seen.append)
        return tape.gradient(y, row, upstream)

    gradients = tf.vectorized_map(of_row, x)
    np.testing.assert_array_equal(gradients, [upstream, upstream])
    np.testing.assert_array_equal(seen, [[upstream, upstream]])


def test_record_has_forward_mode_where_reverse_mode_came_before():
    seen, x = [], tf.constant([1.0, 2.0])
    f = tf.function(lambda x: gl.record_gradient(x, seen.append), autograph=False)

    @tf.function(autograph=False)
    def tangent():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        gradient = tape.gradient(y, x)
        with tf.autodiff.ForwardAccumulator(x, -x) as accumulator:
            y = f(x)
        return accumulator.jvp(y), gradient

    np.testing.assert_array_equal(tangent()[0], [-1.0, -2.0])
    assert numbers(seen) == [[1.0, 1.0]] * 2  # the second are TensorFlow's, as the docstring says


def test_record_takes_a_variable_under_xla():
    kept = tf.Variable([0.0, 0.0])
    gradient(jit, lambda x: gl.record_gradient(x, kept), [5.0, 6.0])
    assert kept.numpy().tolist() == [5.0, 6.0]


def test_record_keeps_out_of_forward_mode():
    seen = []
    x, tangent = tf.constant([1.0]), tf.constant([3.0])
    for wrap in (lambda f: f, tf.function):
        f = wrap(lambda x: gl.record_gradient(x, seen.append))
        with tf.autodiff.ForwardAccumulator(x, tangent) as accumulator:
            y = f(x)
        assert accumulator.jvp(y).numpy().tolist() == [3.0]
    assert seen == []


OPS = {
    "scale_gradient": lambda x: gl.scale_gradient(x, 2.0),
    "reverse_gradient": gl.reverse_gradient,
    "mask_gradient": lambda x: gl.mask_gradient(x, True),
    "zero_nonfinite_gradient": gl.zero_nonfinite_gradient,
    "record_gradient": lambda x: gl.record_gradient(x, print),
    "clip_gradient_by_value": lambda x: gl.clip_gradient_by_value(x, -1, 1),
    "clip_gradient_by_norm": lambda x: gl.clip_gradient_by_norm(x, 1),
    "clip_gradients_by_global_norm": lambda x: gl.clip_gradients_by_global_norm({"a": x}, 1),
    "replace_gradient": lambda x: gl.replace_gradient(x, tf.round, tf.identity),
    "stop_gradient_trick": lambda x: gl.stop_gradient_trick(x, tf.round, tf.identity),
    "straight_through": lambda x: gl.straight_through(x, tf.round),
    "clip_by_value_preserve_gradient": lambda x: gl.clip_by_value_preserve_gradient(x, -1, 1),
}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize(
    ("make", "got", "way_out"),
    [
        (lambda: None, "None", "leave the op out"),
        (lambda: tf.constant([1, 2]), "int32", "tf.cast"),
        (lambda: tf.constant([True]), "bool", "tf.cast"),
        (lambda: tf.constant("a"), "string", "tf.cast"),
        (lambda: tf.ragged.constant([[1.0], [2.0, 3.0]]), "RaggedTensor", "map_flat_values"),
        (lambda: tf.sparse.from_dense([1.0, 0.0]), "SparseTensor", "with_values"),
        (lambda: tf.IndexedSlices(tf.ones([1]), [0], [3]), "IndexedSlices", "convert_to_tensor"),
        (lambda: tf.keras.Input([2]), "KerasTensor", "In a functional model: "),
        (lambda: object(), "object", "must be a tensor"),
    ],
    ids=["none", "int", "bool", "str", "ragged", "sparse", "slices", "keras", "object"],
)
def test_bad_x(name, make, got, way_out):
    with pytest.raises(TypeError, match=rf"{name}: xs?(\[0\])? must") as error:
        OPS[name](make())
    assert got in str(error.value)
    assert way_out in str(error.value)


@pytest.mark.parametrize("name", [name for name in OPS if name != "clip_gradients_by_global_norm"])
def test_a_list_of_tensors_is_no_tensor(name):
    with pytest.raises(TypeError, match=f"{name}: x must be one dense tensor, got a list.*tf.nest"):
        OPS[name]([tf.ones([2]), tf.ones([2])])


@pytest.mark.parametrize("name", OPS)
def test_variables_and_arrays_are_read(name):
    for x in (tf.Variable([1.0, 2.0]), tf.keras.Variable([1.0, 2.0])):
        for wrap in (lambda f: f, tf.function):
            f = wrap(lambda x=x: OPS[name](x))
            with tf.GradientTape() as tape:
                y = tf.nest.flatten(f())[0]
            source = x.value if isinstance(x, tf.keras.Variable) else x
            assert tape.gradient(y, source) is not None
    y = tf.nest.flatten(OPS[name](np.float32([0.25])))[0]
    assert y.dtype == tf.float32


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: gl.scale_gradient(x, "two"), TypeError, "scale must be a number.*string"),
        (lambda x: gl.scale_gradient(x, None), TypeError, "scale must be.*None"),
        (lambda x: gl.scale_gradient(x, True), TypeError, "scale must be a number.*bool"),
        (lambda x: gl.scale_gradient(x, 1j), TypeError, "scale must be real"),
        (lambda x: gl.scale_gradient(x, tf.constant(1j)), TypeError, "scale must be real"),
        (lambda x: gl.scale_gradient(x, [1.0] * 4), ValueError, r"scale has shape \(4,\).*\(3,\)"),
        (lambda x: gl.scale_gradient(x, tf.ones([2, 3])), ValueError, "scale has shape"),
        (lambda x: gl.mask_gradient(x, [1.0, 0.0, 1.0]), TypeError, "mask must be boolean.*!= 0"),
        (lambda x: gl.mask_gradient(x, [True] * 4), ValueError, "mask has shape"),
        (lambda x: gl.mask_gradient(x, None), TypeError, "mask must be.*None"),
        (lambda x: gl.record_gradient(x, []), TypeError, "record must be callable.*append"),
        (lambda x: gl.record_gradient(x, tf.Variable(0.0)), ValueError, "record is a variable"),
    ],
)
def test_bad_parameters(call, error, message):
    with pytest.raises(error, match=message):
        call(tf.ones([3]))
