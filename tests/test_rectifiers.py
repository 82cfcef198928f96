"""Rectifiers as ops and as rules, and models whose activations are swapped.

What the ops return in every mode stands in ``test_every_op``.
"""

import functools
import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf
from modes import eager, function_tape_in, function_tape_out, jit

import gradlab as gl

INF, NAN = np.inf, np.nan
WAYS = pytest.mark.parametrize("mode", [eager, function_tape_in, function_tape_out, jit])

# (op type, a function that makes such an op, the same rectifier as options of our ops)
FORMS = {
    "Relu": (tf.nn.relu, {}),
    "Relu6": (tf.nn.relu6, {"max_value": 6.0}),
    "LeakyRelu": (lambda x: tf.nn.leaky_relu(x, 0.25), {"negative_slope": 0.25}),
}
PAIRS = {
    "guided": (gl.guided_rule, gl.guided_relu),
    "deconv": (gl.deconv_rule, gl.deconv_relu),
    "redirected": (gl.redirected_rule, gl.redirected_relu),
}
X = [[-2.0, -0.5, 0.0, 3.0, 6.0, 9.0], [-1.0, -2.0, -3.0, -4.0, 7.0, 8.0]]
UPSTREAM = [[1.0, -1.0, 2.0, 5.0, -3.0, 4.0], [-1.0, 1.0, -2.0, 2.0, -3.0, 3.0]]


@WAYS
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("pair", PAIRS)
def test_rule_and_op_agree(pair, form, mode):
    (rule, op), (native, options) = PAIRS[pair], FORMS[form]
    xs, upstreams = [tf.constant(X)], [tf.constant(UPSTREAM)]
    overridden = gl.override_gradient({form: rule})(native)
    (y,), (by_rule,) = mode(overridden, xs, upstreams)
    (same_y,), (by_op,) = mode(lambda x: op(x, **options), xs, upstreams)
    np.testing.assert_array_equal(y, native(xs[0]))
    np.testing.assert_array_equal(same_y, y)
    np.testing.assert_array_equal(by_rule, by_op)


@pytest.mark.parametrize("form", FORMS)
def test_guided_is_the_plain_gradient_where_upstream_is_positive(form):
    native, options = FORMS[form]
    xs, upstreams = [tf.constant(X)], [tf.abs(tf.constant(UPSTREAM))]
    _, plain = eager(native, xs, upstreams)
    _, guided = eager(lambda x: gl.guided_relu(x, **options), xs, upstreams)
    np.testing.assert_array_equal(guided[0], plain[0])
    _, blocked = eager(lambda x: gl.guided_relu(x, **options), xs, [-upstreams[0]])
    assert not np.any(blocked[0])


def test_deconv_ignores_x():
    upstreams = [tf.constant(UPSTREAM)]
    for x in (tf.constant(X), -tf.constant(X)):
        _, (got,) = eager(gl.deconv_relu, [x], upstreams)
        np.testing.assert_array_equal(got, np.maximum(UPSTREAM, 0))


@WAYS
def test_redirected_helps_only_examples_that_get_nothing(mode):
    x = [[-1.0, -2.0], [-1.0, 2.0], [-1.0, -2.0], [-1.0, 2.0]]
    upstream = [[-5.0, 4.0], [-5.0, 4.0], [5.0, 4.0], [-5.0, 0.0]]
    _, (got,) = mode(gl.redirected_relu, [tf.constant(x)], [tf.constant(upstream)])
    np.testing.assert_array_equal(got, [[-5, 0], [0, 4], [0, 0], [-5, 0]])


@WAYS
def test_redirected_comes_down_from_above(mode):
    x, upstream = [[7.0, 8.0], [7.0, 3.0]], [[-5.0, 4.0], [-5.0, 4.0]]
    f = lambda x: gl.redirected_relu(x, max_value=6.0)  # noqa: E731
    _, (got,) = mode(f, [tf.constant(x)], [tf.constant(upstream)])
    np.testing.assert_array_equal(got, [[0, 4], [0, 4]])


def test_redirecting_stops_with_the_step():
    step = tf.Variable(0)

    def rule(op, upstream):
        return gl.redirected_rule(op, upstream, active=step < 2)

    x, upstream = [tf.constant([[-1.0, -2.0]])], [tf.constant([[-5.0, -4.0]])]
    by_rule = gl.override_gradient({"Relu": rule})(tf.nn.relu)
    by_op = tf.function(lambda x: gl.redirected_relu(x, active=step < 2))
    seen = []
    for _ in range(3):
        for f in (by_rule, by_op):
            seen.append(np.any(eager(f, x, upstream)[1][0]))
        step.assign_add(1)
    assert seen == [True, True, True, True, False, False]


