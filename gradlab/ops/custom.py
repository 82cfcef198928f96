"""custom_gradient: a function with its rule, as TensorFlow has it, without the traps."""

import functools
import inspect
import numbers

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import record

from gradlab.ops.arguments import converted, shaped_like, unconverted
from gradlab.ops.substituting import substitute


def custom_gradient(f=None):
    """Decorate f, which returns a value and the rule for its gradient.

    ::

        forward:  y, rule = f(x₁, …)
        gradient: rule(g)          (g: upstream)

    As ``tf.custom_gradient``, and beyond it: keywords are bound to their parameters, where
    TensorFlow drops the rule or raises; forward mode transposes the rule, where TensorFlow
    gives the tangent of the plain forward in silence, so the rule must be linear in g there;
    ``vectorized_map`` keeps the rule whether the tape is inside or outside; a rule may read
    tensors and variables around it inside ``tf.cond`` and ``tf.while_loop``; and what the rule
    returns is checked.

    Args:
        f: callable. Its arguments are tensors, structures of tensors, or anything else, which
            gets no gradient. It returns ``(y, rule)``, with y a tensor or a structure of tensors,
            and ``rule(*upstreams)`` returning one gradient, or None, per argument that is a
            tensor or a variable (those in structures count one by one; keywords stand in the
            order of the signature). As TensorFlow counts numbers, arrays and strings too, the
            rule may return None for each of them as well, or for none. If f reads trainable
            variables, the rule takes ``variables=`` too and returns ``(gradients,
            gradients_of_variables)``; the latter are cast to the dtype of each variable, as under
            mixed precision.

    Returns:
        A callable with the signature of f that returns y.

    Raises:
        TypeError: f isn't callable, or doesn't return a pair with a callable rule, the rule takes
            no ``variables`` though f reads some, or a gradient has another dtype than its argument.
        ValueError: the rule returns too few or too many gradients, or one of a wrong shape.

    >>> import gradlab as gl, tensorflow as tf
    >>> @gl.custom_gradient
    ... def cube(x):
    ...     return x**3, lambda upstream: upstream * 100.0
    >>> x = tf.constant(2.0)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = cube(x=x)
    >>> y.numpy().item(), tape.gradient(y, x).numpy().item()
    (8.0, 100.0)
    """
    if f is None:
        return custom_gradient
    if not callable(f):
        raise TypeError(
            f"custom_gradient: f must be a function that returns (y, rule), got {f!r}. Write "
            f"@gradlab.custom_gradient above it."
        )
    signature = inspect.signature(f)

    @functools.wraps(f)
    def wrapped(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        for argument, value in bound.arguments.items():
            bound.arguments[argument] = _read_variables(f, argument, value)
        return _with_rule(f, bound)

    # tf.function unwraps the functions among its arguments, which would take the gradient off.
    del wrapped.__wrapped__
    wrapped.__signature__ = signature
    return unconverted(wrapped)


def _read_variables(f, argument, value):
    # Most arguments are plain tensors, for which map_structure would be the slowest part.
    if isinstance(value, tf.Tensor):
        return value
    return tf.nest.map_structure(lambda leaf: _read(f, argument, leaf), value)


def _read(f, argument, leaf):
    if type(leaf).__name__ == "KerasTensor":
        name = _name_of(f)
        raise TypeError(
            f"custom_gradient: argument {argument} of {name} is a Keras symbolic tensor. Call "
            f"{name} in a layer: keras.layers.Lambda({name})({argument})."
        )
    is_variable = isinstance(leaf, tf.Variable) or hasattr(leaf, "__tf_tensor__")
    return tf.convert_to_tensor(leaf) if is_variable else leaf


def _name_of(f):
    return getattr(f, "__name__", type(f).__name__)


def _with_rule(f, bound):
    name = _name_of(f)
    with record.VariableWatcher() as watcher:
        y, rule = _as_pair(name, converted(f)(*bound.args, **bound.kwargs))
    rule = _CallersRule(name, rule, _named_leaves(name, bound), watcher.watched_variables())
    values = [_as_value(name, value) for value in tf.nest.flatten(y)]
    ys = substitute(name, values, rule.inputs(), rule)
    return ys[0] if isinstance(y, tf.Tensor) else tf.nest.pack_sequence_as(y, ys)


def _as_pair(name, returned):
    if isinstance(returned, (tuple, list)) and len(returned) == 2 and callable(returned[1]):
        return returned
    raise TypeError(
        f"custom_gradient: {name} must return (y, rule), where rule is a function of the upstream "
        f"gradient, got {returned!r}."
    )


def _as_value(name, value):
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"custom_gradient: the y that {name} returns must consist of dense tensors, got "
            f"{value!r}."
        ) from error


