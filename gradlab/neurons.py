"""A spiking neuron over time, and the gradient that reaches back through its steps."""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from gradlab.ops.surrogates import spike


@dataclasses.dataclass(frozen=True)
class Run:
    """A neuron's run: arrays with one entry a step.

    Attributes:
        current: what comes in.
        membrane: the membrane's potential, before a spike resets it.
        spikes: 1 where it fired, else 0.
        gradient: that of the spike at step `of` with respect to the current of each step.
        of: the step whose spike is asked about.

    """

    current: np.ndarray
    membrane: np.ndarray
    spikes: np.ndarray
    gradient: np.ndarray
    of: int


class Neuron:
    """A leaky integrate-and-fire neuron, evaluated again and again: traced once a family.

    At step t, with a leak λ and a threshold θ::

        membrane[t] = (1 − λ) · membrane[t − 1] − θ · spikes[t − 1] + current[t]
        spikes[t] = spike(membrane[t] − θ)

    The gradient goes back along the membrane, and through each spike by its surrogate: to the
    membrane that fired it, and, where `through_reset`, from the reset it caused.

    Args:
        steps: how many.

    >>> import gradlab as gl
    >>> run = Neuron(4)([0.6] * 4, gl.Boxcar, leak=0.0, threshold=1.0, alpha=1.0, of=3)
    >>> run.membrane.round(2).tolist(), run.spikes.tolist()
    ([0.6, 1.2, 0.8, 1.4], [0.0, 1.0, 0.0, 1.0])
    >>> run.gradient.tolist()
    [0.0, 0.0, 0.0, 1.0]

    """

    def __init__(self, steps):
        self.steps = steps
        self.traces = 0
        self._graphs = {}

    def __call__(self, current, family, leak, threshold, alpha, of, through_reset=True):
        """Run it once, with currents of shape (steps,), and a `Surrogate` of this family."""
        numbers = map(_number, (leak, threshold, alpha, through_reset))
        asked = tf.one_hot(int(of), self.steps)
        current = np.asarray(current, np.float32)
        found = self._graph(family)(tf.constant(current), asked, *numbers)
        return Run(current.astype(float), *(each.numpy().astype(float) for each in found), int(of))

    def _graph(self, family):
        if family not in self._graphs:
            series, number = tf.TensorSpec([self.steps]), tf.TensorSpec([])
            run = tf.function(functools.partial(_run, family), autograph=False)
            with tf.device("CPU"):  # many small ops, one after another
                self._graphs[family] = run.get_concrete_function(series, series, *[number] * 4)
            self.traces += 1
        return self._graphs[family]


def _number(value):
    return tf.constant(float(value), tf.float32)


def _run(family, current, asked, leak, threshold, alpha, through_reset):
    surrogate = family(alpha)

    def step(before, now):
        membrane, fired = before
        reset = through_reset * fired + (1 - through_reset) * tf.stop_gradient(fired)
        membrane = (1 - leak) * membrane - threshold * reset + now
        return membrane, spike(membrane - threshold, surrogate)

    with tf.GradientTape() as tape:
        tape.watch(current)
        membranes, spikes = tf.scan(step, current, (tf.zeros([]), tf.zeros([])))
        loss = tf.reduce_sum(spikes * asked)
    return membranes, spikes, tape.gradient(loss, current)
