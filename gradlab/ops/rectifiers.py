"""Rectifiers whose gradient is made for looking into a network, not for training it.

They come as ops, and as rules for ``override_gradient``: for a model that is there already.
"""

import math

import tensorflow as tf
from tensorflow.python.eager import record

from gradlab.ops.arguments import (
    boolean,
    check_broadcast,
    gradient_tensor,
    keeping_shape,
    kind,
    parameter,
    refuse_complex_tensor,
    unconverted,
)
from gradlab.ops.substituting import (
    guarded,
    is_transposing,
    no_forward_mode,
    substitute,
)
from gradlab.ops.surrogates.stepping import as_dtype, product_or_zero


@unconverted
def guided_relu(x, negative_slope=0.0, max_value=None):
    """Rectify x; back, let pass only what is positive: guided backpropagation.

    ::

        forward:  y = max(x, 0)
        gradient: g where x > 0 and g > 0, else 0          (g: upstream)

    With a negative slope or a highest value, it is the gradient of that rectifier for max(g, 0).
    Its gradient isn't linear in upstream, and so it has no forward mode.

    Args:
        x: float tensor.
        negative_slope: number, or tensor that broadcasts to x; y = negative_slope · x below 0.
        max_value: None, number, or tensor that broadcasts to x, above 0; where y stops rising.

    Returns:
        A tensor of the shape and dtype of x.

    Raises:
        TypeError: x isn't one dense real tensor, or a parameter isn't a number.
        ValueError: a parameter doesn't broadcast to x.
        NotImplementedError: in forward mode.

    Source: Springenberg, Dosovitskiy, Brox and Riedmiller, Striving for Simplicity: The All
    Convolutional Net, 2015.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([-1.0, 1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = tf.reduce_sum(gl.guided_relu(x) * [5.0, -5.0, 5.0])
    >>> tape.gradient(loss, x).numpy().tolist()
    [0.0, 0.0, 5.0]
    """
    return _rectified("guided_relu", x, negative_slope, max_value, _guided)


@unconverted
def deconv_relu(x, negative_slope=0.0, max_value=None):
    """Rectify x; back, rectify the gradient instead: the rule of a deconvnet.

    ::

        forward:  y = max(x, 0)
        gradient: max(g, 0)          (g: upstream)

    The gradient is the same for any x. It isn't linear in upstream, and so there is no forward
    mode.

    Args:
        x: float tensor.
        negative_slope: number, or tensor that broadcasts to x; y = negative_slope · x below 0.
        max_value: None, number, or tensor that broadcasts to x, above 0; where y stops rising.

    Returns:
        A tensor of the shape and dtype of x.

    Raises:
        TypeError: x isn't one dense real tensor, or a parameter isn't a number.
        ValueError: a parameter doesn't broadcast to x.
        NotImplementedError: in forward mode.

    Source: Zeiler and Fergus, Visualizing and Understanding Convolutional Networks, 2014.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([-1.0, 1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = tf.reduce_sum(gl.deconv_relu(x) * [5.0, -5.0, 5.0])
    >>> tape.gradient(loss, x).numpy().tolist()
    [5.0, 0.0, 5.0]
    """
    return _rectified("deconv_relu", x, negative_slope, max_value, _deconv)


@unconverted
def redirected_relu(x, active=True, negative_slope=0.0, max_value=None):
    """Rectify x; back, where an example gets no gradient at all, let it climb out of the zeros.

    ::

        forward:  y = max(x, 0)
        gradient: g where x > 0, else 0          (g: upstream)
                  for an example of which nothing passes so, while active:
                  0 where x ≤ 0 and g > 0, else g

    A step against the gradient then raises what lies below 0, and lowers what lies above
    max_value, but pushes nothing further out. An example is a row along the first axis; of a
    vector each element is one. Feature visualisation wants it for the first steps only, lucid for
    17 of them: ``active=step < 17``, with a step that is a variable. The gradient isn't linear in
    upstream, and so there is no forward mode.

    Args:
        x: float tensor.
        active: bool, or bool tensor that broadcasts to x; whether to redirect.
        negative_slope: number, or tensor that broadcasts to x; y = negative_slope · x below 0.
        max_value: None, number, or tensor that broadcasts to x, above 0; where y stops rising.

    Returns:
        A tensor of the shape and dtype of x.

    Raises:
        TypeError: x isn't one dense real tensor, a parameter isn't a number, or active isn't
            boolean.
        ValueError: a parameter doesn't broadcast to x.
        NotImplementedError: in forward mode.

    Source: Olah, Mordvintsev and Schubert, Feature Visualization, 2017, and its library lucid.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([[-1.0, -2.0], [-1.0, 2.0]])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = tf.reduce_sum(gl.redirected_relu(x) * [-5.0, 5.0])
    >>> tape.gradient(loss, x).numpy().tolist()
    [[-5.0, 0.0], [0.0, 5.0]]
    """
    return _rectified("redirected_relu", x, negative_slope, max_value, _redirected, active)


