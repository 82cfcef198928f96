"""The checks: what is right passes, every planted fault is found, and the words say where."""

import logging
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow.python.saved_model import save_context

import gradlab as gl
from gradlab.checks import child
from gradlab.checks.modes import Call, check_each
from gradlab.checks.quiet import said

X = tf.constant([[0.3, -1.2, 2.0], [0.7, 1.1, -0.4]], tf.float64)
REVERSE = {"order": 1, "modes": ("reverse",)}
FORWARD = {"order": 1, "modes": ("forward",)}
HERE = [name for name in gl.check_modes.names if name not in gl.check_modes.names[-3:]]


def slope_by_hand(f, x, index, step=1e-6):
    """The oracle: ∂ sum f / ∂ x[index], in NumPy, one element at a time."""
    ahead, behind = np.array(x, np.float64), np.array(x, np.float64)
    ahead[index] += step
    behind[index] -= step
    return (np.sum(f(ahead)) - np.sum(f(behind))) / (2 * step)


def verdicts(check):
    return {(part.order, part.mode): part.verdict for part in check.parts}


def failing(check):
    return {where for where, verdict in verdicts(check).items() if verdict == "fail"}


# Every planted fault, by every check.


def rule(forward, gradient):
    """A function with the gradient ``gradient(upstream, x)``."""

    @tf.custom_gradient
    def f(x):
        return forward(x), lambda upstream: gradient(upstream, x)

    return f


def when(condition, factor):
    return factor if condition else 1.0


wrong_factor = rule(tf.sin, lambda g, x: 1.01 * g * tf.cos(x))
wrong_in_second_order = rule(tf.sin, lambda g, x: g * tf.stop_gradient(tf.cos(x)))
wrong_in_forward_mode = rule(lambda x: x * tf.stop_gradient(x), lambda g, x: 2 * g * x)
wrong_once_loaded = rule(
    tf.sin, lambda g, x: g * tf.cos(x) * when(save_context.in_save_context(), 3.0)
)
wrong_in_float16 = rule(tf.sin, lambda g, x: g * tf.cos(x) * when(x.dtype == tf.float16, 1.2))
wrong_in_upstream = rule(tf.sin, lambda g, x: tf.stop_gradient(g) * tf.cos(x))

FIRST, TANGENT = {(1, "reverse")}, {(1, "forward")}
SECOND = {(2, "reverse"), (2, "forward")}
FORWARD_MODE = {"forward mode", "forward mode in a function"}
# A tf.custom_gradient has the tangents of its forward, and loses its rule under vectorized_map: a
# rule that parts from the forward's own gradient shows there too.
PARTED = FORWARD_MODE | {"vectorized_map, tape outside"}
# fault: (f, what it should be, where check_gradient, check_surrogate and check_modes find it)
FAULTS = {
    "none": (rule(tf.sin, lambda g, x: g * tf.cos(x)), tf.sin, set(), set(), set()),
    "a wrong factor": (wrong_factor, tf.sin, FIRST, FIRST | SECOND, {"eager"} | PARTED),
    "wrong in second order": (wrong_in_second_order, tf.sin, SECOND, SECOND, {"second order"}),
    "wrong in forward mode": (wrong_in_forward_mode, tf.square, TANGENT, TANGENT, PARTED),
    "fails after loading": (wrong_once_loaded, tf.sin, FIRST, FIRST, {"saved and loaded"}),
    "wrong in float16": (
        wrong_in_float16,
        tf.sin,
        FIRST | SECOND,
        FIRST | SECOND,
        {"float16", "mixed_float16"},
    ),
}


def surrogate_of(f):
    return lambda x: gl.replace_gradient(x, tf.sign, f)


def loaded(f, folder):
    module = tf.Module()
    module.f = tf.function(f, input_signature=[tf.TensorSpec([2], tf.float64)])
    tf.saved_model.save(module, str(folder))
    return tf.saved_model.load(str(folder)).f


def as_given(fault, f, folder):
    """What check_gradient and check_surrogate need to be given to find the fault, and options.

    They save nothing and cast nothing, so that the fault after loading shows in the function that
    was loaded, to first order, and the one in float16 with a float16 argument.
    """
    x = tf.constant([0.5, 0.75], tf.float16 if fault == "wrong in float16" else tf.float64)
    if fault == "fails after loading":
        return loaded(f, folder), x, REVERSE
    return f, x, {}


