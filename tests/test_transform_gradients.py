"""A function of gradients inside Keras optimizers, against steps taken in NumPy."""

import functools
import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradlab as gl
from gradlab.optimizing import TransformedLossScaleOptimizer, TransformedOptimizer

HERE = pathlib.Path(__file__).parent
CLIP = functools.partial(gl.clip_by_global_norm, clip_norm=1.0)
GRADIENTS = [np.array([[3.0, 0.0], [0.0, 4.0]]), np.array([12.0, -0.5])]


@keras.saving.register_keras_serializable("tests")
def halved(gradients):
    return [g / 2 for g in gradients]


@keras.saving.register_keras_serializable("tests")
class Times:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, gradients):
        return [g * self.factor for g in gradients]

    def get_config(self):
        return {"factor": self.factor}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def clipped(gradients, bound=1.0):
    norm = np.sqrt(sum(np.sum(g**2) for g in gradients))
    return [g * min(1, bound / norm) for g in gradients]


class Adam:
    """Adam as its paper has it, in double precision."""

    def __init__(self, weights, rate=0.1, beta=0.9, gamma=0.999, eps=1e-7):
        self.weights, self.rate, self.beta, self.gamma, self.eps = weights, rate, beta, gamma, eps
        self.m = [np.zeros_like(w) for w in weights]
        self.v = [np.zeros_like(w) for w in weights]
        self.t = 0

    def step(self, gradients):
        self.t += 1
        size = self.rate * np.sqrt(1 - self.gamma**self.t) / (1 - self.beta**self.t)
        for i, g in enumerate(gradients):
            self.m[i] = self.beta * self.m[i] + (1 - self.beta) * g
            self.v[i] = self.gamma * self.v[i] + (1 - self.gamma) * g**2
            self.weights[i] = self.weights[i] - size * self.m[i] / (np.sqrt(self.v[i]) + self.eps)


def started():
    return [np.ones((2, 2)), np.zeros(2)]


def variables():
    return [tf.Variable(w, dtype=tf.float32) for w in started()]


def tensors(gradients):
    return [tf.constant(g, tf.float32) for g in gradients]


def agree(ours, oracle, rtol=1e-5):
    for one, other in zip(ours, oracle, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=rtol, atol=1e-6)


def steps(count=4):
    return [[g * (1 + i) * (-1) ** i for g in GRADIENTS] for i in range(count)]


def in_steps(optimizer, weights, function=True):
    def step(*gradients):
        optimizer.apply(list(gradients), weights)

    return tf.function(step) if function else step


# A step


@pytest.mark.parametrize("function", [False, True])
def test_adam(function):
    weights, oracle = variables(), Adam(started())
    optimizer = gl.transform_gradients(keras.optimizers.Adam(0.1), CLIP)
    optimizer.build(weights)
    step = in_steps(optimizer, weights, function)
    for gradients in steps():
        step(*tensors(gradients))
        oracle.step(clipped(gradients))
    agree(weights, oracle.weights)
    assert int(optimizer.iterations) == 4


def test_apply_gradients_leaves_out_what_has_none():
    weights = variables()
    optimizer = gl.transform_gradients(keras.optimizers.SGD(1.0), CLIP)
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        done = optimizer.apply_gradients(zip([tensors(GRADIENTS)[0], None], weights, strict=True))
    agree(weights, [started()[0] - GRADIENTS[0] / 5, started()[1]])
    assert int(done) == 1


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "AdamW", "RMSprop", "Lion", "Ftrl", "Nadam"])
def test_any_optimizer_steps_as_if_the_gradients_had_been_clipped(name):
    make = getattr(keras.optimizers, name)
    ours, theirs = variables(), variables()
    transformed = gl.transform_gradients(make(learning_rate=0.1), CLIP)
    plain = make(learning_rate=0.1)
    for gradients in steps(3):
        transformed.apply(tensors(gradients), ours)
        plain.apply(tensors(clipped(gradients)), theirs)
    agree(ours, theirs)
    assert not np.allclose(ours[0], started()[0])


