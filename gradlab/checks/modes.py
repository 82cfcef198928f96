"""check_modes: one function in every mode TensorFlow has, each held against eager mode."""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from gradlab.checks import leaves as lv
from gradlab.checks.elsewhere import FreshProcess
from gradlab.checks.gradients import Settings, compare, require_callable
from gradlab.checks.quiet import FunctionRaised, one_line, quiet
from gradlab.checks.reports import FAIL, PASS, ModeRow, ModesCheck, figure
from gradlab.checks.slopes import epsilon
from gradlab.checks.subjects import NotTried, Run, Subject, cast_all, filled, run

NOT_TRIED = "not tried"


def check_modes(f, *args, modes=None, backward=None, rtol=None, seed=0):
    """Run f and its gradient in every mode, and say of each that it passes or why not.

    checked: f(x) and its gradient for an upstream u, in each mode
    against: the same in eager mode, in float64 where f can

    Eager mode itself is held against the slope of ``backward``, if that is given. Second order
    is held against the slopes of the first, and forward mode against reverse mode. A surrogate
    passes: it is only asked to be the same everywhere.

    Args:
      f: a function of tensors, a Keras layer or a ``tf.function``.
      *args: its arguments, as in check_gradient.
      modes: the names of those to try, of ``check_modes.names``. None: all.
      backward: the function whose gradient f declares: f itself for an ordinary one, as in
        check_surrogate for a surrogate. None: first order isn't held against any slope.
      rtol: the relative error allowed. None: 1e-9 in float64, 1e-4 in float32, 2e-2 in
        float16, 0.1 in bfloat16.
      seed: for upstreams and directions.

    Returns:
      A ModesCheck: ``.ok``, ``.rows``, ``.failed`` (mode to reason), ``check["mode"]``,
      ``.raise_if_failed()``; it prints and shows as a table in a notebook. A mode that has no
      meaning for these arguments is "not tried", and doesn't count. "saved and loaded",
      ".keras" and, on a machine of one device, "two replicas" run in a process of their own,
      where the last meets f as its import or its SavedModel.

    Raises:
      TypeError: f isn't callable, or no argument has a float or complex dtype.
      ValueError: a mode isn't one of the names.
      RuntimeError: called inside a tf.function.

    Example:
      >>> import tensorflow as tf
      >>> import gradlab as gl
      >>> gl.check_modes(tf.sin, tf.constant([0.5, 1.0]), modes=("eager", "float16", "scalar"))
      check_modes(sin): 3 of 3 modes pass
      eager    pass
      float16  pass
      scalar   pass

    Source: TensorFlow Probability runs each of its tests in every execution regime.
    """
    return check_each([Call(f, args, backward)], modes, rtol, seed)[0]


@dataclasses.dataclass(frozen=True)
class Call:
    """A function and what check_modes is given with it."""

    f: Callable
    args: tuple
    backward: Callable | None = None


def check_each(calls, modes=None, rtol=None, seed=0):
    """Check several functions as check_modes does one, with one fresh process for all of them."""
    for call in calls:
        require_callable(call.f, "check_modes")
    names = _chosen(modes)
    with quiet():
        subjects = [
            Subject(call.f, lv.Arguments(call.args, "check_modes"), seed, rtol) for call in calls
        ]
        with FreshProcess(subjects, [name for name in names if name in _ELSEWHERE]) as elsewhere:
            pairs = zip(subjects, calls, strict=True)
            here = [_rows_here(names, subject, call.backward) for subject, call in pairs]
            there = [_rows_there(names, subject, elsewhere) for subject in subjects]
    tables = zip(calls, here, there, strict=True)
    return [_table(names, call.f, ours | theirs) for call, ours, theirs in tables]


def _rows_here(names, subject, backward):
    return {name: _row(name, _HERE[name], subject, backward) for name in names if name in _HERE}


def _rows_there(names, subject, elsewhere):
    return {n: _row(n, elsewhere.verdict, subject, n) for n in names if n in _ELSEWHERE}


def _table(names, f, rows):
    return ModesCheck(f"check_modes({name_of(f)})", tuple(rows[name] for name in names))


def name_of(f):
    """What to call a function in a title."""
    return getattr(f, "__name__", type(f).__name__)


