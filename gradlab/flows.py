"""What flows through a function's ops at one x: values forward, gradients back, op by op."""

import dataclasses

import numpy as np
import tensorflow as tf

from gradlab.ops.arguments import converted, unconverted
from gradlab.ops.overriding import override_gradient

MOST = 14  # boxes that a figure has room for


@dataclasses.dataclass(frozen=True)
class Op:
    """An op on the way from x to f(x).

    Attributes:
        type: its type, such as "Relu".
        sources: for each of its inputs that x reaches, the op it comes from: its place in the
            list of ops, or -1 for x itself.
        overridden: the types, its own or of ops inside it, that have another gradient.

    """

    type: str
    sources: tuple[int, ...]
    overridden: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Flow:
    """A function at one x, op by op, in the order in which they run; the last gives f(x).

    Attributes:
        x: where.
        ops: each an `Op`.
        values: what each op returns.
        gradients: for each op what leaves it, one gradient for each of its `sources`; None where
            nothing does.

    What arrives at f(x) is 1. Values and gradients are numbers, or arrays where f makes a vector
    of x on its way.

    """

    x: float
    ops: tuple[Op, ...]
    values: tuple[np.ndarray, ...]
    gradients: tuple[tuple[np.ndarray | None, ...], ...]

    @property
    def gradient(self):
        """What arrives at x: the sum of what leaves those that x goes into, or None."""
        arriving = [
            gradient
            for op, edges in zip(self.ops, self.gradients, strict=True)
            for source, gradient in zip(op.sources, edges, strict=True)
            if source == -1 and gradient is not None
        ]
        return np.sum(arriving) if arriving else None


class Flows:
    """Evaluates the ops of a function at one x after another, under one set of rules or another.

    Args:
        f: a function of one number, a scalar tensor, that returns one.

    A set of rules, as `override_gradient` takes them, is traced once.

    Raises:
        TypeError, ValueError: naming f, or rules. What f itself raises comes through.

    >>> flows = Flows(lambda x: tf.square(tf.nn.relu(x)))
    >>> [op.type for op in flows(3.0).ops], float(flows(3.0).gradient)
    (['Relu', 'Square'], 6.0)
    >>> float(flows(3.0, {"Relu": lambda op, g: 10.0 * g}).gradient)
    60.0

    """

    def __init__(self, f):
        if not callable(f):
            raise TypeError(f"f: got {f!r}; give a function of one number, a tensor")
        # What is inside a tf.function would show as one box.
        self._f = getattr(f, "python_function", f)
        self._graphs = {}
        self._graph({})  # says what is wrong with f

    def __call__(self, x, rules=None):
        """The `Flow` at x under these rules."""
        graph, look = self._graph(rules or {})
        found = [tensor.numpy() for tensor in graph(tf.constant(x, tf.float32))]
        gradients = iter(found[len(look.ops) :])
        leaving = tuple(
            tuple(next(gradients) if reached else None for reached in edges)
            for edges in look.reached
        )
        return Flow(float(x), look.ops, tuple(found[: len(look.ops)]), leaving)

    def under(self, rules):
        """The function itself under these rules."""
        return override_gradient(rules)(self._f) if rules else self._f

    def check(self, rules):
        """Raise what is wrong with rules, such as one for a type of op that f doesn't have."""
        try:
            override_gradient(rules)(self._f).get_concrete_function(_NUMBER)
        except (TypeError, ValueError, NotImplementedError) as problem:
            raise type(problem)(f"rules: {problem}") from None

    def _graph(self, rules):
        key = tuple((op_type, id(rule)) for op_type, rule in rules.items())
        if key not in self._graphs:
            self._graphs[key] = (*self._trace(rules), rules)  # which keeps the ids
        return self._graphs[key][:2]

    def _trace(self, rules):
        looks = []

        @unconverted
        def body(x):
            look, tensors = _look(x, _checked(self._f, converted(self._f)(x)))
            looks.append(look)
            return tensors

        wrap = override_gradient(rules) if rules else tf.function
        return wrap(body).get_concrete_function(_NUMBER), looks[-1]


_NUMBER = tf.TensorSpec([], tf.float32)


