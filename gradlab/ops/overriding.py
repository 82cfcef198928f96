"""Another gradient for the ops of a type: ``register_gradient`` and ``override_gradient``.

``override_gradient`` traces the wrapped function, and while it does so looks at each op as it is
made. An op that a rule is for gets a gradient by name, which TensorFlow then finds wherever the
graph goes: in nested functions, in conditionals and loops, in other graphs, in a saved model.
Four places in TensorFlow are watched, in the thread that traces and only while it does so:

- where a graph makes an op: to name its gradient;
- where a tape inside the wrapped function records an op: it would use the op's own gradient;
- where a ``tf.function`` looks for a trace: one made outside has ops without the rule, and one
  made inside must not be used outside. Traces made inside go to a cache of their own;
- where a strategy traces its replicas: in threads of their own, which then are watched, too.
"""

import contextlib
import dataclasses
import difflib
import functools
import inspect
import sys
import threading
import weakref
from collections import namedtuple

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.function.polymorphism import function_cache
from tensorflow.python.autograph.core import ag_ctx, converter
from tensorflow.python.autograph.impl import api as autograph
from tensorflow.python.distribute import mirrored_run
from tensorflow.python.eager import execute, record
from tensorflow.python.eager.polymorphic_function import tracing_compilation
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
from tensorflow.python.framework import ops
from tensorflow.python.framework.func_graph import FuncGraph
from tensorflow.python.ops import custom_gradient as tf_custom_gradient
from tensorflow.python.ops.control_flow_v2_func_graphs import ControlFlowFuncGraph
from tensorflow.python.ops.parallel_for import pfor
from tensorflow.python.util.tf_decorator import make_decorator

from gradlab.ops.arguments import shaped_like, unconverted
from gradlab.ops.substituting import substitute

Match = namedtuple("Match", ["type", "name"])
Match.__doc__ = "An op that got another gradient: its type, and its name in its graph."


@unconverted
def register_gradient(rule):
    """Register a rule as a gradient, and return the unique name it is registered under.

    Forward: that of the ops it is used for. Gradient: ``rule(op, *upstreams)``.

    The name is for ``tf.Graph.gradient_override_map``. Unlike ``tf.RegisterGradient``, which
    takes a name once and for all, this can run again: the same rule gives the same name, and a
    new function, as from a cell that is run again, gets a name of its own.

    >>> import gradlab as gl, tensorflow as tf
    >>> name = gl.register_gradient(lambda op, upstream: 5.0 * upstream)
    >>> with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
    ...     x = tf.constant(3.0)
    ...     with graph.gradient_override_map({"Identity": name}):
    ...         y = tf.identity(x)
    ...     session.run(tf.gradients(y, x))[0].item()
    5.0

    Args:
        rule: ``rule(op, *upstreams)`` with one upstream per output of the op; returns one
            gradient per input, each with its input's shape and dtype, or None. It finds
            ``op.inputs``, ``op.outputs`` and ``op.get_attr``. Upstreams arrive as dense tensors,
            zeros where nothing depends on a floating output, None for an integer output.

    Returns:
        The name, a string.

    Raises:
        TypeError: if ``rule`` can't be called.
        ValueError, TypeError: when the gradient is taken, if the rule returned another number of
            gradients than inputs, or one of another shape or dtype.

    In eager mode, and for a tape inside a ``tf.function``, TensorFlow does not look at the
    override map: use ``override_gradient``, also for what is to be saved. The registry has no way
    to forget: a rule stays registered as long as the process lives.
    """
    _need_rule("register_gradient: rule", rule)
    key = _identity(rule)
    if key not in _registered:
        name = _new_name(_name_of(rule))
        checked = functools.partial(_apply_by_name, rule)  # keeps the rule alive, and so its key
        ops.gradient_registry.register(unconverted(checked), name)
        _registered[key], _rules[name] = name, rule
    return _registered[key]


_registered, _rules = {}, {}  # the name of each rule, and the rule of each name


def _apply_by_name(rule, op, *upstreams):
    if op is None:
        raise ValueError(
            f"register_gradient: a SavedModel asks for {_name_of(rule)} by its name alone, without "
            "an op to give it: use override_gradient, which saves a rule for each op"
        )
    return _apply(rule, op, *upstreams)


