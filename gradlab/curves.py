"""Any function of one variable -> its forward, what backprop reports for it, and the truth.

The gradient comes from backprop, in float32, as a reader's program would have it. The slope
comes from finite differences, in float64 where the function allows it. Both for all points in
one call of a traced function whose parameters are tensors, so that moving a slider never
retraces.
"""

import contextlib
import dataclasses
import functools
import inspect
import warnings

import numpy as np
import tensorflow as tf

from gradlab import devices

# Three Gauss-Legendre nodes to an interval: exact for polynomials of degree five, and none of
# them on a grid point, where kinks and poles like to sit.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(3)
# Where finite differences look, in steps from the point itself.
_OFFSETS = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
# A step in parts of the range of x: the cube root of the rounding error, near enough.
_STEP = {"float64": 2.0**-20, "float32": 2.0**-9}
# From so many points on, they lie as close together as finite differences look, so that each has
# in its neighbours what it would have to ask for: an eighth of the evaluations.
_FINE = 100_000
_BLOCK = 2**14
_LOST = 0.02  # of the points: if so many have no slope from their neighbours, each is asked
# Factors of this size may cancel inside f's gradient, leaving nothing but their rounding.
_INSIDE = 8.0
# What TensorFlow, NumPy and Python say where a number was wanted and many came.
_NOT_A_NUMBER = (
    "truth value",
    "converted to Python scalars",
    "only length-1",
    "only integer scalar",
)
_TOLERANCE = 1e-3  # gradient and slope part where they differ by more than this part


class _Later:
    """A field that may be given as a function, which is called when the field is first read."""

    def __set_name__(self, owner, name):
        self._name = f"_{name}"

    def __set__(self, instance, value):
        vars(instance)[self._name] = value

    def __get__(self, instance, owner=None):
        if instance is None:
            raise AttributeError(self._name)  # so a dataclass knows that there is no default
        value = vars(instance)[self._name]
        if callable(value):
            value = vars(instance)[self._name] = value()
        return value


@dataclasses.dataclass(frozen=True)
class Curve:
    """A function along a line: NumPy arrays of float64, one entry a point; NaN leaves a gap.

    Attributes:
        x: where.
        forward: f(x).
        gradient: what backprop reports, the rule's answer to `upstream`; a gap where f(x) is NaN.
        slope: the truth: upstream · df/dx by finite differences; NaN at kinks and jumps, where
            there is none.
        believed: the function whose slope is the gradient: its integral, upstream · forward at
            the point nearest 0; begins anew behind a gap.
        upstream: the gradient arriving from the loss.
        device: the device that evaluated it.
        rounding: how far gradient and slope may differ by rounding alone; as f where that isn't
            finite.
        notes: what the reader should know, such as why there is no gradient.

    """

    x: np.ndarray
    forward: np.ndarray
    gradient: np.ndarray
    slope: np.ndarray
    believed: np.ndarray = _Later()
    upstream: float = 1.0
    device: devices.Device | None = None
    rounding: np.ndarray | float = 0.0
    notes: tuple[str, ...] = ()

    @functools.cached_property
    def parted(self):
        """True where gradient and slope are both there and differ."""
        return parted(self.gradient, self.slope, self.rounding)


@dataclasses.dataclass(frozen=True)
class Point:
    """A curve at a single x: where the probe stands."""

    x: float
    forward: float
    gradient: float
    slope: float


def curve(f, x=(-3, 3), points=401, upstream=1.0, device=None, **parameters):
    """Evaluate a function, its gradient and its slope along a line.

    Args:
        f: a function of a 1-D float tensor x, and of `parameters` by keyword, that gives one
            value for each x. One that mixes the entries of x (a norm, a softmax) is evaluated
            one point at a time.
        x: the lowest and the highest x, a pair of numbers.
        points: how many points, ends included; at least 2.
        upstream: the gradient arriving at f from the loss, a number.
        device: None for a GPU where there is one, else the CPU; or "cpu", "gpu", "/GPU:1".
        parameters: passed to f: numbers as float32 tensors, the rest as it is.

    Returns:
        A `Curve`.

    Raises:
        TypeError: f is not callable, lacks a parameter or doesn't know one; x is no pair.
        ValueError: the range is empty, points < 2, no such device, or f returns something else
            than one float for each x.

    Where f is undefined, the curve has a gap. Second derivatives are `curve` of a gradient.

    >>> cubic = curve(lambda x, a: a * x**3, x=(0, 2), points=3, a=2.0)
    >>> cubic.forward, cubic.gradient, cubic.slope.round(6)
    (array([ 0.,  2., 16.]), array([ 0.,  6., 24.]), array([ 0.,  6., 24.]))

    """
    return Evaluator(f, x=x, points=points, device=device)(upstream=upstream, **parameters)


