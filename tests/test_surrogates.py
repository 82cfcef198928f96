"""Surrogates: their derivatives against their primitives, the ends of the float range, bad input.

What each returns in every mode stands in ``test_every_op``.
"""

import math

import numpy as np
import pytest
import tensorflow as tf
from cases import CASES
from hypothesis import given, settings
from hypothesis import strategies as st
from modes import eager, function_tape_in, function_tape_out, jit, second_order

import gradlab as gl

INF, NAN = np.inf, np.nan
WAYS = pytest.mark.parametrize("mode", [eager, function_tape_in, function_tape_out, jit])
DTYPES = [tf.float16, tf.bfloat16, tf.float32, tf.float64]

FAMILIES = {
    "Sigmoid": gl.Sigmoid,
    "FastSigmoid": gl.FastSigmoid,
    "ATan": gl.ATan,
    "Triangular": gl.Triangular,
    "PiecewiseExp": gl.PiecewiseExp,
    "Erf": gl.Erf,
    "SoftSign": gl.SoftSign,
    "Boxcar": gl.Boxcar,
    "Boxcar, leaking": lambda alpha: gl.Boxcar(alpha, leak=0.125),
    "LeakyReLU": gl.LeakyReLU,
    "NonzeroSignLogAbs": gl.NonzeroSignLogAbs,
    "S2NN": gl.S2NN,
    "QPseudoSpike": gl.QPseudoSpike,
    "QPseudoSpike, light tails": lambda alpha: gl.QPseudoSpike(alpha, q=4.0),
    "LogTailedReLU": gl.LogTailedReLU,
    "LogTailedReLU, leaking": lambda alpha: gl.LogTailedReLU(alpha, leak=0.125),
    "SquarewaveFourierSeries": gl.SquarewaveFourierSeries,
    "SquarewaveFourierSeries, many terms": lambda alpha: gl.SquarewaveFourierSeries(alpha, 5),
    "TripleGaussian": gl.TripleGaussian,
}
every_family = pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES)
OF_AREA_1 = [
    "Sigmoid",
    "ATan",
    "Triangular",
    "PiecewiseExp",
    "Erf",
    "SoftSign",
    "Boxcar",
    "QPseudoSpike",
    "QPseudoSpike, light tails",
]

# What each op says it descends, as a function TensorFlow can differentiate.
BELIEVED = {
    "round_ste": (gl.round_ste, tf.identity),
    "sign_ste": (gl.sign_ste, lambda x: tf.clip_by_value(x, -1.0, 1.0)),
    "sign_ste, no window": (lambda x: gl.sign_ste(x, None), tf.identity),
    "heaviside_ste": (gl.heaviside_ste, lambda x: tf.clip_by_value(x, -1.0, 1.0)),
    "ternary_ste": (
        lambda x: gl.ternary_ste(x, 0.3, 2.0),
        lambda x: tf.clip_by_value(x, -2.0, 2.0),
    ),
    "approx_sign": (
        gl.approx_sign,
        lambda x: tf.where(tf.abs(x) <= 1, 2 * x - x * tf.abs(x), tf.sign(x)),
    ),
    "swish_sign": (
        lambda x: gl.swish_sign(x, 3.0),
        lambda x: 2 * tf.sigmoid(3 * x) * (1 + 3 * x * (1 - tf.sigmoid(3 * x))) - 1,
    ),
    "quantize_ste": (
        lambda x: gl.quantize_ste(x, 3, -2.0, 1.0),
        lambda x: tf.clip_by_value(x, -2.0, 1.0),
    ),
    "quantize_ste, scale": (
        lambda x: gl.quantize_ste(x, 3, scale=0.25),
        lambda x: tf.clip_by_value(x, -1.0, 0.75),
    ),
    "quantize_ste, pass": (lambda x: gl.quantize_ste(x, outside="pass"), tf.identity),
} | {
    name: (lambda x, make=make: gl.spike(x, make(1.5)), make(1.5).primitive)
    for name, make in FAMILIES.items()
}


@pytest.mark.parametrize("name", BELIEVED)
def test_each_op_has_the_gradients_of_what_it_believes(name):
    f, believed = BELIEVED[name]
    x = tf.constant([-2.7, -0.91, -0.13, 0.0, 0.21, 0.61, 1.37, 4.2], tf.float64)
    gl.check_surrogate(f, believed, x).raise_if_failed()