def _identity(rule):
    """Return a key for a rule, which may be unhashable; a method is made anew on each access."""
    parts = (rule.__self__, rule.__func__) if inspect.ismethod(rule) else (rule,)
    return tuple(map(id, parts))


@unconverted
def override_gradient(rules):
    """Make a decorator that gives the ops of some types another gradient.

    Forward: ``f``. Gradient: ``rule(op, *upstreams)`` for every op of the rule's type inside f.

    >>> import gradlab as gl, tensorflow as tf
    >>> def guided(op, upstream):
    ...     return tf.where((op.outputs[0] > 0) & (upstream > 0), upstream, 0.0)
    >>> f = gl.override_gradient({"Relu": guided})(lambda x: -tf.nn.relu(x))
    >>> x = tf.constant([-1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = f(x)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([-0.0, -2.0], [0.0, 0.0])
    >>> f.matches
    [Match(type='Relu', name='Relu')]

    Args:
        rules: dict from op types ("Relu", "MatMul", "Identity") to rules. A rule is a function as
            ``register_gradient`` takes it, or the name of a registered gradient.

    Returns:
        A decorator. It takes a Python function, a ``tf.function`` or a Keras model, which stays as
        it is, and returns a ``tf.function`` that computes the same values. Ops in Keras layers, in
        nested ``tf.function``s, in the bodies of ``tf.cond`` and ``tf.while_loop`` and in the
        replicas of a ``strategy.run`` are reached. Its list ``matches`` names the ops changed in
        the trace made last. Where overrides are nested, the innermost rule wins. ``Identity`` ops
        that TensorFlow itself adds are left alone, and so are ops that only a gradient is computed
        with, and those inside a ``tf.custom_gradient``, which has its own.

    Raises:
        TypeError, ValueError: for rules that are not as described.
        ValueError: on the first call, if there is no op of a given type inside.
        ValueError, TypeError: when the gradient is taken, in a conditional or a loop on the first
            call, if a rule returns another number of gradients than inputs, or one of another
            shape or dtype.
        TypeError: if the result is called on a ``keras.Input``: use it in a layer.
        RuntimeError: on the first call, after ``tf.config.run_functions_eagerly(True)``.
        NotImplementedError: on the first call, where ops can't be reached: inside a
            ``ConcreteFunction`` or a function from a saved model, and under
            ``tf.recompute_grad``.

    Being a ``tf.function``, the result traces f once for every signature: Python numbers as
    arguments trace anew for each value, and prints happen once. In the body of a conditional or a
    loop a rule is called while tracing, too, to see which tensors around it it reads. The body of a
    ``tf.py_function`` has no graph, and is not reached, nor are threads that f itself starts. The
    result saves as any function does; an op whose inputs and outputs differ in number, shape or
    dtype can only be saved without its rule. Forward mode is right for rules that are linear in
    the upstream.
    """
    if not isinstance(rules, dict) or not rules:
        raise TypeError(f"override_gradient: rules must be a dict of op type: rule, got {rules!r}")
    rules = {op_type: _rule_for(op_type, rule) for op_type, rule in rules.items()}

    @unconverted
    def decorate(f):
        if not callable(f):
            raise TypeError(f"override_gradient: f must be a function or a model, got {f!r}")
        body = _Body(f, rules)
        function = _Overridden(body, body.__name__, autograph=False)
        # It hands on the body's signature, docstring and matches.
        return make_decorator(body, function, "override_gradient")

    return decorate


def _rule_for(op_type, rule):
    if not isinstance(op_type, str):
        raise TypeError(
            f"override_gradient: an op type must be a string like 'Relu', got {op_type!r}"
        )
    if op_type in _CALLS:
        raise ValueError(
            f"override_gradient: {op_type} is the call of a function; its gradient is that of "
            "the ops inside: give their types"
        )
    if isinstance(rule, str):
        # A name of register_gradient's is gone with this process: a SavedModel holds the rule.
        return _rules.get(rule) or _Named(rule)
    _need_rule(f"override_gradient: the rule for {op_type}", rule)
    return rule