def _chosen(modes):
    modes = check_modes.names if modes is None else modes
    unknown = [mode for mode in modes if mode not in check_modes.names]
    if isinstance(modes, str) or unknown:
        raise ValueError(f"modes must be some of {check_modes.names}, got {modes!r}")
    return tuple(modes)


def _row(name, verdict_of, *given):
    try:
        reason = verdict_of(*given)
    except NotTried as why:
        return ModeRow(name, NOT_TRIED, str(why))
    except FunctionRaised as raised:
        return ModeRow(name, FAIL, str(raised), raised=True)
    except Exception as error:  # whatever f raises in a mode is that mode's reason
        return ModeRow(name, FAIL, one_line(error), raised=True)
    return ModeRow(name, FAIL if reason else PASS, reason or "")


def _eager(subject, backward):
    found = subject.disagreement(subject.run(subject.tensors))
    if found or backward is None:
        return found
    return _of_order(1, subject, backward)


def _second_order(subject, _):
    subject.differentiate_twice()
    return _of_order(2, subject, subject.f)


def _of_order(order, subject, reference):
    settings = Settings("check_modes", order, ("reverse",), None, 0.0, None, subject.seed)
    check = compare(subject.f, reference, subject.arguments.structure, settings)
    if check.reason:
        return check.reason
    part = check.parts[-1]
    return part.detail if part.verdict == FAIL else ""


def _tape_outside(subject, _):
    return subject.disagreement(run(tf.function(subject.apply, autograph=False), *_given(subject)))


def _tape_inside(subject, _):
    return subject.disagreement(_in_function(subject, *_given(subject)))


def _jit(subject, _):
    return subject.disagreement(_in_function(subject, *_given(subject), jit_compile=True))


def _given(subject):
    return subject.tensors, subject.upstreams


def _in_function(subject, tensors, upstreams, specs=None, **options):
    signature = specs and [specs, [tf.TensorSpec(u.shape, u.dtype) for u in upstreams]]

    @tf.function(autograph=False, input_signature=signature, **options)
    def step(tensors, upstreams):
        found = subject.run(tensors, upstreams)
        return found.ys, found.gradients

    return Run(*step(tensors, upstreams))


def _jacobian(subject, _):
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch(subject.tensors)
        ys = [tf.reshape(y, [-1]) for y in subject.apply(subject.tensors)]
    jacobians = [tape.jacobian(y, subject.tensors) for y in ys]
    for k, i, expected in subject.row_gradients():
        row = [None if j is None else j[i] for j in jacobians[k]]
        found = subject.gradients_disagree(filled(row, subject.tensors), expected)
        if found:
            return f"of element {i} of {subject.outs[k].name}, {found}"
    return ""


def _map_outside(subject, _):
    variants = subject.variants()
    stacked, upstreams = _stack(variants), _stack([subject.upstreams] * len(variants))
    return _each_variant(subject, variants, run(_mapped(subject.apply), stacked, upstreams))


def _map_inside(subject, _):
    def one(tensors):
        found = subject.run(tensors)
        return found.ys, found.gradients

    variants = subject.variants()
    return _each_variant(subject, variants, Run(*_mapped(one)(_stack(variants))))


def _mapped(function):
    function = tf.autograph.experimental.do_not_convert(function)
    return lambda stacked: tf.vectorized_map(function, stacked)


def _stack(lists):
    return [tf.stack(column) for column in zip(*lists, strict=True)]


def _each_variant(subject, variants, found):
    for i, tensors in enumerate(variants):
        one = Run([y[i] for y in found.ys], [g[i] for g in found.gradients])
        said = subject.disagreement(one, subject.expect(tensors, subject.upstreams))
        if said:
            return f"in element {i} of the batch, {said}"
    return ""


def _forward(subject, _):
    return _tangents_agree(subject, _tangents(subject))


def _forward_in_function(subject, _):
    return _tangents_agree(subject, tf.function(lambda: _tangents(subject), autograph=False)())


def _tangents(subject):
    with tf.autodiff.ForwardAccumulator(subject.tensors, subject.tangents()) as accumulator:
        ys = subject.apply(subject.tensors)
    return accumulator.jvp(ys, unconnected_gradients=tf.UnconnectedGradients.ZERO)


