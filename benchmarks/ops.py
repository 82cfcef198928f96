"""Each op against a hand-written tf.custom_gradient with the same rule: eager, and in a graph."""

from functools import partial

import tensorflow as tf

import gradlab as gl
from benchmarks.timing import compared

EAGER_WANTED, GRAPH_WANTED = 1.0, 1.05
SMALL, LARGE = 1_024, 262_144


def _hand_written(rule, forward=tf.identity):
    return tf.custom_gradient(lambda x: (forward(x), rule))


def _norm_rule(clip_norm):
    """An overflow-safe clip, as one would write it: relative to the largest element."""

    def rule(g):
        peak = tf.reduce_max(tf.abs(g))
        unit = tf.stop_gradient(tf.where(peak > 0, peak, tf.ones_like(peak)))
        ratios = tf.where(tf.math.is_inf(g), tf.sign(g), g / unit)
        length = tf.sqrt(tf.maximum(tf.reduce_sum(tf.square(ratios)), 1.0))
        fits = (peak * length <= clip_norm) & (clip_norm > 0)
        return tf.where(fits, g, ratios * (clip_norm / length))

    return rule


def _global_norm(xs):
    def rule(*gs):
        peak = tf.reduce_max(tf.stack([tf.reduce_max(tf.abs(g)) for g in gs]))
        unit = tf.stop_gradient(tf.where(peak > 0, peak, tf.ones_like(peak)))
        ratios = [tf.where(tf.math.is_inf(g), tf.sign(g), g / unit) for g in gs]
        squares = tf.add_n([tf.reduce_sum(tf.square(r)) for r in ratios])
        length = tf.sqrt(tf.maximum(squares, 1.0))
        fits = (peak * length <= 1.0) & (tf.constant(1.0) > 0)
        factor = 1.0 / length
        return [tf.where(fits, g, r * factor) for g, r in zip(gs, ratios, strict=True)]

    return tf.custom_gradient(lambda *xs: ([tf.identity(x) for x in xs], rule))(*xs)


def _recorded(sink):
    def rule(g):
        sink(g)
        return g

    return rule


def _trick(forward, backward):
    def written(x):
        b = backward(x)
        return b + tf.stop_gradient(forward(x) - b)

    return written


def _replaced(forward, backward):
    def written(x):
        def rule(g):
            with tf.GradientTape() as tape:
                tape.watch(x)
                b = backward(x)
            return tape.gradient(b, x, g)

        return forward(x), rule

    return tf.custom_gradient(written)


def _clamp(x):
    return tf.maximum(tf.minimum(x, 1.0), -1.0)


def _ignore(_):
    return None


_MASK = [True, False] * (SMALL // 2)


def _pairs():
    """(name, op, what one would write instead), each a function of one tensor."""
    mask = tf.constant(_MASK)
    scale = tf.constant(0.5)
    return [
        ("scale_gradient", lambda x: gl.scale_gradient(x, 0.5), _hand_written(lambda g: g * 0.5)),
        (
            "scale_gradient, tensor",
            lambda x: gl.scale_gradient(x, scale),
            _hand_written(lambda g: g * scale),
        ),
        ("reverse_gradient", gl.reverse_gradient, _hand_written(lambda g: -(g * 1.0))),
        (
            "mask_gradient",
            lambda x: gl.mask_gradient(x, mask),
            _hand_written(lambda g: tf.where(mask, g, tf.zeros_like(g))),
        ),
        (
            "zero_nonfinite_gradient",
            gl.zero_nonfinite_gradient,
            _hand_written(lambda g: tf.where(tf.math.is_finite(g), g, tf.zeros_like(g))),
        ),
        (
            "clip_gradient_by_value",
            lambda x: gl.clip_gradient_by_value(x, -0.5, 0.5),
            _hand_written(lambda g: tf.maximum(tf.minimum(g, 0.5), -0.5)),
        ),
        (
            "clip_gradient_by_norm",
            lambda x: gl.clip_gradient_by_norm(x, 1.0),
            _hand_written(_norm_rule(1.0)),
        ),
        (
            "clip_gradients_by_global_norm",
            lambda x: gl.clip_gradients_by_global_norm([x, x], 1.0),
            lambda x: _global_norm([x, x]),
        ),
        (
            "replace_gradient",
            lambda x: gl.replace_gradient(x, tf.round, tf.sin),
            _replaced(tf.round, tf.sin),
        ),
        (
            "stop_gradient_trick",
            lambda x: gl.stop_gradient_trick(x, tf.round, tf.sin),
            _trick(tf.round, tf.sin),
        ),
        (
            "straight_through",
            lambda x: gl.straight_through(x, tf.round),
            _hand_written(lambda g: g, tf.round),
        ),
        (
            "clip_by_value_preserve_gradient",
            lambda x: gl.clip_by_value_preserve_gradient(x, -1.0, 1.0),
            _hand_written(lambda g: g, _clamp),
        ),
        (
            "custom_gradient",
            gl.custom_gradient(lambda x: (tf.identity(x), lambda g: g * 0.5)),
            _hand_written(lambda g: g * 0.5),
        ),
    ]


def _record_pair():
    return (
        "record_gradient",
        lambda x: gl.record_gradient(x, _ignore),
        _hand_written(_recorded(_ignore)),
    )


def _gradient(f, x, upstream):
    with tf.GradientTape() as tape:
        tape.watch(x)
        ys = tf.nest.flatten(f(x))
    return ys, tape.gradient(ys, x, [upstream] * len(ys))


def _eager(name, op, peer):
    x = tf.random.stateless_normal([SMALL], [1, 2])
    ours, theirs = partial(_gradient, op, x, x), partial(_gradient, peer, x, x)
    return compared(f"{name}, eager", ours, theirs, EAGER_WANTED)


def _graph(name, op, peer):
    x = tf.random.stateless_normal([SMALL if "mask" in name else LARGE], [1, 2])
    ours, theirs = partial(_compiled(op), x, x), partial(_compiled(peer), x, x)
    return compared(f"{name}, graph", ours, theirs, GRAPH_WANTED)


def _compiled(f):
    def eightfold(x):
        # Eight in a row: the op weighs more than the call of the function.
        for _ in range(8):
            x = tf.nest.flatten(f(x))[0]
        return x

    return tf.function(lambda x, upstream: _gradient(eightfold, x, upstream), autograph=False)


def ratios():
    """The list of Ratio for `make bench`."""
    pairs = _pairs()
    eager = [_eager(*pair) for pair in [*pairs, _record_pair()]]
    return eager + [_graph(*pair) for pair in pairs]


if __name__ == "__main__":
    for each in ratios():
        print(f"{each.name:45} {each.value:.2f}  wanted {each.wanted}", flush=True)