class Evaluator:
    """`curve` for a function that is evaluated again and again: traced once.

    What f reads from outside (a global, say) keeps the value it had when it was traced, as with
    any `tf.function`. Numbers and booleans among the parameters may change freely; each new value
    of another kind (a name, a function) is traced once.

    >>> evaluate = Evaluator(lambda x, a: a * x, x=(-1, 1), points=3)
    >>> evaluate(a=2.0).forward, evaluate(a=3.0).gradient, evaluate.traces
    (array([-2.,  0.,  2.]), array([3., 3., 3.]), 1)
    """

    def __init__(self, f, x=(-3, 3), points=401, device=None):
        if not callable(f):
            raise TypeError(f"f: got {f!r}; give a function of a tensor x")
        self.function = f
        self.low, self.high = checked_range(x)
        self.points = _checked_points(points)
        self.device = devices.choose(device)
        self.traces = 0
        self._programs = {}
        self._grid = _float32(np.linspace(self.low, self.high, self.points))

    def __call__(self, upstream=1.0, **parameters):
        """Give the `Curve` for these parameters."""
        return self.at(self.low, upstream, **parameters)[0]

    def at(self, x, upstream=1.0, **parameters):
        """Give the `Curve` for these parameters, and its `Point` at x, in one pass."""
        upstream = checked_upstream(upstream)
        check_parameters(self.function, parameters)
        numbers = {name: value for name, value in parameters.items() if _is_number(value)}
        fixed = {name: value for name, value in parameters.items() if name not in numbers}
        n, here = self.points, _float32([x])
        program = self._program(fixed, numbers, here)
        if n >= _FINE and program.is_precise:
            along = program.measure_fine(upstream, numbers)
            point = program.measure(here, (), upstream, numbers)
            integrate = functools.partial(trapezoids, gradient=along[1])
        else:
            places = np.append(self._grid, here)
            found = program.measure(places, self._inner, upstream, numbers)
            along, point = [each[:n] for each in found], [each[n:] for each in found]
            integrate = functools.partial(integral, inner=found[1][n + 1 :])
        forward, gradient, slope = along
        line = Curve(
            x=self._grid.astype(np.float64),
            forward=forward,
            gradient=gradient,
            slope=slope,
            believed=lambda: integrate(self._grid, upstream * forward),
            upstream=upstream,
            device=self.device,
            rounding=program.rounding(forward, upstream),
            notes=program.notes,
        )
        return line, Point(float(x), *(each[0] for each in point))

    @functools.cached_property
    def _inner(self):
        """The nodes between the points, at which a gradient is integrated."""
        grid = self._grid.astype(np.float64)  # where the range of float32 is no bound
        middle, half = (grid[1:] + grid[:-1]) / 2, np.diff(grid) / 2
        return _float32(middle[:, None] + half[:, None] * _NODES).ravel()

    def _program(self, fixed, numbers, here):
        key = (
            _key(fixed),
            tuple(sorted((name, _is_bool(value)) for name, value in numbers.items())),
        )
        if key not in self._programs:
            f = functools.partial(self.function, **fixed)
            self._programs[key] = _Program(f, self._grid, here, numbers, self.device)
            self.traces += 1
        return self._programs[key]