@WAYS
def test_infinite_and_nan_values(mode):
    x = [tf.constant([-INF, -1e38, 1e38, INF, NAN])]
    for op in (gl.guided_relu, gl.deconv_relu, gl.redirected_relu):
        np.testing.assert_array_equal(mode(op, x)[0][0], [0, 0, np.float32(1e38), INF, NAN])
    _, (got,) = mode(gl.guided_relu, [tf.constant([-1.0, 1.0])], [tf.constant([INF, INF])])
    np.testing.assert_array_equal(got, [0, INF])


@pytest.mark.parametrize("pair", PAIRS)
def test_a_rule_has_no_forward_mode_and_says_so(pair):
    f = gl.override_gradient({"Relu": PAIRS[pair][0]})(tf.nn.relu)
    x = tf.constant([[1.0]])
    with (
        pytest.raises(NotImplementedError, match=f"{pair}_rule has no forward mode"),
        tf.autodiff.ForwardAccumulator(x, x),
    ):
        f(x)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_rule_refuses_other_ops(pair):
    rule, op = PAIRS[pair]
    f = gl.override_gradient({"Tanh": rule})(tf.tanh)
    with pytest.raises(TypeError, match=f"{pair}_rule: op must be one of Relu, Relu6, LeakyRelu"):
        eager(f, [tf.constant([1.0])])
    for bad in ({"negative_slope": tf.ones([7])}, {"max_value": tf.ones([7])}):
        with pytest.raises(ValueError, match="has shape"):
            op(tf.constant([1.0]), **bad)
    with pytest.raises(TypeError, match="x must be real"):
        op(tf.constant(1j))


def test_active_must_be_boolean():
    with pytest.raises(TypeError, match="active must be boolean"):
        gl.redirected_relu(tf.constant([1.0]), active=3)


def gradient_of_sum(model, x):
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = model(x)
    return y.numpy(), tape.gradient(y, x).numpy()


