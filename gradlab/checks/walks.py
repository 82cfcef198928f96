"""Walking along rays through a point, and judging what backprop reports there."""

import numpy as np
import tensorflow as tf

from gradlab.checks import leaves as lv
from gradlab.checks.quiet import its_errors
from gradlab.checks.reports import FAIL, KINK, PASS, Difference, Part
from gradlab.checks.slopes import Rows, grows, kinks, measure

_RTOL = {2.0**-52: 1e-6, 2.0**-23: 5e-4, 2.0**-10: 2e-2}  # by the coarsest precision at work
_RTOL_COARSEST = 0.1
_EVERY = 2**20  # rays × coordinates up to which every coordinate is walked
_DIRECTIONS, _FORWARD_DIRECTIONS = 8, 2
_SUSPICIOUS = 0.02  # sides further apart than this share of them: look closer
_UNDEFINED = 1e-3  # how much closer to look where f isn't finite a step away
_FINE = 1e-10
_SOME = 64  # elements tried one by one where no direction is free of kinks
_FOLLOWS = 0.9999  # the correlation of errors with one element's coordinates that tells it
_OUTPUTS = 4  # tried one by one for the output at fault


class Walk:
    """One derivative's slopes round its point, and the gradients it reports."""

    def __init__(self, level, order, settings):
        self.level, self.order, self.settings = level, order, settings
        with its_errors():
            self.rows = Rows(level.reference, level.point, level.reference_eps)
        self.point, self.size = level.point, level.point.size
        self.eps = max(level.eps, self.rows.eps)
        self.rtol = _RTOL.get(self.eps, _RTOL_COARSEST) if settings.rtol is None else settings.rtol
        self.scales = _scales(level.point, level.ins)
        self.narrower = 8 if self.rows.eps < _FINE else 3

    def part(self, mode):
        """The verdict in one mode."""
        if not self.size or not self.rows.value.size:
            return Part(self.order, mode, PASS, checked="no elements to check")
        return self.reverse() if mode == "reverse" else self.forward()

    def reverse(self):
        """The gradient for one upstream against the slopes along every element, or directions."""
        weights = upstream(self.rows.value.size, self.settings.seed + self.order)
        if self._walks_every_element():
            return self._along_elements(weights, np.arange(self.size))
        return self._along_directions(weights)

    def _along_elements(self, weights, elements):
        rays = np.zeros((len(elements), self.size))
        rays[np.arange(len(elements)), elements] = 1.0
        reported = Projected(self._gradient(weights), weights)
        steps = self.rows.first_step() * self.scales[elements]
        cells = self._judge(reported, rays, steps, True)
        name = lambda cell: self._input(int(elements[cell]))  # noqa: E731
        checked = f"{(~cells.kinked).sum():,} of {self.size:,} input elements"
        return self._part("reverse", cells, self._at_fault(reported, cells, rays), checked, name)

    def _along_directions(self, weights):
        rays = self._random_rays(_DIRECTIONS)
        reported, cells = self._projected(weights, rays)
        if cells.at_kink.any():
            weights = np.where(cells.at_kink, 0.0, weights)
            if not weights.any():
                return self._along_some_elements()
            reported, cells = self._projected(weights, rays)
        checked = f"{len(rays)} random directions over {self.size:,} input elements"
        if not weights.all():
            checked += (
                f", {(weights != 0).sum():,} of {weights.size:,} results: others are at a kink"
            )
        return self._part("reverse", cells, self._at_fault(reported, cells, rays), checked, None)

    def _along_some_elements(self):
        """Where every result is at a kink of some element, elements one by one, but not all."""
        weights = upstream(self.rows.value.size, self.settings.seed + self.order)
        draw = np.random.default_rng(self.settings.seed)
        few = min(_SOME, self.size)
        return self._along_elements(weights, np.sort(draw.choice(self.size, few, replace=False)))

    def _projected(self, weights, rays):
        reported = Projected(self._gradient(weights), weights)
        return reported, self._judge(reported, rays, self._steps(rays), False)

    def _steps(self, rays):
        return np.full(len(rays), self.rows.first_step())

    def forward(self):
        """The tangents of every output against the slopes, along random directions."""
        rays = self._random_rays(_FORWARD_DIRECTIONS)
        cells = self._judge(Tangents(self._tangents(rays)), rays, self._steps(rays), True)
        checked = f"{(~cells.kinked).sum():,} of {cells.kinked.size:,} tangents"
        worst = self._tangent_at_fault(cells, rays)
        return self._part("forward", cells, worst, checked, self._output)

    def _walks_every_element(self):
        if self.settings.every_element is not None:
            return self.settings.every_element
        return self.size * (self.size + self.rows.value.size) <= _EVERY

    def _random_rays(self, count):
        draws = [upstream(self.size, self.settings.seed + 1000 + i) for i in range(count)]
        return self.scales * np.stack(draws)

    def _gradient(self, weights):
        point = tf.constant(self.point)
        with its_errors():
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(point)
                y = self.level.own(point)
            gradient = tape.gradient(y, point, output_gradients=tf.constant(weights))
        return np.zeros(self.size) if gradient is None else gradient.numpy()

    def _tangents(self, rays):
        return np.stack([self._tangent(tf.constant(ray)) for ray in rays])

    def _tangent(self, ray):
        point = tf.constant(self.point)
        with its_errors():
            with tf.autodiff.ForwardAccumulator(point, ray) as accumulator:
                y = self.level.own(point)
            tangent = accumulator.jvp(y)
        return np.zeros(y.shape) if tangent is None else tangent.numpy()

    def _judge(self, reported, rays, steps, names_kinks):
        first = self._measure(rays, steps)
        cells = Cells(reported, first, np.arange(len(rays)), self)
        closer = cells.want_a_closer_look(reported, first)
        if closer.any():
            wide, narrow = self._closer(rays[closer], steps[closer], cells.undefined[closer])
            cells.look_closer(reported, wide, narrow, np.flatnonzero(closer), names_kinks, self)
        return cells

    def _measure(self, rays, steps):
        return measure(self.rows, rays, steps, self.level.rounded)

    def _closer(self, rays, steps, undefined):
        shrink = np.where(undefined & (self.rows.eps < _FINE), _UNDEFINED, 1 / self.narrower)
        wide = steps * shrink
        return self._measure(rays, wide), self._measure(rays, wide / self.narrower)

    def _at_fault(self, reported, cells, rays):
        """The element whose gradient is furthest off: known, told by the rays, or by halving."""
        if not cells.failed.any():
            return None

        def errors(rays):
            slopes = self._measure(rays, self._steps(rays))
            return np.abs(reported.of(slopes, None) - reported.total(slopes.central))

        axis = _followed(cells, rays)
        if axis is None:
            axis = self._halve(rays[cells.furthest], errors)
        alone = self._judge(reported, axis[None], self._axis_step(axis), True)
        if not alone.failed.any():
            return cells.worst(lambda _: "along a random direction")
        element = int(np.argmax(axis))
        projected = alone.worst(lambda _: f"at {self._input(element)}, for a random upstream")
        return projected if projected.at_kink else self._of_one_output(axis, element) or projected

    def _of_one_output(self, axis, element):
        """The output whose own gradient is furthest off at ``element``, unless all agree."""
        size = self.rows.value.size
        slopes = self._measure(axis[None], self._axis_step(axis))
        likely = np.argsort(-np.abs(slopes.central[0]), kind="stable")[:_OUTPUTS]
        found = [self._one_output(slopes, element, k) for k in {*likely.tolist(), element % size}]
        wrong = [difference for difference in found if not difference.error <= difference.allowed]
        return max(wrong, key=_times_too_far, default=None)

    def _one_output(self, slopes, element, output):
        weights = np.eye(1, self.rows.value.size, output)[0]
        reported = Projected(self._gradient(weights), weights)
        name = f"at {self._input(element)}, of {self._output(output)}"
        return Cells(reported, slopes, np.zeros(1, int), self).difference(0, name)

    def _tangent_at_fault(self, cells, rays):
        """The output whose tangent is furthest off, and the element along which it is."""
        if not cells.failed.any():
            return None
        ray, output = divmod(cells.furthest, cells.columns)

        def errors(rays):
            slopes = self._measure(rays, self._steps(rays))
            return np.abs(self._tangents(rays) - slopes.central)[:, output]

        axis = self._halve(rays[ray], errors)
        along = self._input(int(np.argmax(axis)))
        alone = self._judge(
            Tangents(self._tangents(axis[None])), axis[None], self._axis_step(axis), True
        )
        if not alone.failed.any():
            return cells.worst(lambda cell: f"at {self._output(cell)}, along a random direction")
        return alone.worst(lambda cell: f"at {self._output(cell)}, along {along}")

    def _axis_step(self, axis):
        return self.rows.first_step() * self.scales[[int(np.argmax(axis))]]

    def _halve(self, ray, errors):
        """The unit vector of the coordinate that contributes most to the error along ``ray``."""
        among = np.flatnonzero(ray)
        while len(among) > 1:
            halves = np.array_split(among, 2)
            found = errors(np.stack([_only(ray, half) for half in halves]))
            among = halves[int(np.argmax(np.nan_to_num(found, nan=np.inf)))]
        return _only(np.ones_like(ray), among)

    def _input(self, cell):
        return lv.coordinate_name(self.level.ins, cell)

    def _output(self, cell):
        return lv.coordinate_name(self.level.outs, cell % self.rows.value.size)

    def _part(self, mode, cells, worst, checked, name):
        return Part(
            order=self.order,
            mode=mode,
            verdict=cells.verdict,
            checked=f"{checked}, to within {self.rtol:.0e}",
            worst=worst,
            kinks=tuple(dict.fromkeys(name(i) for i in np.flatnonzero(cells.kinked)))
            if name
            else (),
            gradient=cells.reported.reshape(-1),
            slope=cells.slope.reshape(-1),
        )