def _tangents_agree(subject, tangents):
    """Each tangent against that output's own gradients, for upstreams of either sign."""
    return _tangents_differ(subject, tangents, 1.0) or _tangents_differ(subject, tangents, -1.0)


def _tangents_differ(subject, tangents, one):
    rtol, direction = subject.rtol_for(subject.eps), lv.to_vector(subject.tangents())
    for k, i, gradients in subject.row_gradients(one):
        terms = one * lv.to_vector(gradients) * direction
        tangent = float(np.real(np.asarray(tangents[k]).flat[i]))
        if not abs(tangent - terms.sum()) <= rtol * np.abs(terms).sum():
            return (
                f"the tangent of element {i} of {subject.outs[k].name} is {figure(tangent)}, "
                f"where reverse mode gives {figure(terms.sum())} for an upstream of {one:g}"
            )
    return ""


def _in_dtype(real):
    def verdict(subject, _):
        if subject.is_complex and real in (tf.float16, tf.bfloat16):
            raise NotTried(f"the arguments are complex, and {real.name} has no complex dtype")
        return _at(subject, cast_all(subject.tensors, real), real)

    return verdict


def _at(subject, tensors, real):
    """F at tensors of another dtype, against float64 at the very same numbers."""
    upstreams = _fitting(subject, tensors)
    fine = cast_all(tensors, tf.float64)
    if not subject.in_float64:
        fine = [tf.cast(t, leaf.dtype) for t, leaf in zip(tensors, subject.leaves, strict=True)]
    expected = subject.run(fine, _fitting(subject, fine))
    return subject.disagreement(subject.run(tensors, upstreams), expected, epsilon(real))


def _fitting(subject, tensors):
    """The upstreams, in the dtypes that f returns for these tensors."""
    ys = subject.apply(tensors)
    return [tf.cast(u, y.dtype) for u, y in zip(subject.upstreams, ys, strict=True)]


def _complex(subject, _):
    if subject.is_complex:
        return _at(subject, cast_all(subject.tensors, tf.float32), tf.float32)
    tensors = [tf.cast(t, tf.complex64) for t in subject.tensors]
    upstreams = _fitting(subject, tensors)
    return subject.disagreement(subject.run(tensors, upstreams), None, epsilon(tf.complex64))


def _mixed(subject, _):
    import keras

    if subject.is_complex:
        raise NotTried("mixed precision leaves complex arguments alone")

    class Gain(keras.layers.Layer):
        def __init__(self):
            super().__init__(dtype="mixed_float16")
            self.gain = self.add_weight(shape=(), initializer="ones", name="gain")

        def call(self, tensors):
            return subject.apply([t * tf.cast(self.gain, t.dtype) for t in tensors])

    layer = Gain()
    layer.build(None)
    return _through_layer(subject, layer)


def _through_layer(subject, layer):
    rounded = cast_all(cast_all(subject.tensors, tf.float16), tf.float32)
    upstreams = None
    with tf.GradientTape() as tape:
        tape.watch(rounded)
        ys = layer(rounded)
        upstreams = [tf.cast(u, y.dtype) for u, y in zip(subject.upstreams, ys, strict=True)]
    gain = layer.gain.value
    *gradients, of_gain = tape.gradient(ys, [*rounded, gain], output_gradients=upstreams)
    got = Run(ys, filled(gradients, rounded))
    if subject.in_float64:
        expected = subject.expect(rounded, upstreams)
    else:
        expected = subject.run(
            [tf.cast(t, leaf.dtype) for t, leaf in zip(rounded, subject.leaves, strict=True)]
        )
    found = subject.disagreement(got, expected, epsilon(tf.float16))
    return found or _of_gain(of_gain)


def _of_gain(gradient):
    if gradient is None:
        return "the variable of a layer round f gets no gradient"
    return (
        "" if gradient.dtype == tf.float32 else f"the variable's gradient is {gradient.dtype.name}"
    )