class _Program:
    """f made ready: reports forward and gradient, and measures slopes."""

    def __init__(self, f, grid, here, numbers, device):
        self._f, self._grid, self._device, self._notes = f, grid, device, {}
        self._span = float(grid[-1]) - float(grid[0])
        places = np.append(grid, here)
        self._prepare(_apply, _differentiate)
        if self._wants_scalars(places, numbers):
            self._prepare(_apply_scalar, _differentiate_scalar)
            self._note(
                "f takes one number, so it was evaluated one point at a time; tf.where "
                "and tf.math take all at once"
            )
        elif self._is_random(places, numbers):
            self._note("f gives other values each time it is asked, so its slope means nothing")
        elif not self._is_elementwise(places, numbers):
            self._prepare(_apply_each, _differentiate_each)
            self._note("f mixes the entries of x, so it was evaluated one point at a time")
        self._precision = self._finest(places, numbers)

    @property
    def notes(self):
        return tuple(self._notes)

    @property
    def is_precise(self):
        """Whether slopes are measured in float64."""
        return self._precision == "float64"

    def measure(self, places, others, upstream, numbers):
        """Forward and gradient at each place, then at others; and the slope at each place.

        Forward and gradient in float32, as a reader's program has them.
        """
        step = self._step(self._precision)
        with np.errstate(over="ignore"):  # at the ends of float32
            around = (places.astype(np.float64)[:, None] + step * _OFFSETS).astype(self._precision)
        asked = np.append(places, _float32(others))
        forward, gradient, values = self._report(numbers, asked, upstream, around.ravel())
        eps = np.finfo(self._precision).eps
        slope = slopes(values.reshape(around.shape), step, np.abs(places), eps)
        slope *= upstream
        return forward, gradient, slope

    def measure_fine(self, upstream, numbers):
        """`measure` at each point of the grid, with slopes from its neighbours."""
        half, eps = self._span / (len(self._grid) - 1), np.finfo(np.float64).eps
        grid, around = self._line
        forward, gradient, values = self._report(numbers, grid, upstream, around)
        slope = slopes_between(values, 2 * half, self._grid, eps)
        lost = np.count_nonzero(np.isnan(slope)) - np.count_nonzero(~np.isfinite(values))
        if lost > _LOST * len(slope):
            return self.measure(self._grid, (), upstream, numbers)
        slope *= upstream
        return forward, gradient, slope

    def rounding(self, forward, upstream):
        """How far from the truth rounding may take the gradient and the slope at each point."""
        eps = np.finfo(np.float32).eps
        measured = 4 * np.finfo(self._precision).eps / self._step(self._precision)
        size = np.abs(forward)  # made once: from here on it is changed in place
        size *= abs(upstream) * (2 * eps / np.abs(self._grid[[0, -1]]).max() + measured)
        size += abs(upstream) * (_INSIDE * eps + measured)
        return size

    def _step(self, precision):
        return 2.0 ** np.floor(np.log2(self._span)) * _STEP[precision]

    def _finest(self, places, numbers):
        """float64 where f takes it, computes in it and gives it back."""
        try:
            coarse = self._is_coarse(places, numbers)
        except Exception:  # whatever a function does with a dtype it wasn't written for
            return "float32"
        return "float32" if coarse else "float64"

    def _is_coarse(self, places, numbers):
        """Whether f gives or takes float32 although it is given float64: Keras, or a cast inside.

        Who casts x to float32 can't tell it from its float32 neighbour. Neither can a function
        that is constant there, so only places where f moves to both sides are asked.
        """
        step = 2.0**-16 * self._span
        here = places.astype(np.float64) + step / np.pi  # on no float32
        with np.errstate(over="ignore"):  # at the ends of float32
            neighbour = _float32(here)
        asked = np.concatenate([here, neighbour.astype(np.float64), here - step, here + step])
        (raw,) = self._run(self._apply, numbers, asked)
        if raw.dtype != tf.float64:
            return True
        here, neighbour, left, right = np.asarray(raw).reshape(4, -1)
        with np.errstate(all="ignore"):
            least = np.minimum(np.abs(here - left), np.abs(right - here))
            moves = np.isfinite(least) & (least > 1e-10 * np.abs(here))
        return moves.any() and np.mean(here[moves] == neighbour[moves]) > 0.1

    def _wants_scalars(self, places, numbers):
        """Whether f, with an `if` on x or Python's math in it, runs on single numbers only."""
        try:
            self._report(numbers, places)
        except (TypeError, ValueError) as problem:
            if not any(words in str(problem) for words in _NOT_A_NUMBER):
                raise
            self._check_scalars(places, numbers, problem)
            return True
        return False

    def _check_scalars(self, places, numbers, problem):
        try:
            for place in places[[0, -2, -1]]:
                _apply(self._f, tf.constant(place), numbers)
        except Exception:
            raise TypeError(
                f"f: {_name(self._f)} branches on x or makes a Python number of it, which takes "
                "one x at a time; use tf.where for the branch, tf.math for the function"
            ) from problem

    def _is_random(self, places, numbers):
        """Whether f gives other values for the same x."""
        once, again = (self._report(numbers, places)[0] for _ in range(2))
        return not np.array_equal(once, again, equal_nan=True)

    def _is_elementwise(self, places, numbers):
        """Whether a few points give alone what they give among the others."""
        together = self._report(numbers, places)
        for i in np.linspace(0, len(places) - 2, 5).astype(int)[1:-1]:
            alone = self._report(numbers, places[i : i + 1])
            for all_, one in zip(together, alone, strict=True):
                if not np.allclose(all_[i], one[0], rtol=1e-4, atol=1e-6, equal_nan=True):
                    return False
        return True

    @functools.cached_property
    def _line(self):
        """The grid, and its points and two more to either side in float64, kept as tensors."""
        first, half = float(self._grid[0]), self._span / (len(self._grid) - 1)
        around = np.arange(-2.0, len(self._grid) + 2) * half + first
        around[np.abs(around) < 1e-6 * half] = 0.0  # where poles and kinks are, exactly
        with tf.device(self._device.name):
            return tf.constant(self._grid), tf.constant(around)

    def _prepare(self, apply, differentiate):
        def report(values, x, upstream, *around):
            # In one call, which takes as long as what it does for some hundred points.
            reported = differentiate(self._f, x, values, upstream, self._note)
            return *reported, *(apply(self._f, each, values) for each in around)

        self._apply = _Traced(lambda values, x: (apply(self._f, x, values),))
        self._differentiate = _Traced(report)

    def _report(self, numbers, places, upstream=1.0, *around):
        """Forward and gradient at places, the latter with its gaps; and f around them, if asked."""
        forward, gradient, *values = self._call(
            self._differentiate, numbers, places, np.float32(upstream), *around
        )
        gradient[np.isnan(forward)] = np.nan
        return forward, gradient, *values

    def _note(self, text):
        self._notes[text] = True

    def _call(self, *arguments):
        return [np.asarray(result, np.float64) for result in self._run(*arguments)]

    def _run(self, traced, numbers, *arrays):
        with tf.device(self._device.name), warnings.catch_warnings():
            # NumPy's own remarks on log(-1) inside a reader's function: the curve shows a gap.
            warnings.simplefilter("ignore", RuntimeWarning)
            return traced(numbers, *arrays)