def test_check_surrogate_would_notice():
    off = lambda x: gl.Sigmoid(2.0).primitive(x)  # noqa: E731
    assert not gl.check_surrogate(lambda x: gl.spike(x, gl.Sigmoid(2.2)), off, [0.3, 1.1])


@every_family
@settings(max_examples=25, deadline=None)
@given(alpha=st.floats(0.05, 20.0), x=st.lists(st.floats(-5, 5), min_size=1, max_size=20))
def test_the_derivative_is_the_slope_of_the_primitive(make, alpha, x):
    surrogate, x, h = make(alpha), np.array(x), 1e-6
    kinks = np.array([-1 / alpha, -0.5 / alpha, 0, 0.5 / alpha, 1 / alpha])
    x = x[np.min(np.abs(x[:, np.newaxis] - kinks), axis=1) > 3 * h]
    near, far = (surrogate.primitive(x + k * h) - surrogate.primitive(x - k * h) for k in (1, 2))
    slope = (8 * near - far) / (12 * h)  # a wave of many terms bends too much for two values
    np.testing.assert_allclose(surrogate.derivative(x), slope, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", OF_AREA_1)
def test_primitives_rise_from_0_to_1_as_the_spike_does(name):
    primitive = FAMILIES[name](3.0).primitive
    ends = primitive(tf.constant([-INF, 0.0, INF]))
    np.testing.assert_allclose(ends, [0.0, 0.5, 1.0], atol=1e-7)


def test_primitives_of_unbounded_or_other_area():
    at = tf.constant([-INF, -2.0, 0.0, 2.0, INF])
    fast = gl.FastSigmoid(4.0).primitive(at)
    np.testing.assert_allclose(fast, [-1 / 4, -2 / 9, 0, 2 / 9, 1 / 4], rtol=1e-6)
    np.testing.assert_array_equal(gl.LeakyReLU(2.0, 0.0).primitive(at), [0, 0, 0, 4, INF])
    np.testing.assert_array_equal(gl.LeakyReLU(2.0, 0.5).primitive(at), [-INF, -1, 0, 4, INF])
    np.testing.assert_array_equal(gl.Boxcar(1.0, 0.0).primitive(at), [0, 0, 0.5, 1, 1])
    np.testing.assert_array_equal(gl.Boxcar(1.0, 0.5).primitive(at), [-INF, -0.75, 0.5, 1.75, INF])
    log = gl.NonzeroSignLogAbs(1.5).primitive(at)
    np.testing.assert_allclose(log, [-INF, -np.log(4), 0, np.log(4), INF], rtol=1e-6)
    s2nn = gl.S2NN(1.0, 2.0).primitive(at)
    below = 1 / (1 + np.exp(2))
    np.testing.assert_allclose(s2nn, [0, below, 0.5, 0.5 + 2 * np.log(3), INF], rtol=1e-6)
    tail = gl.LogTailedReLU(2.0, 0.5).primitive(at)
    np.testing.assert_allclose(tail, [-INF, -1, 0, 1 + np.log(4), INF], rtol=1e-6)
    np.testing.assert_array_equal(gl.LogTailedReLU(2.0).primitive(at)[:2], [0, 0])
    wave = gl.SquarewaveFourierSeries(0.5, 2).primitive(at)
    peak = 0.5 + 2 / np.pi * (1 - 1 / 3)
    np.testing.assert_allclose(wave, [0.5, 1 - peak, 0.5, peak, 0.5], rtol=1e-6)
    bells = gl.TripleGaussian(2.0, height=0.25).primitive(at)
    np.testing.assert_allclose(bells[::2], [0, 0.375, 0.75], atol=1e-7)


def test_a_logarithm_of_a_product_that_overflows():
    far = tf.constant([-3e38, 3e38])
    log = gl.NonzeroSignLogAbs(1e3).primitive(far)
    np.testing.assert_allclose(log, [-np.log(3e38) - np.log(1e3), np.log(3e38) + np.log(1e3)], 1e-6)
    tail = gl.LogTailedReLU(1e3).primitive(far)
    np.testing.assert_allclose(tail, [0, 1 + np.log(3e38) + np.log(1e3)], 1e-6)
    heavy = gl.QPseudoSpike(1e3, q=1.03125).primitive(far)
    rest = 0.5 * np.exp(-0.03125 * (np.log(3e38) + np.log(64e3)))
    np.testing.assert_allclose(heavy, [rest, 1 - rest], rtol=1e-4)


def test_families_meet_where_they_say():
    x = tf.constant(np.linspace(-3, 3, 25), tf.float64)
    for method in ("derivative", "primitive"):
        soft, pseudo = getattr(gl.SoftSign(2.0), method), getattr(gl.QPseudoSpike(1.0), method)
        np.testing.assert_allclose(pseudo(x), soft(x), rtol=1e-12)
        exponential = getattr(gl.PiecewiseExp(2.0), method)
        pseudo = getattr(gl.QPseudoSpike(1.0, q=1e7), method)
        np.testing.assert_allclose(pseudo(x), exponential(x), rtol=1e-4)


def test_a_wave_begins_anew_after_each_period_however_far():
    wave, x = gl.SquarewaveFourierSeries(0.5, 3), tf.constant([-3.5, -0.75, 0.0, 1.0, 3.25])
    for far in (8.0, 8.0 * 2**10, 8.0 * 2**18):
        for method in (wave.derivative, wave.primitive):
            np.testing.assert_allclose(method(x + far), method(x), atol=2e-6)
    assert wave.derivative(tf.constant([2.0**100])).numpy() == 1.5


def test_a_wave_of_many_terms_is_the_step_within_a_period():
    x = np.array([-1.5, -1.0, -0.5, 0.5, 1.0, 1.5])
    near = gl.SquarewaveFourierSeries(1.0, 500).primitive(x)
    np.testing.assert_allclose(near, np.heaviside(x, 1), atol=2e-3)


def test_small_values_keep_their_digits():
    x = tf.constant([-40.0, -8.0, 8.0, 40.0])
    tails = np.exp(-np.abs(x.numpy().astype(np.float64)))
    np.testing.assert_allclose(gl.Sigmoid(1.0).derivative(x), tails / (1 + tails) ** 2, rtol=1e-4)
    (_,), (swish,) = eager(lambda x: gl.swish_sign(x, 1.0), [x])
    wanted = [float((2 - abs(v) * math.tanh(abs(v) / 2)) / (1 + math.cosh(v))) for v in x.numpy()]
    np.testing.assert_allclose(swish, wanted, rtol=1e-4)
    far = tf.constant([-1e6, -1e20])
    np.testing.assert_allclose(
        gl.ATan(2.0).primitive(far), [1e-6 / np.pi**2, 1e-20 / np.pi**2], 1e-6
    )
    np.testing.assert_allclose(gl.SoftSign(2.0).primitive(far), [0.25e-6, 0.25e-20], rtol=1e-5)
    erfc = [0.5 * math.erfc(8.0), 0.5 * math.erfc(4.0)]
    np.testing.assert_allclose(gl.Erf(2.0).primitive(tf.constant([-4.0, -2.0])), erfc, rtol=1e-4)


def extremes(dtype):
    info = np.finfo(dtype.as_numpy_dtype) if dtype != tf.bfloat16 else None
    top, tiny = (float(info.max), float(info.tiny)) if info else (float(dtype.max), 2e-38)
    some = [0.0, tiny, 1e-3, 1.0, 88.0, 300.0, 2e4, top / 8, top / 2, top, INF]
    return tf.cast(tf.constant([*some, *[-v for v in some]], tf.float64), dtype)


STEPPED = {name: case for name, case in CASES.items() if "tensor" not in name}
STEPPED = {
    name: case
    for name, case in STEPPED.items()
    if case.op in {name.split(",")[0] for name in (*BELIEVED, *FAMILIES)}
}


@pytest.mark.parametrize("name", STEPPED)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_ends_of_the_float_range(name, dtype):
    case, x = STEPPED[name], extremes(dtype)
    wide = x.numpy().astype(np.float64)
    (y,), (g,) = eager(case.f, [x])
    np.testing.assert_array_equal(np.isnan(y.astype(np.float64)), False)
    assert np.all(np.isfinite(g.astype(np.float64)))
    # Beyond float64's own range the oracles overflow to what the limit is.
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = case.rule([wide], [np.ones_like(wide)])[0]
    wanted = np.where(np.isfinite(wanted), wanted, 0.0)
    tolerance = {2: 1e-2, 4: 1e-5, 8: 1e-12}[dtype.size]
    np.testing.assert_allclose(g.astype(np.float64), wanted, rtol=tolerance, atol=2e-7)
    if name != "round_ste":
        second = second_order(case.f, x).astype(np.float64)
        assert not np.any(np.isnan(second[np.abs(y.astype(np.float64)) <= 1]))


@pytest.mark.parametrize("name", STEPPED)
def test_nan_stays_nan_forward_and_is_no_error(name):
    for mode in (eager, jit):
        (y,), _ = mode(STEPPED[name].f, [tf.constant([NAN, 0.25])])
        assert np.isnan(y).tolist() == [True, False]


@every_family
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_methods_take_any_float_and_never_give_nan(make, dtype):
    surrogate, x = make(1.5), extremes(dtype)
    for method in (surrogate.derivative, surrogate.primitive):
        assert method(x).dtype == dtype
        assert method(x).shape == x.shape
        assert not np.any(np.isnan(method(x).numpy().astype(np.float64)))


@every_family
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64], ids=lambda d: d.name)
def test_primitives_can_be_differentiated_at_both_ends(make, dtype):
    surrogate, x = make(1.5), extremes(dtype)
    slope, second = _slope_and_second(surrogate.primitive, x)
    np.testing.assert_allclose(slope, surrogate.derivative(x), rtol=1e-6, atol=2e-7)
    assert not np.any(np.isnan(second))


