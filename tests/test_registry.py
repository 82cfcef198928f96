"""Every row of the table against a NumPy oracle: what an explorer draws of the op."""

import dataclasses

import numpy as np
import pytest

import gradlab as gl
from gradlab.curves import Evaluator
from gradlab.specs import ParamSpec

X = np.linspace(-2.9, 2.9, 50)  # meets no kink and no jump
HELD = {"round": np.round, "sign": np.sign, "floor": np.floor}
SLOPE_OF = {
    "x": np.ones_like,
    "tanh": lambda x: 1 / np.cosh(x) ** 2,
    "sin": np.cos,
}


def _clamped(x, low=-1.0, high=1.0):
    return np.minimum(np.maximum(x, low), high)


# name -> parameters -> (forward, gradient) at upstream 1, without a loss behind it
ORACLES = {
    "scale_gradient": lambda x, scale: (x, np.full_like(x, scale)),
    "reverse_gradient": lambda x, scale: (x, np.full_like(x, -scale)),
    "mask_gradient": lambda x, mask: (x, np.full_like(x, float(mask))),
    "zero_nonfinite_gradient": lambda x: (
        np.sqrt(np.maximum(x, 0)),
        np.where(x > 0, 0.5 / np.sqrt(np.abs(x)), 0),
    ),
    "record_gradient": lambda x: (x, np.ones_like(x)),
    "clip_gradient_by_value": lambda x, clip_value_min, clip_value_max: (
        x,
        np.full_like(x, _clamped(1.0, clip_value_min, clip_value_max)),
    ),
    "clip_gradient_by_norm": lambda x, clip_norm: (x, np.full_like(x, min(1.0, clip_norm))),
    "clip_gradients_by_global_norm": lambda x, clip_norm: (
        x,
        np.full_like(x, min(1.0, clip_norm / np.sqrt(2))),
    ),
    "replace_gradient": lambda x, forward, backward: (HELD[forward](x), SLOPE_OF[backward](x)),
    "stop_gradient_trick": lambda x, forward, backward: (HELD[forward](x), SLOPE_OF[backward](x)),
    "straight_through": lambda x, forward: (HELD[forward](x), np.ones_like(x)),
    "clip_by_value_preserve_gradient": lambda x, clip_value_min, clip_value_max: (
        _clamped(x, clip_value_min, clip_value_max),
        np.ones_like(x),
    ),
    "custom_gradient": lambda x, steepness: (
        np.sign(x),
        steepness / np.cosh(steepness * x) ** 2,
    ),
    "register_gradient": lambda x: (np.round(x), np.ones_like(x)),
    "override_gradient": lambda x, limit: (x, np.full_like(x, min(1.0, limit))),
    "numpy_op": lambda x, y: (x - y * np.floor(x / y), np.ones_like(x)),
    "py_func": lambda x, factor: (x**2, factor * x),
    "round_ste": lambda x: (np.round(x), np.ones_like(x)),
    "sign_ste": lambda x, clip_value: (np.sign(x), _window(x, clip_value)),
    "approx_sign": lambda x: (np.sign(x), np.maximum(2 - 2 * np.abs(x), 0)),
    "swish_sign": lambda x, beta: (
        np.sign(x),
        beta * (2 - beta * x * np.tanh(beta * x / 2)) / (1 + np.cosh(beta * x)),
    ),
    "heaviside_ste": lambda x, clip_value: (np.heaviside(x, 1), _window(x, clip_value)),
    "ternary_ste": lambda x, threshold, clip_value: (
        np.where(np.abs(x) > threshold, np.sign(x), 0),
        _window(x, clip_value),
    ),
    "quantize_ste": lambda x, bits, low, high, outside: (
        _nearest(x, np.linspace(low, high, 2**bits)),
        np.where((low <= x) & (x <= high) | (outside == "pass"), 1.0, 0.0),
    ),
    "spike": lambda x, surrogate, alpha: (np.heaviside(x, 1), DERIVATIVES[surrogate](x, alpha)),
    "guided_relu": lambda x, **rectifier: (_relu(x, **rectifier), _relu_slope(x, **rectifier)),
    "deconv_relu": lambda x, **rectifier: (_relu(x, **rectifier), np.ones_like(x)),
    "redirected_relu": lambda x, active, **rectifier: (
        _relu(x, **rectifier),
        np.where(active & (x >= rectifier["max_value"]), 1.0, _relu_slope(x, **rectifier)),
    ),
}
DERIVATIVES = {
    "Sigmoid": lambda x, a: a / (4 * np.cosh(a * x / 2) ** 2),
    "FastSigmoid": lambda x, a: (1 + a * np.abs(x)) ** -2.0,
    "ATan": lambda x, a: a / 2 / (1 + (np.pi * a * x / 2) ** 2),
    "Triangular": lambda x, a: a * np.maximum(0, 1 - a * np.abs(x)),
    "PiecewiseExp": lambda x, a: a / 2 * np.exp(-a * np.abs(x)),
    "Erf": lambda x, a: a / np.sqrt(np.pi) * np.exp(-((a * x) ** 2)),
    "SoftSign": lambda x, a: a / 2 * (1 + a * np.abs(x)) ** -2.0,
    "Boxcar": lambda x, a: np.where(a * np.abs(x) <= 0.5, a, 0.0),
    "LeakyReLU": lambda x, a: np.where(x < 0, 0.1, a),
    "NonzeroSignLogAbs": lambda x, a: a / (1 + a * np.abs(x)),
    "S2NN": lambda x, a: np.where(x < 0, a / (4 * np.cosh(a * x / 2) ** 2), 1 / (1 + np.abs(x))),
    "QPseudoSpike": lambda x, a: a * (1 + 2 * a * np.abs(x)) ** -2.0,
    "LogTailedReLU": lambda x, a: np.where(x < 0, 0, np.minimum(a, 1 / np.abs(x))),
    "SquarewaveFourierSeries": lambda x, a: (
        a * (np.cos(a * np.pi * x / 2) + np.cos(3 * a * np.pi * x / 2))
    ),
    "TripleGaussian": lambda x, a: (
        a * (1.15 * _bell(a * x) - 0.025 * (_bell((a * x - 1) / 6) + _bell((a * x + 1) / 6)))
    ),
}