class _Named:
    """A rule given as the name of a registered gradient."""

    def __init__(self, name):
        self.__name__ = name
        if name not in ops.gradient_registry.list():
            raise ValueError(
                f"override_gradient: no gradient is registered as {name!r}: pass the rule itself, "
                "or the name that register_gradient returned"
            )

    def __call__(self, op, *upstreams):
        return ops.gradient_registry.lookup(self.__name__)(op, *upstreams)


class _Overridden(Function):
    """A ``tf.function`` that says what to do with the symbolic tensors of Keras."""

    def __call__(self, *args, **kwargs):
        try:
            return super().__call__(*args, **kwargs)
        except ValueError as error:
            if any(type(t).__name__ == "KerasTensor" for t in tf.nest.flatten((args, kwargs))):
                raise TypeError(_in_functional_model(self._name)) from error
            raise


def _in_functional_model(name):
    return (
        f"override_gradient: {name} got a KerasTensor, and works on tensors. In a functional "
        f"model: keras.layers.Lambda(f)(x), where f is the overridden {name}, or a layer whose "
        "call uses f, which it needs to be if f has weights"
    )


class _Body:
    """The Python function of an overridden function.

    It is an object, not a closure, because TensorFlow counts the traces of the same code, and
    would warn of retracing where overrides are made in a loop. It shows the signature of f: by it
    Keras decides whether a layer's call is told of ``training``.
    """

    def __init__(self, f, rules):
        self.__name__ = _name_of(f)
        self.__doc__ = f.__doc__
        with contextlib.suppress(TypeError, ValueError):  # some built-in functions have none
            self.__signature__ = inspect.signature(f)
        self.f = f
        self.rules = rules
        self.matches = []

    def __call__(self, *args, **kwargs):
        if tf.executing_eagerly():
            raise RuntimeError(
                "override_gradient works on the graph of a tf.function, and there is none: "
                "tf.config.run_functions_eagerly(False) brings it back"
            )
        scope = _Scope(self.__name__, self.rules, sys._getframe())
        _keep(scope, ops.get_default_graph())
        with _watching(), _scopes_are((*_scopes(), scope)):
            result = _converted_call(self.f, args, kwargs)
        scope.finish()
        self.matches[:] = scope.matches
        return result


def _converted_call(f, args, kwargs):
    """Call f as ``tf.function`` would, which turns Python's if and while into TensorFlow's."""
    options = converter.ConversionOptions(
        recursive=True, user_requested=True, optional_features=None
    )
    try:
        with ag_ctx.ControlStatusCtx(ag_ctx.Status.ENABLED, None):
            return autograph.converted_call(f, args, kwargs, options=options)
    except Exception as error:
        if hasattr(error, "ag_error_metadata"):
            raise error.ag_error_metadata.to_exception(error) from error
        raise


def _keep(scope, graph):
    """Keep the scope, and with it the gradients it named, as long as any graph it is part of."""
    while isinstance(graph, FuncGraph):
        graph._gradlab_scopes = [*getattr(graph, "_gradlab_scopes", []), scope]
        graph = graph.outer_graph
    if not ops.executing_eagerly_outside_functions():
        graph._gradlab_scopes = [*getattr(graph, "_gradlab_scopes", []), scope]


