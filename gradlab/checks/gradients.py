"""check_gradient: the gradient that backprop reports, held against the slope.

The slopes come from central differences in float64 where f can be evaluated there, whatever the
dtype of its arguments: the rounding of a float16 forward then doesn't hide a wrong gradient.
A function of few elements is walked along every one; a larger one along random directions, and
the element at fault is found by halving. Each order checks the gradient of the order below,
as a function of the arguments and of the upstream.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from gradlab.checks import leaves as lv
from gradlab.checks.quiet import FunctionRaised, its_errors, quiet
from gradlab.checks.reports import FAIL, GradientCheck, Part
from gradlab.checks.slopes import epsilon
from gradlab.checks.walks import Walk, upstream
from gradlab.ops.arguments import is_number

MODES = ("reverse", "forward")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the caller chose, and who is called."""

    caller: str
    order: int
    modes: tuple
    rtol: float | None
    atol: float
    every_element: bool | None
    seed: int

    def __post_init__(self):
        if not isinstance(self.order, int) or self.order not in (1, 2, 3):
            raise ValueError(f"order must be 1, 2 or 3, got {self.order!r}")
        listed = isinstance(self.modes, (list, tuple, set, frozenset))
        if not listed or not self.modes or set(self.modes) - set(MODES):
            raise ValueError(f"modes must be some of {MODES}, got {self.modes!r}")
        for name in ("rtol", "atol"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and 0 <= value < np.inf):
                raise ValueError(f"{name} must be a finite number, zero or more, got {value!r}")


def check_gradient(
    f,
    *args,
    order=2,
    modes=MODES,
    rtol=None,
    atol=0.0,
    every_element=None,
    seed=0,
):
    """Check the gradients of f at args against slopes measured by finite differences.

    checked: uᵀ(∂f/∂x), the gradient for an upstream u
    against: uᵀ(f(x + hd) − f(x − hd)) / 2h, the slope along directions d

    Where f has a kink or a jump no slope exists: such elements are named and set aside, and the
    gradient there need only lie between the slopes of the two sides. A gradient of None counts
    as zero. A complex gradient follows TensorFlow: ∂L/∂x + i ∂L/∂y.

    Args:
      f: a function of tensors; its result may be a nested structure. It is called in eager mode
        and, to measure slopes, vectorised in a graph; what can't be vectorised is called once
        per point.
      *args: its arguments: tensors, arrays, numbers and structures of them, any shape. Float
        and complex ones are differentiated; others, and Python integers, are handed on. A list
        of plain numbers counts as one tensor.
      order: the highest derivative to check, 1, 2 or 3.
      modes: some of "reverse" (tf.GradientTape) and "forward" (tf.autodiff.ForwardAccumulator).
      rtol: the error allowed relative to the slope. None: 1e-6 in float64, 5e-4 in float32,
        2e-2 in float16, 0.1 in bfloat16, by the coarsest precision at work.
      atol: an absolute error allowed besides, in units of the slope.
      every_element: whether to walk along every single element. None: when there are few
        (about a thousand); else along 8 random directions.
      seed: for upstreams and directions. The same seed gives the same result.

    Returns:
      A GradientCheck: ``.ok`` (also its truth value), ``.verdict``, ``.parts``, ``.worst``,
      ``.raise_if_failed()``, ``.plot()``; it prints and shows as a table in a notebook.

    Raises:
      TypeError: f isn't callable, no argument has a float or complex dtype, or f returns none.
      ValueError: an argument or a result of f isn't finite, or an option is out of range.
      RuntimeError: called inside a tf.function.

    Example:
      >>> import tensorflow as tf
      >>> import gradlab as gl
      >>> gl.check_gradient(tf.sin, tf.constant([0.0, 1.0]), order=1, modes=("reverse",))
      check_gradient(sin): pass
        order 1, reverse: pass
          2 of 2 input elements, to within 5e-04

    Source: the checkers shipped with autograd, JAX (``check_grads``) and PyTorch (``gradcheck``).
    """
    settings = Settings("check_gradient", order, modes, rtol, atol, every_element, seed)
    return compare(f, f, args, settings)