def test_the_optimizer_given_transforms_nothing_by_itself():
    weights, optimizer = variables(), keras.optimizers.SGD(1.0)
    transformed = gl.transform_gradients(optimizer, CLIP)
    transformed.apply(tensors(GRADIENTS), weights)
    optimizer.apply(tensors(GRADIENTS), weights)
    steps = zip(started(), clipped(GRADIENTS), GRADIENTS, strict=True)
    agree(weights, [w - c - g for w, c, g in steps])
    assert "_all_reduce_sum_gradients" not in vars(optimizer)


def test_state_is_shared_with_the_optimizer_given():
    optimizer = keras.optimizers.SGD(1.0, momentum=0.9)
    weights = variables()
    optimizer.apply(tensors(GRADIENTS), weights)
    transformed = gl.transform_gradients(optimizer, CLIP)
    assert transformed.built
    assert int(transformed.iterations) == 1
    assert transformed.momentum == 0.9
    transformed.learning_rate = 0.25
    assert float(optimizer.learning_rate) == 0.25
    transformed.apply(tensors(GRADIENTS))
    velocity = [-0.9 * g - 0.25 * c for g, c in zip(GRADIENTS, clipped(GRADIENTS), strict=True)]
    agree(weights, [w - g + v for w, g, v in zip(started(), GRADIENTS, velocity, strict=True)])
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = transformed.nothing_like_it


def test_an_exception_unhooks():
    def fails(gradients):
        raise ZeroDivisionError

    optimizer, weights = keras.optimizers.SGD(1.0), variables()
    with pytest.raises(ZeroDivisionError):
        gl.transform_gradients(optimizer, fails).apply(tensors(GRADIENTS), weights)
    assert "_all_reduce_sum_gradients" not in vars(optimizer)
    optimizer.apply(tensors(GRADIENTS), weights)
    agree(weights, [w - g for w, g in zip(started(), GRADIENTS, strict=True)])


def test_transforms_nest_from_the_outside_in():
    seen = []

    def noting(name):
        return lambda gradients: seen.append(name) or gradients

    inner = gl.transform_gradients(keras.optimizers.SGD(1.0), noting("inner"))
    gl.transform_gradients(inner, noting("outer")).apply(tensors(GRADIENTS), variables())
    assert seen == ["outer", "inner"]
    inner.apply(tensors(GRADIENTS), variables_of(inner))
    assert seen == ["outer", "inner", "inner"]


def variables_of(optimizer):
    return optimizer.inner_optimizer._trainable_variables


def test_variables_for_the_function():
    clip = functools.partial(gl.adaptive_clip, clipping=0.1)
    weights = variables()
    optimizer = gl.transform_gradients(keras.optimizers.SGD(1.0), clip, with_variables=True)
    optimizer.apply(tensors(GRADIENTS), weights)
    by_hand = gl.adaptive_clip(tensors(GRADIENTS), tensors(started()), 0.1)
    agree(weights, [w - g for w, g in zip(started(), map(np.asarray, by_hand), strict=True)])


def test_python_conditions_in_a_loop_of_ones_own():
    def flipped(gradients):
        if tf.reduce_sum(gradients[0]) > 0:
            return [-g for g in gradients]
        return gradients

    weights = variables()
    optimizer = gl.transform_gradients(keras.optimizers.SGD(1.0), flipped)
    optimizer.build(weights)
    in_steps(optimizer, weights)(*tensors(GRADIENTS))
    agree(weights, [w + g for w, g in zip(started(), GRADIENTS, strict=True)])


def test_slices_reach_the_function_and_the_step():
    table = tf.Variable(tf.ones((4, 2)))
    sparse = tf.IndexedSlices(
        tf.constant([[1.0, 2.0], [2.0, 2.0]]), tf.constant([2, 2]), tf.constant([4, 2])
    )
    kinds = []

    def clip(gradients):
        kinds.append(type(gradients[0]))
        return gl.clip_by_global_norm(gradients, 1.0)

    optimizer = gl.transform_gradients(keras.optimizers.SGD(1.0), clip)
    optimizer.apply([sparse], [table])
    assert kinds == [tf.IndexedSlices]
    agree([table], [np.array([[1, 1], [1, 1], [0.4, 0.2], [1, 1]])])


# Accumulation, loss scaling, averages