class _Scope:
    """One trace of an overridden function: which ops it met, and which it gave a gradient."""

    def __init__(self, name, rules, frame):
        self.name = name
        self.rules = rules
        self.frame = frame
        self.matches = []
        self.ops = {}
        self.met = set()
        self.hidden = set()
        self.types = set()
        self.graphs = weakref.WeakSet()
        self.options = {}

    def visit(self, op):
        self.graphs.add(op.graph)
        if op.type in _CALLS:
            self._refuse_foreign(op)
        elif _can_have_gradient(op):
            self.types.add(op.type)
            if op.type in self.rules:
                self._match(op)

    def _match(self, op):
        callers = {frame.f_code for frame in _frames(self.frame)}
        if callers & _RECOMPUTING:
            raise NotImplementedError(
                f"override_gradient: {op.type} ({op.name}) is under tf.recompute_grad, which makes "
                "it a second time, out of reach, when the gradient is taken: override inside of it"
            )
        if tf_custom_gradient._graph_mode_decorator.__code__ in callers:
            self.hidden.add(op.type)
            return
        self.met.add(op.type)
        if not _has_gradient(op):
            self._give_gradient(op, self.rules[op.type])
            self.matches.append(Match(op.type, op.name))

    def _give_gradient(self, op, rule):
        with _scopes_are(()):
            gradient = _Gradient(rule, op, _carried(rule, op))
        name = rule.__name__ if isinstance(rule, _Named) else self._register(op.type, gradient)
        op._set_attr("_gradient_op_type", attr_value_pb2.AttrValue(s=name.encode()))
        op.gradlab_gradient = gradient
        if op.type in pfor._pfor_converter_registry and all(map(_is_dense, op.inputs)):
            op.pfor_converter = functools.partial(_vectorized, rule)

    def _register(self, op_type, gradient):
        # A name per op: a SavedModel asks for a gradient by name alone.
        name = _new_name(op_type)
        self.ops[name] = gradient
        scope = weakref.ref(self)

        def by_name(op, *upstreams):
            return scope().ops[name](op, *upstreams)

        ops.gradient_registry.register(unconverted(by_name), name)
        weakref.finalize(self, ops.gradient_registry._registry.pop, name, None)
        return name

    def own_options(self, options):
        """Return the tracing options of a nested tf.function with a cache of this scope's."""
        if id(options) not in self.options:
            own = dataclasses.replace(
                options,
                function_cache=function_cache.FunctionCache(),
                function_captures=options.function_captures and type(options.function_captures)(),
            )
            self.options[id(options)] = options, own
        return self.options[id(options)][1]

    def finish(self):
        self.frame = None
        for op_type in self.rules:
            if op_type not in self.met:
                raise ValueError(self._no_match(op_type))

    def _no_match(self, op_type):
        if op_type in self.hidden:
            return (
                f"override_gradient: every {op_type} in {self.name} is inside a "
                "tf.custom_gradient, which has its own rule: change that"
            )
        close = difflib.get_close_matches(op_type, self.types, n=1, cutoff=0.5)
        close = [t for t in self.types if t.lower() == op_type.lower()] or close
        meant = f" Did you mean {close[0]!r}?" if close and close[0] != op_type else ""
        has = ", ".join(sorted(self.types)) or "no op that has a gradient"
        return (
            f"override_gradient: no op of type {op_type!r} to override in {self.name}.{meant} "
            f"It has: {has}"
        )

    def _refuse_foreign(self, call):
        function = call.graph._get_function(call.get_attr("f").name)
        if function is None or function.graph in self.graphs:
            return
        types = sorted(_types_inside(function.graph) & set(self.rules))
        if types:
            raise NotImplementedError(
                f"override_gradient: {self.name} calls {function.name.decode()}, a "
                "ConcreteFunction or a function from a saved model, and can't reach the "
                f"{', '.join(types)} in it: call the Python function or the tf.function it was "
                "made from"
            )


_CALLS = ("PartitionedCall", "StatefulPartitionedCall", "SymbolicGradient", "RemoteCall")


def _types_inside(graph):
    """Return the types of the ops in a function's graph and the functions it calls."""
    returned = {output.op for output in graph.outputs if output.op.type == "Identity"}
    types = {op.type for op in graph.get_operations() if op not in returned}
    for name in _functions_called(graph):
        function = graph._get_function(name)
        types |= _types_inside(function.graph) if function else set()
    return types


def _functions_called(graph):
    for op in graph.get_operations():
        for value in op.node_def.attr.values():
            yield from [f.name for f in [value.func, *value.list.func] if f.name]


def _can_have_gradient(op):
    has_inputs = any(map(_is_trainable, op.inputs))
    return has_inputs and not _is_of_backprop(op) and not _is_plumbing(op)


def _is_trainable(tensor):
    dtype = tensor.dtype.base_dtype
    return dtype.is_floating or dtype.is_complex or not _is_dense(tensor)