class _Traced:
    """A function run as a graph, traced once for each shape and dtype; in eager mode if that fails.

    The eager run serves functions that can't be traced (they branch on a value, or ask for
    ``.numpy()``), and for the others gives the exception as the reader's own code raises it,
    without the graph's wrapping. It takes the numbers as they came, as the graph takes tensors.
    """

    def __init__(self, function):
        self._function = function
        self._graphs = {}

    def __call__(self, numbers, *arrays):
        arrays = [tf.convert_to_tensor(array) for array in arrays]
        tensors = {name: _tensor(number) for name, number in numbers.items()}
        graph = self._graph(tensors, arrays)
        if graph is not None:
            with contextlib.suppress(Exception):  # a reader's function may raise anything at all
                return graph(tensors, *arrays)
        return self._function(numbers, *arrays)

    def _graph(self, tensors, arrays):
        key = tuple((tuple(array.shape), array.dtype) for array in arrays)
        if key not in self._graphs:
            self._graphs[key] = self._trace(tensors, arrays)
        return self._graphs[key]

    def _trace(self, tensors, arrays):
        # get_concrete_function, since calling many new tf.functions warns about retracing; without
        # AutoGraph, which warns about lambdas: what needs it runs in eager mode.
        traced = tf.function(self._function, autograph=False)
        try:
            return traced.get_concrete_function(tensors, *arrays)
        except Exception:
            return None


def _apply(f, x, values):
    y = f(x, **{name: _in_precision(value, x) for name, value in values.items()})
    if y is None:
        raise TypeError(f"f: {_name(f)} returned None; end it with return and its value")
    y = tf.convert_to_tensor(y, dtype_hint=x.dtype)
    if not y.dtype.is_floating:
        raise ValueError(
            f"f: returned {y.dtype.name}, through which no gradient flows; return a float"
        )
    if y.shape != x.shape:
        raise ValueError(_wrong_shape(f, y.shape, x.shape))
    return y