@pytest.mark.parametrize("fault", FAULTS)
def test_check_gradient_finds_every_fault(fault, tmp_path):
    f, _, where, _, _ = FAULTS[fault]
    f, x, options = as_given(fault, f, tmp_path)
    assert failing(gl.check_gradient(f, x, **options)) == where


@pytest.mark.parametrize("fault", FAULTS)
def test_check_surrogate_finds_every_fault(fault, tmp_path):
    f, right, _, where, _ = FAULTS[fault]
    f, x, options = as_given(fault, surrogate_of(f), tmp_path)
    assert failing(gl.check_surrogate(f, right, x, **options)) == where


@pytest.fixture(scope="module")
def tables():
    """check_modes of every fault, all with one fresh process.

    Without "two replicas", which on one device meets f as its SavedModel, and on two doesn't.
    """
    names = [name for name in gl.check_modes.names if name != "two replicas"]
    calls = [Call(f, ([0.5, 0.75],), right) for f, right, *_ in FAULTS.values()]
    return dict(zip(FAULTS, check_each(calls, names), strict=True))


@pytest.mark.parametrize("fault", FAULTS)
def test_check_modes_finds_every_fault(fault, tables):
    *_, modes = FAULTS[fault]
    assert set(tables[fault].failed) == modes, tables[fault]


@pytest.mark.parametrize("f", [wrong_once_loaded, wrong_in_float16])
def test_a_check_that_is_not_given_the_fault_says_pass(f):
    assert gl.check_gradient(f, X).ok
    assert gl.check_surrogate(surrogate_of(f), tf.sin, X).ok


# What is right passes.


def conv(image, kernel):
    return tf.nn.conv2d(image, kernel, strides=1, padding="SAME")


def loop(x):
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * tf.sin(x)), (0, x))[1]


def nested(values):
    return {"sum": values["a"] + values["b"][0], "rest": [values["a"] * values["b"][1], 1]}