class Projected:
    """Reverse mode: one gradient, every slope projected on the upstream."""

    def __init__(self, gradient, weights):
        self.gradient, self.weights = gradient, weights

    def of(self, slopes, which):
        """The gradient along each ray."""
        del which
        with np.errstate(invalid="ignore"):
            return np.where(slopes.rays != 0, slopes.rays * self.gradient, 0.0).sum(axis=1)

    def size_of(self, slopes, which):
        """The size of what was summed along each ray."""
        del which
        gradient, unit = _in_units(np.where(np.isfinite(self.gradient), self.gradient, 0.0))
        return unit * np.sqrt(slopes.rays**2 @ gradient**2)

    def fold(self, matrix):
        """Outputs become one."""
        return matrix.sum(axis=1)

    def total(self, matrix):
        """One-sided or central slopes, projected."""
        with np.errstate(invalid="ignore"):
            return self.fold(matrix * self.weights)

    def size(self, matrix):
        """The size of what the projection sums."""
        with np.errstate(invalid="ignore"):
            matrix, unit = _in_units(matrix * self.weights)
            return unit * np.sqrt(self.fold(matrix**2))

    def weight(self, matrix):
        """How much the projection stretches each ray's slopes."""
        with np.errstate(invalid="ignore", divide="ignore"):
            matrix, _ = _in_units(matrix)
            stretch = self.size(matrix) / np.sqrt(self.fold(matrix**2))
        return np.where(np.isfinite(stretch) & (stretch > 0), stretch, 1.0)