def _named_leaves(name, bound):
    """The (name, leaf) of each thing in the arguments that the rule owes a gradient."""
    leaves = [
        (argument, leaf)
        for argument, value in bound.arguments.items()
        for leaf in tf.nest.flatten(value)
    ]
    for argument, leaf in leaves:
        _refuse_composite(name, argument, leaf)
    return [(argument, leaf) for argument, leaf in leaves if isinstance(leaf, _COUNTED)]


_COUNTED = (tf.Tensor, np.ndarray, np.generic, numbers.Number, str, bytes)
_COMPOSITE = (tf.RaggedTensor, tf.SparseTensor, tf.IndexedSlices)


def _refuse_composite(name, argument, leaf):
    if isinstance(leaf, _COMPOSITE):
        raise TypeError(
            f"custom_gradient: argument {argument} of {name} must be dense, got a "
            f"{type(leaf).__name__}. Pass its values, and put the result together outside."
        )


class _CallersRule:
    """The rule that the caller's function returned, and checks of what it returns."""

    def __init__(self, name, rule, leaves, variables):
        self.name = name
        self.rule = rule
        self.leaves = leaves
        self.variables = list(variables)
        if self.variables and not _takes_variables(rule):
            raise TypeError(
                f"custom_gradient: {name} reads variables "
                f"{[v.name for v in self.variables]}, so its rule must take variables= and return "
                f"(gradients, gradients_of_variables). Or pass the variables as arguments."
            )

    def inputs(self):
        tensors = [leaf for _, leaf in self.leaves if isinstance(leaf, tf.Tensor)]
        return tensors + [tf.convert_to_tensor(v) for v in self.variables]

    def __call__(self, upstreams, _):
        returned = self.rule(*upstreams, **self._keywords())
        gradients, of_variables = returned if self.variables else (returned, [])
        owed = self._owed(tf.nest.flatten(gradients))
        of_variables = tf.nest.flatten(of_variables)
        self._check_count("variable", of_variables, [v.name for v in self.variables])
        checked = [self._checked(*leaf, g) for leaf, g in owed if isinstance(leaf[1], tf.Tensor)]
        pairs = zip(self.variables, of_variables, strict=True)
        return checked + [self._checked_variable(v, g) for v, g in pairs]

    def _owed(self, gradients):
        """Each leaf with its gradient; numbers and arrays may have been left out."""
        tensors = [leaf for leaf in self.leaves if isinstance(leaf[1], tf.Tensor)]
        leaves = tensors if len(gradients) == len(tensors) else self.leaves
        self._check_count("argument", gradients, [argument for argument, _ in leaves])
        return list(zip(leaves, gradients, strict=True))

    def _keywords(self):
        return {"variables": self.variables} if self.variables else {}

    def _check_count(self, kind, gradients, names):
        if len(gradients) != len(names):
            raise ValueError(
                f"custom_gradient: the rule of {self.name} must return one gradient per {kind}, "
                f"{len(names)} for {', '.join(names)}; got {len(gradients)}. Return None for one "
                f"that has none."
            )

    def _checked(self, argument, x, gradient):
        if gradient is None or not (x.dtype.is_floating or x.dtype.is_complex):
            return None
        gradient = self._as_tensor(argument, x, gradient)
        if gradient.dtype != x.dtype:
            raise TypeError(
                f"custom_gradient: the rule of {self.name} returned a gradient of dtype "
                f"{gradient.dtype.name} for {argument}, expected {x.dtype.name}. Cast it."
            )
        if not gradient.shape.is_compatible_with(x.shape):
            raise ValueError(
                f"custom_gradient: the rule of {self.name} returned a gradient of shape "
                f"{gradient.shape} for {argument}, expected {x.shape}. Sum over the axes that were "
                f"broadcast, or broadcast it."
            )
        return shaped_like(x, gradient)

    def _checked_variable(self, variable, gradient):
        if gradient is None:
            return None
        # Under mixed precision the forward reads float16 from a float32 variable.
        gradient = tf.cast(gradient, variable.dtype)
        return self._checked(variable.name, variable, gradient)

    def _as_tensor(self, argument, x, gradient):
        try:
            plain = isinstance(gradient, numbers.Number)
            return tf.convert_to_tensor(gradient, x.dtype if plain else None)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"custom_gradient: the rule of {self.name} returned {gradient!r} for {argument}, "
                f"expected a tensor of dtype {x.dtype.name}."
            ) from error

    def carried(self, values):
        """This rule with what it closes over as parameters; and those parameters."""
        specs = [tf.TensorSpec(value.shape, value.dtype) for value in values]
        with record.stop_recording():
            traced = tf.function(self._on_list, autograph=False).get_concrete_function(specs)

        def rule(upstreams, params):
            return list(traced._call_flat(list(upstreams), list(params)))

        return rule, list(traced.captured_inputs)

    def _on_list(self, upstreams):
        return self(upstreams, [])


def _takes_variables(rule):
    parameters = inspect.signature(rule).parameters.values()
    return any(p.name == "variables" or p.kind == p.VAR_KEYWORD for p in parameters)