def _wrong_shape(f, got, given):
    """What the shape should be; n stands for the number of points, ours among them."""
    if given.rank == 0:
        return f"f: returned shape {got} for a single x; return one value"
    named = got if got.rank is None else tuple("n" if n == given[0] else n for n in got)
    shape = got if got.rank is None else f"({', '.join(map(str, named))}{',' * (len(named) == 1)})"
    help_ = "return one value for each x"
    if named == ("n", 1):
        help_ += f", such as lambda x: {_name(f)}(x[:, None])[:, 0]"
    return f"f: returned shape {shape} for x of shape (n,); {help_}"


def _name(f):
    """What a reader calls a function or a model."""
    f = f.func if isinstance(f, functools.partial) else f
    return getattr(f, "__name__", None) or getattr(f, "name", None) or type(f).__name__


def _apply_scalar(f, x, values):
    return _map(lambda each: _apply(f, each, values), x)


def _apply_each(f, x, values):
    return _map(lambda each: _apply(f, each[tf.newaxis], values)[0], x)


def _differentiate(f, x, values, upstream, note):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = _apply(f, x, values)
    gradient = tape.gradient(
        y, x, output_gradients=tf.fill(tf.shape(y), tf.cast(upstream, y.dtype))
    )
    if gradient is None:
        note("backprop reports None: nothing it can differentiate leads from f's value back to x")
        gradient = tf.fill(tf.shape(x), tf.constant(np.nan, x.dtype))
    return y, tf.convert_to_tensor(gradient)


def _differentiate_each(f, x, values, upstream, note):
    def alone(each):
        y, gradient = _differentiate(f, each[tf.newaxis], values, upstream, note)
        return y[0], gradient[0]

    return _map(alone, x)


def _differentiate_scalar(f, x, values, upstream, note):
    return _map(lambda each: _differentiate(f, each, values, upstream, note), x)


def _map(function, x):
    if tf.executing_eagerly():  # vectorized_map would trace, and that has failed already
        return tf.nest.map_structure(lambda *parts: tf.stack(parts), *map(function, x))
    return tf.vectorized_map(function, x, warn=False)


def slopes(values, step, distance, eps, size=None):
    """Finite differences from values at x and half a step and a step to either side.

    At a kink the two sides disagree however close one looks; at a jump the difference grows as
    one looks closer. Neither has a slope: NaN. (Away from them both shrink with the step.)

    Args:
        values: shape (n, 5): f at x − step, x − step/2, x, x + step/2, x + step.
        step: a number.
        distance: |x|, shape (n,): how coarse the x themselves are.
        eps: the spacing of the numbers next to 1.
        size: how large values get; None for as large as these.

    Returns:
        Shape (n,).

    >>> at = np.array([[0.0], [2.0]]) + np.array([-1, -0.5, 0, 0.5, 1]) * 2.0**-20
    >>> slopes(np.abs(at), 2.0**-20, np.array([0.0, 2.0]), 2e-16)
    array([nan,  1.])

    """
    with np.errstate(all="ignore"):
        far_left, left, here, right, far_right = np.asarray(values, np.float64).T
        near, wide = (right - left) / step, (far_right - far_left) / (2 * step)
        bend_near = 2 * (right - 2 * here + left) / step
        bend_wide = (far_right - 2 * here + far_left) / step
        size = _size(values) if size is None else size
        noise = 128 * eps * (size + distance * np.abs(near)) / step
        kink = (np.abs(bend_near) > 0.75 * np.abs(bend_wide)) & (
            np.abs(bend_near) > noise + 1e-4 * np.abs(near)
        )
        jump = (np.abs(near) > 1.2 * np.abs(wide)) & (np.abs(near) > noise)
        return np.where(kink | jump | ~np.isfinite(near), np.nan, near)


def slopes_between(values, step, x, eps):
    """`slopes` where the points are half a step apart, and so have each other's values.

    Where a function bends so much that they are too far apart to tell, as beside a pole: NaN too.

    Args:
        values: shape (n + 4,): f at the points, and at two more to either side of them.
        step: a number.
        x: the points, shape (n,).
        eps: the spacing of the numbers next to 1.

    Returns:
        Shape (n,).

    >>> at = np.arange(-4, 5) / 1024
    >>> slopes_between(np.abs(at), 1 / 512, at[2:-2], 2e-16)
    array([-1., nan, nan, nan,  1.])

    """
    slope, size = np.empty(len(x)), _size(values)
    least = min(1.0, size / (step * len(x)))  # a small slope, among these
    for some in _blocks(len(slope)):
        around = values[some.start : some.stop + 4]
        slope[some] = _slopes_in_block(around, step, x[some], eps, size, least)
    return slope