def _slope_and_second(f, x):
    """Without a loss behind it: that of a primitive that is infinite is, too."""
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        slope = inner.gradient(y, x)
    return slope, outer.gradient(slope, x, unconnected_gradients="zero")


@WAYS
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_a_primitive_goes_no_further_than_its_limit(dtype, mode):
    (y,), _ = mode(gl.FastSigmoid(4.0).primitive, [extremes(dtype)])
    assert np.max(np.abs(y.astype(np.float64))) == 0.25


@WAYS
def test_zero_counts_as_positive_whatever_its_sign(mode):
    x = [tf.constant([0.0, -0.0, -2e-38, 2e-38])]
    for f in (gl.sign_ste, gl.approx_sign, gl.swish_sign):
        np.testing.assert_array_equal(mode(f, x)[0][0], [1, 1, -1, 1])
    for f in (gl.heaviside_ste, lambda x: gl.spike(x, gl.ATan())):
        np.testing.assert_array_equal(mode(f, x)[0][0], [1, 1, 0, 1])
    np.testing.assert_array_equal(mode(lambda x: gl.ternary_ste(x, 0.0), x)[0][0], [0, 0, -1, 1])


@WAYS
def test_halves_go_to_the_even_number(mode):
    x = [tf.constant([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])]
    np.testing.assert_array_equal(mode(gl.round_ste, x)[0][0], [-2, -2, 0, 0, 2, 2])


