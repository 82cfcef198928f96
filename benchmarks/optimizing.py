"""clip_by_global_norm beside TensorFlow's own, over 200 gradients: eager, and within a graph."""

import tensorflow as tf

import gradlab as gl
from benchmarks.timing import Ratio, compared

WANTED = 1.0
COUNT = 200
# Elements per gradient: biases, small kernels, and a mixture as in a residual network.
SIZES = {
    "1,024 elements each": [1_024] * COUNT,
    "16,384 elements each": [16_384] * COUNT,
    "64 to 65,536 elements": [64, 64, 4_096, 65_536] * (COUNT // 4),
}


def ratios() -> list[Ratio]:
    """Time ours over that of tf.clip_by_global_norm, where the gradients exceed the norm."""
    return [
        row for name, sizes in SIZES.items() for row in (_eager(name, sizes), _graph(name, sizes))
    ]


def _eager(name, sizes):
    gs = [tf.random.normal([size]) for size in sizes]
    bound = tf.constant(1.0)
    return compared(
        f"clip_by_global_norm, eager, {COUNT} of {name}",
        lambda: gl.clip_by_global_norm(gs, bound),
        lambda: tf.clip_by_global_norm(gs, bound),
        WANTED,
    )


def _graph(name, sizes):
    """A step in a graph, as training takes it; handing 200 tensors to a function costs more."""
    weights = [tf.Variable(tf.random.normal([size])) for size in sizes]
    bound = tf.constant(1.0)
    ours, peer = _step(gl.clip_by_global_norm, weights), _step(tf.clip_by_global_norm, weights)
    return compared(
        f"clip_by_global_norm, in a step, {COUNT} of {name}",
        lambda: ours(bound),
        lambda: peer(bound),
        WANTED,
    )


def _step(clip, weights):
    @tf.function(autograph=False)
    def step(bound):
        clipped, norm = clip([1.5 * w for w in weights], bound)
        for w, g in zip(weights, clipped, strict=True):
            w.assign_sub(1e-6 * g)
        return norm

    return step
