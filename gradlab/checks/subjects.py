"""A function under check_modes: how to run it, and what every mode must agree with."""

import dataclasses
import functools

import numpy as np
import tensorflow as tf
from tensorflow.python.autograph.core.ag_ctx import ControlStatusCtx, Status
from tensorflow.python.autograph.core.converter import ConversionOptions
from tensorflow.python.autograph.impl.api import tf_convert

from gradlab.checks import leaves as lv
from gradlab.checks.reports import figure
from gradlab.checks.slopes import epsilon
from gradlab.checks.walks import upstream

_RTOL = {2.0**-52: 1e-9, 2.0**-23: 1e-4, 2.0**-10: 2e-2}
_RTOL_COARSEST = 0.1
_SHARE = 0.1  # of a tensor's largest number: rounding that its smaller ones may carry
_ROWS = 16  # outputs whose own gradients are compared one by one


class NotTried(Exception):
    """A mode that has no meaning for these arguments."""


@dataclasses.dataclass
class Run:
    """Results and gradients of one run, as lists of tensors."""

    ys: list
    gradients: list


class Subject:
    """f with its arguments, called on a list of tensors and giving one."""

    def __init__(self, f, arguments, seed, rtol=None):
        self.f, self.arguments, self.seed, self.rtol = f, arguments, seed, rtol
        self.tensors = arguments.tensors
        value = arguments.call(f, self.tensors)
        lv.inexact(value)  # refuses a result without a float in it
        self.outs = lv.result_leaves(value)
        self.upstreams = self._draw(self.outs)

    @property
    def leaves(self):
        """Names, dtypes and shapes of the float and complex arguments."""
        return self.arguments.leaves

    @property
    def is_complex(self):
        """Whether an argument is complex."""
        return any(leaf.dtype.is_complex for leaf in self.leaves)

    @property
    def takes_only_tensors(self):
        """Whether the arguments are just these tensors, one after another."""
        return all(
            arg is t for arg, t in zip(self.arguments.structure, self.tensors, strict=False)
        ) and (len(self.arguments.structure) == len(self.tensors))

    @functools.cached_property
    def eps(self):
        """The coarsest precision among arguments and results."""
        return max(epsilon(leaf.dtype) for leaf in (*self.leaves, *self.outs))

    @functools.cached_property
    def in_float64(self):
        """Whether f works in float64 and agrees with itself there."""
        try:
            fine = self.run(self.cast(tf.float64), cast_all(self.upstreams, tf.float64))
        except Exception:  # a function tied to its dtype may raise anything
            return False
        return not self._differences(fine, self.run(self.tensors), self.rtol_for(self.eps))

    @functools.cached_property
    def expected(self):
        """The eager run that others are held against, in float64 if f can."""
        return self.expect(self.tensors, self.upstreams)

    def expect(self, tensors, upstreams):
        """The eager run at other tensors, in float64 if f can."""
        if not self.in_float64:
            return self.run(tensors, upstreams)
        return self.run(cast_all(tensors, tf.float64), cast_all(upstreams, tf.float64))

    def apply(self, tensors):
        """The results of f as a list; as tf.function would trace it, when in a graph."""
        f = self.f if tf.executing_eagerly() else as_traced(self.f)
        return lv.inexact(self.arguments.call(f, list(tensors)))

    def run(self, tensors, upstreams=None):
        """Results and gradients, the tape round the call."""
        return run(self.apply, tensors, self.upstreams if upstreams is None else upstreams)

    def differentiate_twice(self):
        """Take the gradient of the gradient, for what that raises."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self.tensors)
            gradients = self.run(self.tensors).gradients
        tape.gradient(gradients, self.tensors)

    def cast(self, real):
        """The tensors in another precision."""
        return cast_all(self.tensors, real)

    def variants(self):
        """Three sets of tensors near these, where f should be defined too."""
        return [
            [tensor * tf.cast(k, tensor.dtype) for tensor in self.tensors]
            for k in (1, 1.125, 0.875)
        ]

    def row_gradients(self, one=1.0):
        """Some elements of the results, each with its gradients for an upstream of one there."""
        sizes = [int(np.prod(leaf.shape, dtype=int)) for leaf in self.outs]
        places = [(k, i) for k, size in enumerate(sizes) for i in range(size)]
        picked = places[:: max(1, len(places) // _ROWS)][:_ROWS]
        upstreams = [self._one_hot(k, i, one) for k, i in picked]
        gradients = [self.run(self.tensors, each).gradients for each in upstreams]
        return [(*place, each) for place, each in zip(picked, gradients, strict=True)]

    def tangents(self):
        """A direction for each tensor."""
        vector = upstream(lv.count(self.leaves), self.seed + 7)
        return lv.from_vector(vector, self.leaves)

    def rtol_for(self, eps):
        """The relative error allowed at a precision."""
        return _RTOL.get(eps, _RTOL_COARSEST) if self.rtol is None else self.rtol

    def disagreement(self, got, expected=None, eps=0.0):
        """What differs between a run and the eager one, or nothing."""
        rtol = self.rtol_for(max(eps, self.eps))
        return self._differences(got, self.expected if expected is None else expected, rtol)

    def gradients_disagree(self, got, expected):
        """What differs between two lists of gradients, or nothing."""
        names = [f"the gradient of {leaf.name}" for leaf in self.leaves]
        return first_difference(got, expected, self.rtol_for(self.eps), names)

    def _differences(self, got, expected, rtol):
        names = ([leaf.name for leaf in leaves] for leaves in (self.outs, self.leaves))
        return differences(got, expected, rtol, *names)

    def _one_hot(self, k, i, one):
        hot = [tf.zeros(leaf.shape, leaf.dtype) for leaf in self.outs]
        flat = np.zeros(int(np.prod(self.outs[k].shape, dtype=int)))
        flat[i] = one
        hot[k] = tf.cast(tf.reshape(flat, self.outs[k].shape), self.outs[k].dtype)
        return hot

    def _draw(self, outs):
        return lv.from_vector(upstream(lv.count(outs), self.seed), outs)


def run(apply, tensors, upstreams):
    """Results and gradients of ``apply``, a function of and to lists of tensors."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(tensors)
        ys = apply(tensors)
    return Run(ys, filled(tape.gradient(ys, tensors, output_gradients=upstreams), tensors))


