"""The layers in models that train, save and change, each against its oracle in NumPy.

One model holds a branch for each case, ``x → Dense → layer → Dense``, and a loss for each: what is
compiled, saved and loaded once tests them all, and the branches share nothing.
"""

import functools
import inspect
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradlab as gl
from gradlab.layers import registering
from gradlab.ops import arguments

RATE = 0.5


@dataclass(frozen=True)
class Case:
    """A layer, and what it does forward and back in NumPy, its numbers by name."""

    make: Callable
    rule: Callable  # rule(h, g, **numbers)
    forward: Callable = lambda h: h
    numbers: dict = field(default_factory=dict)
    later: dict = field(default_factory=dict)  # what a schedule makes of them


def norm(g, axis=None):
    return np.sqrt(np.sum(g * g, axis=axis, keepdims=True))


def shortened(axis):
    return lambda h, g, clip_norm: g * np.minimum(1, clip_norm / norm(g, axis))


@keras.saving.register_keras_serializable("test_layers")
def halved(x, g):
    return g * np.cos(x) / 2


CASES = {
    "scale": Case(
        lambda: gl.layers.ScaleGradient(-2.5),
        lambda h, g, scale: scale * g,
        numbers={"scale": -2.5},
        later={"scale": 0.25},
    ),
    "reverse": Case(
        lambda: gl.layers.ReverseGradient(0.5),
        lambda h, g, scale: -scale * g,
        numbers={"scale": 0.5},
        later={"scale": 2.0},
    ),
    "norm": Case(
        lambda: gl.layers.ClipGradient(clip_norm=0.125),
        shortened(None),
        numbers={"clip_norm": 0.125},
        later={"clip_norm": 0.03125},
    ),
    "norm_of_each": Case(
        lambda: gl.layers.ClipGradient(clip_norm=0.125, norm_over="example"),
        shortened(1),
        numbers={"clip_norm": 0.125},
        later={"clip_norm": 0.03125},
    ),
    "value": Case(
        lambda: gl.layers.ClipGradient(clip_value_min=-0.0625, clip_value_max=0.03125),
        lambda h, g, clip_value_min, clip_value_max: np.clip(g, clip_value_min, clip_value_max),
        numbers={"clip_value_min": -0.0625, "clip_value_max": 0.03125},
        later={"clip_value_min": -0.5, "clip_value_max": 0.0},
    ),
    "through": Case(
        lambda: gl.layers.StraightThrough(tf.round),
        lambda h, g: g,
        forward=np.round,
    ),
    "spike": Case(
        lambda: gl.layers.Spike(gl.Triangular(alpha=0.5)),
        lambda h, g, alpha: g * alpha * np.maximum(0, 1 - alpha * np.abs(h)),
        forward=lambda h: np.where(h >= 0, 1.0, 0.0),
        numbers={"alpha": 0.5},
        later={"alpha": 0.25},
    ),
    "numpy": Case(
        lambda: gl.layers.NumpyOp(np.sin, halved),
        lambda h, g: g * np.cos(h) / 2,
        forward=np.sin,
    ),
}
COMPILED = [name for name in CASES if name != "numpy"]

every_case = pytest.mark.parametrize("name", CASES)

_RNG = np.random.default_rng(3)
X, Y = (_RNG.normal(size=size).astype(np.float32) for size in ((6, 3), (6, 1)))
WEIGHTS = {
    name: [_RNG.normal(size=size).astype(np.float32) for size in ((3, 2), (2, 1))] for name in CASES
}


def branches(names, policy="float32"):
    """A model with a branch for each case, its layers, and the weights of each in its place."""
    x, layers, outputs = keras.Input([3]), {}, []
    for name in names:
        layers[name] = CASES[name].make()
        layers[name].dtype_policy = policy
        before, after = (
            keras.layers.Dense(n, use_bias=False, dtype=policy, name=f"{where}_{name}")
            for n, where in ((2, "before"), (1, "after"))
        )
        outputs.append(after(layers[name](before(x))))
        before.kernel.assign(WEIGHTS[name][0])
        after.kernel.assign(WEIGHTS[name][1])
    return keras.Model(x, outputs), layers


def compiled(model, **options):
    n = len(model.outputs)
    model.compile(keras.optimizers.SGD(RATE), ["mse"] * n, auto_scale_loss=False, **options)
    return model