def guided_rule(op, upstream):
    """Rule for ``override_gradient``: as ``guided_relu``, for Relu, Relu6 and LeakyRelu.

    Forward: that of the op. Gradient: that of the op for max(g, 0).

    Args:
        op: the op, of one of these types.
        upstream: tensor.

    Returns:
        The gradient, a tensor.

    Raises:
        TypeError: op is of another type, or rectifies −x for a slope below 0 (Keras's PReLU).
        NotImplementedError: in forward mode.

    >>> import gradlab as gl, tensorflow as tf
    >>> f = gl.override_gradient({"Relu6": gl.guided_rule})(tf.nn.relu6)
    >>> x = tf.constant([-1.0, 1.0, 2.0, 7.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = tf.reduce_sum(f(x) * [5.0, -5.0, 5.0, 5.0])
    >>> tape.gradient(loss, x).numpy().tolist()
    [0.0, 0.0, 5.0, 0.0]
    """
    return _guided(*_form("guided_rule", op, upstream))


def deconv_rule(op, upstream):
    """Rule for ``override_gradient``: as ``deconv_relu``, for Relu, Relu6 and LeakyRelu.

    Forward: that of the op. Gradient: max(g, 0).

    Args:
        op: the op, of one of these types.
        upstream: tensor.

    Returns:
        The gradient, a tensor.

    Raises:
        TypeError: op is of another type, or rectifies −x for a slope below 0 (Keras's PReLU).
        NotImplementedError: in forward mode.

    >>> import gradlab as gl, tensorflow as tf
    >>> f = gl.override_gradient({"Relu": gl.deconv_rule})(tf.nn.relu)
    >>> x = tf.constant([-1.0, 1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = tf.reduce_sum(f(x) * [5.0, -5.0, 5.0])
    >>> tape.gradient(loss, x).numpy().tolist()
    [5.0, 0.0, 5.0]
    """
    return _deconv(*_form("deconv_rule", op, upstream))


def redirected_rule(op, upstream, active=True):
    """Rule for ``override_gradient``: as ``redirected_relu``, for Relu, Relu6 and LeakyRelu.

    Forward: that of the op. Gradient: that of ``redirected_relu``. To switch it off after some
    steps, hand it the step:
    ``{"Relu": lambda op, g: gl.redirected_rule(op, g, active=step < 17)}``.

    Args:
        op: the op, of one of these types.
        upstream: tensor.
        active: bool, or bool tensor that broadcasts to x; whether to redirect.

    Returns:
        The gradient, a tensor.

    Raises:
        TypeError: op is of another type, or rectifies −x for a slope below 0 (Keras's PReLU), or
            active isn't boolean.
        NotImplementedError: in forward mode.

    >>> import gradlab as gl, tensorflow as tf
    >>> f = gl.override_gradient({"Relu": gl.redirected_rule})(tf.nn.relu)
    >>> x = tf.constant([[-1.0, -2.0], [-1.0, 2.0]])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = tf.reduce_sum(f(x) * [-5.0, 5.0])
    >>> tape.gradient(loss, x).numpy().tolist()
    [[-5.0, 0.0], [0.0, 5.0]]
    """
    form = _form("redirected_rule", op, upstream)
    return _redirected(*form, _switch("redirected_rule", active, op.inputs[0]))