def _slopes_in_block(values, step, x, eps, size, least):
    with np.errstate(all="ignore"):
        moves = np.diff(values) / step
        slope = moves[1:-2] + moves[2:-1]
        bends, noise = np.abs(np.diff(moves)), 16 * eps * size / step
        # Who bends less than an eighth of the noise, here and next to here, has no kink or jump.
        if 2 * bends.max() <= 1e-4 * np.abs(slope).min() + noise:
            return slope
        bend = np.maximum(np.maximum(bends[:-2], bends[1:-1]), bends[2:])
        asked = np.flatnonzero(2 * bend > 1e-4 * np.abs(slope) + noise)
    around = values[asked[:, None] + np.arange(5)]
    near = slopes(around, step, np.abs(x[asked]), eps, size)
    with np.errstate(all="ignore"):
        wide = (around[:, 4] - around[:, 0]) / (2 * step)
        near[~(np.abs(near - wide) <= _TOLERANCE * (np.abs(near) + least))] = np.nan
    slope[asked] = near
    slope[~np.isfinite(slope)] = np.nan
    return slope


def _size(values):
    """The largest that is finite, in size."""
    largest = max(values.max(initial=0.0), -values.min(initial=0.0))
    if np.isfinite(largest):
        return largest
    size = np.abs(values)
    return size.max(where=np.isfinite(size), initial=0.0)