def train(model, n, **options):
    model.fit(X, [Y] * n, batch_size=len(X), shuffle=False, verbose=0, **options)


def stepped(name, weights, **numbers):
    """The weights of a branch after one step of gradient descent."""
    case, (w, v) = CASES[name], (a.astype(np.float64) for a in weights)
    h = X @ w
    z = case.forward(h)
    g_out = 2 * (z @ v - Y) / len(Y)
    g_h = case.rule(h, g_out @ v.T, **(numbers or case.numbers))
    return [w - RATE * X.T @ g_h, v - RATE * z.T @ g_out]


def agree(model, names, wanted, tolerance=1e-5):
    for name in names:
        for where, other in zip(("before", "after"), wanted[name], strict=True):
            got = model.get_layer(f"{where}_{name}").kernel.numpy()
            np.testing.assert_allclose(got, other, tolerance, tolerance, err_msg=name)


def test_no_layer_is_left_out():
    public = {
        name
        for name, value in vars(gl.layers).items()
        if inspect.isclass(value) and issubclass(value, keras.layers.Layer)
    }
    assert public == set(gl.layers.__all__) == {type(c.make()).__name__ for c in CASES.values()}
    for name in public:
        layer = getattr(gl.layers, name)
        assert keras.saving.get_registered_name(layer) == f"gradlab>{name}"


@pytest.mark.parametrize(("names", "jit"), [(list(CASES), False), (COMPILED, True)])
def test_a_training_step(names, jit):
    model = compiled(branches(names)[0], jit_compile=jit)
    assert model.jit_compile is jit
    train(model, len(names))
    agree(model, names, {name: stepped(name, WEIGHTS[name]) for name in names})


def test_the_steps_differ_from_those_without_the_layer():
    # Else the test above could pass with a layer that does nothing.
    @dataclass(frozen=True)
    class Plain:
        forward: Callable
        rule: Callable = staticmethod(lambda h, g: g)
        numbers: dict = field(default_factory=dict)

    for name, case in CASES.items():
        w, _ = stepped(name, WEIGHTS[name])
        h = X @ WEIGHTS[name][0].astype(np.float64)
        g = 2 * (case.forward(h) @ WEIGHTS[name][1] - Y) / len(Y) @ WEIGHTS[name][1].T
        plain = WEIGHTS[name][0] - RATE * X.T @ g
        assert name == "through" or np.abs(w - plain).max() > 1e-2


def test_mixed_precision():
    model, layers = branches(CASES, "mixed_float16")
    train(compiled(model, jit_compile=False), len(CASES))
    exact = {name: stepped(name, WEIGHTS[name]) for name in CASES}
    agree(model, CASES, exact, tolerance=1e-2)
    for layer in layers.values():
        assert layer(tf.constant(X)).dtype == tf.float16
        assert {v.dtype for v in layer.variables} <= {"float32"}


def variables_of(layer, names):
    parameters = getattr(layer, "parameters", {})
    return {name: parameters.get(name, getattr(layer, name, None)) for name in names}


def test_a_schedule_changes_numbers_in_fit_and_nothing_is_traced_again():
    names = [name for name, case in CASES.items() if case.later]
    model, layers = branches(names)
    traces = []

    def counted(x):
        traces.append(x)
        return x

    counting = keras.Model(
        model.inputs, [gl.layers.StraightThrough(counted)(y) for y in model.outputs]
    )
    traces.clear()

    def change(epoch, logs):
        if epoch == 1:
            traced.extend(traces)
            for name in names:
                for number, variable in variables_of(layers[name], CASES[name].later).items():
                    variable.assign(CASES[name].later[number])

    traced = []
    schedule = keras.callbacks.LambdaCallback(on_epoch_begin=change)
    train(compiled(counting, jit_compile=False), len(names), epochs=2, callbacks=[schedule])
    assert len(traces) == len(traced) > 0
    wanted = {
        name: stepped(name, stepped(name, WEIGHTS[name]), **CASES[name].later) for name in names
    }
    agree(counting, names, wanted)


def test_setting_a_number_assigns_it():
    layer = gl.layers.ReverseGradient(1.0)
    variable = layer.scale
    layer.scale = 0.25
    assert layer.scale is variable
    assert variable.numpy() == 0.25
    assert layer.get_config()["scale"] == 1.0
    assert layer.non_trainable_variables == [variable]