def _is_dense(tensor):
    return tensor.dtype.base_dtype not in (tf.resource, tf.variant)


def _is_of_backprop(op):
    in_backward = getattr(op.graph, "name", "").startswith("__backward_")
    return in_backward or "gradient_tape" in op.name.split("/")


def _has_gradient(op):
    try:
        op.get_attr("_gradient_op_type")
    except ValueError:
        return False
    return True


def _is_plumbing(op):
    """Tell whether an Identity was added by TensorFlow: to a return value, a branch, a loop."""
    if op.type != "Identity":
        return False
    caller = _path(next(frame for frame in _frames() if not _is_passed(frame)))
    is_the_function = "/tensorflow/python/eager/polymorphic_function/" in caller
    return "/tensorflow/python/" in caller and not is_the_function


# Between whoever asks for an Identity and the op lie these files of TensorFlow.
_PASSED = (
    "/tensorflow/python/util/",
    "/tensorflow/python/autograph/impl/",
    "/tensorflow/python/ops/gen_array_ops.py",
    "/tensorflow/python/ops/weak_tensor_ops.py",
    "/tensorflow/python/framework/op_def_library.py",
    "/tensorflow/python/framework/ops.py",
)
_PASSED_FUNCTIONS = (("array_ops.py", "identity"), ("func_graph.py", "_create_op_internal"))


def _is_passed(frame):
    path = _path(frame)
    is_ours = frame.f_globals.get("__name__") == __name__
    return (
        (is_ours and frame.f_code is not _in_replica.__code__)
        or any(part in path for part in _PASSED)
        or any(path.endswith(f) and frame.f_code.co_name == n for f, n in _PASSED_FUNCTIONS)
    )


def _path(frame):
    return frame.f_code.co_filename.replace("\\", "/")


def _frames(last=None):
    """Go up the stack, in a replica's thread on to that of the thread that waits for it."""
    for frame in (sys._getframe(), getattr(_thread, "above", None)):
        while frame is not None:
            if frame is last:
                return
            yield frame
            frame = frame.f_back


_RECOMPUTING = {
    code
    for code in inspect.unwrap(tf_custom_gradient.recompute_grad).__code__.co_consts
    if inspect.iscode(code)
}


# What is watched, and where.

_thread = threading.local()


def _scopes():
    return getattr(_thread, "scopes", ())


@contextlib.contextmanager
def _scopes_are(scopes):
    before = _scopes()
    _thread.scopes = scopes
    try:
        yield
    finally:
        _thread.scopes = before


def _op_made(original, graph, op, *args, **kwargs):
    original(graph, op, *args, **kwargs)
    for scope in reversed(_scopes()):
        scope.visit(op)


def _gradient_recorded(original, op_name, inputs, attrs, outputs):
    op = None if not outputs or tf.executing_eagerly() else outputs[0].op
    if not hasattr(op, "gradlab_gradient"):
        original(op_name, inputs, attrs, outputs)
        return
    backward = functools.partial(op.gradlab_gradient, op)
    record.record_operation(op_name, list(outputs), list(inputs), backward)


def _function_traced(original, args=None, kwargs=None, tracing_options=None):
    if _scopes() and tracing_options and tracing_options.function_cache is not None:
        tracing_options = _scopes()[-1].own_options(tracing_options)
    return original(args=args, kwargs=kwargs, tracing_options=tracing_options)


def _replicas_traced(original, strategy, fn, args, kwargs):
    if _scopes():
        fn = functools.partial(_in_replica, _scopes(), sys._getframe(), fn)
    return original(strategy, fn, args, kwargs)


def _in_replica(scopes, above, fn, *args, **kwargs):
    """Run fn in a replica's thread, with the scopes and below the stack of the one that waits."""
    _thread.above = above
    try:
        with _scopes_are(scopes):
            return fn(*args, **kwargs)
    finally:
        _thread.above = None


_PLACES = (
    (ops.Graph, "_create_op_helper", _op_made),
    (execute, "record_gradient", _gradient_recorded),
    (tracing_compilation, "trace_function", _function_traced),
    (mirrored_run, "_call_for_each_replica", _replicas_traced),
)
_lock = threading.Lock()
_watchers = []


