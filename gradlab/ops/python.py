"""Functions written in Python and NumPy, with a gradient: ``numpy_op`` and ``py_func``."""

import functools
import re

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.framework.func_graph import FuncGraph
from tensorflow.python.ops.parallel_for import pfor

from gradlab.ops.arguments import flag, layer_for, unconverted
from gradlab.ops.hosting import hold_with_graphs, node_name, refuse_xla
from gradlab.ops.overriding import checked_gradients, counted, listed_gradients
from gradlab.ops.substituting import substitute

_IN_TENSORFLOW = "write it with TensorFlow ops and gl.custom_gradient"


@unconverted
def numpy_op(forward, gradient, *, dtype=None, shape=None, rule="numpy"):
    """Make a TensorFlow op of a NumPy function and its gradient.

    Forward: ``y = forward(x)``. Gradient: ``gradient(x, g)``, with upstream g.

    The op is called with tensors, variables, or what converts to a tensor. ``forward`` gets their
    values as NumPy arrays, read-only. ``gradient`` gets the inputs and then one upstream per
    output, ``gradient(*inputs, *upstreams)``, and returns one gradient per input: an array alone
    where there is one input, else a tuple. None stands for zero. Where inputs were broadcast
    against one another, a gradient in the broadcast shape is summed to its input's shape.

    >>> import gradlab as gl, numpy as np, tensorflow as tf
    >>> mod = gl.numpy_op(np.mod, lambda x, y, g: (g, -np.floor(x / y) * g))
    >>> x, y = tf.constant([0.3, 1.2]), tf.constant([0.2, 1.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(y)
    ...     remainder = mod(x, y)
    >>> remainder.numpy().round(3).tolist(), tape.gradient(remainder, y).numpy().tolist()
    ([0.1..., 0.2...], [-1.0, -1.0])

    Args:
        forward: NumPy function of one or more arrays; returns an array, or a tuple of arrays if
            ``dtype`` is a list. Its results are cast to the op's dtype: float64 is welcome.
        gradient: the rule, of the same arrays and the upstreams. Integer inputs get no gradient,
            whatever it returns for them.
        dtype: of the output; a list or tuple of dtypes for several outputs. By default one output
            with the dtype of the first input that is floating or complex, else of the first.
        shape: of the output: anything ``tf.TensorShape`` takes, with None for what is not known,
            or a function of the inputs' shapes (``lambda x: x[:-1]`` for a reduction of the last
            axis). One per output, in a list, where ``dtype`` is a list. By default the function
            is taken to be elementwise: the shape is that of the inputs broadcast together.
        rule: "numpy" if ``gradient`` works on arrays, "tensorflow" if it works on tensors.

    Returns:
        The op: a function of as many tensors as ``forward`` has parameters. It returns a tensor,
        or a list of tensors where ``dtype`` is a list, with their static shape set.

    Raises:
        TypeError, ValueError: for arguments that are not as described. When the op runs in eager
            mode: TypeError or ValueError if a result has another number, dtype or shape than
            declared, RuntimeError if a NumPy function raises. In a graph TensorFlow turns these
            into ``tf.errors.InvalidArgumentError`` and ``tf.errors.UnknownError``, with the
            same message.

    Python runs on the host's CPU, one call at a time. The op can't be compiled by XLA
    (``jit_compile``) and can't be saved: both raise. A rule in NumPy can't be differentiated, so
    second order and forward mode raise with it; they work with ``rule="tensorflow"``.
    """
    call = _NumpyOp(forward, gradient, dtype, shape, rule)

    def op(*inputs):
        return call(*inputs)

    functools.update_wrapper(op, forward)
    del op.__wrapped__  # its signature is not the op's: a ufunc has keywords
    return unconverted(op)