_LOADER = """
    import sys
    import numpy as np, tensorflow as tf

    folder = sys.argv[1]
    data = np.load(folder + "/data.npz")
    exported = tf.saved_model.load(folder + "/exported")
    x = tf.constant(data["x"])
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.add_n([tf.reduce_sum(y) for y in exported.serve(x)])
    got = {"served": total, "slope": tape.gradient(total, x)}
    assert not any(name.startswith("gradlab") for name in sys.modules)

    import keras
    before = set(sys.modules)
    import gradlab.layers
    assert not {"matplotlib", "ipywidgets", "anywidget", "IPython"} & (set(sys.modules) - before)

    @keras.saving.register_keras_serializable("test_layers")
    def halved(x, g):
        return g * np.cos(x) / 2

    model = keras.models.load_model(folder + "/model.keras")
    scale = [l for l in model.layers if type(l).__name__ == "ScaleGradient"][0].scale.numpy()
    ys = [data["y"]] * len(model.outputs)
    model.fit(data["x"], ys, batch_size=len(data["x"]), shuffle=False, verbose=0)
    got |= {l.name: l.kernel.numpy() for l in model.layers if isinstance(l, keras.layers.Dense)}
    np.savez(folder + "/got.npz", scale=scale, **got)
"""


def test_saved_exported_and_loaded_in_a_fresh_process(tmp_path):
    model, layers = branches(CASES)
    layers["scale"].scale = 4.0  # where a schedule left it
    compiled(model, jit_compile=False).save(tmp_path / "model.keras")
    exportable, _ = branches(COMPILED)
    exportable.export(tmp_path / "exported", verbose=False)
    np.savez(tmp_path / "data.npz", x=X, y=Y)
    command = [sys.executable, "-c", textwrap.dedent(_LOADER), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    got = np.load(tmp_path / "got.npz")
    assert got["scale"] == 4.0
    for name in CASES:
        wanted = stepped(name, WEIGHTS[name], **({"scale": 4.0} if name == "scale" else {}))
        for where, other in zip(("before", "after"), wanted, strict=True):
            np.testing.assert_allclose(got[f"{where}_{name}"], other, 1e-5, 1e-5, err_msg=name)
    total, slope = 0.0, np.zeros(X.shape)
    for name in COMPILED:
        w, v = WEIGHTS[name]
        total += np.sum(CASES[name].forward(X @ w) @ v)
        g = np.ones([len(X), 1]) @ v.T
        slope += CASES[name].rule(X @ w, g, **CASES[name].numbers) @ w.T
    np.testing.assert_allclose(got["served"], total, rtol=1e-5)
    np.testing.assert_allclose(got["slope"], slope, rtol=1e-5, atol=1e-5)


def differentiated(layer, x, g):
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
    return y.numpy(), tape.gradient(y, x, output_gradients=tf.cast(g, y.dtype)).numpy()


@every_case
def test_configs_survive_json(name):
    case, layer = CASES[name], CASES[name].make()
    config = json.loads(json.dumps(keras.layers.serialize(layer)))
    again = keras.layers.deserialize(config)
    assert again.get_config() == layer.get_config()
    x, g = X[:, :2], X[:, 1:]
    y, gradient = differentiated(again, x, g)
    np.testing.assert_allclose(y, case.forward(x), rtol=1e-6)
    np.testing.assert_allclose(gradient, case.rule(x, g, **case.numbers), rtol=1e-5, atol=1e-7)


@every_case
def test_sequential_and_symbolic(name):
    layer = CASES[name].make()
    model = keras.Sequential([layer])
    np.testing.assert_allclose(model(X), CASES[name].forward(X), rtol=1e-6)
    for shape in ([3], [None, 2]):
        y = layer(keras.Input(shape))
        assert y.shape == (None, *shape)
        assert y.dtype == "float32"
        assert layer.compute_output_shape((None, *shape)) == (None, *shape)
    assert layer(keras.Input([3], dtype="float64")).dtype == "float32"
    wide = type(layer).from_config({**layer.get_config(), "dtype": "float64"})
    assert wide(keras.Input([3])).dtype == "float64"
    y, _ = differentiated(wide, X.astype(np.float64), X)
    assert y.dtype == np.float64


@every_case
def test_masks_pass(name):
    embedded = keras.layers.Embedding(4, 2, mask_zero=True)(np.array([[1, 2, 0]]))
    y = CASES[name].make()(embedded)
    assert keras.src.backend.get_keras_mask(y).numpy().tolist() == [[True, True, False]]


def test_complex_numbers_pass():
    layer, x, g = gl.layers.ScaleGradient(2.0), np.complex64([1 + 2j]), np.complex64([3j])
    y, gradient = differentiated(layer, x, g)
    assert (y.tolist(), gradient.tolist()) == ([1 + 2j], [6j])
    assert layer(keras.Input([2], dtype="complex64")).dtype == "complex64"


def test_one_sided_bounds_and_the_norm_of_scalars():
    clip = gl.layers.ClipGradient(clip_value_max=1.0)
    assert differentiated(clip, np.zeros(2, "f"), [-9.0, 9.0])[1].tolist() == [-9.0, 1.0]
    assert clip.get_config()["clip_value_min"] is None
    each = gl.layers.ClipGradient(clip_norm=1.0, norm_over="example")
    assert differentiated(each, np.zeros(2, "f"), [-9.0, 0.5])[1].tolist() == [-1.0, 0.5]
    with pytest.raises(
        ValueError, match=r"x must have a first axis.*shape \(\).*norm_over='batch'"
    ):
        each(tf.constant(1.0))


# Functions and surrogates that a layer is saved with.


@keras.saving.register_keras_serializable("test_layers")
def scaled_round(x, step=1.0):
    return tf.round(x / step) * step


@keras.saving.register_keras_serializable("test_layers")
class Rounder:
    def __call__(self, x):
        return tf.round(x)

    def get_config(self):
        return {}

    @classmethod
    def from_config(cls, config):
        return cls()


@pytest.mark.parametrize(
    ("forward", "oracle"),
    [
        (tf.floor, np.floor),
        (keras.ops.round, np.round),
        (gl.sign_ste, lambda x: np.where(x >= 0, 1, -1)),
        (scaled_round, np.round),
        (functools.partial(scaled_round, step=0.5), lambda x: np.round(2 * x) / 2),
        (Rounder(), np.round),
    ],
)
def test_functions_are_found_again(forward, oracle):
    layer = gl.layers.StraightThrough(forward)
    config = json.loads(json.dumps(keras.layers.serialize(layer)))
    y, gradient = differentiated(keras.layers.deserialize(config), X, X)
    np.testing.assert_allclose(y, oracle(X), rtol=1e-6)
    np.testing.assert_array_equal(gradient, X)


def unregistered(x):
    return x


@dataclass(frozen=True)
class Mine(gl.Surrogate):
    alpha: float = 2.0

    def derivative(self, x):
        return self.alpha * tf.ones_like(x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gl.layers.StraightThrough(unregistered), "StraightThrough: forward .*unregist"),
        (lambda: gl.layers.StraightThrough(lambda x: x), "StraightThrough: forward .*lambda"),
        (lambda: gl.layers.StraightThrough(tf.identity), "StraightThrough: forward .*identity"),
        (
            lambda: gl.layers.StraightThrough(functools.partial(unregistered)),
            "StraightThrough: forward",
        ),
        (lambda: gl.layers.NumpyOp(np.sin, lambda x, g: g), "NumpyOp: gradient .*lambda"),
        (lambda: gl.layers.NumpyOp(np.nan_to_num, halved), "NumpyOp: forward .*nan_to_num"),
        (
            lambda: gl.layers.NumpyOp(np.sin, halved, output_shape=lambda x: x),
            "NumpyOp: output_shape .*lambda",
        ),
        (lambda: gl.layers.Spike(Mine()), r"Spike: surrogate .*Mine\(alpha=2.0\)"),
    ],
)
def test_what_is_not_registered_cannot_be_saved(make, message, tmp_path):
    model = keras.Sequential([keras.Input([3]), make()])
    with pytest.raises(ValueError, match=rf"{message}[\s\S]*register_keras_serializable"):
        model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")


