"""The layer whose input goes through and whose gradient is clipped."""

import math

import tensorflow as tf

from gradlab.layers.sharing import GradientLayer, serializable, settable
from gradlab.ops.arguments import choice, gradient_tensor
from gradlab.ops.clipping import clip_gradient_by_norm, clip_gradient_by_value


@serializable
class ClipGradient(GradientLayer):
    """``clip_gradient_by_value`` or ``clip_gradient_by_norm`` as a layer.

    ::

        forward:  y = x
        gradient: max(min(g, clip_value_max), clip_value_min)          (g: upstream)
                  or g · min(1, clip_norm / ‖g‖), ‖·‖ over one example or the batch

    A loss that is a mean over the batch hands each example a gradient of the size 1/batch, and a
    ``LossScaleOptimizer``, as of ``mixed_float16``, multiplies all of g by the loss scale: the
    limit meets what comes of that. Clip in the optimizer to be free of the second. No forward
    mode.

    Args:
        clip_norm: number, 0 or more; a variable, ``layer.clip_norm``. Give it, or bounds.
        clip_value_min: number; a variable, ``layer.clip_value_min``. None for no lower bound.
        clip_value_max: likewise, for no upper bound. Where ``assign`` makes bounds cross, the
            lower one wins.
        norm_over: "batch": one norm over the whole gradient, as the op has it (in each replica,
            under a strategy); or "example": one for each element of the first axis.
        **kwargs: of every layer: ``name``, ``dtype``.

    Call with a float tensor, for clip_norm also a complex one; the output has its shape and dtype.

    Raises:
        TypeError: a limit isn't a real number, or x not one dense float tensor.
        ValueError: neither clip_norm nor a bound is given, or both; a limit is NaN or clip_norm
            negative; the bounds cross; norm_over is neither of the two; or an example is wanted
            of an x without axes.

    Source: Pascanu, Mikolov and Bengio, On the Difficulty of Training Recurrent Neural Networks,
    2013.

    >>> import gradlab as gl, tensorflow as tf
    >>> clip = gl.layers.ClipGradient(clip_norm=1.0, norm_over="example")
    >>> x = tf.Variable([[3.0, 4.0], [0.1, 0.2]])
    >>> with tf.GradientTape() as tape:
    ...     loss = tf.reduce_sum(clip(x) ** 2)
    >>> tape.gradient(loss, x).numpy().round(2).tolist()
    [[0.6..., 0.8...], [0.2..., 0.4...]]
    """

    def __init__(
        self,
        *,
        clip_norm=None,
        clip_value_min=None,
        clip_value_max=None,
        norm_over="batch",
        **kwargs,
    ):
        super().__init__(**kwargs)
        by_value = clip_value_min is not None or clip_value_max is not None
        _check_measure(clip_norm is not None, by_value, norm_over)
        self.norm_over = norm_over
        self._first = {
            "clip_norm": clip_norm,
            "clip_value_min": clip_value_min,
            "clip_value_max": clip_value_max,
        }
        self._clip_norm = None if by_value else self.number("clip_norm", clip_norm)
        self._clip_value_min = self._clip_value_max = None
        if by_value:
            self._make_bounds(clip_value_min, clip_value_max)

    clip_norm = settable("clip_norm")
    clip_value_min = settable("clip_value_min")
    clip_value_max = settable("clip_value_max")

    def _make_bounds(self, low, high):
        low, high = (-math.inf if low is None else low), (math.inf if high is None else high)
        self._clip_value_min = self.number("clip_value_min", low)
        self._clip_value_max = self.number("clip_value_max", high)
        if low > high:
            raise ValueError(
                f"ClipGradient: clip_value_min must not exceed clip_value_max, got {low} and "
                f"{high}. Swap them."
            )

    def check_number(self, argument, value):
        """Refuse a negative norm."""
        if argument == "clip_norm" and value < 0:
            raise ValueError(
                f"ClipGradient: clip_norm must not be negative, got {value}. Use 0 to block the "
                f"gradient, and ReverseGradient to reverse it."
            )

    def call(self, inputs):
        """Return the input, whose gradient is clipped."""
        if self.clip_norm is None:
            low, high = map(tf.convert_to_tensor, (self.clip_value_min, self.clip_value_max))
            return clip_gradient_by_value(inputs, low, high)
        x = gradient_tensor("clip_gradient_by_norm", "x", inputs)
        return clip_gradient_by_norm(x, tf.convert_to_tensor(self.clip_norm), self._axes(x))

    def _axes(self, x):
        if self.norm_over == "batch":
            return None
        if not x.shape.rank:
            raise ValueError(
                f"ClipGradient: x must have a first axis, that of the examples, got shape "
                f"{x.shape}. Use norm_over='batch', or tf.ensure_shape before."
            )
        return list(range(1, x.shape.rank))

    def get_config(self):
        """Return what ``from_config`` needs: limits are those that the layer began with."""
        limits = {name: None if v is None else float(v) for name, v in self._first.items()}
        return {**super().get_config(), **limits, "norm_over": self.norm_over}


def _check_measure(by_norm, by_value, norm_over):
    if by_norm == by_value:
        raise ValueError(
            f"ClipGradient: give clip_norm, or clip_value_min and clip_value_max, got "
            f"{'both' if by_norm else 'neither'}. To clip by both, use two layers."
        )
    choice("ClipGradient", "norm_over", norm_over, ("batch", "example"))
    if by_value and norm_over != "batch":
        raise ValueError(
            f"ClipGradient: norm_over={norm_over!r} belongs to clip_norm, got bounds, which each "
            f"element meets by itself. Leave it out."
        )