@WAYS
def test_windows_hold_back_whatever_arrives(mode):
    x, upstream = tf.constant([-3.0, -1.0, 1.0, 3.0]), tf.constant([INF, INF, NAN, NAN])
    for f in (gl.sign_ste, gl.heaviside_ste, gl.ternary_ste, gl.quantize_ste):
        np.testing.assert_array_equal(mode(f, [x], [upstream])[1][0], [0, INF, NAN, 0])
    (got,) = mode(gl.approx_sign, [x * 2], [upstream])[1]
    np.testing.assert_array_equal(got, [0, 0, 0, 0])


def test_a_half_upstream_is_multiplied_before_it_is_rounded():
    # 4 · 10⁻⁸ is no float16, but 6 · 10⁴ times that is 0.0024.
    x, upstream = tf.constant([17.0], tf.float16), tf.constant([6e4], tf.float16)
    (_,), (got,) = eager(lambda x: gl.spike(x, gl.Sigmoid(1.0)), [x], [upstream])
    np.testing.assert_allclose(got, [6e4 * math.exp(-17)], rtol=1e-2)


def test_parameters_that_are_tensors_trace_once_and_get_no_gradient():
    traces = []

    @tf.function
    def gradients(x, alpha):
        traces.append(None)
        with tf.GradientTape() as tape:
            tape.watch([x, alpha])
            y = gl.spike(x, gl.Triangular(alpha))
        return tape.gradient(y, [x, alpha], unconnected_gradients="zero")

    x = tf.constant([0.25])
    for alpha in (0.5, 1.0, 2.0):
        of_x, of_alpha = gradients(x, tf.constant(alpha))
        assert of_x.numpy().tolist() == [alpha * (1 - alpha / 4)]
        assert of_alpha.numpy() == 0
    assert len(traces) == 1


