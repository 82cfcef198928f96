"""Slopes by finite differences: many rays in one vectorised evaluation, from both sides.

A ray is a direction through the point; it is walked a small step forward and one back. Where
the two one-sided slopes keep apart as the step shrinks, the function has a kink.
"""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

_CHUNK = 2**22  # coordinates held at once: 32 MB of float64
_FEW = 64
_EPSILON = {tf.float64: 2.0**-52, tf.float32: 2.0**-23, tf.float16: 2.0**-10, tf.bfloat16: 2.0**-7}


class Rows:
    """Evaluates a vector function at many points: in one vectorised call where that can be done.

    A few points go one by one, which is quicker than vectorising; so do all the points of a
    function that can't be traced, or that gives something else when it is.
    """

    def __init__(self, vector, point, eps):
        self.vector, self.point, self.eps = vector, point, eps
        self.value = vector(tf.constant(point)).numpy()
        self._one = self._traced() or vector

    def __call__(self, points):
        """The values at ``points``, one row each."""
        if len(points) <= _FEW or not self.is_batched:
            return np.stack([self._one(tf.constant(point)).numpy() for point in points])
        rows = max(1, _CHUNK // (self.point.size + self.value.size))
        chunks = [points[i : i + rows] for i in range(0, len(points), rows)]
        return np.concatenate([self._batched(tf.constant(chunk)).numpy() for chunk in chunks])

    @functools.cached_property
    def is_batched(self):
        """Whether many points are evaluated together."""
        return self._batched is not None

    @functools.cached_property
    def _batched(self):
        many = functools.partial(tf.vectorized_map, self.vector)
        return self._graph(many, [None, self.point.size], np.stack([self.point, self.point]))

    def _traced(self):
        one = self._graph(self.vector, [self.point.size], self.point)
        if one is not None:
            self.eps = max(self.eps, _coarsest(one.graph))
        return one

    def _graph(self, function, shape, sample):
        """``function`` as a graph, or None where it can't be traced or gives something else."""
        signature = [tf.TensorSpec(shape, tf.float64)]
        # f is the reader's own: whatever tracing it raises, calling it as it is remains.
        try:
            graph = tf.function(function, signature, autograph=False).get_concrete_function()
            return graph if self._same(graph(tf.constant(sample)).numpy()) else None
        except Exception:
            return None

    def _same(self, again):
        room = 64 * self.eps * (1 + np.abs(self.value[np.isfinite(self.value)]).max(initial=0.0))
        fits = again.shape[again.ndim - 1 :] == self.value.shape
        return fits and np.allclose(again, self.value, rtol=0, atol=room, equal_nan=True)

    def first_step(self):
        """The step that balances rounding against curvature, for coordinates of size one."""
        return np.cbrt(self.eps)


@dataclasses.dataclass(frozen=True)
class Slopes:
    """One-sided slopes of each output along each ray, and the rounding error in them."""

    ahead: np.ndarray
    behind: np.ndarray
    noise: np.ndarray
    rays: np.ndarray

    @property
    def central(self):
        """The mean of the two: the slope, where there is one."""
        return (self.ahead + self.behind) / 2

    @property
    def jump(self):
        """How far the two sides are apart."""
        return np.abs(self.ahead - self.behind)


def measure(rows, rays, steps, rounded):
    """Slopes along ``rays`` (rays × coordinates), each walked its own step both ways."""
    steps = np.asarray(steps)[:, None]
    ahead, behind = rounded(rows.point + steps * rays), rounded(rows.point - steps * rays)
    # The point itself once more: compiled differently, it may round differently.
    here, *values = rows(np.concatenate([rows.point[None], ahead, behind]))
    above, below = np.split(np.reshape(values, (2 * len(rays), -1)), 2)
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.maximum(np.abs(above), np.abs(below))
        still = (above == here) & (below == here)
        return Slopes(
            ahead=(above - here) / steps,
            behind=(here - below) / steps,
            noise=8 * rows.eps * np.where(still, 0.0, size) / steps,
            rays=(ahead - behind) / (2 * steps),
        )


def kinks(wide, narrow):
    """Where the two sides stay apart from a wide to a narrow step: outputs with no slope there."""
    with np.errstate(invalid="ignore"):
        sides = np.abs(narrow.ahead) + np.abs(narrow.behind)
        stays = narrow.jump > wide.jump / 2
        matters = narrow.jump > 8 * narrow.noise + 1e-3 * sides
        return (stays & matters) | ~np.isfinite(narrow.jump)


def grows(wide, narrow):
    """Where a slope grows as the step shrinks: a jump, or a vertical tangent."""
    with np.errstate(invalid="ignore"):
        pairs = ((wide.ahead, narrow.ahead), (wide.behind, narrow.behind))
        grown = [np.abs(near) > 1.5 * np.abs(far) + 16 * narrow.noise for far, near in pairs]
    return grown[0] | grown[1]


def _coarsest(graph):
    """The coarsest precision to which a graph, or a function it calls, casts a finer float."""
    bodies = [graph.as_graph_def().node]
    bodies += [f.node_def for f in graph.as_graph_def().library.function]
    casts = [node.attr for body in bodies for node in body if node.op == "Cast"]
    kinds = [(tf.as_dtype(a["SrcT"].type), tf.as_dtype(a["DstT"].type)) for a in casts]
    return max((epsilon(to) for source, to in kinds if _is_coarser(source, to)), default=0.0)


def _is_coarser(source, to):
    floats = all(kind.is_floating or kind.is_complex for kind in (source, to))
    return floats and epsilon(to) > epsilon(source)


def epsilon(dtype):
    """The distance from 1 to the next number of a float or complex dtype."""
    return _EPSILON.get(tf.as_dtype(dtype).real_dtype, 2.0**-3)
