"""Gradients on their way into an optimizer, against NumPy in double precision."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import gradlab as gl

DTYPES = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
RTOL = {"float16": 4e-3, "bfloat16": 2e-2, "float32": 3e-6, "float64": 1e-12}
RTOL |= {"complex64": RTOL["float32"], "complex128": RTOL["float64"]}


def in_graph(function):
    return tf.function(function, autograph=False)


def compiled(function):
    return tf.function(function, autograph=False, jit_compile=True)


MODES = {"eager": lambda function: function, "graph": in_graph, "jit": compiled}
# XLA takes a second per compilation: one dtype of each kind will do there.
CASES = [
    (name, dtype)
    for name in MODES
    for dtype in DTYPES
    if name != "jit" or dtype in ("bfloat16", "float32", "complex64")
]


@pytest.fixture(params=MODES)
def mode(request):
    return MODES[request.param]


@pytest.fixture(params=CASES, ids="-".join)
def case(request):
    name, dtype = request.param
    return MODES[name], dtype


def drawn(dtype, *shape, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape) * scale
    if dtype.startswith("complex"):
        values = values + 1j * rng.normal(size=shape) * scale
    return tf.constant(values, dtype)


def slices(dtype="float32"):
    """Row 3 is named twice; its sum is [3, 3], and the norm of the whole √(18 + 2)."""
    values = tf.constant([[1.0, 2.0], [1.0, 1.0], [2.0, 1.0]], dtype)
    return tf.IndexedSlices(values, tf.constant([3, 1, 3]), tf.constant([5, 2]))


def wide(tensor):
    """A gradient in double precision, dense, its duplicate rows summed."""
    if not isinstance(tensor, tf.IndexedSlices):
        return np.asarray(tf.cast(tensor, "complex128" if tensor.dtype.is_complex else "float64"))
    dense = np.zeros(tensor.dense_shape.numpy(), np.float64)
    np.add.at(dense, tensor.indices.numpy(), tf.cast(tensor.values, "float64").numpy())
    return dense


def norm(*arrays):
    return math.sqrt(math.fsum(float(abs(x)) ** 2 for a in arrays for x in np.ravel(a)))


def agree(ours, oracle, dtype="float32", scale=1.0):
    rtol = RTOL[dtype]
    np.testing.assert_allclose(wide(ours), oracle, rtol=rtol, atol=rtol * scale * 1e-2)


# Each clip against its formula


def test_by_value(case):
    mode, dtype = case
    if dtype.startswith("complex"):
        with pytest.raises(TypeError, match=f"got {dtype}, which has no order. Use clip_by_norm"):
            gl.clip_by_value(drawn(dtype, 3), -1.0, 1.0)
        return
    g = drawn(dtype, 4, 3, scale=2)
    ours = mode(lambda g: gl.clip_by_value({"w": g, "b": None}, -1.0, 0.5))(g)
    assert ours["b"] is None
    agree(ours["w"], np.minimum(np.maximum(wide(g), -1.0), 0.5), dtype)


def test_by_norm(case):
    mode, dtype = case
    g, clip = drawn(dtype, 4, 3), mode(lambda g, bound: gl.clip_by_norm([g], bound))
    for bound in (0.5, 100.0):
        (ours,) = clip(g, tf.constant(bound))
        assert ours.dtype == g.dtype
        agree(ours, wide(g) * min(1, bound / norm(wide(g))), dtype)


@pytest.mark.parametrize("axes", [0, -1, (0, 2), [1]])
def test_by_norm_over_axes(axes, mode):
    g = drawn("float32", 2, 3, 4)
    ours = mode(lambda g: gl.clip_by_norm(g, 1.5, axes))(g)
    spanned = tuple(axes) if isinstance(axes, (tuple, list)) else axes
    norms = np.sqrt(np.sum(wide(g) ** 2, spanned, keepdims=True))
    agree(ours, wide(g) * np.minimum(1, 1.5 / norms))


def test_by_global_norm(case):
    mode, dtype = case
    gs = [drawn(dtype, 4, 3), drawn(dtype, 5, seed=1), drawn(dtype, seed=2)]
    clip, oracle = mode(gl.clip_by_global_norm), norm(*map(wide, gs))
    for bound in (0.5, 100.0):
        clipped, length = clip(gs, tf.constant(bound))
        np.testing.assert_allclose(length, oracle, rtol=1e-5)
        for g, ours in zip(gs, clipped, strict=True):
            assert ours.dtype == g.dtype
            agree(ours, wide(g) * min(1, bound / oracle), dtype)


def test_global_norm_of_several_dtypes(mode):
    gs = [drawn("float16", 3), drawn("float64", 3, seed=1), drawn("complex64", 3, seed=2)]
    clipped, length = mode(lambda gs: gl.clip_by_global_norm(gs, 1.0))(gs)
    assert length.dtype == tf.float64
    assert [g.dtype for g in clipped] == [g.dtype for g in gs]
    assert norm(*map(wide, clipped)) == pytest.approx(1.0, rel=1e-3)


def test_global_norm_given(mode):
    gs = [tf.constant([3.0, 4.0])]
    clipped, length = mode(lambda gs: gl.clip_by_global_norm(gs, 1.0, use_norm=10.0))(gs)
    agree(clipped[0], [0.3, 0.4])
    assert float(length) == 10.0


def test_global_norm_is_that_of_tensorflow():
    gs = [drawn("float32", 30, 7), None, drawn("float32", 4, seed=1)]
    for bound in (0.1, 1000.0):
        ours, theirs = gl.clip_by_global_norm(gs, bound), tf.clip_by_global_norm(gs, bound)
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6)
        assert ours[0][1] is theirs[0][1] is None
        np.testing.assert_allclose(ours[0][0], theirs[0][0], rtol=1e-6)
        np.testing.assert_allclose(ours[0][2], theirs[0][2], rtol=1e-6)


def adaptive_oracle(g, w, clipping, eps, axes):
    norms = {name: np.sqrt(np.sum(np.abs(a) ** 2, axes, keepdims=True)) for name, a in
             {"g": g, "w": w}.items()}  # fmt: skip
    most = clipping * np.maximum(norms["w"], eps)
    return g * np.where(norms["g"] > most, most / np.maximum(norms["g"], 1e-300), 1)


@pytest.mark.parametrize(
    ("shape", "axes"), [((), ()), ((4,), (0,)), ((4, 3), (0,)), ((2, 2, 3, 5), (0, 1, 2))]
)
def test_adaptive(shape, axes, case):
    mode, dtype = case
    g, w = drawn(dtype, *shape), drawn(dtype, *shape, seed=1)
    ours = mode(lambda g, w: gl.adaptive_clip([g], [w], 0.1, 1e-3))(g, w)[0]
    agree(ours, adaptive_oracle(wide(g), wide(w), 0.1, 1e-3, axes), dtype)


def test_adaptive_lets_weights_of_zero_move():
    ours = gl.adaptive_clip([tf.constant([[3.0], [4.0]])], [tf.zeros((2, 1))], 0.1, eps=0.01)[0]
    agree(ours, [[0.0006], [0.0008]])


def test_adaptive_over_axes():
    g, w = drawn("float32", 3, 4), drawn("float32", 3, 4, seed=1)
    ours = gl.adaptive_clip([g], [tf.Variable(w)], 0.1, axes=-1)[0]
    agree(ours, adaptive_oracle(wide(g), wide(w), 0.1, 1e-3, (1,)))


@pytest.mark.parametrize("axes", [None, 1])
def test_adaptive_of_slices(axes, mode):
    w = drawn("float32", 5, 2)
    ours = mode(lambda g, w: gl.adaptive_clip([g], [w], 0.1, axes=axes))(slices(), w)[0]
    assert isinstance(ours, tf.IndexedSlices)
    spanned = (0,) if axes is None else (axes,)
    agree(ours, adaptive_oracle(wide(slices()), wide(w), 0.1, 1e-3, spanned))


def test_by_block_rms(case):
    mode, dtype = case
    g, clip = drawn(dtype, 4, 3), mode(gl.clip_by_block_rms)
    rms = math.sqrt(np.mean(np.abs(wide(g)) ** 2))
    for bound in (0.5, 100.0):
        agree(clip((g,), tf.constant(bound))[0], wide(g) * min(1, bound / rms), dtype)


def test_per_example(case):
    mode, dtype = case
    gs = {"w": drawn(dtype, 6, 2, 3, scale=0.5), "b": drawn(dtype, 6, seed=1), "n": None}
    clipped, norms = mode(lambda gs: gl.per_example_clip(gs, 1.0))(gs)
    assert clipped["n"] is None
    for i in range(6):
        oracle = norm(wide(gs["w"])[i], wide(gs["b"])[i])
        assert float(norms[i]) == pytest.approx(oracle, rel=1e-5)
        agree(clipped["w"][i], wide(gs["w"])[i] * min(1, 1 / oracle), dtype)
        agree(clipped["b"][i], wide(gs["b"])[i] * min(1, 1 / oracle), dtype)


def test_per_example_of_slices(mode):
    dense = drawn("float32", 5, 4)
    clipped, norms = mode(lambda g, d: gl.per_example_clip([g, d], 1.0))(slices(), dense)
    oracle = np.array([norm(wide(slices())[i], wide(dense)[i]) for i in range(5)])
    np.testing.assert_allclose(norms, oracle, rtol=1e-6)
    assert isinstance(clipped[0], tf.IndexedSlices)
    factors = np.minimum(1, 1 / oracle)[:, None]
    agree(clipped[0], wide(slices()) * factors)
    agree(clipped[1], wide(dense) * factors)


# Slices


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_duplicate_rows_are_summed_before_a_norm(dtype, mode):
    oracle = wide(slices())
    length = math.sqrt(20)
    (one,) = mode(lambda g: gl.clip_by_norm([g], 1.0))(slices(dtype))
    (joint,), total = mode(lambda g: gl.clip_by_global_norm([g], 1.0))(slices(dtype))
    (rms,) = mode(lambda g: gl.clip_by_block_rms([g], 0.1))(slices(dtype))
    assert float(total) == pytest.approx(length)
    for ours, factor in [(one, 1 / length), (joint, 1 / length), (rms, 0.1 / (length / 10**0.5))]:
        assert isinstance(ours, tf.IndexedSlices)
        assert ours.dtype == dtype
        agree(ours, oracle * factor, dtype)


def test_duplicate_rows_are_summed_before_they_are_clamped(mode):
    (ours,) = mode(lambda g: gl.clip_by_value([g], -2.5, 2.5))(slices())
    agree(ours, np.minimum(wide(slices()), 2.5))


def test_rows_have_their_own_norms(mode):
    (ours,) = mode(lambda g: gl.clip_by_norm([g], 1.0, axes=1))(slices())
    oracle = wide(slices())
    norms = np.maximum(np.sqrt(np.sum(oracle**2, 1, keepdims=True)), 1e-9)
    agree(ours, oracle * np.minimum(1, 1 / norms))


def test_sums_of_half_precision_rows_do_not_overflow():
    big = tf.IndexedSlices(tf.constant([[4e4], [4e4]], "float16"), tf.constant([0, 0]))
    (ours,), length = gl.clip_by_global_norm([big], 1.0)
    assert float(length) == pytest.approx(8e4, rel=1e-3)
    assert float(tf.reduce_sum(ours.values)) == pytest.approx(1.0, rel=1e-2)
    (ours,) = gl.clip_by_norm([big], 1.0)
    assert float(ours.values[0, 0]) == pytest.approx(1.0, rel=1e-3)


# The whole range of floats

EXTREMES = {
    "float16": (6e4, 6e-5),
    "bfloat16": (1e38, 1e-37),
    "float32": (3e38, 1e38, 1e-37),
    "float64": (1e300, 1e-300),
    "complex64": (1e38, 1e-37),
    "complex128": (1e300, 1e-300),
}
SHORTENING = {
    "clip_by_norm": lambda g, bound: gl.clip_by_norm([g], bound)[0],
    "clip_by_global_norm": lambda g, bound: gl.clip_by_global_norm([g], bound)[0][0],
    "clip_by_block_rms": lambda g, bound: gl.clip_by_block_rms([g], bound / math.sqrt(40))[0],
    "per_example_clip": lambda g, bound: gl.per_example_clip([g[None]], bound)[0][0][0],
}


@pytest.mark.parametrize("clip", SHORTENING.values(), ids=SHORTENING)
def test_norms_neither_overflow_nor_underflow(clip, case):
    mode, dtype = case
    clip = mode(clip)
    for size in EXTREMES[dtype]:
        g = tf.fill([40], tf.constant(size, dtype))
        length = math.sqrt(40) * abs(wide(g)[0])
        for bound in (1e-3, 1.0):
            oracle = wide(g) * min(1, bound / length)
            ours = clip(g, tf.constant(bound, "float64"))
            np.testing.assert_allclose(wide(ours), oracle, rtol=RTOL[dtype])


@pytest.mark.parametrize(("dtype", "size"), [("float32", 1e38), ("float64", 1e300)])
def test_unequal_tensors_share_an_extreme_norm(dtype, size, mode):
    gs = [tf.fill([100], tf.constant(size, dtype)), tf.constant([3.0, 4.0], dtype)]
    clipped, _ = mode(lambda gs: gl.clip_by_global_norm(gs, 1.0))(gs)
    np.testing.assert_allclose(clipped[0], np.full(100, 0.1), rtol=1e-6)
    np.testing.assert_allclose(clipped[1], [0, 0], atol=1e-30)


def test_tiny_norms_are_right(mode):
    _, length = mode(lambda g: gl.clip_by_global_norm([g], 1.0))(tf.fill([4], 1e-30))
    np.testing.assert_allclose(length, 2e-30, rtol=1e-6)
    (ours,) = mode(lambda g: gl.clip_by_norm([g], 1e-31))(tf.fill([4], 1e-30))
    np.testing.assert_allclose(ours, np.full(4, 5e-32), rtol=1e-6)


def bits(tensor):
    return np.asarray(tensor).view(np.uint32)


def test_subnormals_pass_to_the_last_bit(mode):
    g = tf.constant([1e-45, -1e-40, 0.0])
    for clip in (
        lambda g: gl.clip_by_norm(g, 1.0),
        lambda g: gl.clip_by_block_rms(g, 1.0),
        lambda g: gl.per_example_clip([g], 1.0)[0][0],
    ):
        np.testing.assert_array_equal(bits(mode(clip)(g)), bits(g))


def test_bounds_of_zero_and_infinity(mode):
    g = drawn("float32", 3, 2)
    for clip in (
        lambda g, b: gl.clip_by_norm(g, b),
        lambda g, b: gl.clip_by_block_rms(g, b),
        lambda g, b: gl.clip_by_global_norm([g], b)[0][0],
        lambda g, b: gl.per_example_clip([g], b)[0][0],
    ):
        clip = mode(clip)
        np.testing.assert_array_equal(clip(g, tf.constant(math.inf)), g)
        np.testing.assert_array_equal(clip(g, tf.constant(0.0)), np.zeros((3, 2)))
    np.testing.assert_array_equal(gl.clip_by_value([g], -math.inf, math.inf)[0], g)


def test_a_negative_bound_that_is_not_known_counts_as_zero():
    clip = in_graph(lambda g, b: (gl.clip_by_norm(g, b), gl.clip_by_global_norm([g], b)[0][0]))
    for ours in clip(tf.constant([3.0, 4.0]), tf.constant(-1.0)):
        np.testing.assert_array_equal(ours, [0, 0])


# What isn't finite

JOINT = {
    "clip_by_norm": lambda g, **k: gl.clip_by_norm([g], 1.0, **k)[0],
    "clip_by_global_norm": lambda g, **k: gl.clip_by_global_norm([g], 1.0, **k)[0][0],
    "clip_by_block_rms": lambda g, **k: gl.clip_by_block_rms([g], 1.0, **k)[0],
    "per_example_clip": lambda g, **k: gl.per_example_clip([g[None]], 1.0, **k)[0][0][0],
    "adaptive_clip": lambda g, **k: gl.adaptive_clip([g], [tf.ones(3)], 1.0, **k)[0],
}
ALL = {**JOINT, "clip_by_value": lambda g, **k: gl.clip_by_value([g], -1.0, 1.0, **k)[0]}


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("clip", JOINT.values(), ids=JOINT)
def test_one_bad_element_shows_in_all(clip, bad, mode):
    ours = mode(clip)(tf.constant([bad, 1.0, 2.0]))
    assert np.isnan(ours).all()


def test_the_norm_tells_what_was_bad(mode):
    for bad, shown in [(math.inf, math.inf), (math.nan, math.nan)]:
        _, length = mode(lambda g: gl.clip_by_global_norm([g], 1.0))(tf.constant([bad, 1.0]))
        np.testing.assert_equal(float(length), shown)


def test_clamping_what_is_not_finite(mode):
    ours = mode(ALL["clip_by_value"])(tf.constant([math.inf, -math.inf, math.nan]))
    np.testing.assert_array_equal(ours, [1, -1, math.nan])


@pytest.mark.parametrize("clip", ALL.values(), ids=ALL)
def test_zero_in_place_of_what_is_not_finite(clip, mode):
    zeroed = mode(lambda g: clip(g, nonfinite="zero"))(tf.constant([math.inf, 3.0, math.nan]))
    np.testing.assert_allclose(zeroed, clip(tf.constant([0.0, 3.0, 0.0])), rtol=1e-6)


@pytest.mark.parametrize("clip", ALL.values(), ids=ALL)
def test_raise_on_what_is_not_finite(clip):
    for run in (lambda f: f, in_graph):
        raising = run(lambda g: clip(g, nonfinite="raise"))
        np.testing.assert_array_equal(raising(tf.ones(3)), clip(tf.ones(3)))
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"gradients\[0\] isn't finite"):
            raising(tf.constant([1.0, math.nan, 1.0]))


@pytest.mark.parametrize("clip", ALL.values(), ids=ALL)
def test_raise_is_refused_where_nothing_can_raise(clip):
    with pytest.raises(NotImplementedError, match="nonfinite='raise' doesn't work under jit_comp"):
        compiled(lambda g: clip(g, nonfinite="raise"))(tf.ones(3))


def test_raise_names_the_gradient():
    gs = {"a": tf.ones(2), "b": [None, slices(), tf.constant([math.inf])]}
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"gradients\['b'\]\[2\] isn't fin"):
        gl.clip_by_global_norm(gs, 1.0, nonfinite="raise")


def test_complex_policies():
    g = tf.constant([complex(math.nan, 3.0), 4.0 + 0j])
    np.testing.assert_allclose(gl.clip_by_norm(g, 1.0, nonfinite="zero"), [0.6j, 0.8])
    with pytest.raises(tf.errors.InvalidArgumentError, match="isn't finite"):
        gl.clip_by_norm(g, 1.0, nonfinite="raise")


# Modes


def test_bounds_that_are_tensors_retrace_nothing():
    traces = []

    @tf.function
    def clip(g, bound):
        traces.append(1)
        a = gl.clip_by_norm(g, bound)
        b, _ = gl.clip_by_global_norm([g], bound)
        c = gl.clip_by_value(g, -bound, bound)
        d = gl.clip_by_block_rms(g, bound)
        e, _ = gl.per_example_clip([g], bound)
        return a, b, c, d, e, gl.adaptive_clip([g], [g], bound, bound)

    for bound in (0.1, 1.0, 10.0):
        clip(tf.ones((3, 2)), tf.constant(bound))
    assert len(traces) == 1


@pytest.mark.parametrize("shape", [None, [None, None], [None, 3]])
def test_unknown_static_shapes(shape):
    spec = tf.TensorSpec(shape, tf.float32)
    g = drawn("float32", 4, 3)

    @tf.function(input_signature=[spec])
    def clip(g):
        return (
            gl.clip_by_value(g, -0.5, 0.5),
            gl.clip_by_norm(g, 1.0),
            gl.clip_by_norm(g, 1.0, axes=1),
            gl.clip_by_global_norm([g], 1.0),
            gl.clip_by_block_rms(g, 0.5),
            gl.per_example_clip([g], 1.0),
        )

    eager = clip.python_function(g)
    for ours, oracle in zip(tf.nest.flatten(clip(g)), tf.nest.flatten(eager), strict=True):
        np.testing.assert_allclose(ours, oracle, rtol=1e-6)


def test_static_shapes_are_kept():
    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def clip(g):
        for ours in (
            gl.clip_by_norm(g, 1.0),
            gl.clip_by_global_norm([g], 1.0)[0][0],
            gl.clip_by_value(g, -1.0, 1.0),
            gl.clip_by_block_rms(g, 1.0),
            gl.adaptive_clip([g], [g])[0],
            gl.per_example_clip([g], 1.0)[0][0],
        ):
            assert ours.shape.as_list() == [None, 3]
        return g

    clip(tf.ones((2, 3)))


def test_empty_tensors(mode):
    gs = [tf.zeros([0, 3]), tf.constant([[3.0, 4.0]])]
    clipped, length = mode(lambda gs: gl.clip_by_global_norm(gs, 1.0))(gs)
    assert float(length) == 5.0
    assert clipped[0].shape == (0, 3)
    for clip in (gl.clip_by_norm, gl.clip_by_block_rms, lambda g, b: gl.per_example_clip(g, b)[0]):
        assert mode(lambda g, c=clip: c([g], 1.0)[0])(gs[0]).shape == (0, 3)
    assert gl.adaptive_clip([gs[0]], [gs[0]])[0].shape == (0, 3)
    assert gl.clip_by_value([gs[0]], -1, 1)[0].shape == (0, 3)


def test_no_gradients_at_all(mode):
    for nothing in ([], [None, None], {"w": None}):
        clipped, length = mode(lambda n=nothing: gl.clip_by_global_norm(n, 1.0))()
        assert clipped == nothing
        assert float(length) == 0.0
        assert gl.clip_by_norm(nothing, 1.0) == nothing
        assert gl.clip_by_value(nothing, -1, 1) == nothing
        assert gl.adaptive_clip(nothing, nothing) == nothing


def test_vectorized_map():
    g = drawn("float32", 5, 4)
    for clip in (
        lambda row: gl.clip_by_norm(row, 1.0),
        lambda row: gl.clip_by_global_norm([row], 1.0)[0][0],
    ):
        ours = tf.vectorized_map(clip, g)
        np.testing.assert_allclose(ours, gl.per_example_clip([g], 1.0)[0][0], rtol=1e-6)


@pytest.mark.parametrize("clip", JOINT.values(), ids=JOINT)
def test_a_gradient_flows_through(clip, mode):
    """As in learning to learn, where a step is differentiated."""
    root = math.sqrt(3) if clip in (JOINT["clip_by_block_rms"], JOINT["adaptive_clip"]) else 1.0

    def slope(g):
        with tf.GradientTape() as tape:
            tape.watch(g)
            loss = tf.reduce_sum(clip(g) * [1.0, 2.0, 3.0])
        return tape.gradient(loss, g)

    def value(x):
        return np.dot(x / max(norm(x) / root, 1.0), [1.0, 2.0, 3.0])

    slope = mode(slope)
    for g in ([0.3, 0.1, -0.2], [3.0, -1.0, 2.0], [3e20, 1e20, 0.0], [0.0] * 3):
        size = max(np.abs(g).max(), 1.0)
        shifts = 1e-5 * size * np.eye(3)
        true = [(value(g + shift) - value(g - shift)) / (2e-5 * size) for shift in shifts]
        np.testing.assert_allclose(slope(tf.constant(g)), true, rtol=1e-4, atol=1e-5 / size)


def test_an_infinite_bound_leaves_the_gradient_alone(mode):
    def slope(g):
        with tf.GradientTape() as tape:
            tape.watch(g)
            loss = tf.reduce_sum(gl.clip_by_norm(g, math.inf))
            loss += tf.reduce_sum(gl.clip_by_global_norm([g], math.inf)[0][0])
        return tape.gradient(loss, g)

    np.testing.assert_array_equal(mode(slope)(tf.constant([1.0, 2.0])), [2, 2])


# Bad input

CLIPS = {
    "clip_by_value": lambda g, b=1.0: gl.clip_by_value(g, -1.0, b),
    "clip_by_norm": lambda g, b=1.0: gl.clip_by_norm(g, b),
    "clip_by_global_norm": lambda g, b=1.0: gl.clip_by_global_norm(g, b),
    "adaptive_clip": lambda g, b=1.0: gl.adaptive_clip(g, g, b),
    "clip_by_block_rms": lambda g, b=1.0: gl.clip_by_block_rms(g, b),
    "per_example_clip": lambda g, b=1.0: gl.per_example_clip(g, b),
}
BAD_GRADIENTS = {
    "none": (lambda: None, TypeError, "gradients must be a structure of tensors, got None"),
    "floats": (lambda: [1.0, 2.0], TypeError, r"gradients\[0\] .* a float\. A list holds gradi"),
    "ints": (lambda: {"w": tf.ones(2, "int32")}, TypeError, r"gradients\['w'\] .* int32\. Conv"),
    "string": (lambda: ["a"], TypeError, r"gradients\[0\] must have a floating .* got string"),
    "variable": (lambda: [(tf.ones(1), tf.Variable([1.0]))], TypeError, r"gradients\[0\]\[1\]"),
    "keras": (lambda: [keras.Variable([1.0])], TypeError, "Pass the gradients alone"),
    "zip": (lambda: zip([1.0], [2.0], strict=True), TypeError, "gradients must be .* a zip"),
    "ragged": (lambda: [tf.ragged.constant([[1.0]])], TypeError, "Pass its flat_values"),
    "sparse": (lambda: [tf.sparse.eye(2)], TypeError, "Pass its values"),
    "object": (lambda: [object()], TypeError, r"gradients\[0\] must be a tensor.*which can't"),
}
BAD_BOUNDS = {
    "none": (None, TypeError, "must be a real number or scalar tensor, got None"),
    "string": ("1", TypeError, "must be a real number or scalar tensor, got '1'"),
    "bool": (True, TypeError, "must be a real number"),
    "complex": (1j, TypeError, "must be a real number or scalar tensor, got 1j"),
    "list": ([1.0, 2.0], ValueError, r"must be a scalar, got shape \(2,\)"),
    "nan": (math.nan, ValueError, "must be a number, got NaN"),
    "nan tensor": (np.float32("nan"), ValueError, "must be a number, got NaN"),
}


@pytest.mark.parametrize("bad", BAD_GRADIENTS)
@pytest.mark.parametrize("clip", CLIPS)
def test_bad_gradients(clip, bad):
    make, error, message = BAD_GRADIENTS[bad]
    for run in (lambda function: function, in_graph):
        with pytest.raises(error, match=f"^{clip}: .*{message}"):
            run(lambda: CLIPS[clip](make()))()


@pytest.mark.parametrize("bad", BAD_BOUNDS)
@pytest.mark.parametrize("clip", CLIPS)
def test_bad_bounds(clip, bad):
    bound, error, message = BAD_BOUNDS[bad]
    for run in (lambda function: function, in_graph):
        with pytest.raises(error, match=f"^{clip}: (clip|thresh).*{message}"):
            run(lambda: CLIPS[clip]([tf.ones((2, 2))], bound))()


@pytest.mark.parametrize("bound", [-1, -0.5, np.float64(-1), -math.inf])
@pytest.mark.parametrize("clip", sorted(set(CLIPS) - {"clip_by_value"}))
def test_negative_bounds(clip, bound):
    for given_as in (lambda bound: bound, tf.constant):
        with pytest.raises(ValueError, match=f"^{clip}: .* must not be negative, got -.* Use 0"):
            CLIPS[clip]([tf.ones((2, 2))], given_as(bound))


ONES = {
    "int": lambda: 1,
    "float": lambda: 1.0,
    "float16": lambda: np.float16(1),
    "int64": lambda: np.int64(1),
    "int tensor": lambda: tf.constant(1),
    "float64 tensor": lambda: tf.constant(1.0, "float64"),
    "bfloat16 tensor": lambda: tf.constant(1.0, "bfloat16"),
}


@pytest.mark.parametrize("bound", ONES)
@pytest.mark.parametrize("clip", CLIPS)
def test_bounds_of_other_dtypes(clip, bound):
    g, bound = [tf.constant([[3.0, 4.0]])], ONES[bound]()
    ours, oracle = CLIPS[clip](g, bound), CLIPS[clip](g, 1.0)
    for one, other in zip(tf.nest.flatten(ours), tf.nest.flatten(oracle), strict=True):
        assert one.dtype == tf.float32
        np.testing.assert_array_equal(one, other)


def test_bounds_that_are_variables():
    for bound in (tf.Variable(1.0), keras.Variable(1.0)):
        clip = in_graph(lambda g, b=bound: gl.clip_by_norm(g, b))
        agree(clip(tf.constant([3.0, 4.0])), [0.6, 0.8])
        bound.assign(2.0)
        agree(clip(tf.constant([3.0, 4.0])), [1.2, 1.6])


def test_a_double_bound_is_not_rounded_to_single():
    g = tf.constant([3e200, 4e200], "float64")
    np.testing.assert_allclose(gl.clip_by_norm(g, 1e100), [6e99, 8e99], rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda g: gl.clip_by_value(g, 2.0, 1.0), ValueError, "must not exceed .* 2.0 and 1.0"),
        (lambda g: gl.clip_by_value(g, None, 1.0), TypeError, "clip_value_min must be a real"),
        (lambda g: gl.clip_by_value(tf.cast(g, "complex64"), 0, 1), TypeError, "Use clip_by_norm"),
        (lambda g: gl.clip_by_norm(g, 1.0, axes=2), ValueError, r"shape \(2, 2\), doesn't have"),
        (lambda g: gl.clip_by_norm(g, 1.0, axes=0.5), TypeError, "axes must be None, an int"),
        (lambda g: gl.clip_by_norm(g, 1.0, nonfinite="drop"), ValueError, "got 'drop'"),
        (lambda g: gl.clip_by_global_norm(g, 1.0, use_norm=-1.0), ValueError, "use_norm must not"),
        (lambda g: gl.adaptive_clip([g], [g, g]), ValueError, "the structure of gradients"),
        (lambda g: gl.adaptive_clip([g], [g[0]]), ValueError, r"got \(2,\) for gradients\[0\]"),
        (lambda g: gl.adaptive_clip([g], [None]), ValueError, "its weight must be given"),
        (lambda g: gl.adaptive_clip([g], [g], eps=-1.0), ValueError, "eps must not be negative"),
        (lambda g: gl.adaptive_clip([g], [g], axes=5), ValueError, "doesn't have"),
        (lambda g: gl.per_example_clip([g, g[:1]], 1.0), ValueError, r"examples, .* \[1, 2\]"),
        (lambda g: gl.per_example_clip([g[0, 0]], 1.0), ValueError, "got a scalar"),
        (lambda g: gl.per_example_clip([None], 1.0), ValueError, "holds no gradient"),
    ],
)
def test_other_bad_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call(tf.ones((2, 2)))


def test_slices_without_their_shape():
    bare = tf.IndexedSlices(tf.ones((1, 2)), tf.constant([0]))
    for clip in ("clip_by_block_rms", "per_example_clip"):
        with pytest.raises(ValueError, match="must have a dense_shape"):
            CLIPS[clip]([bare])
    assert float(gl.clip_by_global_norm([bare], 1.0)[1]) == pytest.approx(math.sqrt(2))


def test_units_of_an_unknown_rank():
    clip = tf.function(lambda g: gl.adaptive_clip([g], [g]))
    with pytest.raises(ValueError, match="must have a known rank"):
        clip.get_concrete_function(tf.TensorSpec(None))


# Whatever the numbers

FLOATS = st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False)
GRADIENTS = st.lists(st.none() | st.lists(FLOATS, max_size=4), max_size=4)
BOUNDS = st.floats(1e-6, 1e6)


def tensors(lists):
    return [None if each is None else tf.constant(each, tf.float32) for each in lists]


@settings(max_examples=60, deadline=None)
@given(GRADIENTS, BOUNDS)
def test_clipping_by_global_norm(lists, bound):
    gs = tensors(lists)
    clipped, length = gl.clip_by_global_norm(gs, bound)
    assert [g is None for g in clipped] == [g is None for g in gs]
    given = [wide(g) for g in gs if g is not None]
    ours = [wide(g) for g in clipped if g is not None]
    true = norm(*given)
    assert float(length) == pytest.approx(true, rel=1e-5, abs=1e-37)
    assert norm(*ours) <= bound * (1 + 1e-5)
    again, _ = gl.clip_by_global_norm(clipped, bound)
    for g, one, two in zip(given, ours, [wide(g) for g in again if g is not None], strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-37)
        np.testing.assert_allclose(
            one, g * min(1, bound / max(true, 1e-300)), rtol=1e-5, atol=1e-37
        )


@settings(max_examples=40, deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=5), BOUNDS, st.sampled_from([2.0, 2.0**10, 2.0**20]))
def test_the_direction_does_not_depend_on_the_scale(values, bound, scale):
    g = tf.constant(values, tf.float32)
    if norm(wide(g)) <= bound:
        return
    for clip in (gl.clip_by_norm, gl.clip_by_block_rms):
        small = bound / 10 if clip is gl.clip_by_block_rms else bound
        np.testing.assert_allclose(clip(g * scale, small), clip(g, small), rtol=1e-5, atol=1e-37)


@settings(max_examples=40, deadline=None)
@given(st.lists(FLOATS, max_size=5), FLOATS, FLOATS)
def test_clamping(values, one, other):
    low, high = sorted([one, other])
    g = tf.constant(values, tf.float32)
    (clamped,) = gl.clip_by_value([g], low, high)
    assert all(np.float32(low) <= x <= np.float32(high) for x in clamped.numpy())
    np.testing.assert_array_equal(gl.clip_by_value(clamped, low, high), clamped)
    inside = (g.numpy() >= low) & (g.numpy() <= high)
    np.testing.assert_array_equal(clamped.numpy()[inside], g.numpy()[inside])