def test_a_surrogate_of_ones_own_is_found_in_a_scope():
    layer = gl.layers.Spike(Mine(3.0))
    with keras.saving.custom_object_scope({"Mine": Mine, "unregistered": unregistered}):
        config = json.loads(json.dumps(keras.layers.serialize(layer)))
        again = keras.layers.deserialize(config)
        through = gl.layers.StraightThrough(unregistered).get_config()
        assert gl.layers.StraightThrough.from_config(through).forward is unregistered
    assert again.surrogate == Mine(3.0)
    with pytest.raises(ValueError, match="no function is registered as 'unregistered'.*custom_obj"):
        gl.layers.StraightThrough.from_config(through)


def test_a_name_from_a_file_finds_no_function_that_does_more_than_compute():
    config = gl.layers.NumpyOp(np.sin, halved).get_config()
    for forward in (
        {"library": "numpy", "name": "fromfile"},
        {"library": "os", "name": "remove"},
        {"library": "tf.math", "name": "no_such"},
    ):
        with pytest.raises(ValueError, match=f"{forward['library']} has no function"):
            gl.layers.NumpyOp.from_config({**config, "forward": forward})


def test_surrogates_and_activations_are_registered():
    own = {s for s in vars(gl.ops.surrogates).values() if inspect.isclass(s)} - {gl.Surrogate}
    assert set(registering.SURROGATES) == own
    for surrogate in own:
        again = keras.layers.deserialize(keras.layers.serialize(gl.layers.Spike(surrogate())))
        assert again.surrogate == surrogate()
    for op in registering.ACTIVATIONS:
        layer = keras.layers.Activation(op)
        assert keras.layers.deserialize(keras.layers.serialize(layer)).activation is op
    named = {op.__name__ for op in registering.ACTIVATIONS}
    assert named - {"reverse_gradient"} == arguments._ACTIVATIONS