@pytest.mark.parametrize("function", [False, True])
def test_accumulated_gradients_are_clipped_once(function):
    weights, oracle = variables(), Adam(started())
    inner = keras.optimizers.Adam(0.1, gradient_accumulation_steps=2)
    optimizer = gl.transform_gradients(inner, CLIP)
    optimizer.build(weights)
    step = in_steps(optimizer, weights, function)
    for first, second in [steps()[:2], steps()[2:]]:
        step(*tensors(first))
        step(*tensors(second))
        oracle.step(clipped([(a + b) / 2 for a, b in zip(first, second, strict=True)]))
    agree(weights, oracle.weights)


def scaling_inside(optimizer):
    return gl.transform_gradients(keras.optimizers.LossScaleOptimizer(optimizer, 1024.0), CLIP)


def scaling_outside(optimizer):
    return keras.optimizers.LossScaleOptimizer(gl.transform_gradients(optimizer, CLIP), 1024.0)


@pytest.mark.parametrize("function", [False, True])
@pytest.mark.parametrize("make", [scaling_inside, scaling_outside])
def test_loss_scaling_in_either_order(make, function):
    weights, oracle = variables(), Adam(started())
    optimizer = make(keras.optimizers.Adam(0.1))
    optimizer.build(weights)
    assert float(optimizer.scale_loss(1.0)) == 1024.0
    step = in_steps(optimizer, weights, function)
    for gradients in steps():
        step(*tensors([g * 1024 for g in gradients]))
        oracle.step(clipped(gradients))
    agree(weights, oracle.weights)
    step(*tensors([np.full_like(g, np.inf) for g in GRADIENTS]))
    agree(weights, oracle.weights)
    assert float(optimizer.dynamic_scale) == 512.0


def test_a_fixed_loss_scale():
    weights = variables()
    inner = keras.optimizers.SGD(1.0, loss_scale_factor=8.0)
    optimizer = gl.transform_gradients(inner, CLIP)
    assert optimizer.scale_loss(1.0) == optimizer.loss_scale_factor == 8.0
    optimizer.apply(tensors([8 * g for g in GRADIENTS]), weights)
    agree(weights, [w - g for w, g in zip(started(), clipped(GRADIENTS), strict=True)])


def test_averages_of_weights_are_put_in_place():
    weights = variables()
    optimizer = gl.transform_gradients(keras.optimizers.SGD(1.0, use_ema=True), halved)
    optimizer.apply(tensors(GRADIENTS), weights)
    optimizer.apply(tensors(GRADIENTS), weights)
    first = [w - g / 2 for w, g in zip(started(), GRADIENTS, strict=True)]
    second = [w - g / 2 for w, g in zip(first, GRADIENTS, strict=True)]
    optimizer.finalize_variable_values(weights)
    agree(weights, [0.99 * a + 0.01 * b for a, b in zip(first, second, strict=True)])


def test_weight_decay_is_not_transformed():
    weights = variables()
    inner = keras.optimizers.SGD(1.0, weight_decay=0.5)
    optimizer = gl.transform_gradients(inner, halved)
    optimizer.exclude_from_weight_decay(var_list=weights[1:])
    optimizer.apply(tensors(GRADIENTS), weights)
    agree(weights, [started()[0] / 2 - GRADIENTS[0] / 2, started()[1] - GRADIENTS[1] / 2])


# fit


def model_and_data(policy="float32"):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(1, dtype=policy)(inputs)
    rng = np.random.default_rng(0)
    return keras.Model(inputs, outputs), rng.normal(size=(8, 3)), 100 * rng.normal(size=(8, 1))


def slope_of(kernel, bias, x, y):
    error = x @ kernel + bias - y
    return [2 * x.T @ error / len(x), 2 * error.mean(0)]


@pytest.mark.parametrize("jit", [False, True])
def test_fit(jit):
    model, x, y = model_and_data()
    oracle = Adam([w.astype(np.float64) for w in model.get_weights()])
    optimizer = gl.transform_gradients(keras.optimizers.Adam(0.1), CLIP)
    model.compile(optimizer, "mse", jit_compile=jit)
    model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0)
    for _ in range(3):
        oracle.step(clipped(slope_of(*oracle.weights, x, y)))
    agree(model.get_weights(), oracle.weights, rtol=1e-4)