@contextlib.contextmanager
def _watching():
    """Watch the four places; threads that trace nothing of ours see no difference."""
    with _lock:
        if not _watchers:
            originals = [getattr(owner, name) for owner, name, _ in _PLACES]
            for (owner, name, watch), original in zip(_PLACES, originals, strict=True):
                setattr(owner, name, _watched(original, watch))
        _watchers.append(None)
    try:
        yield
    finally:
        with _lock:
            _watchers.pop()
            if not _watchers:
                for owner, name, _ in _PLACES:
                    setattr(owner, name, getattr(owner, name).__wrapped__)


def _watched(original, watch):
    @functools.wraps(original)
    def call(*args, **kwargs):
        return watch(original, *args, **kwargs)

    return call


# Rules.


class _Gradient:
    """The gradient of one op, with a rule."""

    def __init__(self, rule, op, carried):
        self.rule = rule
        self.op = op
        self.carried = carried

    def __call__(self, op, *upstreams):
        op = op or _for_saving(self.op, upstreams)
        if self.carried and op is self.op:
            return self.carried(*_filled(op, upstreams))
        return _apply(self.rule, op, *upstreams)


class _Carried:
    """A rule for one op, with what it closes over captured by the graph of the op.

    Otherwise the graph of the gradient would be the first to capture it, which TensorFlow allows
    neither in a conditional nor in a loop.
    """

    def __init__(self, rule, op):
        specs = [tf.TensorSpec(y.shape, y.dtype) for y in op.outputs]
        traced = tf.function(unconverted(functools.partial(_apply, rule, op)), autograph=False)
        with record.stop_recording(), op.graph.as_default():
            self.traced = traced.get_concrete_function(*specs)
            self.params = [op.graph.capture(t) for t in self.traced.captured_inputs]
            # A loop that holds a variable and never reads it has no gradient in a conditional.
            for variable in self.traced.variables:
                variable.value()

    def __call__(self, *upstreams):
        return list(self.traced._call_flat(list(upstreams), self.params))


def _carried(rule, op):
    """Return the rule with what it closes over, or None if that is nothing."""
    # Asked for each op: what a rule reads may depend on the op, and changes with its globals.
    if not _needs_captures(op) or _is_self_contained(rule, op):
        return None
    return _Carried(rule, op)


def _needs_captures(op):
    """Tell whether an op is in the body of a conditional or a loop, at any depth."""
    graph, in_body = op.graph, False
    while isinstance(graph, FuncGraph):
        in_body = in_body or isinstance(graph, ControlFlowFuncGraph)
        graph = graph.outer_graph
    return in_body and all(map(_wants_upstream, op.outputs))


def _is_self_contained(rule, op):
    """Tell whether a rule uses no tensors but those of its op and those it makes."""
    probe = FuncGraph("gradlab_probe")
    with record.stop_recording(), op.graph.as_default(), probe.as_default():
        _apply(rule, op, *[tf.compat.v1.placeholder(y.dtype, y.shape) for y in op.outputs])
        captured = probe.external_captures
    return not any(isinstance(t, ops.EagerTensor) or t.graph is not op.graph for t in captured)


def _apply(rule, op, *upstreams):
    upstreams = _filled(op, upstreams)
    with _scopes_are(()):
        gradients = rule(op, *upstreams)
    who = f"the rule {_name_of(rule)} for {op.type} ({op.name})"
    return checked_gradients(who, gradients, op.inputs)


def _filled(op, upstreams):
    return [_upstream(g, y) for g, y in zip(upstreams, op.outputs, strict=True)]


def _wants_upstream(output):
    return _is_trainable(output) and _is_dense(output)


def _upstream(upstream, output):
    if upstream is None:
        return tf.zeros_like(output) if _wants_upstream(output) else None
    if isinstance(upstream, tf.IndexedSlices):
        return tf.convert_to_tensor(upstream)
    return upstream