class Tangents(Projected):
    """Forward mode: a tangent per ray and output, nothing projected."""

    def __init__(self, tangents):
        self.tangents, self.weights = tangents, 1.0

    def of(self, slopes, which):
        """The tangents along the rays ``which``, or all."""
        del slopes
        return self.tangents if which is None else self.tangents[which]

    def size_of(self, slopes, which):
        """The size of the tangents, and a tenth of that of their neighbours."""
        sizes = np.abs(np.where(np.isfinite(self.tangents), self.tangents, 0.0))
        sizes = np.maximum(sizes, 0.1 * sizes.max(axis=1, keepdims=True, initial=0.0))
        return sizes if which is None else sizes[which]

    def fold(self, matrix):
        """Outputs stay apart."""
        return matrix

    def weight(self, matrix):
        """Nothing is projected."""
        return np.ones_like(matrix)


class Cells:
    """One judgement per ray (reverse) or per ray and output (forward), as arrays."""

    def __init__(self, reported, slopes, which, walk):
        self.reported = reported.of(slopes, which)
        self.slope = reported.total(slopes.central)
        self.allowed = _allowed(reported, slopes, which, walk)
        self.weight = reported.weight(slopes.central)
        self.undefined = ~np.isfinite(self.slope).reshape(len(which), -1).all(axis=1)
        self.agrees = _close(self.reported, self.slope, self.allowed)
        self.kinked = np.zeros(self.agrees.shape, bool)
        self.at_kink = np.zeros(slopes.central.shape[1], bool)
        self.outside = np.zeros(self.agrees.shape, bool)

    def want_a_closer_look(self, reported, slopes):
        """Rays that disagree, or whose two sides do."""
        sides = reported.size(slopes.ahead) + reported.size(slopes.behind)
        with np.errstate(invalid="ignore"):
            apart = reported.size(slopes.jump) > _SUSPICIOUS * sides + reported.size(slopes.noise)
        return (apart | ~self.agrees).reshape(len(slopes.rays), -1).any(axis=1)

    def look_closer(self, reported, wide, narrow, which, sets_aside, walk):
        """Judge the rays ``which`` again, by two smaller steps."""
        said = self.reported[which]
        for slopes in (wide, narrow):
            allowed = _allowed(reported, slopes, which, walk)
            self.agrees[which] |= _close(said, reported.total(slopes.central), allowed)
        better = np.isfinite(self.slope[which])
        self.slope[which] = np.where(better, self.slope[which], reported.total(narrow.central))
        grown = grows(wide, narrow)
        at = kinks(wide, narrow) | grown
        low, high = _between(reported, narrow, at, grown)
        inside = (said >= low - allowed) & (said <= high + allowed)
        any_kink = reported.fold(at.astype(int)) > 0
        self.at_kink |= at.any(axis=0)
        if sets_aside:
            self.kinked[which] = any_kink & inside
        else:
            self.kinked[which] = any_kink & inside & ~np.isfinite(low + high)
            self.agrees[which] |= any_kink & inside
        self.outside[which] = any_kink & ~inside
        self.agrees[which] &= ~self.outside[which]

    @property
    def failed(self):
        """Cells that are wrong."""
        return ~self.agrees & ~self.kinked

    @property
    def verdict(self):
        """The verdict on all cells."""
        if self.failed.any():
            return FAIL
        return KINK if self.kinked.size and self.kinked.all() else PASS

    @property
    def columns(self):
        """Cells per ray."""
        return self.reported[0].size

    @property
    def furthest(self):
        """The flat index of the failing cell that is furthest off."""
        with np.errstate(invalid="ignore"):
            off = np.abs(self.reported - self.slope) / self.weight
        off = np.where(self.failed, np.nan_to_num(off, nan=np.inf), -1.0)
        return int(np.argmax(off))

    def worst(self, name):
        """The furthest failing cell, or None."""
        if not self.failed.any():
            return None
        return self.difference(self.furthest, name(self.furthest))

    def difference(self, cell, name):
        """One cell, to be reported."""
        return Difference(
            where=name,
            gradient=float(self.reported.flat[cell]),
            slope=float(self.slope.flat[cell]),
            allowed=float(self.allowed.flat[cell]),
            at_kink=bool(self.outside.flat[cell]),
        )


