"""The error of a finite difference against its step: why a check of a gradient must choose one.

Too long a step leaves out how the function bends: truncation. Too short a step divides the
rounding of two almost equal values by almost nothing. The best step lies where the two meet.
"""

import dataclasses
from collections import namedtuple

import numpy as np
import tensorflow as tf

from gradlab.checks.slopes import Rows, epsilon, measure

STEPS = 10.0 ** np.linspace(-16, 0, 65)
ORDERS = {"central": 2, "forward": 1}  # truncation falls with this power of the step
WINDOW = np.linspace(-2, 2, 161)  # in steps from x
_PAIR = 4  # places from a step to one ten times as long
_SURE = 100.0  # times the rounding error, above which a change is none of it
_ALIKE = 4.0  # constants this many times apart belong to no power of the step


@dataclasses.dataclass(frozen=True)
class Errors:
    """How far a difference is from the gradient, for each of `STEPS`, in one precision.

    Attributes:
        differences: what the finite difference measures.
        errors: their distance from the gradient.
        rounding: what rounding may do to them, estimated: it falls with the step.
        truncation: what the step leaves out, estimated: it rises with a power of the step. NaN
            where there is no such power, as beside a kink.
        best: the step at which the two estimates meet.
        least: the sum of both there, and of the gap between gradient and slope.
        window: f around x, for a step of its own: (f(x + w · step) − f(x)) / step for each w
            of `WINDOW`.
        secant: the difference for that step.
        size: how far that is off, about.
        why: by what: "truncation", "rounding", "a kink nearby", "gradient and slope differ", or
            "x + step is x", as where a step is less than the distance to the next number.

    """

    differences: np.ndarray
    errors: np.ndarray
    rounding: np.ndarray
    truncation: np.ndarray
    best: float
    least: float
    window: np.ndarray
    secant: float
    size: float
    why: str


@dataclasses.dataclass(frozen=True)
class StepSizes:
    """Finite differences of a function at one x.

    Attributes:
        x: where; a float32, so that both precisions mean the same x.
        step: the step that `window` and `secant` belong to.
        gradient: what backprop reports, in the finest precision that f takes.
        slope: the truth: a difference in that precision, less its truncation.
        gap: how far gradient and slope are apart, or 0 where that may be rounding.
        by_dtype: `Errors` for "float64", where f takes it, and "float32".

    """

    x: float
    step: float
    gradient: float
    slope: float
    gap: float
    by_dtype: dict[str, Errors]


class Stepper:
    """Measures `StepSizes` of one function, at one x after another: traced once.

    Args:
        f: a function of a float tensor x of shape (1,), that returns one value.
        x: a number, somewhere where f is defined.

    Raises:
        TypeError, ValueError: naming f. What f itself raises comes through.

    >>> sizes = Stepper(tf.sin)(1.0, 1e-3, "central")
    >>> [f"{dtype} {errors.best:.0e}" for dtype, errors in sizes.by_dtype.items()]
    ['float64 9e-06', 'float32 8e-03']

    """

    def __init__(self, f, x=1.0):
        if not callable(f):
            raise TypeError(f"f: got {f!r}; give a function of a tensor x")
        self._f = f
        vectors = {dtype: _in(dtype, f) for dtype in _DTYPES}
        if not _takes_float64(f, x):
            del vectors["float64"]
        point = np.array([np.float32(x)], np.float64)
        self._rows = {d: Rows(vector, point, epsilon(d)) for d, vector in vectors.items()}
        for rows in self._rows.values():
            _ = rows.is_batched  # found out at this point, before another is put in its place
        self._finest = next(iter(vectors))
        self._gradient = _gradient_of(vectors[self._finest])

    def __call__(self, x, step, difference):
        """Measure at x, by a "central" or a "forward" difference; look closely at one step."""
        with np.errstate(all="ignore"):  # f may be infinite, or not be there at all
            return self._measured(x, step, difference)

    def _measured(self, x, step, difference):
        x = np.float64(np.float32(x))
        power = ORDERS[difference]
        gradient = float(self._gradient(tf.constant([x])))
        scans = {dtype: self._scan(dtype, x, step, difference) for dtype in self._rows}
        finest = scans[self._finest]
        size = abs(finest.here) + abs(x * gradient)
        noises = {d: _Noise(rows.eps, size / power) for d, rows in self._rows.items()}
        constant = _constant(finest.differences, noises[self._finest], power)
        slope, doubt = _slope(finest.differences, noises[self._finest], constant, power)
        gap = abs(gradient - slope) if not abs(gradient - slope) <= _SURE * doubt else 0.0
        errors = {
            dtype: _errors(scan, step, gradient, gap, noises[dtype], constant, power)
            for dtype, scan in scans.items()
        }
        return StepSizes(float(x), float(step), gradient, slope, gap, errors)

    def _scan(self, dtype, x, step, difference):
        rows = self._rows[dtype]
        rows.point = np.array([x])
        slopes = measure(rows, np.ones((STEPS.size, 1)), STEPS, _rounded_to(dtype))
        differences = (slopes.central if difference == "central" else slopes.ahead)[:, 0]
        around = rows(_rounded_to(dtype)(x + step * WINDOW[:, None]))[:, 0]
        here, behind, ahead = around[np.searchsorted(WINDOW, [0, -1, 1])]
        rise = (ahead - behind) / 2 if difference == "central" else ahead - here
        lost = _rounded_to(dtype)(x + step) == x
        return _Scan(differences, rise / step, here, (around - here) / step, lost)


