"""The one primitive on which the ops of the package stand.

``substitute`` gives tensors with the values of some tensors and a gradient to others. In eager
mode it records one operation on the tapes. In a graph it makes one ``IdentityN`` that carries
values, inputs and parameters, and names a gradient for it:

    y₁ … = IdentityN(PreventGradient(value₁) …, input₁ …, parameter₁ …)

Nothing a rule needs is closed over, so that it works in the bodies of conditionals and loops, in
copies of the graph and in a saved model. Should the named gradient get lost on the way,
``PreventGradient`` raises: no gradient is wrong in silence.
"""

import sys
import weakref

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.eager import record
from tensorflow.python.framework import ops
from tensorflow.python.framework.func_graph import FuncGraph
from tensorflow.python.ops.control_flow_v2_func_graphs import ControlFlowFuncGraph
from tensorflow.python.ops.parallel_for import pfor

from gradlab.ops.arguments import keeping_shape


def substitute(name, values, inputs, rule, params=(), forward=None):
    """Return tensors equal to ``values``, with the gradient to ``inputs`` that ``rule`` gives.

    Args:
        name: what the op is called in error messages and graphs.
        values: list of tensors; what comes out, to the last bit.
        inputs: list of tensors that get a gradient.
        rule: ``rule(upstreams, params)`` with one upstream per value; returns one gradient per
            input, and touches no tensor but these, unless it can be ``carried``.
        params: tensors, which travel with the op, and anything else the rule needs.
        forward: ``forward(tangents)`` for forward mode. None transposes the rule, which is right
            where the rule is linear in the upstreams. Given, it must be its own transpose or
            raise: in a graph, TensorFlow knows forward mode only as the transpose of a gradient.

    Returns:
        A list of tensors, one per value.
    """
    place = _in_eager if tf.executing_eagerly() else _in_graph
    return place(name, values, inputs, rule, list(params), forward)


def pass_through(name, x, rule, params=(), forward=None):
    """Return x, with the gradient ``rule(upstream, *params)``."""

    def on_lists(upstreams, params):
        gradient = rule(upstreams[0], *params)
        return [keeping_shape(gradient, upstreams[0], params)]

    return substitute(name, [x], [x], on_lists, params, forward)[0]


def no_forward_mode(name):
    """Return a ``forward`` for rules that aren't linear in upstream, and so have no transpose."""

    def forward(_):
        raise NotImplementedError(
            f"{name} has no forward mode: its gradient isn't linear in upstream. Use reverse mode "
            f"(tf.GradientTape), or leave {name} out of what tf.autodiff.ForwardAccumulator sees."
        )

    return forward


def guarded(name, upstreams, forward):
    """Return upstreams for the rule of an op with this ``forward``, if it has one.

    Forward mode may find a gradient built already for reverse mode, and transpose it: in a graph,
    these upstreams call ``forward`` then.
    """
    if forward is None or tf.executing_eagerly():
        return upstreams
    return substitute(name, upstreams, upstreams, _same, [], forward)


def _same(upstreams, _):
    return upstreams


def _in_eager(name, values, inputs, rule, params, forward):
    # What tf.identity does in eager mode, but for the recording: no memory is copied.
    ys = [value._copy_nograd() for value in values]
    _record(name, ys, inputs, rule, params, forward)
    return ys


def _record(name, ys, inputs, rule, params, forward):
    def backward(*upstreams):
        return rule([_dense(upstream) for upstream in upstreams], params)

    on_tangents = forward and (lambda *tangents: forward(tangents))
    record.record_operation(name, ys, inputs, backward, on_tangents)


def _dense(upstream):
    return tf.convert_to_tensor(upstream) if isinstance(upstream, tf.IndexedSlices) else upstream


def _in_graph(name, values, inputs, rule, params, forward):
    if hasattr(rule, "carried") and _in_control_flow():
        rule, params = rule.carried(values)
    layout = _Layout(name, len(values), len(inputs), params, rule, forward)
    with record.stop_recording():
        guarded = [tf.raw_ops.PreventGradient(input=v, message=_lost(name)) for v in values]
        carried = tf.raw_ops.IdentityN(input=[*guarded, *inputs, *layout.carried(params)])
    for guard in guarded:
        guard.op.pfor_converter = _leave_to_identity_n
    carried[0].op.pfor_converter = layout.vectorized
    _name_gradient(carried[0].op, layout)
    ys = carried[: len(values)]
    _record(name, ys, inputs, rule, params, forward)
    return ys


def _in_control_flow():
    graph = tf.compat.v1.get_default_graph()
    while isinstance(graph, FuncGraph):
        if isinstance(graph, ControlFlowFuncGraph):
            return True
        graph = graph.outer_graph
    return False


def _lost(name):
    return (
        f"gradlab: the gradient of {name} was lost when the graph around it was rewritten. "
        f"Take the gradient before the rewriting, or put {name} in after it."
    )


def _leave_to_identity_n(pfor_input):
    return pfor_input.inputs