def upstream(size, seed):
    """Numbers ±0.5 to ±1.5 that every float dtype holds exactly: none is near zero."""
    draw = np.random.default_rng([seed, size])
    return draw.choice([-1.0, 1.0], size) * (32 + draw.integers(0, 65, size)) / 64


def _allowed(reported, slopes, which, walk):
    said = reported.size_of(slopes, which)
    size = np.maximum(reported.size(slopes.central), said)
    size = np.where(np.isfinite(size), size, 0.0)
    rounding = 8 * walk.level.eps * said.max(initial=0.0) + reported.size(slopes.noise)
    return walk.rtol * size + walk.settings.atol + np.nan_to_num(rounding, nan=0.0, posinf=0.0)


def _in_units(matrix):
    """A matrix in units of its largest entry, whose squares stay in range, and that unit."""
    unit = np.abs(matrix).max(where=np.isfinite(matrix), initial=0.0) or 1.0
    return matrix / unit, unit


def _times_too_far(difference):
    """How many times what is allowed an error is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.float64(difference.error) / difference.allowed
    return np.nan_to_num(times, nan=np.inf)


def _close(said, slope, allowed):
    with np.errstate(invalid="ignore"):
        return np.abs(said - slope) <= allowed


def _between(reported, slopes, at, unbounded):
    """The lowest and highest total that slopes between the two sides of each kink allow."""
    with np.errstate(invalid="ignore"):
        ahead, behind = slopes.ahead * reported.weights, slopes.behind * reported.weights
        middle = (ahead + behind) / 2
        low = np.where(at, np.minimum(ahead, behind), middle)
        high = np.where(at, np.maximum(ahead, behind), middle)
    low = np.where(unbounded | ~np.isfinite(low), -np.inf, low)
    high = np.where(unbounded | ~np.isfinite(high), np.inf, high)
    return reported.fold(low), reported.fold(high)


def _scales(point, ins):
    """The size of each coordinate: its own or its tensor's, and one in a tensor of zeros."""
    ends = np.cumsum([leaf.coordinates for leaf in ins])[:-1]
    parts = np.split(point, ends)
    return np.concatenate([np.maximum(np.abs(part), _typical(part)) for part in parts])


def _typical(part):
    return np.sqrt(np.mean(part**2)) or 1.0 if part.size else 1.0


def _followed(cells, rays):
    """The unit vector of the one element whose coordinates the errors of all rays follow, or None.

    Where one element alone is wrong, this finds it without another evaluation of f.
    """
    if not cells.failed.all():
        return None
    with np.errstate(invalid="ignore"):
        errors, _ = _in_units(cells.reported - cells.slope)
        lengths = np.linalg.norm(errors) * np.linalg.norm(rays, axis=0)
        follows = np.abs(errors @ rays) > _FOLLOWS * lengths
    return follows.astype(float) if follows.sum() == 1 else None


def _only(ray, indices):
    kept = np.zeros_like(ray)
    kept[indices] = ray[indices]
    return kept