@unconverted
def py_func(func, inp, Tout, stateful=True, name=None, grad=None):  # noqa: N803
    """Call a NumPy function as an op whose gradient is ``grad``: the recipe of TensorFlow 1.

    Forward: ``func(*inp)``. Gradient: ``grad(op, *upstreams)``, of TensorFlow tensors.

    >>> import gradlab as gl, numpy as np, tensorflow as tf
    >>> def square_gradient(op, upstream):
    ...     return 2.0 * op.inputs[0] * upstream
    >>> x = tf.constant([3.0, -1.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = gl.py_func(np.square, [x], tf.float32, grad=square_gradient)
    >>> tape.gradient(y, x).numpy().tolist()
    [6.0, -2.0]

    Args:
        func: function of NumPy arrays, read-only, that returns an array, or a list of them.
        inp: list of tensors or what converts to them.
        Tout: the dtype of the output, or a list of dtypes. Results are cast to it (float64 from
            NumPy is welcome), unless that would drop a fraction or an imaginary part.
        stateful: False lets TensorFlow drop, share or fold calls in a graph.
        name: of the op, and in messages; by default the function's.
        grad: ``grad(op, *upstreams)`` with one upstream per output; returns one gradient per
            input, each with its input's shape and dtype, or None. It finds ``op.inputs``,
            ``op.outputs``, ``op.type``, ``op.name`` and ``op.get_attr`` of "Tin" and "Tout".
            Without it the outputs have no gradient.

    Returns:
        A tensor, or a list of tensors where ``Tout`` is a list. In a graph their static shape is
        unknown.

    Raises:
        TypeError, ValueError, RuntimeError: as ``numpy_op``; and when the gradient is taken, if
            ``grad`` returns another number of gradients than inputs, or one of another shape or
            dtype.

    Works in a v1 graph with a session, in eager mode and in ``tf.function``. The op can't be
    compiled by XLA and can't be saved: both raise.
    """
    several = isinstance(Tout, (list, tuple))
    stateful = flag("py_func", "stateful", stateful)
    if not isinstance(name, (str, type(None))):
        raise TypeError(f"py_func: name must be a string or None, got {name!r}")
    call = _Call("py_func", "func", func, name, outputs_listed=True)
    if grad is not None:
        _need_callable(call.what, "grad", grad)
    inputs = _as_tensors(call.what, inp if isinstance(inp, (list, tuple)) else [inp])
    dtypes = _as_dtypes(call.what, "Tout", Tout)
    values = call(inputs, dtypes, [_any_shape] * len(dtypes), stateful)
    if grad is not None:
        rule = _RuleOfOp(call, grad, len(inputs))
        values = substitute(call.what, values, inputs, rule, [*inputs, *values])
    return values if several else values[0]


class _NumpyOp:
    """What ``numpy_op`` returns, before it is made a function."""

    def __init__(self, forward, gradient, dtype, shape, rule):
        self.several = isinstance(dtype, (list, tuple))
        self.call = _Call("numpy_op", "forward", forward, outputs_listed=self.several)
        what = self.call.what
        _need_callable(what, "gradient", gradient)
        if not isinstance(rule, str) or rule not in _RULES:
            raise ValueError(
                f"{what}: rule must be 'numpy' (gradient works on arrays) or 'tensorflow' "
                f"(gradient works on tensors), got {rule!r}"
            )
        self.rule = _RULES[rule](self.call, gradient)
        self.dtypes = None if dtype is None else _as_dtypes(what, "dtype", dtype)
        self.shapes = _as_shapes(what, shape, len(self.dtypes) if self.several else None)

    def __call__(self, *inputs):
        inputs = _as_tensors(self.call.what, inputs)
        dtypes = self.dtypes or [_dtype_of(inputs)]
        values = self.call(inputs, dtypes, self.shapes, stateful=True)
        ys = substitute(self.call.what, values, inputs, self.rule, inputs)
        return ys if self.several else ys[0]


class _Call:
    """A NumPy function called on tensors, its results checked and cast."""

    def __init__(self, maker, argument, function, name=None, outputs_listed=False):
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self.what = f"{maker} {self.name!r}"
        self.node = re.sub(r"\W", "", f"{maker}_{self.name}")
        self.argument = argument
        self.function = function
        self.outputs_listed = outputs_listed
        _need_callable(self.what, argument, function)

    def __call__(self, inputs, dtypes, shapes, stateful):
        known = self.shapes(shapes, [x.shape for x in inputs])
        sizes = [tuple(shape) if shape.is_fully_defined() else None for shape in known]

        def run(*arrays):
            return self.run(arrays, dtypes, shapes if None in sizes else None, sizes)

        return _Host(self.what, self.node, dtypes, known, stateful)(run, inputs)

    def shapes(self, shapes, inputs):
        try:
            return [shape(*inputs) for shape in shapes]
        except ValueError as error:
            given, why = ", ".join(map(str, inputs)), str(error).rstrip(".")
            raise ValueError(
                f"{self.what}: no output shape for inputs of shapes {given}: {why}. {_ELEMENTWISE}"
            ) from error

    def run(self, arrays, dtypes, shapes, wanted):
        results = _try(self.what, self.argument, self.function, arrays)
        results = self.listed(results, len(dtypes))
        if shapes and _any_shape not in shapes:
            wanted = self.shapes(shapes, [tf.TensorShape(array.shape) for array in arrays])
        return list(map(self.checked, range(len(dtypes)), results, dtypes, wanted))

    def listed(self, results, wanted):
        if not self.outputs_listed:
            return [results]
        results = results if isinstance(results, (list, tuple)) else [results]
        if len(results) != wanted:
            raise ValueError(
                f"{self.what}: {self.argument} returned {counted(len(results), 'array')}, and "
                f"{counted(wanted, 'dtype')} declared: return a tuple with one array for each dtype"
            )
        return results

    def checked(self, i, result, dtype, shape):
        where = f"{self.what}: output {i} of {self.argument}"
        array = _cast(where, result, dtype, "declare the dtype it has, or return another")
        if array.shape != shape and not tf.TensorShape(shape).is_compatible_with(array.shape):
            raise ValueError(f"{where} has shape {array.shape}, expected {shape}. {_ELEMENTWISE}")
        return array