def test_a_parameter_may_be_a_variable_a_list_or_of_another_dtype():
    x = tf.constant([0.25, 0.25], tf.float16)
    for alpha in (tf.Variable([1.0, 2.0]), [1, 2], np.array([1.0, 2.0])):
        _, (got,) = eager(lambda x, a=alpha: gl.spike(x, gl.Triangular(a)), [x])
        assert got.tolist() == [0.75, 1.0]


def test_curve_believes_the_primitive():
    curve = gl.curve(lambda x: gl.spike(x, gl.ATan(3.0)), x=(-2, 2))
    wanted = gl.ATan(3.0).primitive(curve.x).numpy()
    middle = len(wanted) // 2
    offset = curve.believed[middle] - wanted[middle]
    np.testing.assert_allclose(curve.believed - offset, wanted, atol=2e-3)


# Quantizing.


def test_quantize_agrees_with_the_fake_quantization_of_tensorflow():
    x = tf.constant(np.random.default_rng(0).uniform(-2, 2, 500), tf.float32)
    for bits in (3, 4, 8):
        fake = tf.quantization.fake_quant_with_min_max_args(x, -1.0, 1.0, bits, narrow_range=True)
        got = gl.quantize_ste(x, bits, -1.0, 1.0, narrow_range=True)
        np.testing.assert_allclose(got, fake, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(
    bits=st.integers(2, 10),
    low=st.floats(-100, 0, width=32),
    span=st.floats(0.5, 200, width=32),
    narrow=st.booleans(),
)
def test_quantize_gives_at_most_2_to_the_bits_levels_and_settles(bits, low, span, narrow):
    x = tf.constant(np.linspace(low - span, low + 2 * span, 3001), tf.float32)
    y = gl.quantize_ste(x, bits, low, low + span, narrow_range=narrow)
    levels = 2**bits - narrow
    assert len(np.unique(y)) == min(levels, len(np.unique(y)))
    inside = np.clip(x, low, low + span)
    np.testing.assert_allclose(y, inside, atol=span / (levels - 1) / 2 * 1.001 + 1e-4)
    np.testing.assert_array_equal(gl.quantize_ste(y, bits, low, low + span, narrow_range=narrow), y)


def test_the_middle_of_a_symmetric_narrow_range_is_0_to_the_last_bit():
    x = tf.constant([-1e-4, 0.0, 1e-4])
    for bits in range(2, 13):
        for high in (0.1, 1 / 3, 1.0, 7.7):
            y = gl.quantize_ste(x, bits, -high, high, narrow_range=True)
            assert y.numpy()[1] == 0


@WAYS
@pytest.mark.parametrize("high", [1e-30, 1 / 3, 255.0, 1e37, 8e37])
def test_ranges_of_any_size_end_where_they_say(high, mode):
    x = tf.constant([-INF, -high, 0.0, 0.6 * high, high, INF], tf.float32)
    low, top = np.float32(-high), np.float32(high)
    both = mode(lambda x: gl.quantize_ste(x, 8, -high, high, narrow_range=True), [x])[0][0]
    np.testing.assert_array_equal(both[[0, 1, 2, 4, 5]], [low, low, 0, top, top])
    np.testing.assert_allclose(both[3], 76 / 127 * high, rtol=1e-6)
    one = mode(lambda x: gl.quantize_ste(x, 8, 0.0, tf.constant(high)), [x])[0][0]
    np.testing.assert_array_equal(one[[0, 1, 2, 4, 5]], [0, 0, 0, top, top])
    np.testing.assert_allclose(one[3], 0.6 * high, rtol=1e-6)


def test_scale_gives_whole_multiples():
    x = tf.constant([-INF, -9.0, -0.8, -0.75, 0.24, 0.26, 9.0, INF])
    signed = gl.quantize_ste(x, 3, scale=0.5)
    assert signed.numpy().tolist() == [-2.0, -2.0, -1.0, -1.0, 0.0, 0.5, 1.5, 1.5]
    narrow = gl.quantize_ste(x, 3, scale=0.5, narrow_range=True)
    assert narrow.numpy().tolist() == [-1.5, -1.5, -1.0, -1.0, 0.0, 0.5, 1.5, 1.5]
    unsigned = gl.quantize_ste(x, 2, scale=0.5, signed=False)
    assert unsigned.numpy().tolist() == [0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 1.5, 1.5]


@WAYS
def test_per_channel_scales_and_a_dead_channel(mode):
    x, scale = tf.constant([[1.2, 1.2, 1.2]]), tf.constant([0.5, 0.0, 1.0])
    (y,), (g,) = mode(lambda x: gl.quantize_ste(x, 4, scale=scale), [x])
    np.testing.assert_array_equal(y, [[1.0, 0.0, 1.0]])
    np.testing.assert_array_equal(g, [[1, 0, 1]])


def test_the_scale_is_learned_as_the_docstring_says():
    # The gradient of learned step size quantization: round(v) − v inside, the bound outside.
    x, scale = tf.constant([0.6, -0.9, 200.0]), tf.Variable(0.5)
    with tf.GradientTape() as tape:
        y = scale * gl.round_ste(tf.clip_by_value(x / scale, -128.0, 127.0))
    jacobian = tape.jacobian(y, scale)
    np.testing.assert_allclose(jacobian, [1 - 1.2, -2 + 1.8, 127], rtol=1e-5)


# Bad input.

OPS = {
    "round_ste": gl.round_ste,
    "sign_ste": gl.sign_ste,
    "approx_sign": gl.approx_sign,
    "swish_sign": gl.swish_sign,
    "heaviside_ste": gl.heaviside_ste,
    "ternary_ste": gl.ternary_ste,
    "quantize_ste": gl.quantize_ste,
    "spike": lambda x: gl.spike(x, gl.ATan()),
}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (None, "x must be one dense tensor, got None"),
        ([1.0], "x must be one dense tensor, got a list"),
        (3, "x must have a floating"),
        (tf.constant([1]), "x must have a floating"),
        (tf.constant(1j), "x must be real"),
        ("a", "x must"),
        (tf.ragged.constant([[1.0], []]), "ragged"),
    ],
    ids=["None", "list", "number", "int", "complex", "string", "ragged"],
)
def test_bad_x(name, x, message):
    with pytest.raises(TypeError, match=message) as caught:
        OPS[name](x)
    assert str(caught.value).startswith(f"{name}: ")