# NumPy in a layer.


def test_several_inputs_outputs_and_masks():
    def both(x, y):
        return x + y, x * y

    def rule(x, y, g_sum, g_product):
        return g_sum + y * g_product, g_sum + x * g_product

    layer = gl.layers.NumpyOp(both, rule, output_dtype=["float32", "float64"])
    x, y = tf.Variable([[2.0, 3.0]]), tf.Variable([[5.0, 7.0]])
    with tf.GradientTape() as tape:
        outputs = layer([x, y])
        total = tf.reduce_sum(outputs[0]) + tf.cast(tf.reduce_sum(outputs[1]), tf.float32)
    assert [o.dtype for o in outputs] == [tf.float32, tf.float64]
    assert [g.numpy().tolist() for g in tape.gradient(total, [x, y])] == [[[6, 8]], [[3, 4]]]
    assert layer.compute_output_shape([(None, 2), (None, 2)]) == [(None, 2), (None, 2)]
    symbolic = layer([keras.Input([2]), keras.Input([2])])
    assert [s.dtype for s in symbolic] == ["float32", "float64"]
    embed = keras.layers.Embedding(3, 2, mask_zero=True)
    masked = layer([embed(np.array([[1, 0, 2]])), embed(np.array([[1, 1, 0]]))])
    for output in masked:
        assert keras.src.backend.get_keras_mask(output).numpy().tolist() == [[True, False, False]]


def test_an_output_of_another_shape():
    layer = gl.layers.NumpyOp(
        lambda x: x.sum(-1), lambda x, g: x * 0 + g[..., None], output_shape=lambda x: x[:-1]
    )
    assert layer(keras.Input([4, 3])).shape == (None, 4)
    assert layer.compute_output_shape((None, 4, 3)) == (None, 4)
    embedded = keras.layers.Embedding(4, 2, mask_zero=True)(np.array([[1, 0]]))
    assert keras.src.backend.get_keras_mask(layer(embedded)) is None
    model = keras.Sequential([keras.Input([4, 3]), layer, keras.layers.Dense(1)])
    assert model.predict(np.ones([2, 4, 3]), verbose=0).shape == (2, 1)


def test_numpy_can_be_neither_compiled_nor_exported(tmp_path):
    model, layers = branches(["numpy"])
    assert compiled(model, jit_compile="auto").jit_compile is False
    with pytest.warns(UserWarning, match="doesn't support `jit_compile=True`"):
        compiled(model, jit_compile=True)
    with pytest.raises(NotImplementedError, match="runs Python, which XLA can't compile"):
        tf.function(layers["numpy"], jit_compile=True)(tf.constant(X))
    with pytest.raises(ValueError, match="runs Python, which a SavedModel can't hold"):
        model.export(tmp_path / "exported", verbose=False)