RIGHT = {
    "sin": (tf.sin, [X]),
    "softmax": (tf.nn.softmax, [X]),
    "matmul": (tf.matmul, [X, tf.transpose(X)]),
    "conv": (conv, [np.linspace(-1, 1, 32).reshape(1, 4, 4, 2), np.ones((3, 3, 2, 1)) / 7]),
    "gather": (tf.gather, [X, tf.constant([1, 0, 1])]),
    "cumprod": (tf.math.cumprod, [X]),
    "inverse": (tf.linalg.inv, [[[2.0, 0.5], [0.3, 1.5]]]),
    "float32": (lambda x: tf.exp(-(x**2)), [tf.cast(X, tf.float32)]),
    "float16": (tf.tanh, [tf.cast(X, tf.float16)]),
    "bfloat16": (tf.tanh, [tf.cast(X, tf.bfloat16)]),
    "complex abs": (tf.abs, [tf.constant([1 + 2j, -0.5j])]),
    "complex exp": (lambda z: tf.exp(z) * tf.math.conj(z), [tf.constant([0.3 + 2j, 1 - 0.5j])]),
    "complex from real": (lambda x: tf.signal.fft(tf.complex(x, 2 * x)), [X]),
    "scalar": (lambda x, power: x**power, [1.5, 3.0]),
    "loop": (loop, [X]),
    "nested": (nested, [{"a": np.float64(0.5), "b": (np.float64(2.0), X)}]),
    "ragged": (
        lambda r: tf.ragged.map_flat_values(tf.sin, r),
        [tf.ragged.constant([[1.0, 2.0], [3.0]])],
    ),
    "variable": (lambda v: v**2, [tf.Variable([1.0, 2.0])]),
    "relu, away from its kink": (tf.nn.relu, [X]),
    "constant": (lambda x: tf.ones_like(x), [X]),
    "casts to float32 inside": (lambda x: tf.cast(tf.sin(tf.cast(x, tf.float32)), tf.float64), [X]),
    "tied to float32": (lambda x: tf.matmul(x, tf.ones([3, 2])), [tf.cast(X, tf.float32)]),
    "tiny inputs": (tf.math.log, [tf.constant([1e-8, 3e-7], tf.float64)]),
    "inputs of many sizes": (tf.math.log, [tf.constant([1e-7, 1.0, 1e6], tf.float64)]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_functions_pass(name):
    f, args = RIGHT[name]
    check = gl.check_gradient(f, *args).raise_if_failed()
    assert set(verdicts(check).values()) == {"pass"}
    assert len(check.parts) == 4


def test_a_large_function_is_checked_along_random_directions():
    x = tf.constant(np.random.default_rng(0).normal(size=20_000))
    check = gl.check_gradient(lambda x: tf.nn.relu(x) ** 2 + tf.sin(x), x)
    assert check.ok
    assert "8 random directions over 20,000 input elements" in str(check)


def test_a_function_that_can_not_be_traced_is_called_point_by_point():
    def f(x):
        return x**2 if float(x[0]) > 0 else x

    assert gl.check_gradient(f, [1.0, 2.0]).ok
    assert gl.check_gradient(f, tf.linspace(1.0, 2.0, 40)).ok


def test_third_order():
    assert gl.check_gradient(tf.sin, X, order=3).ok


# Faults.

numpy_rule = gl.numpy_op(np.sin, lambda x, g: g * np.cos(x))


@pytest.mark.parametrize(
    ("f", "where"),
    [
        (wrong_factor, {(1, "reverse")}),
        (wrong_in_second_order, {(2, "reverse"), (2, "forward")}),
        (wrong_in_forward_mode, {(1, "forward")}),
        (wrong_in_upstream, {(2, "reverse"), (2, "forward")}),
    ],
)
@pytest.mark.parametrize("size", [6, 3000])
def test_planted_faults_are_found_where_they_are(f, where, size):
    check = gl.check_gradient(f, tf.constant(np.linspace(0.5, 1.2, size)))
    assert failing(check) == where
    assert check.ok is (not where)
    assert bool(check) is check.ok


def test_a_missing_conjugate_is_found():
    z = tf.constant([1 + 2j, 3 - 1j])
    right = rule(lambda z: z**2, lambda g, z: g * tf.math.conj(2 * z))
    wrong = rule(lambda z: z**2, lambda g, z: g * 2 * z)
    assert gl.check_gradient(right, z).ok
    check = gl.check_gradient(wrong, z, **REVERSE)
    assert not check.ok
    assert re.search(r"args\[0\]\[[01]\]\.(real|imag)", check.worst.where)


@pytest.mark.parametrize(("real", "imag", "part"), [(1.0, 2.0, "imag"), (2.0, 1.0, "real")])
def test_the_part_of_a_complex_element_at_fault_is_named(real, imag, part):
    stretched = rule(
        tf.identity, lambda g, z: tf.complex(real * tf.math.real(g), imag * tf.math.imag(g))
    )
    check = gl.check_gradient(stretched, tf.constant([1 + 2j]), **REVERSE)
    assert check.worst.where == f"at args[0][0].{part}, of output[0].{part}"
    np.testing.assert_allclose([check.worst.gradient, check.worst.slope], [2, 1], rtol=1e-6)


@settings(max_examples=12, deadline=None)
@given(
    shape=st.sampled_from([(1,), (7,), (2, 3), (1500,), (40, 50)]),
    factor=st.sampled_from([0.5, 0.99, 1.03, -1.0]),
    place=st.integers(0, 10**6),
)
def test_the_element_at_fault_is_named_with_its_numbers(shape, factor, place):
    x = np.linspace(0.4, 1.3, int(np.prod(shape))).reshape(shape)
    index = np.unravel_index(place % x.size, shape)
    factors = np.ones(shape)
    factors[index] = factor
    check = gl.check_gradient(rule(tf.sin, lambda g, x: g * tf.cos(x) * factors), x, **REVERSE)
    slope = slope_by_hand(np.sin, x, index)
    element = ", ".join(map(str, index))
    assert check.worst.where == f"at args[0][{element}], of output[{element}]"
    np.testing.assert_allclose(check.worst.slope, slope, rtol=1e-6)
    np.testing.assert_allclose(check.worst.gradient, factor * slope, rtol=1e-6)
    np.testing.assert_allclose(check.worst.error, abs(1 - factor) * abs(slope), rtol=1e-4)


@settings(max_examples=10, deadline=None)
@given(
    powers=st.lists(st.floats(-2, 2), min_size=3, max_size=3),
    factor=st.sampled_from([1.0, 1.001, 0.9]),
)
def test_the_verdict_is_that_of_the_oracle(powers, factor):
    def forward(x, library):
        return sum(p * library.cos((i + 1) * x) for i, p in enumerate(powers))

    x = np.array([0.3, 0.9, 1.7])
    f = rule(
        lambda x: forward(x, tf),
        lambda g, x: (
            -g * factor * sum(p * (i + 1) * tf.sin((i + 1) * x) for i, p in enumerate(powers))
        ),
    )
    slopes = [slope_by_hand(lambda x: forward(x, np), x, (i,)) for i in range(3)]
    reported = gl.check_gradient(f, x, **REVERSE)
    differ = np.abs(np.array(slopes) * (factor - 1)).max() > 1e-6
    assert reported.ok is not differ


@pytest.mark.parametrize("size", [1e-300, 1e-166, 1e166, 1e290])
@pytest.mark.parametrize("factor", [1.0, 0.99])
def test_functions_of_any_size_are_judged_alike(size, factor):
    f = rule(lambda x: size * tf.sin(x), lambda g, x: g * factor * size * tf.cos(x))
    for mode in (REVERSE, {"order": 1, "modes": ("reverse", "forward")}):
        check = gl.check_gradient(f, np.array([0.3, 0.9, 1.7]), **mode)
        assert [part.verdict == "pass" for part in check.parts][0] is (factor == 1.0), str(check)


def test_no_tolerance_at_all_is_no_division_by_zero():
    wrong = rule(tf.sin, lambda g, x: 0.9 * g * tf.cos(x))
    assert not gl.check_gradient(wrong, [0.3, 0.9], rtol=0.0, **REVERSE).ok


def test_no_gradient_where_there_is_a_slope():
    check = gl.check_gradient(lambda x: tf.stop_gradient(x) ** 2, [1.0, 5.0], **REVERSE)
    assert "at args[0][1], of output[1]: gradient 0, slope 10, off by 10" in str(check)


def test_a_rule_that_raises_or_returns_another_form_is_a_failure_with_its_reason():
    def raising(g, x):
        raise RuntimeError("no rule today")

    check = gl.check_gradient(rule(tf.sin, raising), [1.0])
    assert (
        str(check) == "check_gradient(f): fail\n  reverse mode raises RuntimeError: no rule today"
    )
    shaped = gl.check_gradient(rule(tf.sin, lambda g, x: tf.reduce_sum(g)), [1.0, 2.0])
    assert "the gradient of args[0] has shape (), not (2,)" in str(shaped)
    typed = gl.check_gradient(rule(tf.sin, lambda g, x: tf.cast(g, tf.float64)), [1.0, 2.0])
    assert "the gradient of args[0] is float64, not float32" in str(typed)


def test_no_second_order_and_no_forward_mode_are_failures_with_their_reasons():
    check = gl.check_gradient(numpy_rule, X)
    assert verdicts(check)[(1, "reverse")] == "pass"
    assert (2, "reverse") in failing(check)
    assert "order 1, forward: fail\n    raises " in str(check)


def test_randomness_is_noticed():
    check = gl.check_gradient(lambda x: x * tf.random.uniform([3]), [1.0, 2.0, 3.0])
    assert not check.ok
    assert "f isn't deterministic" in str(check)
    assert gl.check_gradient(
        lambda x: x * tf.random.stateless_uniform([3], [1, 2]), [1.0, 2.0, 3.0]
    ).ok


# Kinks and jumps.


@pytest.mark.parametrize("f", [tf.nn.relu, tf.abs, lambda x: tf.maximum(x, 2 * x), tf.nn.relu6])
def test_a_kink_is_named_and_set_aside(f):
    check = gl.check_gradient(f, tf.constant([-1.0, 0.0, 1.0]))
    assert check.ok
    assert check.parts[0].kinks == ("args[0][1]",)
    assert "not differentiable here, set aside: args[0][1]; 2 of 3 input elements" in str(check)


def test_with_nothing_but_kinks_the_verdict_says_so():
    check = gl.check_gradient(tf.abs, 0.0, **REVERSE)
    assert check.verdict == "not differentiable here"
    assert not check.ok
    assert check.worst is None


@pytest.mark.parametrize("distance", [1e-3, 1e-4, 1e-5, 1e-6])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_kink_nearby_is_no_kink_here(distance, side):
    check = gl.check_gradient(tf.abs, tf.constant([side * distance, 1.0], tf.float64), **REVERSE)
    assert check.ok
    assert not check.parts[0].kinks


def test_a_gradient_outside_the_slopes_at_a_kink_fails():
    wrong = rule(tf.abs, lambda g, x: g * tf.where(x == 0, 7.0, tf.sign(x)))
    check = gl.check_gradient(wrong, [0.0, 1.0], **REVERSE)
    assert not check.ok
    assert "at a kink and outside the slopes of its two sides" in str(check)


def test_the_nan_of_a_norm_at_zero_fails():
    check = gl.check_gradient(tf.norm, [0.0, 0.0], **REVERSE)
    assert not check.ok
    assert "gradient nan" in str(check)


def test_a_jump_and_a_vertical_tangent_are_set_aside():
    jump = gl.check_gradient(tf.round, tf.constant([0.5, 0.7]), **REVERSE)
    assert jump.ok
    assert jump.parts[0].kinks == ("args[0][0]",)
    root = gl.check_gradient(tf.sqrt, tf.constant([0.0, 4.0]), **REVERSE)
    assert root.ok
    assert root.parts[0].kinks == ("args[0][0]",)


def test_a_kink_does_not_hide_a_fault_beside_it():
    ste = gl.check_gradient(lambda x: x + tf.stop_gradient(tf.round(x) - x), [0.3, 0.5], **REVERSE)
    assert ste.worst.where.startswith("at args[0][0]")


def test_inactive_elements_at_a_kink_do_not_stop_a_large_check():
    x = np.maximum(np.random.default_rng(1).normal(size=5000), 0.0)
    assert gl.check_gradient(tf.nn.relu, x, **REVERSE).ok
    wrong = rule(tf.nn.relu, lambda g, x: tf.where(x > 0, 1.01 * g, 0.0))
    assert not gl.check_gradient(wrong, x, **REVERSE).ok
    summed = gl.check_gradient(lambda x: tf.reduce_sum(tf.nn.relu(x)), x, **REVERSE)
    assert summed.ok
    assert len(summed.parts[0].kinks) in range(10, 60)
    assert not gl.check_gradient(lambda x: tf.reduce_sum(wrong(x)), x, **REVERSE).ok


# The result.


def test_the_text_is_the_same_each_time_and_without_rounding_noise():
    texts = {str(gl.check_gradient(wrong_factor, X, seed=3)) for _ in range(2)}
    assert texts == {
        "check_gradient(f): fail\n"
        "  order 1, reverse: fail\n"
        "    worst at args[0][0, 0], of output[0, 0]: gradient 0.965, slope 0.955, "
        "off by 0.00955 where 1e-06 is allowed; 6 of 6 input elements, to within 1e-06\n"
        "  order 1, forward: pass\n"
        "    12 of 12 tangents, to within 1e-06\n"
        "  order 2, reverse: pass\n"
        "    12 of 12 input elements, to within 1e-06\n"
        "  order 2, forward: pass\n"
        "    12 of 12 tangents, to within 1e-06"
    }


def test_the_result_raises_shows_and_draws():
    check = gl.check_gradient(wrong_factor, X)
    with pytest.raises(AssertionError, match=r"worst at args\[0\]"):
        check.raise_if_failed()
    right = gl.check_gradient(tf.sin, X)
    assert right.raise_if_failed() is right
    assert repr(right) == str(right)
    page = check._repr_html_()
    assert page.count("<tr>") == 5
    assert "<b>fail</b>" in page
    figure = check.plot()
    assert len(figure.axes) == 4
    slope, gradient = (line.get_ydata() for line in figure.axes[0].lines)
    np.testing.assert_allclose(gradient, 1.01 * slope, rtol=1e-5)


def test_html_is_escaped():
    check = gl.check_gradient(lambda x: x, [1.0], **REVERSE)
    assert "&lt;lambda&gt;" in check._repr_html_()
    assert "<lambda>" not in check._repr_html_()


def test_a_tolerance_can_be_given():
    assert gl.check_gradient(wrong_factor, X, rtol=0.02).ok
    assert gl.check_gradient(wrong_factor, X, atol=0.1).ok
    assert not gl.check_gradient(wrong_factor, X, rtol=0.001).ok


def test_every_element_or_directions_as_asked():
    every = gl.check_gradient(tf.sin, np.ones(2000), every_element=True, **REVERSE)
    assert "2,000 of 2,000 input elements" in str(every)
    few = gl.check_gradient(tf.sin, np.ones(3), every_element=False, **REVERSE)
    assert "random directions over 3" in str(few)


def test_a_check_leaves_the_session_as_it_was():
    logger, policy = logging.getLogger("tensorflow"), keras.config.dtype_policy()
    level = logger.level
    tf.random.set_seed(1)
    expected = tf.random.uniform([3]).numpy()
    tf.random.set_seed(1)
    gl.check_gradient(tf.sin, X)
    gl.check_modes(tf.sin, X, modes=("eager", "mixed_float16", "float16"))
    assert logger.level == level
    assert keras.config.dtype_policy() == policy
    np.testing.assert_array_equal(tf.random.uniform([3]).numpy(), expected)


# Bad input.


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: gl.check_gradient(tf.sin(1.0), 1.0),
            TypeError,
            "f must be callable, got a tensor",
        ),
        (lambda: gl.check_gradient(tf.sin), TypeError, "got no arguments"),
        (
            lambda: gl.check_gradient(tf.abs, [1, 2]),
            TypeError,
            r"args\[0\] is a tensor of dtype int32",
        ),
        (lambda: gl.check_gradient(tf.sin, None), TypeError, r"args\[0\] is None"),
        (lambda: gl.check_gradient(tf.sin, "x"), TypeError, r"args\[0\] is str 'x'"),
        (lambda: gl.check_gradient(tf.sin, [1.0, np.nan]), ValueError, r"args\[0\] holds NaN"),
        (
            lambda: gl.check_gradient(tf.math.log, [1.0, 0.0]),
            ValueError,
            r"output\[1\] isn't finite",
        ),
        (lambda: gl.check_gradient(lambda x: None, 1.0), TypeError, "f returned None"),
        (lambda: gl.check_gradient(tf.argmax, [1.0]), TypeError, "at least one float"),
        (
            lambda: gl.check_gradient(tf.sin, 1.0, order=0),
            ValueError,
            "order must be 1, 2 or 3, got 0",
        ),
        (
            lambda: gl.check_gradient(tf.sin, 1.0, modes="reverse"),
            ValueError,
            "modes must be some of",
        ),
        (lambda: gl.check_gradient(tf.sin, 1.0, modes=("back",)), ValueError, r"got \('back',\)"),
        (
            lambda: gl.check_gradient(tf.sin, 1.0, rtol=-1),
            ValueError,
            "rtol must be a finite number",
        ),
        (lambda: gl.check_surrogate(tf.round, None, 1.0), TypeError, "backward must be a function"),
        (
            lambda: gl.check_surrogate(tf.round, tf.reduce_sum, [1.0]),
            ValueError,
            "backward returns shapes",
        ),
        (lambda: gl.check_modes(None, 1.0), TypeError, "f must be callable, got None"),
        (lambda: gl.check_modes(tf.sin, 1), TypeError, r"args\[0\] is int 1"),
        (lambda: gl.check_modes(tf.sin, 1.0, modes=("xla",)), ValueError, "modes must be some of"),
    ],
)
def test_bad_input_is_named_with_the_way_out(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("check", [gl.check_gradient, gl.check_modes])
def test_not_inside_a_function(check):
    with pytest.raises(RuntimeError, match="call it outside"):
        tf.function(lambda x: check(tf.sin, x), autograph=False)(tf.constant(1.0))


def test_what_f_itself_raises_is_not_hidden():
    with pytest.raises(tf.errors.InvalidArgumentError):
        gl.check_gradient(tf.matmul, tf.ones([2, 3]), tf.ones([2, 3]))


def test_an_empty_tensor_has_nothing_to_check():
    assert gl.check_gradient(tf.sin, tf.zeros([0, 3])).ok


# Surrogates.

SURROGATES = {
    "straight through": (lambda x: x + tf.stop_gradient(tf.round(x) - x), lambda x: x),
    "sign, tanh": (lambda x: tf.tanh(x) + tf.stop_gradient(tf.sign(x) - tf.tanh(x)), tf.tanh),
    "replaced": (lambda x: gl.replace_gradient(x, tf.sign, tf.atan), tf.atan),
    "reversed": (gl.reverse_gradient, lambda x: -x),
    "scaled": (lambda x: gl.scale_gradient(x, 0.3), lambda x: 0.3 * x),
}


@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16])
def test_a_surrogate_is_held_to_what_it_declares(name, dtype):
    f, backward = SURROGATES[name]
    x = tf.cast(X, dtype)
    gl.check_surrogate(f, backward, x).raise_if_failed()
    assert not gl.check_gradient(f, x)
    assert failing(gl.check_surrogate(f, lambda x: 1.1 * backward(x), x)) >= {(1, "reverse")}