_ELEMENTWISE = (
    "Unless told otherwise the function is taken to be elementwise; say its output's shape by "
    "shape=…"
)


class _TensorFlowRule:
    """A rule on tensors: ``gradient(*inputs, *upstreams)``."""

    def __init__(self, call, gradient):
        self.gradient = gradient
        self.who = f"{call.what}: gradient"

    def __call__(self, upstreams, inputs):
        gradients = listed_gradients(self.who, self.gradient(*inputs, *upstreams), len(inputs))
        joint = _joint_shape([x.shape for x in inputs])
        gradients = [
            _sum_tensor(g, x, joint) if _differentiable(x) and g is not None else None
            for g, x in zip(gradients, inputs, strict=True)
        ]
        return checked_gradients(self.who, gradients, inputs)


class _NumpyRule:
    """A rule on arrays: ``gradient(*inputs, *upstreams)``; it can't be differentiated again."""

    def __init__(self, call, gradient):
        self.what = call.what
        self.node = f"{call.node}_gradient"
        self.gradient = gradient

    def __call__(self, upstreams, inputs):
        wanted = [i for i, x in enumerate(inputs) if _differentiable(x)]
        dtypes = [inputs[i].dtype for i in wanted]
        n_inputs = len(inputs)

        def run(*arrays):  # holds no tensor: TensorFlow keeps such functions for ever
            return self.run(arrays, n_inputs, wanted, dtypes)

        sources = [*inputs, *upstreams]
        shapes = [inputs[i].shape for i in wanted]
        values = _Host(self.what, self.node, dtypes, shapes, stateful=False)(run, sources)
        again = functools.partial(self.again, sources)
        found = iter(substitute(f"the gradient of {self.what}", values, sources, again))
        return [next(found) if i in wanted else None for i in range(len(inputs))]

    def run(self, arrays, n_inputs, wanted, dtypes):
        gradients = _try(self.what, "gradient", self.gradient, arrays)
        gradients = listed_gradients(f"{self.what}: gradient", gradients, n_inputs)
        shapes = [array.shape for array in arrays[:n_inputs]]
        return [
            self.checked(i, gradients[i], shapes, dtype)
            for i, dtype in zip(wanted, dtypes, strict=True)
        ]

    def checked(self, i, gradient, shapes, dtype):
        if gradient is None:
            return np.zeros(shapes[i], dtype.as_numpy_dtype)
        where = f"{self.what}: the gradient of input {i}"
        array = np.asarray(gradient)
        if array.shape != shapes[i]:
            array = self.summed(where, array, shapes[i], shapes)
        return _cast(where, array, dtype, "return real numbers")

    def summed(self, where, array, shape, shapes):
        if array.shape != _joint_shape(shapes):
            raise ValueError(
                f"{where} has shape {array.shape}, expected {shape}, the shape of the input: "
                "multiply by the upstream, which has the shape of the output"
            )
        lead = array.ndim - len(shape)
        ones = tuple(lead + i for i, size in enumerate(shape) if size == 1)
        return array.sum(axis=tuple(range(lead)) + ones).reshape(shape)

    def again(self, sources, upstreams, params):
        def refuse(*_):
            raise NotImplementedError(
                f"{self.what}: its gradient is a NumPy function, which can't be differentiated "
                "again (second order, forward mode). Write gradient with TensorFlow ops, and pass "
                "rule='tensorflow'"
            )

        # Where a tf.function is called under two tapes, TensorFlow builds the second gradient
        # whether it is asked for or not: only running it may raise.
        dtypes, shapes = [x.dtype for x in sources], [x.shape for x in sources]
        return _Host(self.what, self.node, dtypes, shapes, stateful=False)(refuse, upstreams)


_RULES = {"numpy": _NumpyRule, "tensorflow": _TensorFlowRule}