_DTYPES = ("float64", "float32")
_Scan = namedtuple("_Scan", ["differences", "secant", "here", "window", "lost"])


class _Noise(namedtuple("_Noise", ["eps", "size"])):
    """What rounding does to a difference: to the values, and to the quotient."""

    def at(self, steps, differences):
        return self.eps * (self.size / steps + np.abs(differences))


def _in(dtype, f):
    """f as a function from float64 to float64 that computes in another dtype."""

    def vector(point):
        y = f(tf.cast(point, dtype))
        if y is None:
            raise TypeError("f: it returned None; end it with return and its value")
        y = tf.convert_to_tensor(y)
        if y.shape.num_elements() != 1:
            raise ValueError(f"f: returned shape {y.shape} for x of shape (1,); return one value")
        return tf.reshape(tf.cast(y, tf.float64), [1])

    return vector


def _rounded_to(dtype):
    return lambda points: points.astype(dtype).astype(np.float64)


def _takes_float64(f, x):
    try:
        return tf.convert_to_tensor(f(tf.constant([x], tf.float64))).dtype == tf.float64
    except Exception:  # whatever a function does with a dtype it wasn't written for
        return False


def _gradient_of(vector):
    """The gradient of a function of one number, traced if it can be; NaN where it is None."""

    def gradient(point):
        with tf.GradientTape() as tape:
            tape.watch(point)
            y = vector(point)
        found = tape.gradient(y, point)
        return tf.constant(np.nan, tf.float64) if found is None else tf.reshape(found, [])

    try:
        traced = tf.function(gradient, autograph=False)
        return traced.get_concrete_function(tf.TensorSpec([1], tf.float64))
    except Exception:  # f may ask for a value, which a graph doesn't have
        return gradient


def _constant(differences, noise, power):
    """By how much a step to a power puts a difference off; 0 for none, NaN for no such power."""
    near, far = differences[:-_PAIR], differences[_PAIR:]
    short, long = STEPS[:-_PAIR], STEPS[_PAIR:]
    sure = np.abs(far - near) > _SURE * noise.at(short, near)
    found = ((far - near) / (long**power - short**power))[sure][:5]
    if not found.size:
        return 0.0
    alike = np.abs(found).max() <= _ALIKE * np.abs(found).min() and np.ptp(np.sign(found)) == 0
    return float(np.median(found)) if alike else np.nan


def _slope(differences, noise, constant, power):
    """The truth, from the difference whose step is best, and how far rounding may put it off."""
    at = int(np.abs(np.log(STEPS / _best(differences, noise, constant, power))).argmin())
    left_out = constant * STEPS[at] ** power if np.isfinite(constant) else 0.0
    slope = float(differences[at] - left_out)
    return slope, float(noise.at(STEPS[at], slope))


def _best(differences, noise, constant, power):
    """The step at which truncation and rounding have the least sum."""
    if constant and np.isfinite(constant):
        best = (noise.eps * noise.size / (power * abs(constant))) ** (1 / (power + 1))
        return float(np.clip(best, STEPS[0], STEPS[-1]))
    # No truncation up to some step, if at all: the longest that changes nothing but by rounding.
    steady = np.abs(np.diff(differences)) <= 4 * noise.at(STEPS, differences)[:-1]
    return float(STEPS[1:][steady].max(initial=STEPS[0]))


def _errors(scan, step, gradient, gap, noise, constant, power):
    best = _best(scan.differences, noise, constant, power)
    left_out = abs(constant) * best**power if np.isfinite(constant) else 0.0
    size, why = _verdict(scan, step, gradient, gap, noise, constant, power)
    return Errors(
        differences=scan.differences,
        errors=np.abs(scan.differences - gradient),
        rounding=noise.eps * noise.size / STEPS,
        truncation=abs(constant) * STEPS**power,
        best=best,
        least=float(left_out + noise.at(best, gradient) + gap),
        window=scan.window,
        secant=float(scan.secant),
        size=float(size),
        why=why,
    )


def _verdict(scan, step, gradient, gap, noise, constant, power):
    """How far the difference for one step is off, about, and by what."""
    if scan.lost and scan.secant == 0 != gradient:
        return abs(gradient), "x + step is x"
    rounding = noise.at(step, gradient)
    measured = abs(scan.secant - gradient)
    if np.isnan(constant) and measured > 10 * max(rounding, gap):
        return measured, "a kink nearby"
    reasons = {"rounding": rounding, "truncation": abs(constant) * step**power}
    if gap:
        reasons["gradient and slope differ"] = gap
    why = max(reasons, key=lambda reason: np.nan_to_num(reasons[reason]))
    return reasons[why], why