# Bad input.

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda L: L.ScaleGradient(None), TypeError, "ScaleGradient: scale .*got None.*float"),
        (lambda L: L.ScaleGradient("2"), TypeError, "ScaleGradient: scale .*got '2'"),
        (lambda L: L.ScaleGradient(True), TypeError, "ScaleGradient: scale .*got a bool"),
        (lambda L: L.ScaleGradient(1j), TypeError, "ScaleGradient: scale .*real.*got a complex"),
        (lambda L: L.ScaleGradient([1.0]), TypeError, "ScaleGradient: scale .*got a list"),
        (lambda L: L.ScaleGradient(tf.constant(1.0)), TypeError, "scale .*got an EagerTensor"),
        (lambda L: L.ScaleGradient(NAN), ValueError, "ScaleGradient: scale .*got nan"),
        (lambda L: L.ScaleGradient(-INF), ValueError, "scale must be finite in float32, got -inf"),
        (lambda L: L.ReverseGradient(1e39), ValueError, "ReverseGradient: scale .*float32"),
        (lambda L: L.ReverseGradient(7e4, dtype="float16"), ValueError, "scale .*float16"),
        (lambda L: L.ClipGradient(), ValueError, "ClipGradient: give clip_norm, or .*got neither"),
        (lambda L: L.ClipGradient(clip_norm=1, clip_value_min=0), ValueError, "got both"),
        (lambda L: L.ClipGradient(clip_norm=-1), ValueError, "clip_norm must not be negative.*-1"),
        (lambda L: L.ClipGradient(clip_norm=NAN), ValueError, "clip_norm .*got nan"),
        (
            lambda L: L.ClipGradient(clip_value_min=2, clip_value_max=1),
            ValueError,
            "clip_value_min must not exceed clip_value_max, got 2 and 1. Swap",
        ),
        (lambda L: L.ClipGradient(clip_value_min="a"), TypeError, "clip_value_min .*got 'a'"),
        (
            lambda L: L.ClipGradient(clip_norm=1, norm_over="axis"),
            ValueError,
            "norm_over must be 'batch' or 'example', got 'axis'",
        ),
        (
            lambda L: L.ClipGradient(clip_value_max=1, norm_over="example"),
            ValueError,
            "norm_over='example' belongs to clip_norm",
        ),
        (lambda L: L.StraightThrough("round"), TypeError, "StraightThrough: forward .*'round'"),
        (lambda L: L.Spike(gl.ATan), TypeError, r"Spike: surrogate must be an instance.*ATan\(\)"),
        (lambda L: L.Spike("atan"), TypeError, "Spike: surrogate must be a Surrogate, got 'atan'"),
        (
            lambda L: L.Spike(gl.ATan(tf.constant([1.0, 2.0]))),
            TypeError,
            "Spike: alpha must be a real number, got an EagerTensor",
        ),
        (lambda L: L.NumpyOp(3, halved), TypeError, "forward must be a function"),
        (lambda L: L.NumpyOp(np.sin, None), TypeError, "gradient must be a function"),
        (lambda L: L.NumpyOp(np.sin, halved, rule="numba"), ValueError, "rule must be 'numpy'"),
        (lambda L: L.ScaleGradient(1.0, axis=2), ValueError, "Unrecognized keyword.*axis"),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make(gl.layers)


@pytest.mark.parametrize(
    ("make", "name", "value", "error", "message"),
    [
        (lambda L: L.ScaleGradient(1.0), "scale", INF, ValueError, "scale must be finite"),
        (lambda L: L.ScaleGradient(1.0), "scale", "x", TypeError, "scale must be a real number"),
        (lambda L: L.ClipGradient(clip_norm=1), "clip_norm", -1, ValueError, "not be negative"),
        (lambda L: L.ClipGradient(clip_norm=1), "clip_value_min", 0, ValueError, "can't be set"),
        (lambda L: L.ClipGradient(clip_value_min=1), "clip_norm", 0, ValueError, "can't be set"),
    ],
)
def test_bad_numbers_are_not_assigned(make, name, value, error, message):
    layer = make(gl.layers)
    before = [v.numpy() for v in layer.variables]
    with pytest.raises(error, match=message):
        setattr(layer, name, value)
    assert [v.numpy() for v in layer.variables] == before