# Every mode.

wrong_in_graphs = rule(
    tf.sin, lambda g, x: g * tf.cos(x) * (1.0 if tf.executing_eagerly() else 3.0)
)


def graph_factor(x):
    """Importable, and wrong in graphs alone: in a saved one too."""
    return wrong_in_graphs(x)


def test_a_right_function_passes_in_every_mode_of_this_process():
    check = gl.check_modes(tf.sin, tf.constant([0.3, 1.2, 2.0]), modes=HERE, backward=tf.sin)
    assert check.ok, check
    assert {row.verdict for row in check.rows} == {"pass"}
    assert str(check).splitlines()[:2] == [
        "check_modes(sin): 20 of 20 modes pass",
        "eager" + " " * 25 + "pass",
    ]


def test_a_surrogate_passes_in_every_mode_of_this_process():
    check = gl.check_modes(
        gl.reverse_gradient, tf.constant([0.3, 1.2]), modes=HERE, backward=lambda x: -x
    )
    assert set(check.failed) <= {"ragged"}


def _in_a_batch(tensor):
    """1 where the tensor isn't eager, as in the vectorised rows of a jacobian; else 0."""
    return 0.0 if tf.executing_eagerly() else 1.0


MODE_FAULTS = {
    "eager": (wrong_factor, r"args\[0\]\[0\], of output\[0\]: gradient 0.886, slope 0.878"),
    "function, tape outside": (
        wrong_in_graphs,
        r"args\[0\]\[1\] is -2.08, where eager mode gives -0.693",
    ),
    "function, tape inside": (wrong_in_graphs, "where eager mode gives"),
    "jit_compile": (
        lambda x: tf.numpy_function(np.sin, [x], x.dtype),
        "Detected unsupported operations",
    ),
    "second order": (wrong_in_second_order, "gradient 0, slope"),
    "forward mode": (wrong_in_forward_mode, "the tangent of element 0 of output is"),
    "forward mode in a function": (wrong_in_forward_mode, "where reverse mode gives"),
    "float16": (wrong_in_float16, r"the gradient of args\[0\]\[1\] is"),
    "mixed_float16": (wrong_in_float16, r"the gradient of args\[0\]\[1\] is"),
    "bfloat16": (lambda x: x * tf.constant([1.0, 2.0]), "InvalidArgumentError"),
    "float64": (lambda x: x * tf.constant([1.0, 2.0]), "InvalidArgumentError"),
    "complex64": (tf.nn.relu, "NotFoundError|InvalidArgumentError|TypeError"),
    "ragged": (gl.reverse_gradient, "must be one dense tensor"),
    "dynamic shape": (lambda x: x / int(np.prod(x.shape)), "."),
    "unknown rank": (lambda x: tf.reshape(x, x.shape.as_list()), "unknown TensorShape"),
    "empty tensor": (lambda x: x + tf.reduce_max(x) * 0 + x[0], "."),
    "scalar": (lambda x: x[0] * x, "."),
    "vectorized_map, tape outside": (
        rule(tf.sin, lambda g, x: g * tf.cos(x) * (1 + x.shape[0])),
        ".",
    ),
    "vectorized_map, tape inside": (wrong_in_graphs, "in element 0 of the batch, the gradient"),
    "jacobian": (rule(tf.sin, lambda g, x: g * tf.cos(x) * (1 + _in_a_batch(g))), "of element 0"),
}