class _RuleOfOp:
    """The rule of ``py_func``: ``grad(op, *upstreams)``."""

    def __init__(self, call, grad, n_inputs):
        self.call = call
        self.grad = grad
        self.n_inputs = n_inputs

    def __call__(self, upstreams, params):
        op = _PyFuncOp(self, params)
        who = f"{self.call.what}: grad"
        gradients = listed_gradients(who, self.grad(op, *upstreams), self.n_inputs)
        gradients = [
            g if _differentiable(x) else None for g, x in zip(gradients, op.inputs, strict=True)
        ]
        return checked_gradients(who, gradients, op.inputs)


class _PyFuncOp:
    """What ``grad`` sees of the op it is the gradient of."""

    type = "PyFunc"

    def __init__(self, rule, params):
        self.name = rule.call.name
        self.inputs = tuple(params[: rule.n_inputs])
        self._rule = rule
        self._params = params

    @functools.cached_property
    def outputs(self):
        # Made again, so that a gradient written with the outputs can be differentiated.
        values = self._params[len(self.inputs) :]
        what = self._rule.call.what
        return tuple(substitute(what, values, list(self.inputs), self._rule, self._params))

    def get_attr(self, name):
        """Return the dtypes of the inputs ("Tin") or of the outputs ("Tout")."""
        kept = {"Tin": self.inputs, "Tout": self._params[len(self.inputs) :]}
        if name not in kept:
            raise ValueError(
                f"py_func {self.name!r}: op has attributes 'Tin', 'Tout', not {name!r}"
            )
        return [tensor.dtype for tensor in kept[name]]


class _Host:
    """Where NumPy runs: at once in eager mode, else in an op."""

    def __init__(self, what, node, dtypes, shapes, stateful):
        self.what = what
        self.node = node
        self.dtypes = dtypes
        self.shapes = shapes
        self.stateful = stateful

    def __call__(self, run, inputs):
        if tf.executing_eagerly():
            return [tf.constant(array) for array in run(*map(_array, inputs))]
        graph = ops.get_default_graph()
        refuse_xla(self.what, graph, _IN_TENSORFLOW)
        _refuse_saving(self.what, graph)
        return self._in_graph(run, inputs)

    def _in_graph(self, run, inputs):
        def in_graph(*arrays):
            return run(*map(_read_only, arrays))

        name = node_name(self.node)
        values = tf.numpy_function(in_graph, inputs, self.dtypes, self.stateful, name)
        hold_with_graphs(ops.get_default_graph())
        for value, shape in zip(values, self.shapes, strict=True):
            value.set_shape(shape)
        if values:
            values[0].op.pfor_converter = functools.partial(self._vectorized, run)
        return values

    def _vectorized(self, run, pfor_input):
        """The converter of ``vectorized_map``: one op that runs over the batch."""
        stacked = [x.is_stacked for x in pfor_input.inputs]
        n = pfor_input.pfor.loop_len_vector[0]

        def run_each(n, *arrays):
            each = [run(*_element(i, arrays, stacked)) for i in range(n)]
            return [np.stack(r) for r in zip(*each, strict=True)] if n else self._nothing()

        lead = tf.TensorShape([tf.get_static_value(n)])
        shapes = [lead.concatenate(shape) for shape in self.shapes]
        host = _Host(self.what, self.node, self.dtypes, shapes, self.stateful)
        values = host._in_graph(run_each, [n, *[x.t for x in pfor_input.inputs]])
        return [pfor.wrap(value, True) for value in values]

    def _nothing(self):
        """Return what comes of an empty batch."""
        ranked = [[] if shape.rank is None else shape for shape in self.shapes]
        sizes = [[0, *[size or 0 for size in shape]] for shape in ranked]
        return [np.zeros(s, d.as_numpy_dtype) for s, d in zip(sizes, self.dtypes, strict=True)]


def _array(tensor):
    return _read_only(tensor.numpy())


def _read_only(value):
    # In a graph it is the tensor's own memory, and many NumPy functions work in place.
    array = np.asarray(value)  # scalars come as numbers
    array.flags.writeable = False
    return array


def _element(i, arrays, stacked):
    return [np.asarray(a[i]) if s else a for a, s in zip(arrays, stacked, strict=True)]


def _refuse_saving(what, graph):
    message = (
        f"{what} runs Python, which a SavedModel can't hold: save a function that doesn't call "
        f"it, or {_IN_TENSORFLOW}"
    )
    while isinstance(graph, FuncGraph):
        graph.mark_as_unsaveable(message)
        graph = graph.outer_graph


