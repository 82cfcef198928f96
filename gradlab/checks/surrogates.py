"""check_surrogate: an op against the backward function whose gradient it declares."""

import tensorflow as tf

from gradlab.checks import leaves as lv
from gradlab.checks.gradients import MODES, Settings, compare


def check_surrogate(
    f,
    backward,
    *args,
    order=2,
    modes=MODES,
    rtol=None,
    atol=0.0,
    every_element=None,
    seed=0,
):
    """Check that f, whatever it returns, has the gradients of the function ``backward``.

    checked: the gradient of f, to second order and in forward mode
    against: the slope of backward, uᵀ(backward(x + hd) − backward(x − hd)) / 2h

    A surrogate gradient differs from the slope of its forward on purpose, so check_gradient
    fails on it; this check holds it to what it declares. ``backward`` is the function whose
    slope is the gradient: x for a straight-through estimator, the primitive of the surrogate's
    derivative for a spike. A rule that isn't linear in the upstream, such as a clip, is the
    gradient of no function and can't be checked so.

    Args:
      f: the op, a function of tensors.
      backward: a function of the same arguments whose result has the shape of f's.
      *args: tensors, as in check_gradient.
      order: as in check_gradient.
      modes: as in check_gradient.
      rtol: as in check_gradient.
      atol: as in check_gradient.
      every_element: as in check_gradient.
      seed: as in check_gradient.

    Returns:
      A GradientCheck, as check_gradient does.

    Raises:
      TypeError: f or backward isn't callable, or no argument has a float or complex dtype.
      ValueError: backward's result has another shape than f's, or isn't finite.
      RuntimeError: called inside a tf.function.

    Example:
      >>> import tensorflow as tf
      >>> import gradlab as gl
      >>> ste = lambda x: x + tf.stop_gradient(tf.round(x) - x)
      >>> bool(gl.check_gradient(ste, [0.2, 1.7]))
      False
      >>> bool(gl.check_surrogate(ste, lambda x: x, [0.2, 1.7]))
      True

    Source: larq and rlax test their rules against the function each claims to descend.
    """
    if not callable(backward):
        raise TypeError(
            f"backward must be a function of the same arguments as f, got {lv.describe(backward)}; "
            "for a straight-through estimator give lambda x: x"
        )
    settings = Settings("check_surrogate", order, modes, rtol, atol, every_element, seed)
    return compare(f, _shaped_like(f, backward), args, settings)


def _shaped_like(f, backward):
    """``backward``, refusing results that don't fit those of f."""

    def checked(*args):
        value = backward(*args)
        if tf.executing_eagerly():
            _require_fit(f(*args), value)
        return value

    return checked


def _require_fit(value, other):
    ours, theirs = (lv.result_leaves(v) for v in (value, other))
    shapes, others = ([leaf.shape for leaf in leaves] for leaves in (ours, theirs))
    if shapes != others:
        raise ValueError(
            f"backward returns shapes {others} where f returns {shapes}: "
            "its result must have the shape of f's"
        )