@pytest.mark.parametrize("mode", MODE_FAULTS)
def test_a_fault_in_one_mode_is_found_in_that_mode(mode):
    f, words = MODE_FAULTS[mode]
    backward = tf.sin if mode == "eager" else None
    check = gl.check_modes(f, tf.constant([0.5, 0.7]), modes=(mode,), backward=backward)
    assert not check.ok
    assert re.search(words, check[mode].reason), check
    assert check.failed == {mode: check[mode].reason}


def test_a_mode_without_meaning_is_not_tried_and_does_not_count():
    check = gl.check_modes(tf.sin, tf.constant(0.5), modes=("eager", "ragged", "empty tensor"))
    assert check.ok
    assert check["ragged"].verdict == "not tried"
    assert str(check).startswith("check_modes(sin): 1 of 1 modes pass")


def test_complex_arguments_in_every_mode_of_this_process():
    check = gl.check_modes(tf.exp, tf.constant([0.3 + 1j, 1 - 0.2j]), modes=HERE, backward=tf.exp)
    assert check.ok, check
    assert check["float16"].verdict == "not tried"


def test_several_arguments_and_structures_in_every_mode_of_this_process():
    args = {"a": tf.constant([1.0, 2.0]), "b": [tf.constant([0.5, 0.1])]}, 2
    check = gl.check_modes(lambda d, k: {"y": d["a"] * d["b"][0] ** k}, *args, modes=HERE)
    assert check.ok, check