def compare(f, reference, args, settings):
    """Check the gradients of f against the slopes of ``reference``, which may be f itself."""
    require_callable(f, settings.caller)
    with quiet():
        arguments = lv.Arguments(args, settings.caller)
        title = f"{settings.caller}({getattr(f, '__name__', type(f).__name__)})"
        value = arguments.call(f, arguments.tensors)
        outs = lv.result_leaves(value)
        _require_finite(lv.inexact(value), outs)
        trouble = _unsteady(f, arguments, value) or _first_gradient(f, arguments, outs, settings)
        if trouble:
            return GradientCheck(title, (), trouble)
        return GradientCheck(title, tuple(_parts(f, reference, arguments, outs, settings)))


def require_callable(f, caller):
    """Refuse what isn't a function, and being called inside a tf.function."""
    if not callable(f):
        raise TypeError(
            f"f must be callable, got {lv.describe(f)}: call {caller}(f, x), not {caller}(f(x))"
        )
    if not tf.executing_eagerly():
        raise RuntimeError(
            f"{caller} runs in eager mode, not inside a tf.function: call it outside"
        )


def _require_finite(tensors, outs):
    for leaf, tensor in zip(outs, tensors, strict=True):
        bad = np.flatnonzero(~np.isfinite(lv.to_vector([tensor])))
        if bad.size:
            raise ValueError(
                f"{leaf.coordinate_name(int(bad[0]))} isn't finite at these arguments, so it has "
                "no slope: choose arguments where f is finite"
            )


def _unsteady(f, arguments, value):
    """What to say when f returns something else the second time."""
    once, again = (lv.inexact(v) for v in (value, arguments.call(f, arguments.tensors)))
    eps = max(epsilon(tensor.dtype) for tensor in once)
    once, again = lv.to_vector(once), lv.to_vector(again)
    if once.shape == again.shape and np.all(np.abs(once - again) <= 16 * eps * (1 + np.abs(once))):
        return ""
    return (
        "f isn't deterministic: two calls with the same arguments differ. "
        "Seed its random numbers, or hand them in as an argument"
    )


def _first_gradient(f, arguments, outs, settings):
    """What to say when the tape raises, or hands back a gradient of another shape or dtype."""
    if "reverse" not in settings.modes and settings.order == 1:
        return ""
    upstreams = lv.from_vector(upstream(lv.count(outs), settings.seed), outs)
    try:
        with its_errors():
            gradients = tape_gradient(f, arguments, arguments.tensors, upstreams)
    except FunctionRaised as raised:
        return f"reverse mode raises {raised}"
    pairs = zip(arguments.leaves, gradients, strict=True)
    return "; ".join(_misfit(leaf, gradient) for leaf, gradient in pairs if _misfit(leaf, gradient))


def _misfit(leaf, gradient):
    if gradient is None:
        return ""
    if tuple(gradient.shape) != leaf.shape:
        return f"the gradient of {leaf.name} has shape {tuple(gradient.shape)}, not {leaf.shape}"
    if gradient.dtype != leaf.dtype:
        return f"the gradient of {leaf.name} is {gradient.dtype.name}, not {leaf.dtype.name}"
    return ""