@dataclasses.dataclass(frozen=True)
class _Look:
    """The ops of a trace, and for each of their edges whether a gradient goes along it."""

    ops: tuple[Op, ...]
    reached: tuple[tuple[bool, ...], ...]


def _checked(f, y):
    name = getattr(f, "__name__", type(f).__name__)
    if y is None:
        raise TypeError(f"f: {name} returned None; end it with return and its value")
    y = tf.convert_to_tensor(y)
    if not y.dtype.is_floating:
        raise ValueError(
            f"f: {name} returned {y.dtype.name}, through which no gradient flows; return a float"
        )
    if y.shape.num_elements() != 1:
        raise ValueError(f"f: {name} returned shape {y.shape} for one number; return one value")
    return y


def _look(x, y):
    """What a trace has between x and y, and the tensors to fetch: values, then gradients."""
    between = _between(x, y)
    if not between:
        raise ValueError("f: nothing leads from x to its value; use x, in TensorFlow's own ops")
    if len(between) > MOST:
        raise ValueError(
            f"f: {len(between)} ops lead from x to its value, and a diagram of more than {MOST} "
            "can't be read; give a part of it"
        )
    places = {id(op): place for place, op in enumerate(between)}
    inputs = [_inputs(op, x, places) for op in between]
    with tf.name_scope("gradient_tape"):  # which keeps rules off what only a gradient is made with
        gradients = _gradients(between, inputs, y)
    ops = tuple(
        Op(
            op.type,
            tuple(-1 if each is x else places[id(each.op)] for each in own),
            _overridden(op),
        )
        for op, own in zip(between, inputs, strict=True)
    )
    reached = tuple(tuple(each is not None for each in edges) for edges in gradients)
    there = [tf.convert_to_tensor(g) for edges in gradients for g in edges if g is not None]
    return _Look(ops, reached), [*(_value(op) for op in between), *there]


def _between(x, y):
    """The ops that x reaches, and that reach y, in the order in which they run."""
    before_y, waiting = {}, [] if y is x else [y.op]
    while waiting:
        op = waiting.pop()
        if id(op) not in before_y:
            before_y[id(op)] = op
            waiting += [each.op for each in op.inputs if _flows(each) and each is not x]
    behind_x = {x.op}
    for op in x.graph.get_operations():
        if any(_flows(each) and each.op in behind_x for each in op.inputs):
            behind_x.add(op)
    return [op for op in x.graph.get_operations() if id(op) in before_y and op in behind_x]


def _flows(tensor):
    return tensor.dtype.is_floating


def _inputs(op, x, places):
    """The inputs of an op that x reaches, each once."""
    found = {}
    for each in op.inputs:
        if _flows(each) and (each is x or id(each.op) in places):
            found[x.ref() if each is x else each.ref()] = each
    return list(found.values())


def _value(op):
    return next(each for each in op.outputs if _flows(each))


def _gradients(between, inputs, y):
    """What leaves each op to each of its inputs, on the way back from y."""
    arriving = {y.ref(): [tf.ones_like(y)]}
    leaving = {}
    for op, own in zip(reversed(between), reversed(inputs), strict=True):
        outputs = [each for each in op.outputs if each.ref() in arriving]
        upstreams = [tf.add_n(arriving[each.ref()]) for each in outputs]
        back = tf.gradients(outputs, own, upstreams, stop_gradients=own) if outputs else None
        leaving[id(op)] = back or [None] * len(own)
        for each, gradient in zip(own, leaving[id(op)], strict=True):
            if gradient is not None:
                arriving.setdefault(each.ref(), []).append(tf.convert_to_tensor(gradient))
    return [leaving[id(op)] for op in between]


def _overridden(op):
    own = {op.type} if hasattr(op, "gradlab_gradient") else set()
    return tuple(sorted(own.union(*map(_overridden, _inside(op)))))


def _inside(op):
    """The ops in the function, the branches or the loop that an op runs."""
    for value in op.node_def.attr.values():
        for called in (value.func, *value.list.func):
            function = op.graph._get_function(called.name) if called.name else None
            yield from function.graph.get_operations() if function else ()