def test_fit_says_that_xla_cannot_raise():
    model, x, y = model_and_data()
    clip = functools.partial(gl.clip_by_norm, clip_norm=1.0, nonfinite="raise")
    model.compile(gl.transform_gradients(keras.optimizers.SGD(), clip), "mse", jit_compile=True)
    with pytest.raises(NotImplementedError, match=r"model\.compile\(…, jit_compile=False\)"):
        model.fit(x, y, verbose=0)


def test_mixed_precision_scales_the_loss_once():
    for scaled in (False, True):
        model, x, y = model_and_data("mixed_float16")
        y = y / 100  # so that what is scaled stays in the range of float16
        model.dtype_policy = keras.DTypePolicy("mixed_float16")
        start = model.get_weights()
        inner = keras.optimizers.SGD(1.0)
        inner = keras.optimizers.LossScaleOptimizer(inner, 64.0) if scaled else inner
        model.compile(gl.transform_gradients(inner, CLIP), "mse", jit_compile=False)
        assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
        assert isinstance(model.optimizer, TransformedOptimizer) is False
        assert isinstance(model.optimizer, TransformedLossScaleOptimizer) is scaled
        model.fit(x, y, batch_size=8, verbose=0)
        moved = [b - a for a, b in zip(start, model.get_weights(), strict=True)]
        oracle = clipped(slope_of(*start, x, y))
        agree(moved, [-g for g in oracle], rtol=5e-3)


# Bad input


@pytest.mark.parametrize(
    ("optimizer", "fn", "options", "message"),
    [
        ("adam", CLIP, {}, "must be a Keras optimizer, got 'adam'. By name: keras.optim"),
        (None, CLIP, {}, "must be a Keras optimizer, got None"),
        (keras.optimizers.SGD, None, {}, "fn must be callable, got None"),
        (keras.optimizers.SGD, gl.clip_by_norm, {}, "Bind the rest with functools.partial"),
        (keras.optimizers.SGD, gl.adaptive_clip, {}, "pass with_variables=True"),
        (keras.optimizers.SGD, halved, {"with_variables": True}, "pass with_variables=False"),
    ],
)
def test_bad_arguments(optimizer, fn, options, message):
    optimizer = optimizer() if callable(optimizer) else optimizer
    with pytest.raises(TypeError, match=message):
        gl.transform_gradients(optimizer, fn, **options)


def test_several_optimizers_in_one():
    many = keras.optimizers.MultiOptimizer(keras.optimizers.OptimizerMap(keras.optimizers.SGD()))
    with pytest.raises(TypeError, match="got a MultiOptimizer.*Transform each of them"):
        gl.transform_gradients(many, CLIP)


@pytest.mark.parametrize(
    ("fn", "error", "message"),
    [
        (lambda gs: None, TypeError, "must return a list of gradients, got None"),
        (lambda gs: gs[0], TypeError, r"got float32 of shape \(2, 2\)"),
        (lambda gs: gs[:1], ValueError, "one gradient for each of 2, got 1"),
        (lambda gs: [None, gs[1]], TypeError, "got None at 0. To hold a variable still, return z"),
        (lambda gs: [gs[1], gs[0]], ValueError, r"got float32 of shape \(2,\) at 0 for float32"),
        (lambda gs: [tf.cast(g, "float64") for g in gs], ValueError, "got float64 of shape"),
    ],
)
def test_bad_results(fn, error, message):
    optimizer = gl.transform_gradients(keras.optimizers.SGD(), fn)
    with pytest.raises(error, match=message):
        optimizer.apply(tensors(GRADIENTS), variables())


# Saving


def saved_and_loaded(optimizer):
    config = json.loads(json.dumps(keras.optimizers.serialize(optimizer)))
    return keras.optimizers.deserialize(config)


@pytest.mark.parametrize(
    ("fn", "oracle"),
    [
        (CLIP, clipped(GRADIENTS)),
        (halved, [g / 2 for g in GRADIENTS]),
        (Times(3.0), [3 * g for g in GRADIENTS]),
        (functools.partial(gl.clip_by_value, clip_value_min=tf.constant(-1.0), clip_value_max=2),
         [np.clip(g, -1, 2) for g in GRADIENTS]),
        (functools.partial(functools.partial(gl.clip_by_norm), clip_norm=1.0),
         [clipped([g])[0] for g in GRADIENTS]),
    ],
)  # fmt: skip
def test_configs_survive_json(fn, oracle):
    optimizer = saved_and_loaded(gl.transform_gradients(keras.optimizers.SGD(1.0), fn, name="mine"))
    assert optimizer.name == "mine"
    weights = variables()
    optimizer.apply(tensors(GRADIENTS), weights)
    agree(weights, [w - g for w, g in zip(started(), oracle, strict=True)])