def _leading(subject, condition, what):
    """Which tensors share the first one's leading axis, so that they can change it together."""
    first = next((leaf.shape for leaf in subject.leaves if leaf.shape), None)
    if first is None or not condition(first):
        raise NotTried(f"no argument has {what}")
    return [bool(leaf.shape) and leaf.shape[0] == first[0] for leaf in subject.leaves]


def _ragged(subject, _):
    ragged = _leading(subject, lambda shape: shape[0] > 1, "an axis to cut into rows")
    expected = subject.run(subject.tensors)
    cut = _cut_at(subject, ragged)
    found = run(lambda ts: lv.inexact(subject.f(*cut(ts))), *_given(subject))
    return subject.disagreement(found, expected)


def _cut_at(subject, ragged):
    """Arguments of which some tensors are ragged: a row of one, an empty row, and the rest."""
    if not subject.takes_only_tensors:
        raise NotTried("the arguments are more than plain tensors")

    def cut(tensors):
        pairs = zip(tensors, ragged, strict=True)
        return [_rows(tensor) if cuts else tensor for tensor, cuts in pairs]

    return cut


def _rows(tensor):
    splits = tf.stack([0, 1, 1, tf.shape(tensor)[0]])
    return tf.RaggedTensor.from_row_splits(tensor, splits)


def _dynamic(subject, _):
    _leading(subject, lambda shape: True, "an axis")
    specs = [tf.TensorSpec([None] * len(leaf.shape), leaf.dtype) for leaf in subject.leaves]
    return subject.disagreement(_in_function(subject, *_given(subject), specs=specs))


def _unknown_rank(subject, _):
    specs = [tf.TensorSpec(None, leaf.dtype) for leaf in subject.leaves]
    return subject.disagreement(_in_function(subject, *_given(subject), specs=specs))


def _empty(subject, _):
    emptied = _leading(subject, lambda shape: True, "an axis to empty")
    tensors = [t[:0] if empties else t for t, empties in zip(subject.tensors, emptied, strict=True)]
    found = _with_ones(subject, tensors)
    for leaf, tensor, gradient in zip(subject.leaves, tensors, found.gradients, strict=True):
        if gradient.shape != tensor.shape:
            return f"the gradient of {leaf.name} has shape {gradient.shape}, not {tensor.shape}"
        if not tf.reduce_all(tf.math.is_finite(tf.abs(gradient))):
            return f"the gradient of {leaf.name} isn't finite"
    return ""


def _scalar(subject, _):
    first = next((leaf.shape for leaf in subject.leaves if 0 not in leaf.shape), None)
    if first is None:
        raise NotTried("no argument has an element")
    same = [leaf.shape == first for leaf in subject.leaves]
    got, expected = (_with_ones(subject, _first(subject, same, shape)) for shape in ([], [1]))
    return subject.disagreement(_flat(got), _flat(expected))


def _first(subject, which, shape):
    """The tensors, those in ``which`` cut to their first element in a shape."""
    pairs = zip(subject.tensors, which, strict=True)
    return [tf.reshape(tf.reshape(t, [-1])[0], shape) if cuts else t for t, cuts in pairs]


def _with_ones(subject, tensors):
    return subject.run(tensors, [tf.ones_like(y) for y in subject.apply(tensors)])


def _flat(found):
    return Run(*([tf.reshape(t, [-1]) for t in ts] for ts in (found.ys, found.gradients)))


_HERE = {
    "eager": _eager,
    "function, tape outside": _tape_outside,
    "function, tape inside": _tape_inside,
    "jit_compile": _jit,
    "jacobian": _jacobian,
    "vectorized_map, tape outside": _map_outside,
    "vectorized_map, tape inside": _map_inside,
    "second order": _second_order,
    "forward mode": _forward,
    "forward mode in a function": _forward_in_function,
    "mixed_float16": _mixed,
    "float16": _in_dtype(tf.float16),
    "bfloat16": _in_dtype(tf.bfloat16),
    "float64": _in_dtype(tf.float64),
    "complex64": _complex,
    "ragged": _ragged,
    "dynamic shape": _dynamic,
    "unknown rank": _unknown_rank,
    "empty tensor": _empty,
    "scalar": _scalar,
}
_ELSEWHERE = ("saved and loaded", ".keras", "two replicas")
check_modes.names = (*_HERE, *_ELSEWHERE)