def tape_gradient(f, arguments, tensors, upstreams):
    """Gradients of f at ``tensors`` for ``upstreams``; None where none flows."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(tensors)
        outputs = lv.inexact(arguments.call(f, tensors))
    gradients = tape.gradient(outputs, tensors, output_gradients=upstreams)
    return [None if g is None else tf.convert_to_tensor(g) for g in gradients]


def _parts(f, reference, arguments, outs, settings):
    level = _first_level(f, reference, arguments, outs)
    for order in range(1, settings.order + 1):
        yield from _parts_of_order(level, order, settings)
        level = level.above(settings.seed + order)


def _parts_of_order(level, order, settings):
    try:
        walk = Walk(level, order, settings)
    except FunctionRaised as raised:
        return [_raised(order, mode, raised) for mode in settings.modes]
    return [_checked(walk, order, mode) for mode in settings.modes]


def _checked(walk, order, mode):
    try:
        return walk.part(mode)
    except FunctionRaised as raised:
        return _raised(order, mode, raised)


def _raised(order, mode, raised):
    return Part(order, mode, FAIL, reason=f"raises {raised}")


@dataclasses.dataclass(frozen=True)
class Level:
    """A derivative as a vector function: f itself, its gradient, the gradient of that."""

    own: Callable
    reference: Callable
    point: np.ndarray
    ins: tuple
    outs: tuple
    rounded: Callable
    eps: float
    reference_eps: float

    def above(self, seed):
        """The gradient of this level, as a function of its point and of the upstream."""
        size = self.point.size
        upstreams = tuple(_renamed(leaf, "upstream of ") for leaf in self.outs)
        return dataclasses.replace(
            self,
            own=_gradient_of(self.own, size),
            reference=_gradient_of(self.reference, size),
            point=np.concatenate([self.point, upstream(lv.count(self.outs), seed)]),
            ins=self.ins + upstreams,
            outs=tuple(_renamed(leaf, "gradient of ") for leaf in self.ins),
            rounded=_rounder(self.ins + upstreams) if self.rounded is not _exact else _exact,
        )


def _renamed(leaf, prefix):
    return dataclasses.replace(leaf, name=prefix + leaf.name)


def _first_level(f, reference, arguments, outs):
    fine = tuple(leaf.with_dtype(tf.float64) for leaf in arguments.leaves)
    own, finest = (
        _as_vector(g, arguments, ins) for g, ins in ((f, arguments.leaves), (reference, fine))
    )
    plain = _as_vector(reference, arguments, arguments.leaves)
    point = lv.to_vector(arguments.tensors)
    eps = max(epsilon(leaf.dtype) for leaf in (*arguments.leaves, *outs))
    in_float64 = _agrees(finest, plain, point, eps)
    return Level(
        own=own,
        reference=finest if in_float64 else plain,
        point=point,
        ins=arguments.leaves,
        outs=outs,
        rounded=_exact if in_float64 else _rounder(arguments.leaves),
        eps=eps,
        reference_eps=epsilon(tf.float64) if in_float64 else eps,
    )


def _as_vector(f, arguments, leaves):
    return lambda vector: lv.pack(lv.inexact(arguments.call(f, lv.from_vector(vector, leaves))))


def _gradient_of(vector, size):
    def gradient(point):
        x, upstreams = point[:size], point[size:]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x)
            y = vector(x)
        return tape.gradient(
            y, x, output_gradients=upstreams, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )

    return gradient


def _agrees(finest, plain, point, eps):
    """Whether the function works in float64, and is the same function there."""
    expected = plain(tf.constant(point)).numpy()
    try:
        got = finest(tf.constant(point)).numpy()
    except Exception:  # a function tied to its dtype may raise anything: its own dtype remains
        return False
    room = 64 * eps * (np.abs(expected) + np.abs(expected).max(initial=0.0))
    return got.shape == expected.shape and bool(np.all(np.abs(got - expected) <= room))


def _exact(points):
    return points


def _rounder(leaves):
    """Rounds the coordinates of points to what the dtypes of ``leaves`` can hold."""
    kinds = [leaf.dtype.real_dtype.as_numpy_dtype for leaf in leaves]
    ends = np.cumsum([leaf.coordinates for leaf in leaves])[:-1]

    def rounded(points):
        parts = np.split(points, ends, axis=1)
        parts = [part.astype(kind).astype(float) for part, kind in zip(parts, kinds, strict=True)]
        return np.concatenate(parts, axis=1)

    return rounded