def integral(x, anchor, inner):
    """The integral of a gradient, equal to `anchor` at one point of each unbroken run.

    That point is the one nearest 0, where most functions are simple, or the middle of a run that
    ends there in a gap.

    Args:
        x: shape (n,), rising.
        anchor: shape (n,); not finite where the function is undefined: the integral breaks there.
        inner: shape (3 · (n − 1),), the gradient at three Gauss-Legendre nodes of each interval.

    Returns:
        Shape (n,); NaN in the gaps.

    """
    x = np.asarray(x, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        pieces = (inner.reshape(-1, len(_NODES)) @ _WEIGHTS) * np.diff(x) / 2
    return _joined(x, anchor, pieces)


def trapezoids(x, anchor, gradient):
    """`integral` of a gradient known at the points themselves, which are close together.

    >>> x = np.linspace(0, 2, 5)
    >>> trapezoids(x, x**2, 2 * x)
    array([0.  , 0.25, 1.  , 2.25, 4.  ])
    """
    x = np.asarray(x, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        pieces = gradient[1:] + gradient[:-1]
        pieces *= np.diff(x) / 2
    return _joined(x, anchor, pieces)


def _joined(x, anchor, pieces):
    there = np.isfinite(anchor)
    joined = np.isfinite(pieces) & there[1:] & there[:-1]
    pieces[~joined] = 0.0
    total, result = np.zeros(len(x)), np.full(len(x), np.nan)
    np.cumsum(pieces, out=total[1:])
    ends = np.flatnonzero(np.diff(joined, prepend=False, append=False))
    for first, last in ends.reshape(-1, 2):
        start = _start(x, first, last)
        run = slice(first, last + 1)
        np.add(total[run], anchor[start] - total[start], out=result[run])
    return result


def _start(x, first, last):
    """The point of a run nearest 0; its middle, if that is beside a gap, where poles like to be."""
    nearest = first + np.argmin(np.abs(x[first : last + 1]))
    beside_gap = nearest in (first, last) and 0 < nearest < len(x) - 1
    return first + (last - first + 1) // 2 if beside_gap else nearest


def parted(gradient, slope, rounding=0.0):
    """True where gradient and slope are both there and differ by more than rounding.

    That is by more than a thousandth, and by more than `rounding`, in the unit of the slope.

    >>> parted(np.array([1.0, 1.0, np.nan]), np.array([1.0, 2.0, 3.0]))
    array([False,  True, False])
    """
    gradient, slope = np.asarray(gradient), np.asarray(slope)
    rounding = np.broadcast_to(rounding, gradient.shape)
    least = 0.0  # the largest of all, or 1
    for some in _blocks(gradient.size):
        largest = np.maximum(np.abs(gradient[some]), np.abs(slope[some]))
        least = max(least, min(1.0, largest.max(where=np.isfinite(largest), initial=0.0)))
        if least == 1.0:
            break
    apart = np.empty(gradient.shape, bool)
    for some in _blocks(gradient.size):
        apart[some] = _apart(gradient[some], slope[some], rounding[some], least)
    return apart


def _apart(gradient, slope, rounding, least):
    with np.errstate(invalid="ignore"):
        difference = np.abs(gradient - slope)
    largest = np.maximum(np.abs(gradient), np.abs(slope))
    both = np.isfinite(largest)
    largest += least
    largest *= _TOLERANCE
    return both & (difference > np.maximum(largest, rounding))


def _blocks(size):
    """Slices of so many points that what is computed for them stays in the cache."""
    return (slice(first, first + _BLOCK) for first in range(0, size, _BLOCK))


def _float32(values):
    return np.asarray(values, np.float32)


def _tensor(number):
    """A number as float32 in any case, so that both precisions mean the same one."""
    return tf.constant(bool(number) if _is_bool(number) else float(number))


def _in_precision(value, x):
    """A number in the precision of x, where it is a tensor."""
    is_tensor = isinstance(value, tf.Tensor) and value.dtype.is_floating
    return tf.cast(value, x.dtype) if is_tensor else value


def _is_bool(value):
    return np.asarray(value).dtype == bool


def _is_number(value):
    if isinstance(value, bool | int | float | np.number | np.bool_):
        return True
    return isinstance(value, np.ndarray | tf.Tensor) and value.ndim == 0


def _key(fixed):
    """Values that are no numbers, told apart: by what they are, or by which object they are."""
    return tuple(
        sorted(
            (name, value if isinstance(value, str) else id(value)) for name, value in fixed.items()
        )
    )


def checked_range(x):
    """The lowest and the highest x as floats, or an error that says what a range is."""
    try:
        low, high = (float(end) for end in x)
    except (TypeError, ValueError):
        raise TypeError(
            f"x: got {x!r}; give the lowest and the highest x, such as (-3, 3)"
        ) from None
    if not (np.isfinite([low, high]).all() and np.float32(low) < np.float32(high)):
        raise ValueError(f"x: got {x!r}; the first must be finite and lie below the second")
    return low, high


def _checked_points(points):
    if isinstance(points, bool) or not isinstance(points, int | np.integer):
        raise TypeError(f"points: got {points!r}; give a whole number")
    if points < 2:
        raise ValueError(f"points: got {points}; a curve has at least 2")
    return int(points)


def checked_upstream(upstream):
    """Upstream as a float, or an error that names it."""
    try:
        return float(upstream)
    except (TypeError, ValueError):
        raise TypeError(f"upstream: got {upstream!r}; give a number") from None


def check_parameters(f, parameters):
    """Raise a TypeError that names the parameter f doesn't know, or the one it lacks."""
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):  # some built-in functions have none
        return
    try:
        signature.bind(None, **parameters)
    except TypeError as problem:
        raise TypeError(_what_is_wrong(f, signature, parameters) or f"f: {problem}") from None


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
# Names that can't be handed on to f, since they are arguments of `curve` and `explore`.
_TAKEN = {
    "x": "x is the range, and the first parameter is what moves along it",
    "points": "points says how many x there are",
    "upstream": "upstream is the gradient that arrives at f",
    "device": "device is where f runs",
    "compose": "compose is what an explorer applies to f",
    "probe": "probe is where an explorer draws the tangents",
    "believed": "believed is whether an explorer draws that curve",
}


def _what_is_wrong(f, signature, parameters):
    name = _name(f)
    takes = list(signature.parameters.values())[1:]
    known = [each.name for each in takes]
    for each in takes:
        missing = each.name not in parameters and each.default is each.empty
        if each.name in _TAKEN and missing and each.kind in _NAMED:
            first = next(iter(signature.parameters))
            return (
                f"{each.name}: {name} has a parameter of this name, which is taken here; "
                f"{_TAKEN[each.name]}. Rename it, or wrap it, the variable first: "
                f"lambda x, {first if each.name == 'x' else 'a'}: …"
            )
    for given in parameters:
        if given not in known:
            return (
                f"{given}: {name} has no such parameter; it takes {', '.join(known) or 'x alone'}"
            )
    for each in takes:
        if each.default is each.empty and each.name not in parameters:
            return f"{each.name}: {name} needs it; give a value, such as {each.name}=1.0"
    return ""