LAYERS = {
    "Dense": ("Relu", lambda: keras.layers.Dense(4, "relu")),
    "Activation": ("Relu", lambda: keras.layers.Activation("relu")),
    "ReLU": ("Relu", lambda: keras.layers.ReLU()),
    "ReLU, 6": ("Relu6", lambda: keras.layers.ReLU(max_value=6)),
    "relu6": ("Relu6", lambda: keras.layers.Activation("relu6")),
    "LeakyReLU": ("LeakyRelu", lambda: keras.layers.LeakyReLU(0.25)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_rules_reach_keras_layers(name):
    op_type, make = LAYERS[name]
    model = keras.Sequential([keras.Input([3]), make(), keras.layers.Dense(2)])
    x = np.linspace(-9, 9, 12, dtype=np.float32).reshape(4, 3)
    y, _ = gradient_of_sum(model, x)
    for rule, _ in PAIRS.values():
        overridden = gl.override_gradient({op_type: rule})(model)
        same, got = gradient_of_sum(overridden, x)
        np.testing.assert_allclose(same, y, rtol=1e-5)
        assert np.all(np.isfinite(got))
        assert [match.type for match in overridden.matches] == [op_type]


MIRRORED = {
    "PReLU": lambda: keras.layers.PReLU(keras.initializers.Constant(0.25)),
    "ReLU, slope and bound": lambda: keras.layers.ReLU(4.0, 0.25),
    "ReLU, slope and threshold": lambda: keras.layers.ReLU(4.0, 0.25, 0.5),
}


@pytest.mark.parametrize("name", MIRRORED)
def test_rules_refuse_what_keras_computes_with_the_other_sign(name):
    model = keras.Sequential([keras.Input([3]), MIRRORED[name](), keras.layers.Dense(2)])
    for rule, _ in PAIRS.values():
        overridden = gl.override_gradient({"Relu": rule})(model)
        with pytest.raises(TypeError, match="rectifies −x for a slope below 0"):
            gradient_of_sum(overridden, np.ones([2, 3], np.float32))


@WAYS
def test_rules_take_a_rectified_negation_that_is_no_slope(mode):
    x, upstream = tf.constant([-2.0, -1.0, 3.0]), tf.constant([1.0, -1.0, 1.0])
    f = gl.override_gradient({"Relu": gl.guided_rule})(lambda x: tf.square(tf.nn.relu(-x)) + x)
    np.testing.assert_array_equal(mode(f, [x], [upstream])[1][0], [-3.0, -1.0, 1.0])


# Swapping activations.


def mixed_model():
    """Activations as strings, functions, layers and functions of Keras tensors; one nested."""
    inner = keras.Sequential(
        [keras.Input([4]), keras.layers.Dense(4, "relu", name="deep"), keras.layers.ReLU(name="r")],
        name="inner",
    )
    x = keras.Input([3])
    h = keras.layers.Dense(4, tf.nn.relu, name="first")(x)
    h = keras.layers.BatchNormalization()(h)
    h = inner(h)
    h = keras.ops.relu(h - 0.25)
    h = keras.layers.LeakyReLU(0.1, name="leaky")(h)
    y = keras.layers.Dense(2, "softmax", name="last")(h)
    return keras.Model(x, y)


INPUTS = np.linspace(-2, 2, 15, dtype=np.float32).reshape(5, 3)


def test_swapping_reaches_every_relu_and_keeps_values_and_weights():
    model = mixed_model()
    before = gradient_of_sum(model, INPUTS)[0]
    copy, swapped = gl.swap_activations(model, {"relu": gl.guided_relu})
    assert [s.layer for s in swapped[:3]] == ["first", "inner/deep", "inner/r"]
    assert {(s.was, s.now) for s in swapped} == {("relu", "guided_relu")}
    assert len(swapped) == 4
    np.testing.assert_allclose(copy(INPUTS), before, rtol=1e-6)
    for ours, theirs in zip(copy.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(model(INPUTS), before)
    assert model.get_layer("first").activation is tf.nn.relu


def test_a_swapped_model_has_the_gradient_of_an_overridden_one():
    model = keras.Sequential(
        [
            keras.Input([3]),
            keras.layers.Dense(8, "relu"),
            keras.layers.Dense(8),
            keras.layers.ReLU(),
        ]
    )
    swapped = gl.swap_activations(model, {"relu": gl.guided_relu})[0]
    overridden = gl.override_gradient({"Relu": gl.guided_rule})(model)
    _, got = gradient_of_sum(swapped, INPUTS)
    _, wanted = gradient_of_sum(overridden, INPUTS)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    assert np.any(got != gradient_of_sum(model, INPUTS)[1])


def test_the_copy_has_weights_of_its_own():
    model = mixed_model()
    copy, _ = gl.swap_activations(model, {"relu": "tanh"})
    copy.get_layer("first").kernel.assign_add(tf.ones([3, 4]))
    assert np.any(copy.get_weights()[0] != model.get_weights()[0])


@pytest.mark.parametrize(
    ("key", "layers"),
    [
        ("leaky_relu", ["leaky"]),
        (keras.layers.LeakyReLU, ["leaky"]),
        ("LeakyReLU", ["leaky"]),
        (keras.layers.ReLU, ["inner/r"]),
        (tf.nn.relu, ["first"]),
        (keras.activations.relu, ["inner/deep"]),
        ("softmax", ["last"]),
    ],
)
def test_keys_name_activations_in_several_ways(key, layers):
    copy, swapped = gl.swap_activations(mixed_model(), {key: lambda x: 0 * x + 7.0})
    assert [s.layer for s in swapped] == layers
    if key == "softmax":
        np.testing.assert_array_equal(copy(INPUTS), np.full([5, 2], 7.0))


def test_a_layer_as_key_means_that_layer_alone():
    layers = [keras.layers.ReLU(name="a"), keras.layers.ReLU(name="b")]
    model = keras.Sequential([keras.Input([3]), *layers])
    _, swapped = gl.swap_activations(model, {layers[1]: "tanh"})
    assert swapped == [("b", "relu", "tanh")]


def test_recurrent_cells_and_wrappers():
    model = keras.Sequential(
        [
            keras.Input([4, 3]),
            keras.layers.Bidirectional(keras.layers.LSTM(2, return_sequences=True), name="both"),
            keras.layers.TimeDistributed(keras.layers.Dense(2, "relu"), name="each"),
            keras.layers.GRU(2, name="gru"),
        ]
    )
    copy, swapped = gl.swap_activations(model, {"tanh": "softsign", "relu": "softplus"})
    assert sorted(s.layer for s in swapped) == ["both", "both", "each", "gru"]
    cell = copy.get_layer("both").forward_layer.cell
    assert cell.activation is keras.activations.softsign
    assert cell.recurrent_activation is keras.activations.sigmoid
    assert copy.get_layer("each").layer.activation is keras.activations.softplus
    x = np.ones([1, 4, 3], np.float32)
    assert np.any(copy(x).numpy() != model(x).numpy())


def test_shared_layers_lambdas_and_several_outputs():
    shared = keras.layers.Dense(3, "relu", name="shared")
    x = keras.Input([3])
    h = keras.layers.Lambda(lambda t: t * 2.0)(shared(shared(x)))
    h = keras.layers.Concatenate()([keras.activations.relu(h), x])
    model = keras.Model(x, {"whole": h, "part": h[:, :2] + 1.0})
    copy, swapped = gl.swap_activations(model, {"relu": gl.guided_relu})
    assert [s.layer for s in swapped][0] == "shared"
    assert len(swapped) == 2
    assert len(copy.weights) == 2
    for name, value in model(INPUTS).items():
        np.testing.assert_allclose(copy(INPUTS)[name], value, rtol=1e-6)


def test_mixed_precision_is_kept():
    layers = [
        keras.layers.Dense(4, dtype="mixed_float16"),
        keras.layers.ReLU(dtype="mixed_float16"),
    ]
    copy, _ = gl.swap_activations(keras.Sequential([keras.Input([3]), *layers]), {"relu": "tanh"})
    assert [layer.compute_dtype for layer in copy.layers] == ["float16", "float16"]


def test_options_make_other_names():
    model = keras.Sequential(
        [
            keras.Input([3]),
            keras.layers.ReLU(max_value=6, name="six"),
            keras.layers.ReLU(negative_slope=0.1, name="sloped"),
            keras.layers.ReLU(threshold=1.0, name="late"),
        ]
    )
    for key, layer in (("relu6", "six"), ("leaky_relu", "sloped")):
        assert [s.layer for s in gl.swap_activations(model, {key: "tanh"})[1]] == [layer]
    assert len(gl.swap_activations(model, {"ReLU": "tanh"})[1]) == 3


RECTIFYING = {
    "ReLU(4, slope)": lambda: keras.layers.ReLU(4.0, 0.25, name="r"),
    "ReLU(6)": lambda: keras.layers.ReLU(6.0, name="r"),
    "LeakyReLU": lambda: keras.layers.LeakyReLU(0.125, name="r"),
    "leaky_relu": lambda: keras.layers.Activation("leaky_relu", name="r"),
    "relu6": lambda: keras.layers.Activation(tf.nn.relu6, name="r"),
    "a layer as activation": lambda: keras.layers.Dense(
        3,
        keras.layers.LeakyReLU(0.5),
        kernel_initializer=keras.initializers.Identity(3.0),
        name="r",
    ),
}


@pytest.mark.parametrize("name", RECTIFYING)
def test_rectifiers_take_over_the_options_of_what_they_replace(name, tmp_path):
    layer = RECTIFYING[name]()
    x = keras.Input([3])
    model = keras.Model(x, layer(x))
    keys = ["relu6", "leaky_relu", "ReLU"]
    key = next(k for k in keys if k in str(swap_names(model)))
    copy, swapped = gl.swap_activations(model, {key: gl.guided_relu})
    assert [(s.layer, s.now) for s in swapped] == [("r", "guided_relu")]
    x = np.linspace(-9, 9, 12, dtype=np.float32).reshape(4, 3)
    y, slope = gradient_of_sum(model, x)
    for each in (copy, reloaded(copy, tmp_path)):
        same, got = gradient_of_sum(each, x)
        np.testing.assert_allclose(same, y, rtol=1e-6)
        np.testing.assert_allclose(got, slope, rtol=1e-6)
        _, got = gradient_of_sum(lambda t, each=each: -each(t), x)
        np.testing.assert_array_equal(got, np.zeros_like(x))


def swap_names(model):
    with pytest.raises(ValueError, match="It has") as caught:
        gl.swap_activations(model, {"no such": "relu"})
    return caught.value


def reloaded(model, folder):
    model.save(folder / "model.keras")
    return keras.models.load_model(folder / "model.keras")


def test_a_copy_with_a_layer_for_an_activation_swaps_again():
    inner = keras.layers.ReLU()
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(2, inner, name="d")])
    copy, swapped = gl.swap_activations(model, {inner: "tanh"})
    assert swapped == [("d", "relu", "tanh")]
    assert gl.swap_activations(copy, {"tanh": "relu"})[1] == [("d", "tanh", "relu")]
    assert model.layers[0].activation is inner


def test_a_partial_goes_by_the_name_of_its_function():
    bound = functools.partial(gl.guided_relu, max_value=2.0)
    assert gl.swap_activations(mixed_model(), {"leaky_relu": bound})[1][0].now == "guided_relu"


def test_a_threshold_is_refused():
    model = keras.Sequential([keras.Input([3]), keras.layers.ReLU(threshold=1.0)])
    with pytest.raises(ValueError, match="a ReLU has threshold=1.0, which guided_relu hasn't"):
        gl.swap_activations(model, {"ReLU": gl.guided_relu})


def test_the_first_key_wins():
    _, swapped = gl.swap_activations(
        mixed_model(), {keras.layers.ReLU: "tanh", "relu": gl.deconv_relu}
    )
    assert {s.layer: s.now for s in swapped}["inner/r"] == "tanh"
    assert {s.layer: s.now for s in swapped}["inner/deep"] == "deconv_relu"


def test_a_swapped_model_trains_and_stays_compiled():
    model = mixed_model()
    model.compile("sgd", "mse")
    copy, _ = gl.swap_activations(model, {"relu": gl.guided_relu})
    history = copy.fit(INPUTS, np.zeros([5, 2], np.float32), epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"][0])


def test_a_swapped_model_loads_in_a_fresh_process(tmp_path):
    copy, _ = gl.swap_activations(mixed_model(), {"relu": gl.guided_relu})
    copy.save(tmp_path / "model.keras")
    np.save(tmp_path / "x.npy", INPUTS)
    script = """
        import keras, numpy as np, gradlab as gl
        assert gl.layers
        model = keras.models.load_model("model.keras")
        np.save("y.npy", model(np.load("x.npy")))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), copy(INPUTS), rtol=1e-6)


class Block(keras.Layer):
    """A layer with an activation layer inside, where no graph shows it."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.rectify = keras.layers.ReLU()

    def call(self, x):
        return self.rectify(x)


def test_what_swapping_says_of_bad_input():
    model = mixed_model()
    has = r"It has: leaky_relu \(1\), linear \(\d\), relu \(4\), softmax \(1\)\.|relu \(4\)"
    with pytest.raises(ValueError, match=f"model has no activation 'gelu'. .*{has}"):
        gl.swap_activations(model, {"gelu": "relu"})
    with pytest.raises(ValueError, match="model has no activation tanh"):
        gl.swap_activations(model, {tf.tanh: "relu"})
    with pytest.raises(TypeError, match="swaps must be a dict"):
        gl.swap_activations(model, "relu")
    with pytest.raises(TypeError, match="must be a name or a function, got <class"):
        gl.swap_activations(model, {"relu": keras.layers.LeakyReLU})
    with pytest.raises(TypeError, match="must be a name or a function, got <LeakyReLU"):
        gl.swap_activations(model, {"relu": keras.layers.LeakyReLU()})
    with pytest.raises(TypeError, match="functional or sequential Keras model, got a Dense"):
        gl.swap_activations(keras.layers.Dense(1), {"relu": "tanh"})
    with pytest.raises(ValueError, match="no weights yet"):
        gl.swap_activations(keras.Sequential([keras.layers.Dense(1, "relu")]), {"relu": "tanh"})
    hidden = keras.Sequential([keras.Input([3]), Block(name="block")])
    with pytest.raises(ValueError, match="relu in block is inside a Block, out of reach"):
        gl.swap_activations(hidden, {"relu": "tanh"})
    learned = keras.Sequential([keras.Input([3]), keras.layers.PReLU(name="p")])
    with pytest.raises(ValueError, match="in p has weights"):
        gl.swap_activations(learned, {keras.layers.PReLU: "relu"})


@pytest.mark.parametrize("built_before", [False, True])
@pytest.mark.parametrize("place", ["eager", "in a function"])
@pytest.mark.parametrize(
    "f",
    [
        gl.override_gradient({"Relu": gl.guided_rule})(tf.nn.relu),
        tf.function(gl.guided_relu, autograph=False),
        tf.function(lambda x: gl.clip_gradient_by_norm(x, 1.0), autograph=False),
    ],
    ids=["rule", "rectifier", "clip"],
)
def test_forward_mode_of_an_inner_function_raises_even_where_reverse_mode_came_before(
    f, place, built_before
):
    x = tf.constant([1.0, -2.0, 3.0])

    def gradient():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    def tangent():
        if built_before:
            gradient()
        with tf.autodiff.ForwardAccumulator(x, -x) as accumulator:
            y = f(x)
        return accumulator.jvp(y)

    run = tangent if place == "eager" else tf.function(tangent, autograph=False)
    with pytest.raises(NotImplementedError, match="has no forward mode"):
        run()