def _bell(x):
    return np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)


def _window(x, half):
    return np.where(np.abs(x) <= half, 1.0, 0.0)


def _nearest(x, levels):
    return levels[np.abs(x[:, None] - levels).argmin(1)]


def _relu(x, negative_slope, max_value):
    return np.minimum(np.where(x < 0, negative_slope * x, x), max_value)


def _relu_slope(x, negative_slope, max_value):
    return np.where(x < 0, negative_slope, np.where(x < max_value, 1.0, 0.0))


def test_every_row_has_an_oracle_and_every_op_a_row():
    assert set(ORACLES) == set(gl.SPECS)
    for name, spec in gl.SPECS.items():
        assert spec.name == name
        assert spec.op is getattr(gl, name)
        assert f"{spec.op.__module__}.".startswith(f"gradlab.ops.{spec.room}.")
        assert spec.forward_formula
        assert spec.gradient_formula


def _settings(spec):
    """The defaults, and each parameter at the ends of its range or at each of its choices."""
    defaults = {param.name: param.default for param in spec.params}
    ends = [
        {**defaults, param.name: end}
        for param in spec.params
        for end in (
            (param.low, param.high)
            if param.is_number
            else (True, False)
            if param.kind == "bool"
            else [label for label, _ in param.choices]
        )
    ]
    return [defaults, *ends]


@pytest.mark.parametrize("name", gl.SPECS)
def test_a_row_draws_what_its_oracle_says(name):
    spec = gl.SPECS[name]
    evaluate = Evaluator(spec.apply, x=(X[0], X[-1]), points=len(X))
    for states in _settings(spec):
        values = {param.name: param.value_of(states[param.name]) for param in spec.params}
        curve = evaluate(**values)
        forward, gradient = ORACLES[name](curve.x, **states)
        np.testing.assert_allclose(curve.forward, forward, atol=2e-5, err_msg=str(states))
        np.testing.assert_allclose(
            curve.gradient, gradient, rtol=1e-5, atol=1e-5, err_msg=str(states)
        )


@pytest.mark.parametrize("name", gl.SPECS)
def test_a_row_is_traced_once_and_then_runs_as_a_graph(name):
    spec, calls = gl.SPECS[name], []

    def apply(x, **parameters):
        calls.append(1)
        return spec.apply(x, **parameters)

    evaluate = Evaluator(apply, x=spec.x, points=21)
    values = {param.name: param.value_of(param.default) for param in spec.params}
    evaluate.at(0.5, **values)
    traced = len(calls)
    evaluate.at(0.75, **values)
    assert len(calls) == traced


def test_specs_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        gl.SPECS["scale_gradient"].name = "other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        ParamSpec("a", 1.0, 0.0, 2.0).low = 3.0
