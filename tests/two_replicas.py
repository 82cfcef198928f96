"""What two replicas of MirroredStrategy make of transformed gradients: JSON of (ours, NumPy's)."""

import functools
import json

import numpy as np
import tensorflow as tf

CPU = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(CPU, [tf.config.LogicalDeviceConfiguration()] * 2)

import keras  # noqa: E402 - the devices come first
from test_transform_gradients import Adam, clipped, model_and_data, slope_of  # noqa: E402

import gradlab as gl  # noqa: E402

STRATEGY = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])  # a second one would get in its way
CLIP = functools.partial(gl.clip_by_global_norm, clip_norm=1.0)
BASE = np.array([3.0, 4.0])  # replica i has (i + 1) · BASE


def stepped(make, scale=1.0, function=True):
    """Two steps with each replica's own gradient; the weights of both replicas."""
    with STRATEGY.scope():
        weights = tf.Variable([1.0, 1.0])
        optimizer = make()
        optimizer.build([weights])

    def replica():
        index = tf.distribute.get_replica_context().replica_id_in_sync_group
        gradient = tf.cast(index + 1, tf.float32) * tf.constant(BASE * scale, tf.float32)
        optimizer.apply([gradient], [weights])

    def step():
        STRATEGY.run(replica)

    step = tf.function(step, autograph=False) if function else step
    step()
    step()
    return [value.numpy().tolist() for value in STRATEGY.experimental_local_results(weights)]


def sgd():
    return gl.transform_gradients(keras.optimizers.SGD(1.0), CLIP)


def adam():
    return gl.transform_gradients(keras.optimizers.Adam(0.1), CLIP)


def scaled_inside():
    inner = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), 64.0)
    return gl.transform_gradients(inner, CLIP)


def scaled_outside():
    return keras.optimizers.LossScaleOptimizer(sgd(), 64.0)


def after_sgd():
    return [(1 - 2 * clipped([3 * BASE])[0]).tolist()] * 2


def after_adam():
    oracle = Adam([np.ones(2)])
    for _ in range(2):
        oracle.step(clipped([3 * BASE]))
    return [oracle.weights[0].tolist()] * 2


def sparse():
    """Each replica names row 1, so that the sum names it twice."""
    with STRATEGY.scope():
        table = tf.Variable(tf.ones((3, 2)))
        optimizer = gl.transform_gradients(keras.optimizers.SGD(1.0), CLIP)
        optimizer.build([table])

    def replica():
        row = tf.IndexedSlices(tf.constant([[1.5, 2.0]]), tf.constant([1]), tf.constant([3, 2]))
        optimizer.apply([row], [table])

    @tf.function(autograph=False)
    def step():
        STRATEGY.run(replica)

    step()
    return table.numpy().tolist(), [[1, 1], [1 - 0.6, 1 - 0.8], [1, 1]]


def fitted():
    """The loss is a mean over the global batch, so the sum of the gradients is its gradient."""
    with STRATEGY.scope():
        model, x, y = model_and_data()
        oracle = Adam([w.astype(np.float64) for w in model.get_weights()])
        model.compile(adam(), "mse", jit_compile=False)
    model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
    for _ in range(2):
        oracle.step(clipped(slope_of(*oracle.weights, x, y)))
    flat = [np.concatenate([w.ravel() for w in ws]) for ws in (model.get_weights(), oracle.weights)]
    return [each.tolist() for each in flat]


if __name__ == "__main__":
    found = {
        "sgd": (stepped(sgd), after_sgd()),
        "sgd, eager": (stepped(sgd, function=False), after_sgd()),
        "adam": (stepped(adam), after_adam()),
        "loss scaling inside": (stepped(scaled_inside, 64.0), after_sgd()),
        "loss scaling outside": (stepped(scaled_outside, 64.0), after_sgd()),
        "slices": sparse(),
        "fit": fitted(),
    }
    print(json.dumps(found))
