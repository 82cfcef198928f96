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
}


def test_every_row_has_an_oracle_and_every_op_a_row():
    assert set(ORACLES) == set(gl.SPECS)
    for name, spec in gl.SPECS.items():
        assert spec.name == name
        assert spec.op is getattr(gl, name)
        assert spec.op.__module__ == f"gradlab.ops.{spec.room}"
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


def test_specs_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        gl.SPECS["scale_gradient"].name = "other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        ParamSpec("a", 1.0, 0.0, 2.0).low = 3.0
