"""The ops as one explicit table: a row here, and an op has its explorer and its tests."""

import numpy as np
import tensorflow as tf

from gradlab.ops.clipping import (
    clip_gradient_by_norm,
    clip_gradient_by_value,
    clip_gradients_by_global_norm,
)
from gradlab.ops.custom import custom_gradient
from gradlab.ops.modifying import (
    mask_gradient,
    record_gradient,
    reverse_gradient,
    scale_gradient,
    zero_nonfinite_gradient,
)
from gradlab.ops.overriding import override_gradient, register_gradient
from gradlab.ops.python import numpy_op, py_func
from gradlab.ops.rectifiers import deconv_relu, guided_relu, redirected_relu
from gradlab.ops.replacing import (
    clip_by_value_preserve_gradient,
    replace_gradient,
    stop_gradient_trick,
    straight_through,
)
from gradlab.ops.surrogates import (
    S2NN,
    ATan,
    Boxcar,
    Erf,
    FastSigmoid,
    LeakyReLU,
    LogTailedReLU,
    NonzeroSignLogAbs,
    PiecewiseExp,
    QPseudoSpike,
    Sigmoid,
    SoftSign,
    SquarewaveFourierSeries,
    Triangular,
    TripleGaussian,
    approx_sign,
    heaviside_ste,
    quantize_ste,
    round_ste,
    sign_ste,
    spike,
    swish_sign,
    ternary_ste,
)
from gradlab.specs import OpSpec, ParamSpec

_STEPS = (("round", tf.round), ("sign", tf.sign), ("floor", tf.floor))
_SURROGATES = (("x", tf.identity), ("tanh", tf.tanh), ("sin", tf.sin))
_FORWARD = ParamSpec("forward", "round", kind="choice", choices=_STEPS, help="what it returns")
_BACKWARD = ParamSpec(
    "backward", "x", kind="choice", choices=_SURROGATES, help="whose gradient it has"
)
_CLIP_NORM = ParamSpec("clip_norm", 1.0, 0.0, 3.0, help="the norm a gradient is shortened to")
_CLIP_VALUES = (
    ParamSpec("clip_value_min", -1.0, -3.0, 0.0, help="the least gradient let through"),
    ParamSpec("clip_value_max", 1.0, 0.0, 3.0, help="the greatest gradient let through"),
)
_WINDOW = ParamSpec("clip_value", 1.0, 0.0, 3.0, help="where the gradient stops")
_FAMILIES = (
    ("Sigmoid", Sigmoid),
    ("FastSigmoid", FastSigmoid),
    ("ATan", ATan),
    ("Triangular", Triangular),
    ("PiecewiseExp", PiecewiseExp),
    ("Erf", Erf),
    ("SoftSign", SoftSign),
    ("Boxcar", Boxcar),
    ("LeakyReLU", LeakyReLU),
    ("NonzeroSignLogAbs", NonzeroSignLogAbs),
    ("S2NN", S2NN),
    ("QPseudoSpike", QPseudoSpike),
    ("LogTailedReLU", LogTailedReLU),
    ("SquarewaveFourierSeries", SquarewaveFourierSeries),
    ("TripleGaussian", TripleGaussian),
)
_RECTIFIER = (
    ParamSpec("negative_slope", 0.0, 0.0, 0.5, help="the slope below 0"),
    ParamSpec("max_value", 2.0, 0.5, 3.0, help="where it stops rising"),
)


def _root_of_positive_part(x):
    """√max(x, 0), whose gradient is 0 · ∞ = NaN below zero, where nothing mends it."""
    return tf.sqrt(tf.nn.relu(zero_nonfinite_gradient(x)))


def _each_by_norm(x, clip_norm):
    return clip_gradient_by_norm(x[:, tf.newaxis], clip_norm, axes=-1)[:, 0]


def _beside_its_twin(x, clip_norm):
    """x as one of two values that a loss depends on alike, their gradients clipped jointly."""
    mine, twin = clip_gradients_by_global_norm([x, tf.stop_gradient(x)], clip_norm)
    return mine + twin - tf.stop_gradient(twin)


def _recorded(x):
    return record_gradient(x, lambda upstream: None)


def _softened_sign(x, steepness):
    @custom_gradient
    def sign(x):
        return tf.sign(x), lambda g: g * steepness / tf.square(tf.cosh(steepness * x))

    return sign(x)


def _identity_clipped(x, limit):
    def rule(op, g):
        return tf.clip_by_value(g, -tf.cast(limit, g.dtype), tf.cast(limit, g.dtype))

    return override_gradient({"Identity": rule})(tf.identity)(x)


def _pass_on(op, g):
    return g


def _round_passed_on(x):
    return override_gradient({"Round": register_gradient(_pass_on)})(tf.round)(x)