def _try(what, argument, function, arrays):
    try:
        return function(*arrays)
    except Exception as error:
        given = ", ".join(f"{array.dtype}{list(array.shape)}" for array in arrays)
        raise RuntimeError(
            f"{what}: {argument} raised {type(error).__name__}: {error}. It was called with NumPy "
            f"arrays {given}, which are read-only: copy one before changing it"
        ) from error


def _cast(where, value, dtype, way_out):
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{where} is no array, got {value!r}: return one") from error
    if array.dtype == dtype.as_numpy_dtype:
        return array
    if not _castable(array.dtype, dtype):
        raise TypeError(f"{where} has dtype {array.dtype}, expected {dtype.name}: {way_out}")
    with np.errstate(all="ignore"):
        return array.astype(dtype.as_numpy_dtype)


def _castable(given, dtype):
    try:
        given = tf.as_dtype(given)
    except TypeError:
        return False
    return given == dtype or 0 <= _breadth(given) <= _breadth(dtype)


def _breadth(dtype):
    kinds = [dtype.is_bool, dtype.is_integer, dtype.is_floating, dtype.is_complex]
    return kinds.index(True) if True in kinds else -1


def _sum_tensor(gradient, x, joint):
    gradient = tf.convert_to_tensor(gradient, dtype_hint=x.dtype)
    if gradient.shape.is_fully_defined() and gradient.shape != joint:
        return gradient  # right, or to be refused
    if gradient.shape.is_fully_defined() and gradient.shape == x.shape:
        return gradient
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(x), s1=tf.shape(gradient))
    summed = tf.reshape(tf.reduce_sum(gradient, axes), tf.shape(x))
    summed.set_shape(x.shape)
    return summed


def _joint_shape(shapes):
    """Return the shape of ``shapes`` broadcast together, None if they don't broadcast."""
    try:
        if isinstance(shapes[0], tuple):
            return np.broadcast_shapes(*shapes)
        return _broadcast(*shapes)
    except ValueError:
        return None


def _broadcast(*shapes):
    return functools.reduce(tf.broadcast_static_shape, shapes)


def _any_shape(*_):
    return tf.TensorShape(None)


def _as_shapes(what, shape, several):
    """Return for each output a function that gives its shape from those of the inputs."""
    if several is None:
        return [_as_shape(what, shape)]
    if shape is None:
        return [_broadcast] * several
    if not isinstance(shape, (list, tuple)) or len(shape) != several:
        raise ValueError(
            f"{what}: shape must be a list of {several} shapes, one for each dtype, got {shape!r}"
        )
    return [_as_shape(what, one) for one in shape]


def _as_shape(what, shape):
    if shape is None:
        return _broadcast
    if callable(shape):
        return lambda *inputs: tf.TensorShape(shape(*inputs))
    try:
        fixed = tf.TensorShape(shape)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{what}: shape must be a shape or a function of the inputs' shapes, got {shape!r}"
        ) from error
    return lambda *inputs: fixed


def _as_dtypes(what, argument, dtypes):
    try:
        listed = dtypes if isinstance(dtypes, (list, tuple)) else [dtypes]
        return [tf.as_dtype(dtype) for dtype in listed]
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{what}: {argument} must be a dtype, or a list of one for each output, got {dtypes!r}"
        ) from error


def _dtype_of(inputs):
    return next((x.dtype for x in inputs if _differentiable(x)), inputs[0].dtype)


def _differentiable(x):
    return x.dtype.is_floating or x.dtype.is_complex


def _as_tensors(what, values):
    if not values:
        raise TypeError(f"{what}: needs at least one input, got none")
    hint = next((v.dtype for v in values if isinstance(v, (tf.Tensor, tf.Variable))), None)
    return [_as_tensor(what, i, value, hint) for i, value in enumerate(values)]


def _as_tensor(what, i, value, hint):
    if isinstance(value, tf.Tensor):
        return value
    if isinstance(value, tf.RaggedTensor):
        raise TypeError(
            f"{what}: input {i} must be a dense tensor, got a RaggedTensor. Where the function is "
            "elementwise: tf.ragged.map_flat_values."
        )
    if type(value).__name__ == "KerasTensor":
        raise TypeError(
            f"{what}: input {i} must be a dense tensor, got a KerasTensor. In a functional model: "
            f"{layer_for(what.split()[0], 'x')}."
        )
    try:
        dense = not isinstance(value, (tf.SparseTensor, type(None)))
        return tf.convert_to_tensor(value if dense else object(), dtype_hint=hint)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{what}: input {i} must be a dense tensor or convert to one, got {value!r}"
        ) from error


def _need_callable(what, argument, value):
    if not callable(value):
        raise TypeError(f"{what}: {argument} must be a function, got {value!r}")