def filled(gradients, tensors):
    """Gradients with zeros where none flows."""
    pairs = zip(gradients, tensors, strict=True)
    return [tf.zeros_like(t) if g is None else tf.convert_to_tensor(g) for g, t in pairs]


def as_traced(f):
    """What ``tf.function`` would trace of f: Python's if and for become graph ops."""
    return tf_convert(f, ControlStatusCtx(Status.ENABLED, ConversionOptions(recursive=True)))


def cast_all(tensors, real):
    """Tensors in another precision, complex ones in the complex dtype that goes with it."""
    kinds = [lv.complex_of(real) if t.dtype.is_complex else real for t in tensors]
    return [tf.cast(t, kind) for t, kind in zip(tensors, kinds, strict=True)]


def differences(got, expected, rtol, outs, ins):
    """The first difference between two runs, in words; empty where they agree."""
    found = first_difference(got.ys, expected.ys, rtol, outs)
    names = [f"the gradient of {name}" for name in ins]
    return found or first_difference(got.gradients, expected.gradients, rtol, names)


def first_difference(got, expected, rtol, names):
    """The first difference between two lists of tensors, in words."""
    if len(got) != len(expected):
        return f"{len(got)} results, where eager mode gives {len(expected)}"
    triples = zip(got, expected, names, strict=True)
    return next((said for t in triples if (said := _difference(*t, rtol))), "")


def _difference(got, expected, name, rtol):
    if tuple(got.shape) != tuple(expected.shape):
        return (
            f"{name} has shape {tuple(got.shape)}, where eager mode gives {tuple(expected.shape)}"
        )
    leaf = lv.leaf_of(name, expected)
    ours, theirs = _alike(got, expected)
    finite = np.abs(theirs[np.isfinite(theirs)])
    room = rtol * (np.abs(theirs) + _SHARE * finite.max(initial=0.0))
    wrong = ~np.isclose(ours, theirs, rtol=0, atol=np.nan_to_num(room), equal_nan=True)
    if not wrong.any():
        return ""
    with np.errstate(invalid="ignore"):
        off = np.where(wrong, np.nan_to_num(np.abs(ours - theirs), nan=np.inf), -1)
    worst = int(np.argmax(off))
    at = leaf.coordinate_name(worst) if leaf.coordinates == len(ours) else name
    return f"{at} is {figure(ours[worst])}, where eager mode gives {figure(theirs[worst])}"


def _alike(got, expected):
    """Both as coordinates; a real tensor beside a complex one has imaginary parts of zero."""
    got, expected = np.asarray(got), np.asarray(expected)
    if np.iscomplexobj(got) != np.iscomplexobj(expected):
        got, expected = got.astype(np.complex128), expected.astype(np.complex128)
    return lv.to_vector([got]), lv.to_vector([expected])