def _for_saving(op, upstreams):
    """Return the op whose gradient a SavedModel asks for, with upstreams like the op's inputs."""
    like = [(x.dtype, x.shape.as_list() if x.shape.rank is not None else None) for x in upstreams]
    need = [(y.dtype, y.shape.as_list() if y.shape.rank is not None else None) for y in op.outputs]
    if like != need:
        raise ValueError(
            f"override_gradient: a SavedModel can't hold the rule for {op.type} ({op.name}): it "
            "saves gradients only of ops whose outputs are like their inputs. Save with "
            "tf.saved_model.SaveOptions(experimental_custom_gradients=False), without the rule"
        )
    return op


_OpCopy = namedtuple("_OpCopy", ["type", "name", "inputs", "outputs", "get_attr"])


def _vectorized(rule, pfor_input):
    """The converter of ``vectorized_map``: TensorFlow's for the value, the rule per element."""
    op = pfor_input.op
    with _scopes_are(()):
        converted = pfor._pfor_converter_registry[op.type](pfor_input)
    converted = [converted] if isinstance(converted, pfor.WrappedTensor) else converted
    pfor_input.stack_inputs()  # only now: some converters want an input that isn't
    inputs = [x.t for x in pfor_input.inputs]
    n = pfor_input.pfor.loop_len_vector
    values = [y.t if y.is_stacked else pfor._stack(y.t, n).t for y in converted]

    def per_element(upstreams, params):
        def one(element):
            own, upstreams = element
            copy = _OpCopy(op.type, op.name, own[: len(inputs)], own[len(inputs) :], op.get_attr)
            return _apply(rule, copy, *upstreams)

        return tf.vectorized_map(unconverted(one), (list(params), list(upstreams)))

    ys = substitute(op.type, values, inputs, per_element, [*inputs, *values])
    return [pfor.wrap(y, True) for y in ys]


def listed_gradients(who, gradients, n_inputs):
    """Return what a rule returned as a list of one gradient per input."""
    listed = list(gradients) if isinstance(gradients, (list, tuple)) else [gradients]
    if len(listed) != n_inputs:
        raise ValueError(
            f"{who} returned {counted(len(listed), 'gradient')} for {counted(n_inputs, 'input')}: "
            "return one per input, and None where there is none"
        )
    return listed


def checked_gradients(who, gradients, inputs):
    """Return one gradient per input, each with its input's shape and dtype, or None."""
    gradients = listed_gradients(who, gradients, len(inputs))
    return [
        _checked(f"{who} returned, for input {i}, a gradient", gradient, x)
        for i, (gradient, x) in enumerate(zip(gradients, inputs, strict=True))
    ]


def _checked(where, gradient, x):
    if gradient is None or x.dtype in (tf.resource, tf.variant):
        return gradient
    if not isinstance(gradient, (tf.Tensor, tf.IndexedSlices)):
        gradient = _converted(where, gradient, x)
    if gradient.dtype != x.dtype:
        raise TypeError(
            f"{where} of dtype {gradient.dtype.name}, expected {x.dtype.name}: use tf.cast"
        )
    if not x.shape.is_compatible_with(gradient.shape):
        raise ValueError(
            f"{where} of shape {gradient.shape}, expected {x.shape}, the shape of the input: sum "
            "over the axes that were broadcast, or broadcast it"
        )
    return gradient if isinstance(gradient, tf.IndexedSlices) else shaped_like(x, gradient)


def _converted(where, gradient, x):
    try:
        return tf.convert_to_tensor(gradient, dtype=x.dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{where} that is no tensor: {gradient!r}, expected {x.dtype.name}{x.shape}: return "
            "a tensor, or None"
        ) from error


def counted(n, noun):
    """Put a number of things into words."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _need_rule(what, rule):
    if not callable(rule):
        raise TypeError(f"{what} must be a function rule(op, *upstreams), got {rule!r}")


def _name_of(function):
    names = [getattr(function, "__name__", None), getattr(function, "name", None)]
    return next((name for name in names if isinstance(name, str)), type(function).__name__)


def _new_name(stem):
    taken = ops.gradient_registry.list()
    return next(n for n in (f"gradlab.{stem}-{ops.uid()}" for _ in iter(int, 1)) if n not in taken)
