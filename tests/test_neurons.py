"""A spiking neuron and the gradient through its steps, against a loop written out in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

import gradlab as gl
from gradlab.neurons import Neuron
from gradlab.registry import SPECS

FAMILIES = dict(SPECS["spike"].params[0].choices)


def forward(current, leak, threshold):
    membrane, fired, membranes, spikes = 0.0, 0.0, [], []
    for now in current:
        membrane = (1 - leak) * membrane - threshold * fired + now
        fired = float(membrane >= threshold)
        membranes.append(membrane)
        spikes.append(fired)
    return np.array(membranes), np.array(spikes)


def backward(slopes, leak, threshold, of, through_reset):
    """What the loss, the spike at a step, gives back to the current of each step."""
    gradient, later = np.zeros(len(slopes)), 0.0
    for t in reversed(range(len(slopes))):
        to_spike = float(t == of) - (threshold * later if through_reset else 0.0)
        later = to_spike * slopes[t] + (1 - leak) * later
        gradient[t] = later
    return gradient


@pytest.fixture(scope="module")
def neuron():
    return Neuron(24)


@pytest.fixture
def current():
    return 0.25 + 0.2 * np.sin(np.arange(24))


@pytest.mark.parametrize("through_reset", [True, False], ids=["through", "past"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_goes_back_as_by_hand(neuron, current, family, through_reset):
    surrogate, leak, threshold, of = FAMILIES[family], 0.15, 0.8, 20
    run = neuron(current, surrogate, leak, threshold, 1.5, of, through_reset)
    membrane, spikes = forward(current, leak, threshold)
    assert spikes.sum() > 2
    np.testing.assert_allclose(run.membrane, membrane, atol=1e-5)
    np.testing.assert_array_equal(run.spikes, spikes)
    at = tf.constant(membrane - threshold, tf.float64)
    slopes = surrogate(1.5).derivative(at).numpy()
    expected = backward(slopes, leak, threshold, of, through_reset)
    np.testing.assert_allclose(run.gradient, expected, rtol=2e-3, atol=1e-6)


def test_nothing_comes_from_the_future(neuron, current):
    run = neuron(current, gl.ATan, 0.1, 1.0, 2.0, of=10)
    assert not run.gradient[11:].any()
    assert run.gradient[10] > 0


def test_numbers_never_retrace(current):
    neuron = Neuron(24)
    for alpha in (0.5, 1.0, 7.0):
        neuron(current * alpha, gl.Sigmoid, 0.1 * alpha, alpha, alpha, int(alpha), alpha > 1)
    assert neuron.traces == 1
    neuron(current, gl.ATan, 0.1, 1.0, 2.0, 3)
    assert neuron.traces == 2


def test_a_leak_of_all_forgets(neuron, current):
    run = neuron(current, gl.Sigmoid, 1.0, 5.0, 1.0, of=20)
    np.testing.assert_allclose(run.membrane, current, atol=1e-6)
    assert np.flatnonzero(run.gradient).tolist() == [20] or not run.spikes.any()
