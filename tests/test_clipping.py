"""Clipping by value, by norm and by global norm."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from modes import eager, function_tape_in, function_tape_out, jit, second_order

import gradlab as gl

INF, NAN = np.inf, np.nan
BIG = {tf.float16: 6e4, tf.bfloat16: 3e38, tf.float32: 3e38, tf.float64: 1.7e308}
SMALL = {tf.float16: 6e-8, tf.bfloat16: 1.2e-38, tf.float32: 1.2e-38, tf.float64: 2.3e-308}
DTYPES = pytest.mark.parametrize("dtype", BIG, ids=lambda dtype: dtype.name)
WAYS = pytest.mark.parametrize("mode", [eager, function_tape_in, function_tape_out, jit])


def gradient(mode, f, upstream, dtype=tf.float32):
    upstream = tf.constant(upstream, dtype)
    (y,), (g,) = mode(f, [tf.ones_like(upstream)], [upstream])
    np.testing.assert_array_equal(y, np.ones(upstream.shape))
    return g


def by_norm(clip_norm, axes=None):
    return lambda x: gl.clip_gradient_by_norm(x, clip_norm, axes)


@WAYS
def test_by_value_over_the_float_range(mode):
    def f(x):
        return gl.clip_gradient_by_value(x, -1.0, 2.0)

    got = gradient(mode, f, [INF, -INF, NAN, 3e38, -3e38, 0.5, -0.0])
    np.testing.assert_array_equal(got, [2.0, -1.0, NAN, 2.0, -1.0, 0.5, -0.0])


@WAYS
def test_by_value_with_infinite_and_equal_bounds(mode):
    upstream = [INF, -INF, 3e38, -5.0]
    got = gradient(mode, lambda x: gl.clip_gradient_by_value(x, -INF, INF), upstream)
    np.testing.assert_array_equal(got, np.float32(upstream))
    got = gradient(mode, lambda x: gl.clip_gradient_by_value(x, -INF, 0.0), upstream)
    np.testing.assert_array_equal(got, [0.0, -INF, 0.0, -5.0])
    got = gradient(mode, lambda x: gl.clip_gradient_by_value(x, 3.0, 3.0), upstream)
    np.testing.assert_array_equal(got, [3.0] * 4)


@WAYS
def test_crossing_tensor_bounds_give_the_lower(mode):
    low, high = tf.constant(2.0), tf.constant(-1.0)
    got = gradient(mode, lambda x: gl.clip_gradient_by_value(x, low, high), [-9.0, 0.0, 9.0])
    assert got.tolist() == [2.0] * 3


@WAYS
def test_norm_of_three_and_four(mode):
    got = gradient(mode, by_norm(2.5), [3.0, -4.0])
    np.testing.assert_allclose(got, [1.5, -2.0], rtol=1e-6)
    got = gradient(mode, by_norm(5.5), [3.0, -4.0])
    np.testing.assert_array_equal(got, [3.0, -4.0])


@WAYS
@DTYPES
def test_norm_neither_overflows_nor_underflows(mode, dtype):
    for size in (BIG[dtype], SMALL[dtype]):
        got = gradient(mode, by_norm(1.0), [size, -size, 0.0], dtype).astype(np.float64)
        fits = size < 1
        wanted = np.array([size, -size, 0.0]) if fits else np.array([1, -1, 0]) / np.sqrt(2)
        np.testing.assert_allclose(got, wanted, rtol=1e-2 if dtype.size == 2 else 1e-6)
    got = gradient(mode, by_norm(SMALL[dtype] * 4), [BIG[dtype], 0.0], dtype).astype(np.float64)
    np.testing.assert_allclose(got, [SMALL[dtype] * 4, 0.0], rtol=1e-2)


@WAYS
@DTYPES
def test_norm_of_zero_and_limits_of_zero_and_infinity(mode, dtype):
    upstream = [2.0, -BIG[dtype], 0.0]
    np.testing.assert_array_equal(gradient(mode, by_norm(1.0), [0.0, 0.0], dtype), [0.0, 0.0])
    for zero in (0, 0.0, tf.constant(0.0)):
        np.testing.assert_array_equal(gradient(mode, by_norm(zero), upstream, dtype), [0.0] * 3)
        np.testing.assert_array_equal(gradient(mode, by_norm(zero), [0.0, INF], dtype), [0.0] * 2)
        np.testing.assert_array_equal(gradient(mode, by_norm(zero), [0.0, 0.0], dtype), [0.0] * 2)
    for infinity in (INF, tf.constant(INF)):
        got = gradient(mode, by_norm(infinity), upstream, dtype)
        np.testing.assert_array_equal(got, tf.constant(upstream, dtype).numpy())
        got = gradient(mode, by_norm(infinity), [INF, 1.0], dtype)
        np.testing.assert_array_equal(got, [INF, 1.0])


@WAYS
@pytest.mark.parametrize(("dtype", "least"), [(tf.float32, 1e-45), (tf.float64, 5e-324)])
def test_a_limit_of_zero_stops_the_least_number_too(mode, dtype, least):
    for zero in (0.0, tf.constant(0.0)):
        assert gradient(mode, by_norm(zero), [least, 0.0], dtype).tolist() == [0.0, 0.0]


@WAYS
def test_infinite_elements_share_the_norm(mode):
    got = gradient(mode, by_norm(3.0), [INF, 3e38, 0.0])
    np.testing.assert_allclose(got, [3.0, 0.0, 0.0], rtol=1e-6)
    got = gradient(mode, by_norm(3.0), [INF, 1.0, -INF])
    np.testing.assert_allclose(got, [3 / np.sqrt(2), 0.0, -3 / np.sqrt(2)], rtol=1e-6)


@WAYS
def test_nan_spreads_over_what_it_shares_a_norm_with(mode):
    np.testing.assert_array_equal(gradient(mode, by_norm(1.0), [NAN, 1.0, INF]), [NAN] * 3)
    rows = gradient(mode, by_norm(1.0, 1), [[NAN, 2.0], [0.0, 2.0]])
    np.testing.assert_array_equal(rows, [[NAN, NAN], [0.0, 1.0]])


@WAYS
@pytest.mark.parametrize("axes", [0, 1, -1, (0, 2), [1], (), (-3, 1), (0, 1, 2)])
def test_axes(mode, axes):
    upstream = np.linspace(-3, 4, 24).reshape(2, 3, 4)
    norm = np.sqrt(np.sum(upstream**2, axis=axes if axes != [1] else 1, keepdims=True))
    wanted = upstream * np.minimum(1, 1.5 / np.maximum(norm, 1e-30))
    got = gradient(mode, by_norm(1.5, axes), upstream, tf.float64)
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


@WAYS
def test_a_norm_for_each_row(mode):
    limits = tf.constant([[1.0], [10.0]])
    got = gradient(mode, by_norm(limits, 1), [[3.0, 4.0], [3.0, 4.0]])
    np.testing.assert_allclose(got, [[0.6, 0.8], [3.0, 4.0]], rtol=1e-6)


@WAYS
def test_complex_norm(mode):
    got = gradient(mode, by_norm(1.0), [3j, -4.0], tf.complex64)
    np.testing.assert_allclose(got, [0.6j, -0.8], rtol=1e-6)
    got = gradient(mode, by_norm(2.0, ()), [3 + 4j, 1.0], tf.complex128)
    np.testing.assert_allclose(got, [1.2 + 1.6j, 1.0], rtol=1e-12)


@given(
    st.lists(st.floats(width=32), min_size=1, max_size=6),
    st.floats(0, INF, width=32),
)
@settings(max_examples=200, deadline=None)
def test_norm_against_extended_precision(values, clip_norm):
    g = np.float32(values)
    with np.errstate(all="ignore"):
        wide = g.astype(np.longdouble)
        norm = np.sqrt(np.sum(wide**2))
        if np.isnan(g).any():
            wanted = np.full_like(wide, NAN)
        elif norm <= clip_norm and clip_norm > 0:
            wanted = wide
        elif np.isinf(norm):
            wanted = np.where(np.isinf(g), np.sign(wide), 0)
            wanted = wanted / np.sqrt(np.sum(wanted**2)) * np.longdouble(clip_norm)
        else:
            wanted = wide / np.maximum(norm, 1e-60) * np.longdouble(clip_norm)
    got = gradient(eager, by_norm(clip_norm), g)
    # A CPU may flush what is below the smallest normal number, of g or of g relative to its peak.
    flushed = float(np.finfo(np.float32).tiny) * (2 + (clip_norm if np.isfinite(clip_norm) else 0))
    np.testing.assert_allclose(got, wanted.astype(np.float64), rtol=1e-5, atol=flushed)


def test_second_order_at_zero_and_on_one_element():
    for f in (by_norm(2.0), lambda x: gl.clip_gradients_by_global_norm([x], 2.0)):
        # Upstream 3x² = 0 at 0: nothing to clip, and no NaN from the norm's kink.
        assert second_order(f, tf.constant([0.0, 0.0])).tolist() == [0.0, 0.0]
        # One element clipped to 2: it no longer depends on x.
        assert second_order(f, tf.constant([5.0])).tolist() == [0.0]


def test_global_norm_joins_what_norms_taken_apart_would_bend():
    a, b = tf.constant([3.0]), tf.constant([[4.0]])
    for mode in (eager, function_tape_in, function_tape_out, jit):
        _, (ga, gb) = mode(
            lambda a, b: gl.clip_gradients_by_global_norm({"a": a, "b": [b]}, 1.0), [a, b], [a, b]
        )
        np.testing.assert_allclose([ga.item(), gb.item()], [0.6, 0.8], rtol=1e-6)


def test_global_norm_over_dtypes_and_magnitudes():
    xs = [tf.constant([6e4], tf.float16), tf.constant([3e300], tf.float64), tf.constant([4e300j])]
    xs[2] = tf.constant([4e300j], tf.complex128)
    _, (a, b, c) = eager(lambda *xs: gl.clip_gradients_by_global_norm(list(xs), 1.0), xs, xs)
    assert (a.dtype, b.dtype, c.dtype) == (np.float16, np.float64, np.complex128)
    np.testing.assert_allclose([a.item(), b.item(), c.item()], [0.0, 0.6, 0.8j], rtol=1e-12)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "function"])
def test_global_norm_when_the_loss_leaves_some_out(wrap):
    a, b = tf.constant([3.0, 4.0]), tf.constant([1.0])
    clip = wrap(lambda a, b: gl.clip_gradients_by_global_norm((a, b), 1.0))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([a, b])
        y, z = clip(a, b)
        loss = tf.reduce_sum(y * [3.0, 4.0])
    np.testing.assert_allclose(tape.gradient(loss, a), [0.6, 0.8], rtol=1e-6)
    assert tape.gradient(loss, b) in (None, [0.0])
    assert z.numpy() == [1.0]


def test_global_norm_keeps_structure():
    xs = {"b": (tf.ones([2]), [tf.zeros([])]), "a": tf.ones([0])}
    ys = gl.clip_gradients_by_global_norm(xs, 1.0)
    tf.nest.assert_same_structure(xs, ys)


def test_tensor_limits_do_not_retrace():
    traces = []

    @tf.function
    def step(x, limit):
        traces.append(1)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = gl.clip_gradient_by_value(x, -limit, limit)
            y = gl.clip_gradient_by_norm(y, limit)
            (y,) = gl.clip_gradients_by_global_norm([y], limit)
        return tape.gradient(y, x, [3.0, 4.0])

    for limit in (1.0, 2.0, 100.0):
        step(tf.ones([2]), tf.constant(limit))
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: gl.clip_gradient_by_value(x, 2, 1), ValueError, "clip_value_min.*got 2 and 1"),
        (lambda x: gl.clip_gradient_by_value(x, [0.0] * 5, 1), ValueError, "clip_value_min has sh"),
        (lambda x: gl.clip_gradient_by_value(x, 0, None), TypeError, "clip_value_max.*None"),
        (lambda x: gl.clip_gradient_by_value(x, 0, 1j), TypeError, "clip_value_max must be real"),
        (lambda x: gl.clip_gradient_by_norm(x, -1.0), ValueError, r"must not be negative.*-1\.0"),
        (lambda x: gl.clip_gradient_by_norm(x, "1"), TypeError, "clip_norm must be a number"),
        (lambda x: gl.clip_gradient_by_norm(x, 1, 1), ValueError, r"axes.*\(3,\).*\[1\]"),
        (lambda x: gl.clip_gradient_by_norm(x, 1, "0"), TypeError, "axes must be None"),
        (lambda x: gl.clip_gradient_by_norm(x, 1, True), TypeError, "axes must be None"),
        (lambda x: gl.clip_gradients_by_global_norm([x], -2), ValueError, "must not be negative"),
        (lambda x: gl.clip_gradients_by_global_norm([], 1), ValueError, "xs holds no tensors"),
        (lambda x: gl.clip_gradients_by_global_norm([x, None], 1), TypeError, r"xs\[1\].*None"),
        (lambda x: gl.clip_by_value_preserve_gradient(x, 2, 1), ValueError, "got 2 and 1"),
    ],
)
def test_bad_parameters(call, error, message):
    with pytest.raises(error, match=message):
        call(tf.ones([3]))
