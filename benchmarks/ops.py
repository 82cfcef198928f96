"""Each op against what one would write by hand: eager, in a graph, and in kernels under XLA."""

from functools import partial

import tensorflow as tf

from benchmarks.by_hand import PAIRS, check_same, example, gradient
from benchmarks.kernels import kernels
from benchmarks.timing import Ratio, compared

EAGER_WANTED, GRAPH_WANTED, KERNELS_WANTED = 1.0, 1.05, 1.0
SMALL, LARGE = 32, 8_192  # rows


def ratios():
    """The rows for `make bench`."""
    for row in (_eager, _graph):
        yield from (row(pair) for pair in PAIRS)
    yield from (_xla(pair) for pair in PAIRS if not pair.not_in_xla)


def _eager(pair):
    x, upstream = example(SMALL)
    check_same(pair, x, upstream)
    ours, peer = (partial(gradient, f, x, upstream) for f in (pair.ours, pair.peer))
    return compared(f"{pair.name}, eager", ours, peer, EAGER_WANTED)


def _graph(pair):
    x, upstream = example(LARGE)
    ours, peer = (_compiled(f) for f in (pair.ours, pair.peer))
    return compared(
        f"{pair.name}, graph", partial(ours, x, upstream), partial(peer, x, upstream), GRAPH_WANTED
    )


def _compiled(f):
    def eightfold(x):
        # Eight in a row: the op weighs more than the call of the function.
        for _ in range(8):
            x = tf.nest.flatten(f(x))[0]
        return x

    return tf.function(lambda x, upstream: gradient(eightfold, x, upstream), autograph=False)


def _xla(pair):
    ours, peer = (kernels(f, *example(SMALL)) for f in (pair.ours, pair.peer))
    return Ratio(f"{pair.name}, kernels: {ours} of {peer}", ours / peer, KERNELS_WANTED)
