"""Ops that leave the forward alone and modify the gradient on its way back."""

import tensorflow as tf
from tensorflow.python.eager import record as recording
from tensorflow.python.framework import ops
from tensorflow.python.saved_model import save_context

from gradlab.ops.arguments import (
    boolean,
    check_broadcast,
    gradient_tensor,
    kind,
    parameter,
    unconverted,
)
from gradlab.ops.hosting import hold_with_graphs, node_name, refuse_xla
from gradlab.ops.substituting import pass_through


@unconverted
def scale_gradient(x, scale):
    """Return x, and scale the gradient.

    ::

        forward:  y = x
        gradient: scale · g          (g: upstream)

    A scale of 0 gives 0, and where g is infinite NaN, as 0 · ∞ is; to block whatever comes,
    use ``mask_gradient``. For complex x the gradient is conj(scale) · g: TensorFlow's gradient of
    scale · x.

    Args:
        x: float or complex tensor.
        scale: number, or tensor that broadcasts to x; cast to the dtype of x. May be negative.

    Returns:
        A tensor equal to x.

    Raises:
        TypeError: x isn't one dense float tensor, or scale isn't a number.
        ValueError: scale doesn't broadcast to x.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = tf.reduce_sum(gl.scale_gradient(x, 0.5) ** 2)
    >>> tape.gradient(loss, x).numpy().tolist()
    [1.0, 2.0]
    """
    return _scaled("scale_gradient", x, scale, 1)


@unconverted
def reverse_gradient(x, scale=1.0):
    """Return x, and reverse the gradient: what a domain classifier learns, the features unlearn.

    ::

        forward:  y = x
        gradient: −scale · g          (g: upstream)

    Args:
        x: float or complex tensor.
        scale: number, or tensor that broadcasts to x; cast to the dtype of x.

    Returns:
        A tensor equal to x.

    Raises:
        TypeError: x isn't one dense float tensor, or scale isn't a number.
        ValueError: scale doesn't broadcast to x.

    Source: Ganin and Lempitsky, Unsupervised Domain Adaptation by Backpropagation, 2015.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = tf.reduce_sum(gl.reverse_gradient(x) ** 2)
    >>> tape.gradient(loss, x).numpy().tolist()
    [-2.0, -4.0]
    """
    return _scaled("reverse_gradient", x, scale, -1)


def _scaled(op, x, scale, sign):
    x = gradient_tensor(op, "x", x)
    scale = parameter(op, "scale", scale, x.dtype)
    check_broadcast(op, "scale", scale, x.shape)
    return pass_through(op, x, _times, [scale if sign > 0 else -scale])


def _times(upstream, scale):
    return upstream * _conjugate(scale)


def _conjugate(scale):
    return tf.math.conj(scale) if tf.is_tensor(scale) else scale.conjugate()


@unconverted
def mask_gradient(x, mask):
    """Return x, and let the gradient through where the mask is true.

    ::

        forward:  y = x
        gradient: g where mask, else 0          (g: upstream)

    It picks and doesn't multiply: where the mask is false, the gradient of an infinite or NaN
    upstream is 0.

    Args:
        x: float or complex tensor.
        mask: bool, or bool tensor that broadcasts to x.

    Returns:
        A tensor equal to x.

    Raises:
        TypeError: x isn't one dense float tensor, or mask isn't boolean.
        ValueError: mask doesn't broadcast to x.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = tf.reduce_sum(gl.mask_gradient(x, [True, False]) ** 2)
    >>> tape.gradient(loss, x).numpy().tolist()
    [2.0, 0.0]
    """
    x = gradient_tensor("mask_gradient", "x", x)
    mask = boolean("mask_gradient", "mask", mask)
    check_broadcast("mask_gradient", "mask", mask, x.shape)
    return pass_through("mask_gradient", x, _where, [mask])


def _where(upstream, mask):
    return tf.where(mask, upstream, tf.zeros_like(upstream))


@unconverted
def zero_nonfinite_gradient(x):
    """Return x, and put 0 where the gradient is infinite or NaN.

    ::

        forward:  y = x
        gradient: g where g is finite, else 0          (g: upstream)

    A complex element counts as finite where both its parts do. Beware of hiding an overflow from
    an optimizer that scales the loss: it then neither skips the step nor lowers the scale.

    Args:
        x: float or complex tensor.

    Returns:
        A tensor equal to x.

    Raises:
        TypeError: x isn't one dense float tensor.

    >>> import gradlab as gl, tensorflow as tf
    >>> x = tf.constant([0.0, 4.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = tf.reduce_sum(tf.sqrt(gl.zero_nonfinite_gradient(x)))
    >>> tape.gradient(loss, x).numpy().tolist()
    [0.0, 0.25]
    """
    x = gradient_tensor("zero_nonfinite_gradient", "x", x)
    return pass_through("zero_nonfinite_gradient", x, _finite)