class _Layout:
    """Where an IdentityN keeps values, inputs and parameters, and the rule that reads them."""

    def __init__(self, name, n_values, n_inputs, params, rule, forward):
        self.name = name
        self.n_values = n_values
        self.n_tensors = n_values + n_inputs
        self.template = [None if tf.is_tensor(p) else p for p in params]
        self.rule = rule
        self.forward = forward
        self.op = None

    @staticmethod
    def carried(params):
        return [p for p in params if tf.is_tensor(p)]

    def params(self, carried):
        carried = iter(carried)
        return [next(carried) if p is None else p for p in self.template]

    def gradients(self, op, *upstreams):
        # Exporting a SavedModel asks for the gradient without saying of which op.
        op = self.op() if op is None else op
        upstreams = self._filled(op, upstreams)
        if self.forward and is_transposing():
            gradients = self.forward(upstreams)
        else:
            upstreams = guarded(self.name, upstreams, self.forward)
            gradients = self.rule(upstreams, self.params(op.inputs[self.n_tensors :]))
        absent = [None] * (len(op.inputs) - self.n_tensors)
        return [None] * self.n_values + list(gradients) + absent

    def _filled(self, op, upstreams):
        return [
            tf.zeros_like(op.inputs[i]) if upstreams[i] is None else _dense(upstreams[i])
            for i in range(self.n_values)
        ]

    def vectorized(self, pfor_input):
        """The converter of vectorized_map: the same op over a batch, its rule over the batch."""
        pfor_input.stack_inputs(range(self.n_tensors))
        tensors = [i.t for i in pfor_input.inputs[: self.n_tensors]]
        one, params = self._per_element(pfor_input)
        ys = substitute(
            self.name,
            tensors[: self.n_values],
            tensors[self.n_values :],
            _Batched(one, [p.is_stacked for p in params]),
            [p.t for p in params],
            self.forward,
        )
        return [pfor.wrap(y, True) for y in ys] + pfor_input.inputs[self.n_values :]

    def _per_element(self, pfor_input):
        """The rule for one element of the batch, and its parameters as vectorized_map has them."""
        if not hasattr(self.rule, "carried"):
            return self._on_carried, pfor_input.inputs[self.n_tensors :]
        with pfor_input.op.graph.as_default():
            one, params = self.rule.carried(pfor_input.op.outputs[: self.n_values])
        return one, [_as_converted(p, pfor_input) for p in params]

    def _on_carried(self, upstreams, carried):
        return self.rule(upstreams, self.params(carried))


def _as_converted(param, pfor_input):
    inside = getattr(param, "graph", None) is pfor_input.op.graph
    return pfor_input.pfor._convert_helper(param) if inside else pfor.wrap(param, False)


class _Batched:
    """A rule applied to each element of a batch of upstreams and, where stacked, parameters."""

    def __init__(self, one, stacked):
        self.one = one
        self.stacked = stacked

    def __call__(self, upstreams, params):
        absent = []

        def one(element):
            gradients = self.one(element[0], self._own(params, element))
            absent[:] = [g is None for g in gradients]
            return [g for g in gradients if g is not None]

        stacked = [p for p, is_stacked in zip(params, self.stacked, strict=True) if is_stacked]
        one = tf.autograph.experimental.do_not_convert(one)
        present = iter(tf.vectorized_map(one, (list(upstreams), stacked)))
        return [None if missing else next(present) for missing in absent]

    def _own(self, params, element):
        own = iter(element[1])
        return [
            next(own) if is_stacked else p
            for p, is_stacked in zip(params, self.stacked, strict=True)
        ]


def is_transposing():
    """Tell whether TensorFlow is asking for a gradient only to transpose it for forward mode.

    It has no way to say so, but for the frames that ask. Recording an operation asks for a
    gradient at once only for forward mode: a tape asks later.
    """
    frame = sys._getframe(1)
    while frame is not None:
        asks = frame.f_code.co_name
        if asks in ("_jvp_helper", "record_operation"):
            return True
        if asks == "_build_functions_for_outputs" and frame.f_locals.get("input_tangents"):
            return True
        frame = frame.f_back
    return False


def _name_gradient(op, layout):
    """Give ``op`` a gradient under a name that lasts as long as the graphs it is built in."""
    layout.op = weakref.ref(op)
    name = f"gradlab.{layout.name}-{ops.uid()}"
    keep(op.graph, layout)
    weak = weakref.ref(layout)

    # AutoGraph would read this file from disk when a SavedModel is written.
    @tf.autograph.experimental.do_not_convert
    def gradients(op, *upstreams):
        return weak().gradients(op, *upstreams)

    ops.gradient_registry.register(gradients, name)
    weakref.finalize(layout, ops.gradient_registry._registry.pop, name, None)
    op._set_attr("_gradient_op_type", attr_value_pb2.AttrValue(s=name.encode()))


def keep(graph, thing):
    """Hold on to ``thing`` for as long as ``graph`` or a graph around it."""
    # The body of a conditional is copied into graphs that outlive it, hence every graph around.
    while isinstance(graph, FuncGraph):
        _kept_by(graph).append(thing)
        graph = graph.outer_graph
    if graph is not None and not ops.executing_eagerly_outside_functions():
        _kept_by(graph).append(thing)


def _kept_by(graph):
    if not hasattr(graph, "_kept_by_gradlab"):
        graph._kept_by_gradlab = []
    return graph._kept_by_gradlab