@pytest.mark.parametrize("make", [scaling_inside, scaling_outside])
def test_configs_of_scaled_ones_survive_json(make):
    made = make(keras.optimizers.SGD(0.5))
    optimizer = saved_and_loaded(made)
    assert type(optimizer) is type(made)
    weights = variables()
    optimizer.apply(tensors([1024 * g for g in GRADIENTS]), weights)
    agree(weights, [w - g / 2 for w, g in zip(started(), clipped(GRADIENTS), strict=True)])


def plain(gradients):
    return gradients


@pytest.mark.parametrize(
    "fn", [plain, lambda gradients: gradients, functools.partial(plain), print, {}.get]
)
def test_what_is_not_registered_cannot_be_saved(fn, tmp_path):
    model, x, y = model_and_data()
    model.compile(gl.transform_gradients(keras.optimizers.SGD(), fn), "mse")
    with pytest.raises(ValueError, match="fn must be registered to be saved, got .*Write @keras"):
        model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")


LOAD = """
import sys, numpy as np, keras, gradlab.optimizing
model = keras.models.load_model(sys.argv[1])
data = np.load(sys.argv[2])
model.fit(data["x"], data["y"], batch_size=8, epochs=2, shuffle=False, verbose=0)
np.savez(sys.argv[3], *model.get_weights(), steps=int(model.optimizer.iterations))
"""


def test_a_saved_model_goes_on_in_a_fresh_process(tmp_path):
    model, x, y = model_and_data()
    oracle = Adam([w.astype(np.float64) for w in model.get_weights()])
    optimizer = gl.transform_gradients(keras.optimizers.Adam(0.1), CLIP)
    model.compile(optimizer, "mse", jit_compile=False)
    model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "data.npz", x=x, y=y)
    files = [str(tmp_path / name) for name in ("model.keras", "data.npz", "weights.npz")]
    subprocess.run([sys.executable, "-c", LOAD, *files], check=True, timeout=300, env=quiet())
    for _ in range(4):
        oracle.step(clipped(slope_of(*oracle.weights, x, y)))
    found = np.load(files[2])
    agree([found["arr_0"], found["arr_1"]], oracle.weights, rtol=1e-4)
    assert found["steps"] == 4


def test_checkpoints_keep_the_state(tmp_path):
    weights = variables()
    optimizer = gl.transform_gradients(keras.optimizers.Adam(0.1), CLIP)
    optimizer.apply(tensors(GRADIENTS), weights)
    path = tf.train.Checkpoint(optimizer=optimizer).write(str(tmp_path / "checkpoint"))
    kept = [v.numpy().copy() for v in optimizer.variables]
    optimizer.apply(tensors(GRADIENTS), weights)
    tf.train.Checkpoint(optimizer=optimizer).read(path).assert_existing_objects_matched()
    agree([v.numpy() for v in optimizer.variables], kept)


# Strategies: processes of their own, as devices are made before TensorFlow starts


def quiet(**more):
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "", **more}


def test_two_replicas_clip_the_sum():
    done = subprocess.run(
        [sys.executable, HERE / "two_replicas.py"],
        capture_output=True, text=True, timeout=300, env=quiet(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    for name, (ours, oracle) in found.items():
        np.testing.assert_allclose(ours, oracle, rtol=1e-5, atol=1e-6, err_msg=name)
    assert len(found) == 7


def test_two_processes_clip_the_sum():
    import two_workers

    reports = two_workers.run(timeout=300, env=quiet())
    gradients = [np.array([3.0, 0.0]), np.array([0.0, 4.0])]
    whole = sum(gradients)
    oracle = np.array([1.0, 1.0]) - clipped([whole])[0]
    for report in reports:
        np.testing.assert_allclose(report["summed"], whole, rtol=1e-6)
        np.testing.assert_allclose(report["weights"], oracle, rtol=1e-6)