def _quantized(x, bits, **grid):
    return quantize_ste(x, tf.cast(bits, tf.int32), **grid)


def _spike(x, surrogate, alpha):
    return spike(x, surrogate(alpha))


_remainder = numpy_op(np.mod, lambda x, y, g: (g, -np.floor(x / y) * g))


def _mod(x, y):
    return _remainder(x, y)


def _square_by_hand(x, factor):
    square = py_func(np.square, [x], x.dtype, grad=lambda op, g: factor * op.inputs[0] * g)
    return tf.ensure_shape(square, x.shape)


def _table(*rows):
    return {row.name: row for row in rows}


SPECS = _table(
    OpSpec(
        "scale_gradient",
        scale_gradient,
        (ParamSpec("scale", 0.5, -2.0, 2.0),),
        scale_gradient,
        compose="x²/2",
        forward_formula="x",
        gradient_formula="scale · g",
        room="modifying",
    ),
    OpSpec(
        "reverse_gradient",
        reverse_gradient,
        (ParamSpec("scale", 1.0, 0.0, 2.0),),
        reverse_gradient,
        compose="x²/2",
        forward_formula="x",
        gradient_formula="−scale · g",
        room="modifying",
    ),
    OpSpec(
        "mask_gradient",
        mask_gradient,
        (ParamSpec("mask", False, kind="bool", help="whether the gradient passes"),),
        mask_gradient,
        compose="x²/2",
        forward_formula="x",
        gradient_formula="g where the mask is true, else 0",
        room="modifying",
    ),
    OpSpec(
        "zero_nonfinite_gradient",
        zero_nonfinite_gradient,
        (),
        _root_of_positive_part,
        forward_formula="x",
        gradient_formula="g where finite, else 0",
        room="modifying",
    ),
    OpSpec(
        "record_gradient",
        record_gradient,
        (),
        _recorded,
        compose="sin x",
        forward_formula="x",
        gradient_formula="g, handed to `record` on the way",
        room="modifying",
    ),
    OpSpec(
        "clip_gradient_by_value",
        clip_gradient_by_value,
        _CLIP_VALUES,
        clip_gradient_by_value,
        compose="x²/2",
        forward_formula="x",
        gradient_formula="g clamped to clip_value_min … clip_value_max",
        room="clipping",
        probe=2.0,
    ),
    OpSpec(
        "clip_gradient_by_norm",
        clip_gradient_by_norm,
        (_CLIP_NORM,),
        _each_by_norm,
        compose="x²/2",
        forward_formula="x",
        gradient_formula="g · min(1, clip_norm / ‖g‖)",
        room="clipping",
        probe=2.0,
    ),
    OpSpec(
        "clip_gradients_by_global_norm",
        clip_gradients_by_global_norm,
        (_CLIP_NORM,),
        _beside_its_twin,
        compose="x²/2",
        forward_formula="x₁, x₂, …",
        gradient_formula="gᵢ · min(1, clip_norm / ‖(g₁, g₂, …)‖)",
        room="clipping",
        probe=2.0,
    ),
    OpSpec(
        "replace_gradient",
        replace_gradient,
        (_FORWARD, _BACKWARD),
        replace_gradient,
        forward_formula="forward(x), to the last bit",
        gradient_formula="g · backward′(x)",
        room="replacing",
    ),
    OpSpec(
        "stop_gradient_trick",
        stop_gradient_trick,
        (_FORWARD, _BACKWARD),
        stop_gradient_trick,
        forward_formula="b + (f − b), with f = forward(x) and b = backward(x)",
        gradient_formula="g · backward′(x)",
        room="replacing",
    ),
    OpSpec(
        "straight_through",
        straight_through,
        (_FORWARD,),
        straight_through,
        forward_formula="forward(x)",
        gradient_formula="g",
        room="replacing",
    ),
    OpSpec(
        "clip_by_value_preserve_gradient",
        clip_by_value_preserve_gradient,
        _CLIP_VALUES,
        clip_by_value_preserve_gradient,
        forward_formula="x clamped to clip_value_min … clip_value_max",
        gradient_formula="g",
        room="replacing",
        probe=2.0,
    ),
    OpSpec(
        "round_ste",
        round_ste,
        (),
        round_ste,
        forward_formula="x rounded, halves to the even number",
        gradient_formula="g",
        room="surrogates",
    ),
    OpSpec(
        "sign_ste",
        sign_ste,
        (_WINDOW,),
        sign_ste,
        forward_formula="1 where x ≥ 0, else −1",
        gradient_formula="g where |x| ≤ clip_value, else 0",
        room="surrogates",
        probe=0.5,
    ),
    OpSpec(
        "approx_sign",
        approx_sign,
        (),
        approx_sign,
        forward_formula="1 where x ≥ 0, else −1",
        gradient_formula="g · (2 − 2|x|) where |x| ≤ 1, else 0",
        room="surrogates",
        probe=0.5,
    ),
    OpSpec(
        "swish_sign",
        swish_sign,
        (ParamSpec("beta", 5.0, 0.5, 10.0, help="how steep it is at 0"),),
        swish_sign,
        forward_formula="1 where x ≥ 0, else −1",
        gradient_formula="g · β (2 − βx tanh(βx/2)) / (1 + cosh(βx))",
        room="surrogates",
        probe=0.2,
    ),
    OpSpec(
        "heaviside_ste",
        heaviside_ste,
        (_WINDOW,),
        heaviside_ste,
        forward_formula="1 where x ≥ 0, else 0",
        gradient_formula="g where |x| ≤ clip_value, else 0",
        room="surrogates",
        probe=0.5,
    ),
    OpSpec(
        "ternary_ste",
        ternary_ste,
        (ParamSpec("threshold", 0.5, 0.0, 1.5, help="what is no more becomes 0"), _WINDOW),
        ternary_ste,
        forward_formula="1 where x > threshold, −1 where x < −threshold, else 0",
        gradient_formula="g where |x| ≤ clip_value, else 0",
        room="surrogates",
        probe=0.8,
    ),
    OpSpec(
        "quantize_ste",
        quantize_ste,
        (
            ParamSpec("bits", 3, 1, 8, kind="int", help="there are 2^bits levels"),
            ParamSpec("low", -2.0, -3.0, 0.0, help="the lowest level"),
            ParamSpec("high", 2.0, 0.5, 3.0, help="the highest level"),
            ParamSpec(
                "outside",
                "zero",
                kind="choice",
                choices=(("zero", "zero"), ("pass", "pass")),
                help="the gradient outside the range",
            ),
        ),
        _quantized,
        forward_formula="the level next to x",
        gradient_formula="g where low ≤ x ≤ high, else 0",
        room="surrogates",
    ),
    OpSpec(
        "spike",
        spike,
        (
            ParamSpec("surrogate", "ATan", kind="choice", choices=_FAMILIES),
            ParamSpec("alpha", 2.0, 0.25, 10.0, log=True, help="how steep it is"),
        ),
        _spike,
        forward_formula="1 where x ≥ 0, else 0",
        gradient_formula="g · surrogate.derivative(x)",
        room="surrogates",
        probe=0.2,
    ),
    OpSpec(
        "guided_relu",
        guided_relu,
        _RECTIFIER,
        guided_relu,
        compose="sin x",
        forward_formula="max(x, 0), up to max_value",
        gradient_formula="what the rectifier makes of max(g, 0)",
        room="rectifiers",
    ),
    OpSpec(
        "deconv_relu",
        deconv_relu,
        _RECTIFIER,
        deconv_relu,
        compose="sin x",
        forward_formula="max(x, 0), up to max_value",
        gradient_formula="max(g, 0)",
        room="rectifiers",
    ),
    OpSpec(
        "redirected_relu",
        redirected_relu,
        (ParamSpec("active", True, kind="bool", help="whether it redirects"), *_RECTIFIER),
        redirected_relu,
        compose="quartic",
        forward_formula="max(x, 0), up to max_value",
        gradient_formula="the rectifier's; where that is 0, g unless it pushes x further out",
        room="rectifiers",
    ),
    OpSpec(
        "custom_gradient",
        custom_gradient,
        (ParamSpec("steepness", 2.0, 0.5, 8.0),),
        _softened_sign,
        forward_formula="sign(x), for example",
        gradient_formula="g · tanh′(steepness · x)",
        room="custom",
        probe=0.5,
    ),
    OpSpec(
        "register_gradient",
        register_gradient,
        (),
        _round_passed_on,
        forward_formula="round(x), for example",
        gradient_formula="g",
        room="overriding",
    ),
    OpSpec(
        "override_gradient",
        override_gradient,
        (ParamSpec("limit", 1.0, 0.0, 3.0),),
        _identity_clipped,
        compose="x²/2",
        forward_formula="x, by an Identity op, for example",
        gradient_formula="g clamped to −limit … limit",
        room="overriding",
        probe=2.0,
    ),
    OpSpec(
        "numpy_op",
        numpy_op,
        (ParamSpec("y", 1.0, 0.2, 3.0),),
        _mod,
        forward_formula="x mod y, in NumPy, for example",
        gradient_formula="g, and −⌊x/y⌋ · g for y",
        room="python",
        probe=0.5,
    ),
    OpSpec(
        "py_func",
        py_func,
        (ParamSpec("factor", 2.0, 0.0, 4.0, help="2 is the truth"),),
        _square_by_hand,
        forward_formula="x², in NumPy, for example",
        gradient_formula="factor · x · g",
        room="python",
    ),
)
"""Name of an op -> its `OpSpec`."""