def _rectified(op, x, negative_slope, max_value, rule, *active):
    x = gradient_tensor(op, "x", x)
    refuse_complex_tensor(op, "x", x, "Rectify its real and imaginary parts apart.")
    params = [
        _fitting(op, "negative_slope", negative_slope, x),
        _fitting(op, "max_value", math.inf if max_value is None else max_value, x),
        *[_switch(op, a, x) for a in active],
    ]
    with record.stop_recording():
        value = keeping_shape(_forward(x, *params[:2]), x, params)

    def on_lists(upstreams, params):
        return [keeping_shape(rule(upstreams[0], *params), params[0], params)]

    return substitute(op, [value], [x], on_lists, [x, *params], no_forward_mode(op))[0]


def _fitting(op, argument, value, x):
    value = parameter(op, argument, value, x.dtype)
    check_broadcast(op, argument, value, x.shape)
    return value


def _switch(op, active, x):
    active = boolean(op, "active", active)
    check_broadcast(op, "active", active, x.shape)
    return active


def _forward(x, slope, top):
    y = tf.nn.relu(x) if _is_zero(slope) else tf.where(x < 0, product_or_zero(x, slope), x)
    return tf.minimum(y, as_dtype(top, x.dtype)) if _is_bound(top) else y


def _is_bound(top):
    return tf.is_tensor(top) or top != math.inf


def _is_zero(slope):
    return not tf.is_tensor(slope) and slope == 0


def _own(upstream, x, slope, top):
    """The gradient that the rectifier has itself."""
    below = tf.zeros_like(upstream) if _is_zero(slope) else product_or_zero(upstream, slope)
    passed = tf.where(x > 0, upstream, below)
    return tf.where(x < top, passed, tf.zeros_like(passed)) if _is_bound(top) else passed


def _guided(upstream, x, slope, top):
    return _own(tf.nn.relu(upstream), x, slope, top)


def _deconv(upstream, x, slope, top):
    return tf.nn.relu(upstream)


def _redirected(upstream, x, slope, top, active):
    own = _own(upstream, x, slope, top)
    pushed_out = (x <= 0) & (upstream > 0)
    if _is_bound(top):
        pushed_out |= (x >= top) & (upstream < 0)
    redirected = tf.where(pushed_out, tf.zeros_like(upstream), upstream)
    return tf.where(active & ~_anything_in_row(own), redirected, own)


def _anything_in_row(gradient):
    rank = gradient.shape.rank
    axes = tf.range(1, tf.maximum(tf.rank(gradient), 1)) if rank is None else list(range(1, rank))
    return tf.reduce_any(tf.not_equal(gradient, 0), axes, keepdims=True)


_FORMS = {
    "Relu": lambda op: (0.0, math.inf),
    "Relu6": lambda op: (0.0, 6.0),
    "LeakyRelu": lambda op: (op.get_attr("alpha"), math.inf),
}


def _form(rule, op, upstream):
    """The upstream, input, negative slope and highest value of a rectifier."""
    if is_transposing():
        no_forward_mode(rule)(None)
    of = getattr(op, "type", kind(op))
    if of not in _FORMS:
        raise TypeError(f"{rule}: op must be one of {', '.join(_FORMS)}, got {of}.")
    if _is_mirrored(op):
        raise TypeError(
            f"{rule}: {op.name} rectifies −x for a slope below 0, as Keras builds PReLU and a ReLU "
            f"with negative_slope and max_value: what arrives there has the other sign. Take a "
            f"LeakyReLU, or swap_activations for ReLU."
        )
    upstreams = [gradient_tensor(rule, "upstream", upstream)]
    (upstream,) = guarded(rule, upstreams, no_forward_mode(rule))
    return upstream, op.inputs[0], *_FORMS[of](op)


def _is_mirrored(op):
    """Tell whether an op is relu(−x) in … − slope · relu(−x), or in … + (−slope) · relu(−x)."""
    source = getattr(op.inputs[0], "op", None)
    if op.type != "Relu" or not (_is_negation(source) or _adds_negation(source)):
        return False
    products = [user for user in op.outputs[0].consumers() if user.type == "Mul"]
    sums = [user.type for product in products for user in product.outputs[0].consumers()]
    return "Sub" in sums or "AddV2" in sums


def _is_negation(op):
    return getattr(op, "type", None) == "Neg"


def _adds_negation(op):
    return getattr(op, "type", None) == "AddV2" and any(_is_negation(x.op) for x in op.inputs)