X = tf.constant([[0.5, 2.0]])
BAD = {
    "clip_value must be 0 or more": lambda: gl.sign_ste(X, -1.0),
    "clip_value must be 0 or more, got nan": lambda: gl.heaviside_ste(X, NAN),
    "threshold must be 0 or more": lambda: gl.ternary_ste(X, threshold=-0.1),
    "clip_value has shape": lambda: gl.sign_ste(X, tf.ones([3])),
    "beta must be above 0": lambda: gl.swish_sign(X, 0),
    "beta must be above 0 and finite in float32, got inf": lambda: gl.swish_sign(X, INF),
    "beta must be above 0 and finite in float32, got 1e": lambda: gl.swish_sign(X, 1e300),
    "Sigmoid: alpha must be above 0": lambda: gl.Sigmoid(-1.0),
    "Erf: alpha must be above 0 and finite in float64, got nan": lambda: gl.Erf(NAN),
    "LeakyReLU: leak must be finite": lambda: gl.LeakyReLU(leak=INF),
    "spike: alpha has shape": lambda: gl.spike(X, gl.Erf(tf.ones([3]))),
    "S2NN: beta must be above 0": lambda: gl.S2NN(beta=0.0),
    "TripleGaussian: spread must be above 0": lambda: gl.TripleGaussian(spread=-1.0),
    "TripleGaussian: height must be finite": lambda: gl.TripleGaussian(height=INF),
    "QPseudoSpike: q must be above 1 and finite in float64, got 1.0": lambda: gl.QPseudoSpike(
        q=1.0
    ),
    "spike: q has shape": lambda: gl.spike(X, gl.QPseudoSpike(q=tf.fill([3], 2.0))),
    "terms must be a whole number, 1 or more, got 0": lambda: gl.SquarewaveFourierSeries(terms=0),
    "terms must be a whole number, 1 or more, got 2.5": lambda: gl.SquarewaveFourierSeries(
        terms=2.5
    ),
    "bits must be a whole number, 1 to 24, got 0": lambda: gl.quantize_ste(X, 0),
    "bits must be a whole number, 1 to 24, got 2.5": lambda: gl.quantize_ste(X, 2.5),
    "bits must be a whole number, 2 to 24, got 1": lambda: gl.quantize_ste(X, 1, narrow_range=True),
    "a range has two ends, got low 1.0 and high None": lambda: gl.quantize_ste(X, low=1.0),
    "low must not exceed high": lambda: gl.quantize_ste(X, low=1.0, high=0.0),
    "high must be finite": lambda: gl.quantize_ste(X, low=1.0, high=INF),
    "give a range or a scale": lambda: gl.quantize_ste(X, high=1.0, scale=1.0),
    "scale must be above 0": lambda: gl.quantize_ste(X, scale=0.0),
    "scale has shape": lambda: gl.quantize_ste(X, scale=tf.ones([3])),
    "outside must be 'zero' or 'pass', got 'clip'": lambda: gl.quantize_ste(X, outside="clip"),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_values(message):
    with pytest.raises(ValueError, match=message):
        BAD[message]()


BAD_TYPES = {
    "surrogate must be an instance, got the class ATan: ATan": lambda: gl.spike(X, gl.ATan),
    "surrogate must be a Surrogate, got 'atan'. Give one such": lambda: gl.spike(X, "atan"),
    "surrogate must be a Surrogate, got a function": lambda: gl.spike(X, lambda x: x),
    "clip_value must be a number": lambda: gl.sign_ste(X, tf.constant(True)),
    "alpha must be real": lambda: gl.spike(X, gl.ATan(tf.constant(1j))),
    "bits must be": lambda: gl.quantize_ste(X, "8"),
    "terms must be a whole number, got an EagerTensor": lambda: gl.SquarewaveFourierSeries(
        terms=tf.constant(2)
    ),
    "terms must be a whole number, got a bool": lambda: gl.SquarewaveFourierSeries(terms=True),
}


@pytest.mark.parametrize("message", BAD_TYPES)
def test_bad_types(message):
    with pytest.raises(TypeError, match=message):
        BAD_TYPES[message]()


def test_a_surrogate_without_formulas_says_so():
    with pytest.raises(NotImplementedError, match="Surrogate defines no derivative"):
        gl.Surrogate().derivative(1.0)
    with pytest.raises(NotImplementedError, match="Surrogate defines no primitive"):
        gl.Surrogate().primitive(1.0)


def test_no_bound_is_what_none_means():
    x = tf.constant([-INF, -1e38, 1e38, INF])
    for bound in (None, INF, 1e300):
        _, (g,) = eager(lambda x, b=bound: gl.sign_ste(x, b), [x])
        assert g.tolist() == [1.0] * 4
    for forward, wanted in ((gl.sign_ste, -1), (gl.heaviside_ste, 0)):
        assert eager(lambda x, f=forward: f(x, 0), [x])[0][0][0] == wanted


NUMBERS = {
    "negative_slope": lambda x, number: gl.guided_relu(x, negative_slope=number),
    "max_value": lambda x, number: gl.redirected_relu(x, max_value=number),
    "scale": lambda x, number: gl.quantize_ste(x, 4, scale=number),
    "high": lambda x, number: gl.quantize_ste(x, 4, low=-1.0, high=number),
    "threshold": lambda x, number: gl.ternary_ste(x, number),
    "beta": lambda x, number: gl.swish_sign(x, number),
    "alpha": lambda x, number: gl.spike(x, gl.ATan(number)),
    "scale of a gradient": lambda x, number: gl.scale_gradient(x, number),
    "bound": lambda x, number: gl.clip_gradient_by_value(x, -1.0, number),
    "norm": lambda x, number: gl.clip_gradient_by_norm(x, number),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_keeps_all_its_digits(name):
    x = tf.constant([-1.7, -0.05, 0.03, 0.11, 0.33, 5.0], tf.float64)

    def value_and_gradient(number):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = NUMBERS[name](x, number)
        return np.stack([y, tape.gradient(y, x, x + 1)])

    as_tensor = value_and_gradient(tf.constant(0.1, tf.float64))
    np.testing.assert_allclose(value_and_gradient(0.1), as_tensor, rtol=1e-15)
