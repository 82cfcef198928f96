"""What runs in a fresh process: load f, take its gradient, write down both.

A script that imports TensorFlow and NumPy alone, so that what loads here loads anywhere.
``two_replicas`` is also run in the reader's process, where that has two devices.
"""

import importlib
import json
import sys

import numpy as np
import tensorflow as tf

SECOND = 1.125  # the second replica's tensors, in units of the first's


def main():
    """Do the tasks that come as lines of JSON; each writes ``answer.npz`` or ``answer.error``."""
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    for line in sys.stdin:
        _answer(json.loads(line))


def _answer(task):
    try:
        given = np.load(task["given"])
        tensors, upstreams = (
            [tf.cast(given[f"{letter}{i}"], dtype) for i, dtype in enumerate(task[key])]
            for letter, key in (("x", "tensors"), ("u", "upstreams"))
        )
        arrays = _TASKS[task["kind"]](task, tensors, upstreams)
        np.savez(f"{task['answer']}.npz", **arrays)
    except Exception as error:  # handed to the parent, which says it
        with open(f"{task['answer']}.error", "w") as file:
            json.dump([type(error).__name__, str(error)], file)


def _loaded(task, tensors, upstreams):
    module = tf.saved_model.load(task["path"])
    return _run(lambda ts: module.f(*ts), tensors, upstreams)


def _keras(task, tensors, upstreams):
    import keras

    for module in task["modules"]:
        importlib.import_module(module)
    known = {"Calls": calls_layer()}
    model = keras.models.load_model(task["path"], known, compile=False, safe_mode=False)
    return _run(lambda ts: _floats(model(ts if len(ts) > 1 else ts[0])), tensors, upstreams)


def calls_layer():
    """A Keras layer class that calls a function, and saves where that is imported from.

    Keras itself saves no plain function: a Lambda layer of one can't be loaded.
    """
    import keras

    class Calls(keras.layers.Layer):
        def __init__(self, module, function, **kwargs):
            super().__init__(autocast=False, **kwargs)
            self.module, self.function = module, function
            self.f = imported(module, function)

        def call(self, inputs):
            return self.f(*inputs)

        def get_config(self):
            return super().get_config() | {"module": self.module, "function": self.function}

    return Calls


def _replicas(task, tensors, upstreams):
    # The loaded object is held on to: its variables go when it does.
    loaded = None if "module" in task else tf.saved_model.load(task["path"])
    f = loaded.f if loaded else imported(task["module"], task["name"])
    apply = tf.autograph.experimental.do_not_convert(lambda ts: _floats(f(*ts)))
    return two_replicas(apply, tensors, upstreams, ["CPU:0", "CPU:1"])


def imported(module, name):
    """The object of a qualified name in a module, or None."""
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _floats(value):
    tensors = [tf.convert_to_tensor(item) for item in tf.nest.flatten(value)]
    return [t for t in tensors if t.dtype.is_floating or t.dtype.is_complex]


def _run(apply, tensors, upstreams):
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        ys = apply(tensors)
    # A Keras layer has a dtype of its own.
    upstreams = [tf.cast(u, y.dtype) for u, y in zip(upstreams, ys, strict=True)]
    return _arrays("", ys, _gradients(tape, ys, tensors, upstreams))


def two_replicas(apply, tensors, upstreams, devices):
    """Results and gradients on each of two replicas, and the summed gradient of a variable.

    The replicas multiply different tensors by one mirrored variable before f.
    """
    strategy = tf.distribute.MirroredStrategy(devices)
    with strategy.scope():
        gain = tf.Variable(1.0)
    scales = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant((1.0, SECOND)[context.replica_id_in_sync_group])
    )

    def step(scale):
        mine = [t * tf.cast(scale, t.dtype) for t in tensors]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(mine)
            ys = apply([t * tf.cast(gain, t.dtype) for t in mine])
        of_gain = tape.gradient(ys, gain, output_gradients=upstreams)
        if of_gain is None:
            of_gain = tf.zeros([])
        total = tf.distribute.get_replica_context().all_reduce("sum", of_gain)
        return ys, _gradients(tape, ys, mine, upstreams), total

    ys, gradients, total = tf.function(lambda: strategy.run(step, [scales]), autograph=False)()
    local = strategy.experimental_local_results
    arrays = {"total": local(total)[-1].numpy()}
    for replica in range(len(devices)):
        mine = [[local(t)[replica] for t in ts] for ts in (ys, gradients)]
        arrays |= _arrays(f"replica{replica}", *mine)
    return arrays


def _gradients(tape, ys, tensors, upstreams):
    gradients = tape.gradient(ys, tensors, output_gradients=upstreams)
    pairs = zip(gradients, tensors, strict=True)
    return [tf.zeros_like(t) if g is None else tf.convert_to_tensor(g) for g, t in pairs]


def _arrays(prefix, ys, gradients):
    return named(**{f"{prefix}y": ys, f"{prefix}g": gradients})


def named(**lists):
    """Lists of tensors as arrays that NumPy can store, which it can't in bfloat16."""
    return {
        f"{name}{i}": (tf.cast(t, tf.float32) if t.dtype == tf.bfloat16 else t).numpy()
        for name, tensors in lists.items()
        for i, t in enumerate(tensors)
    }


_TASKS = {"saved": _loaded, "keras": _keras, "replicas": _replicas}

if __name__ == "__main__":
    main()