@every_case
@pytest.mark.parametrize(
    ("x", "way_out"),
    [
        (lambda: keras.Input([2], dtype="int32"), "tf.cast"),
        (lambda: tf.constant([[1, 2]]), "tf.cast"),
        (lambda: [tf.ones([2, 2]), tf.ones([2, 2])], "For several tensors"),
    ],
)
def test_bad_inputs(name, x, way_out):
    if name == "numpy":  # takes integers, and a list is its inputs
        return
    with pytest.raises(TypeError, match=rf"x must [\s\S]*{way_out}"):
        CASES[name].make()(x())


# A Keras tensor given to an op.


def _identity_rule(x, g):
    return g


@gl.custom_gradient
def _custom(x):
    return x, lambda g: g


OPS = {
    "custom_gradient": (_custom, "keras.layers.Lambda"),
    "numpy_op": (gl.numpy_op(np.sin, _identity_rule), "NumpyOp"),
    "py_func": (lambda x: gl.py_func(np.sin, [x], tf.float32), "NumpyOp"),
    "scale_gradient": (lambda x: gl.scale_gradient(x, 1.0), "ScaleGradient"),
    "reverse_gradient": (gl.reverse_gradient, "ReverseGradient"),
    "mask_gradient": (lambda x: gl.mask_gradient(x, True), "keras.layers.Lambda"),
    "zero_nonfinite_gradient": (gl.zero_nonfinite_gradient, "keras.layers.Activation"),
    "record_gradient": (lambda x: gl.record_gradient(x, print), "keras.layers.Lambda"),
    "clip_gradient_by_value": (
        lambda x: gl.clip_gradient_by_value(x, -1.0, 1.0),
        "ClipGradient(clip_value_min",
    ),
    "clip_gradient_by_norm": (
        lambda x: gl.clip_gradient_by_norm(x, 1.0),
        "ClipGradient(clip_norm",
    ),
    "clip_gradients_by_global_norm": (
        lambda x: gl.clip_gradients_by_global_norm([x, x], 1.0),
        "keras.layers.Lambda(lambda t: clip_gradients_by_global_norm(t, ...))(xs)",
    ),
    "replace_gradient": (
        lambda x: gl.replace_gradient(x, tf.round, tf.tanh),
        "keras.layers.Lambda",
    ),
    "stop_gradient_trick": (
        lambda x: gl.stop_gradient_trick(x, tf.round, tf.tanh),
        "keras.layers.Lambda",
    ),
    "straight_through": (lambda x: gl.straight_through(x, tf.round), "StraightThrough"),
    "clip_by_value_preserve_gradient": (
        lambda x: gl.clip_by_value_preserve_gradient(x, -1.0, 1.0),
        "keras.layers.Lambda",
    ),
    "spike": (lambda x: gl.spike(x, gl.ATan()), "Spike"),
    **{
        name: (getattr(gl, name), f"keras.layers.Activation(gradlab.{name})(x)")
        for name in (
            "approx_sign",
            "deconv_relu",
            "guided_relu",
            "heaviside_ste",
            "quantize_ste",
            "redirected_relu",
            "round_ste",
            "sign_ste",
            "swish_sign",
            "ternary_ste",
        )
    },
}


def test_every_op_is_given_a_keras_tensor():
    ops = {
        name
        for room, names in gl._ROOMS.items()
        if room.startswith("gradlab.ops")
        for name in names
        if not inspect.isclass(getattr(gl, name)) and not name.endswith("_rule")
    }
    # These make functions, whose tensors TensorFlow itself refuses.
    assert ops - {"register_gradient", "override_gradient"} == set(OPS)


@pytest.mark.parametrize("name", OPS)
def test_a_keras_tensor_names_the_layer(name):
    op, layer = OPS[name]
    wanted = layer if layer.startswith("keras.") else f"gradlab.layers.{layer}"
    with pytest.raises(TypeError) as raised:
        op(keras.Input([2]))
    assert wanted in str(raised.value)
    if wanted.startswith("gradlab"):
        assert layer.split("(")[0] in gl.layers.__all__


def test_a_keras_tensor_as_a_parameter_goes_into_a_lambda():
    with pytest.raises(TypeError, match=r"lambda t: scale_gradient\(\.\.\., scale=t\)\)\(scale\)"):
        gl.scale_gradient(tf.ones([2]), keras.Input([2]))