def test_elsewhere_a_right_function_passes():
    check = gl.check_modes(tf.sin, tf.constant([0.5, 0.7]), modes=gl.check_modes.names[-3:])
    assert [row.verdict for row in check.rows] == ["pass"] * 3, check


def test_elsewhere_a_layer_with_weights_passes():
    layer = keras.layers.Dense(2)
    check = gl.check_modes(layer, tf.ones([2, 3]), modes=gl.check_modes.names[-3:])
    assert [row.verdict for row in check.rows] == ["pass"] * 3, check


@keras.saving.register_keras_serializable("test_checks")
class Halves(keras.layers.Layer):
    def call(self, x):
        return gl.scale_gradient(x, 0.5)


def test_elsewhere_layers_load_with_the_modules_they_come_from():
    calls = [
        Call(layer, (tf.ones([2, 3], dtype),), lambda x: x / 2)
        for layer in (gl.layers.ScaleGradient(0.5), Halves())
        for dtype in (tf.float32, tf.bfloat16)
    ]
    for check in check_each(calls, ("eager", *gl.check_modes.names[-3:])):
        assert [row.verdict for row in check.rows] == ["pass"] * 4, check


def test_an_error_is_told_from_a_wrong_number():
    def refusing(x):
        if x.dtype == tf.float16:
            raise TypeError("no halves")
        return wrong_in_second_order(x)

    check = gl.check_modes(refusing, [0.5], modes=("eager", "second order", "float16"))
    assert [row.raised for row in check.rows] == [False, False, True]
    assert check["float16"].reason == "TypeError: no halves"