def _finite(upstream):
    return _where(upstream, _is_finite(upstream))


def _is_finite(x):
    if x.dtype.is_complex:
        return tf.math.is_finite(tf.math.real(x)) & tf.math.is_finite(tf.math.imag(x))
    return tf.math.is_finite(x)


@unconverted
def record_gradient(x, record):
    """Return x, and hand the gradient to ``record`` on its way back.

    ::

        forward:  y = x
        gradient: g, after record(g)          (g: upstream)

    A callable sees values, not symbols, in eager mode and in a ``tf.function``, where it runs on
    the host through ``tf.py_function``: once for each time that g is computed, not again when g
    itself is differentiated; in a jacobian or under ``vectorized_map``, once for the whole batch.
    Forward mode records nothing, but for the ones that TensorFlow sends through a ``tf.function``
    inside another whose gradient it has built before.
    XLA can't call Python, so that ``jit_compile`` raises, and a SavedModel can't hold it: once
    loaded, the gradient passes unrecorded. A variable records in both, but can't take a batch.

    Args:
        x: float or complex tensor.
        record: callable of one tensor, such as ``a_list.append``; or a ``tf.Variable`` of the
            shape and dtype of x, to which g is assigned.

    Returns:
        A tensor equal to x.

    Raises:
        TypeError: x isn't one dense float tensor, or record is neither callable nor a variable.
        ValueError: record is a variable of another shape or dtype than x, or meets a batch.
        NotImplementedError: record is a callable, and XLA compiles the gradient.

    >>> import gradlab as gl, tensorflow as tf
    >>> x, seen = tf.constant(3.0), []
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = gl.record_gradient(x, seen.append) ** 2
    >>> tape.gradient(loss, x).numpy().item(), seen[0].numpy().item()
    (6.0, 6.0)
    """
    x = gradient_tensor("record_gradient", "x", x)
    rule, params = _receiver(record, x)
    return pass_through("record_gradient", x, rule, params, forward=list)


def _receiver(record, x):
    """The rule that hands a gradient to ``record``, and the parameters it needs."""
    if isinstance(record, tf.Variable):
        _check_holds(record, x)
        return _assigning, [record.handle, record.shape]
    if callable(record):
        return _Calling(record), []
    way_out = "For a list, pass its append."
    raise TypeError(
        f"record_gradient: record must be callable or a tf.Variable, got {kind(record)}. {way_out}"
    )


def _check_holds(variable, x):
    if variable.dtype != x.dtype or not variable.shape.is_compatible_with(x.shape):
        raise ValueError(
            f"record_gradient: record is a variable of shape {variable.shape} and dtype "
            f"{variable.dtype.name}, x has {x.shape} and {x.dtype.name}. Make them alike."
        )


def _assigning(upstream, handle, shape):
    with recording.stop_recording():
        # The op itself would put a value of any shape into the variable.
        fitting = tf.ensure_shape(upstream, shape)
        done = tf.raw_ops.AssignVariableOp(resource=handle, value=fitting)
    if done is None:  # in eager mode
        return upstream
    done.pfor_converter = _refuse_batch
    return _after(done, upstream)


def _refuse_batch(_):
    raise ValueError(
        "record_gradient: a variable can't record the gradients of a batch, which vectorized_map "
        "and jacobians compute at once. Give a callable, or take the jacobian without pfor."
    )


class _Calling:
    """The rule that calls ``record``: through the host where there is a graph."""

    def __init__(self, record):
        self.record = record

    def __call__(self, upstream):
        if save_context.in_save_context():  # where it is loaded, nobody waits for the gradient
            return upstream
        with recording.stop_recording():
            if tf.executing_eagerly():
                self.record(upstream)
                return upstream
            graph = ops.get_default_graph()
            refuse_xla("record_gradient with a callable", graph, "give it a tf.Variable")
            done = self._on_host(upstream)
        return _after(done, upstream)

    def _on_host(self, upstream):
        replaced = []

        def call(upstream):
            if not replaced:
                self.record(upstream)

        def on_batch(pfor_input):
            replaced.append(True)  # vectorized_map runs what it has replaced all the same
            pfor_input.stack_inputs()  # the same upstream may arrive for the whole batch
            return self._on_host(pfor_input.stacked_input(0))

        done = tf.py_function(call, [upstream], [], node_name("record_gradient"))
        hold_with_graphs(ops.get_default_graph())
        done.pfor_converter = on_batch
        return done


def _after(done, upstream):
    """``upstream``, once ``done`` is."""
    with tf.control_dependencies([done]):
        return tf.identity(upstream)