def test_elsewhere_faults_are_found():
    check = gl.check_modes(graph_factor, tf.constant([0.5, 0.7]), modes=gl.check_modes.names[-3:])
    assert "the gradient of args[0][1] is -2.08" in check["saved and loaded"].reason
    assert "replica 0" in check["two replicas"].reason
    assert set(check.failed) >= {"saved and loaded", "two replicas"}


def test_what_saves_and_then_does_not_run_is_found():
    check = gl.check_modes(
        lambda x: tf.numpy_function(np.sin, [x], x.dtype),
        tf.constant([0.5]),
        modes=("saved and loaded", ".keras"),
    )
    assert "callback" in check["saved and loaded"].reason
    assert check[".keras"].verdict == "not tried"


def test_two_replicas_sum_the_gradient_of_their_variable():
    x, upstream = [tf.constant([1.0, 2.0])], [tf.constant([1.0, 1.0])]
    found = child.two_replicas(lambda ts: [ts[0] ** 2], x, upstream, ["CPU:0"])
    np.testing.assert_allclose(found["total"], 2 * (1 + 4))


def test_the_table_shows_in_a_notebook():
    check = gl.check_modes(tf.nn.relu, tf.constant([0.5, 0.7]), modes=("eager", "complex64"))
    page = check._repr_html_()
    assert page.count("<tr>") == 3
    assert "<b>fail</b>" in page
    with pytest.raises(KeyError, match="no mode 'xla' in this table"):
        check["xla"]
    with pytest.raises(AssertionError, match="complex64"):
        check.raise_if_failed()


def test_reasons_are_one_line_and_the_same_on_every_run():
    message = "\n{{node f/_12}} at 0x7fa0 in /tmp/abc/def/x.py __inference_step_123 [Op:Sin] name: "
    assert said("ValueError", message) == "ValueError: at 0x… in …/x.py step"
    assert len(said("ValueError", "long " * 99)) < 260
    traced = (
        'in user code:\n\n    File "/a/b.py", line 6, in f  *\n        g\n\n    TypeError: no x\n'
    )
    assert said("TypeError", traced) == "TypeError: no x"
    in_keras = "Exception encountered when calling L.call().\n\n\x1b[1mno z\x1b[0m\n\n"
    arguments = "Arguments received by L.call():\n  • inputs=1"
    assert said("TypeError", in_keras + arguments) == "TypeError: no z"
    in_xla = "graph step[_XlaMustCompile=true,config_proto=13] on XLA_CPU_JIT"
    assert said("E", in_xla) == "E: graph step on XLA_CPU_JIT"
    from_numpy = "TypeError: no y\nTraceback (most recent call last):\n\n  File"
    assert said("UnknownError", from_numpy) == "UnknownError: TypeError: no y"
