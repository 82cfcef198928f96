"""Every op of the table, in every mode, against its oracle."""

import numpy as np
import pytest
import tensorflow as tf
from cases import CASES
from modes import (
    FORWARD,
    JACOBIAN,
    MODES,
    SECOND_ORDER,
    flat,
    on_two_replicas,
    save_and_load_all_in_fresh_process,
)

import gradlab
from gradlab import _ROOMS

TOLERANCE = {"bfloat16": 2e-2, "float16": 4e-3, "float32": 2e-6, "float64": 1e-13}
ROOMS = [room for room in _ROOMS if room.startswith("gradlab.ops.")]

every_case = pytest.mark.parametrize("name", CASES)


def test_no_op_is_left_out():
    members = {name for room in ROOMS for name in _ROOMS[room]}
    # A rule isn't an op: test_rectifiers holds each to the op whose gradient it is.
    members -= {name for name in members if name.endswith("_rule")}
    assert members == {case.op for case in CASES.values()}
    assert members <= set(gradlab.__all__)
    assert members == {CASES[name].op for name in SINGLE}  # of which all derivatives are tested


def wide(tensors):
    dtype = np.complex128 if tensors[0].dtype.is_complex else np.float64
    return [tf.convert_to_tensor(t).numpy().astype(dtype) for t in tensors]


def close(got, wanted, tolerance):
    for one, other in zip(got, wanted, strict=True):
        if other is None:
            assert one is None
        else:
            np.testing.assert_allclose(
                one.astype(np.result_type(other)), other, rtol=tolerance, atol=tolerance
            )


def verify(case, xs, upstreams, ys, gradients, tolerance):
    """Hold what an op gave, and its gradients, to the oracle."""
    for x, y, gradient in zip(xs, ys, gradients, strict=True):
        assert (y.dtype, gradient.dtype) == (x.dtype.as_numpy_dtype,) * 2
        assert y.shape == gradient.shape == x.shape
    close(ys, case.forward(wide(xs)), tolerance)
    close(gradients, case.rule(wide(xs), wide(upstreams)), tolerance)


def check(cases, mode, dtype=tf.float32, tensors_of=None):
    """Run all cases as one function, which is traced and compiled once, and verify each."""
    tensors_of = tensors_of or (lambda case: (case.xs(dtype), case.upstreams(dtype)))
    given = {name: tensors_of(case) for name, case in cases.items()}
    for name, case in cases.items():
        case.f(*given[name][0])  # once in eager mode, where variables may be made
    xs, upstreams = ([t for pair in given.values() for t in pair[side]] for side in (0, 1))
    ys, gradients = (iter(tensors) for tensors in mode(side_by_side(cases), xs, upstreams))
    wrong = {}
    for name, case in cases.items():
        got = [[next(tensors) for _ in case.shapes] for tensors in (ys, gradients)]
        try:
            verify(case, *given[name], *got, TOLERANCE[dtype.real_dtype.name])
        except AssertionError as error:
            wrong[name] = error
    assert not wrong, "\n".join(f"{name}: {error}" for name, error in wrong.items())


def side_by_side(cases):
    def f(*xs):
        xs = iter(xs)
        return [flat(case.f)(*[next(xs) for _ in case.shapes]) for case in cases.values()]

    return f


def able(mode):
    return {name: case for name, case in CASES.items() if mode not in case.cannot}


@pytest.mark.parametrize("mode", MODES)
def test_mode(mode):
    check(able(mode), MODES[mode])


@pytest.mark.parametrize(
    ("name", "mode"),
    [(name, mode) for name, case in CASES.items() for mode in case.cannot if mode in MODES],
)
def test_mode_it_cannot_do(name, mode):
    error, message = CASES[name].cannot[mode]
    with pytest.raises(error, match=message):
        check({name: CASES[name]}, MODES[mode])


@pytest.mark.parametrize("mode", ["eager", "function_tape_out", "jit"])
@pytest.mark.parametrize(
    "dtype",
    [tf.bfloat16, tf.float16, tf.float64, tf.complex64, tf.complex128],
    ids=lambda d: d.name,
)
def test_dtype(mode, dtype):
    cases = {n: c for n, c in able(mode).items() if c.complex or not dtype.is_complex}
    check(cases, MODES[mode], dtype)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.complex])
def test_dtype_it_cannot_do(name):
    with pytest.raises(TypeError, match="x must be real"):
        check({name: CASES[name]}, MODES["eager"], tf.complex64)


def unit_upstreams(case, x):
    """The oracle's jacobian: one row per element of the output."""
    rows = np.eye(x.size).reshape(x.size, *x.shape)
    return np.stack([case.rule([x], [row])[0] for row in rows]).reshape(x.shape + x.shape)


SINGLE = [name for name, case in CASES.items() if len(case.shapes) == 1]


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("way", JACOBIAN)
def test_jacobian(name, way):
    case = CASES[name]
    (x,) = case.xs(tf.float64)
    case.f(x)
    if f"{way} jacobian" in case.cannot:
        error, message = case.cannot[f"{way} jacobian"]
        with pytest.raises(error, match=message):
            JACOBIAN[way](case.f, x)
        return
    got = JACOBIAN[way](case.f, x)
    np.testing.assert_allclose(got, unit_upstreams(case, x.numpy()), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("way", FORWARD)
def test_forward_mode(name, way):
    case = CASES[name]
    (x,), (tangent,) = case.xs(tf.float64), case.upstreams(tf.float64)
    if not case.linear or "forward mode" in case.cannot:
        nonlinear = (NotImplementedError, f"{case.op} has no forward mode")
        error, message = case.cannot.get("forward mode", nonlinear)
        with pytest.raises(error, match=message):
            FORWARD[way](case.f, x, tangent)
        return
    got = FORWARD[way](case.f, x, tangent)
    jacobian = unit_upstreams(case, x.numpy())
    np.testing.assert_allclose(got, np.tensordot(jacobian, tangent.numpy(), 2), rtol=1e-12)


def slopes(function, at, step=1e-6):
    """Central differences of a scalar function of an array."""
    slope = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        aside = np.zeros_like(at)
        aside[index] = step
        slope[index] = (function(at + aside) - function(at - aside)) / (2 * step)
    return slope


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("way", SECOND_ORDER)
def test_second_order(name, way):
    # The gradient of Σ w · rule(x, 3y²): x acts on the rule directly, and through y by the rule.
    case = CASES[name]
    x = case.xs(tf.float64)[0].numpy()
    weights = np.linspace(0.5, 2.0, x.size).reshape(x.shape)
    if "second order" in case.cannot:
        error, message = case.cannot["second order"]
        with pytest.raises(error, match=message):
            SECOND_ORDER[way](case.f, tf.constant(x), tf.constant(weights))
        return
    (y,) = case.forward([x])
    through_x = slopes(lambda x: np.sum(weights * case.rule([x], [3 * y**2])[0]), x)
    through_u = slopes(lambda u: np.sum(weights * case.rule([x], [u])[0]), 3 * y**2)
    wanted = through_x + case.rule([x], [6 * y * through_u])[0]
    got = SECOND_ORDER[way](case.f, tf.constant(x), tf.constant(weights))
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,)], ids=str)
@pytest.mark.parametrize("mode", ["eager", "function_tape_out", "jit"])
def test_scalar_and_empty(shape, mode):
    # The parameters of the others have a shape of their own.
    fixed = ("mask_gradient", "record_gradient, variable")
    cases = {n: c for n, c in able(mode).items() if "tensor" not in n and n not in fixed}

    def tensors_of(case):
        return [[tf.fill(shape, value) for _ in case.shapes] for value in (0.25, 3.0)]

    check(cases, MODES[mode], tensors_of=tensors_of)


@every_case
def test_static_shape_is_kept(name):
    case = CASES[name]
    for shape_of in (lambda x: x.shape, lambda x: [None, *x.shape[1:]], lambda x: None):
        specs = [tf.TensorSpec(shape_of(x), tf.float32) for x in case.xs()]
        graph = tf.function(flat(case.f), autograph=False, input_signature=specs)
        outputs = tf.nest.flatten(graph.get_concrete_function().structured_outputs)
        for y, spec in zip(outputs, specs, strict=True):
            assert y.shape.rank == spec.shape.rank
            assert y.shape.rank is None or y.shape.as_list() == spec.shape.as_list()


def test_two_replicas():
    check(CASES, on_two_replicas)


def test_saved_and_loaded_in_a_fresh_process(tmp_path):
    saved = {f"f{i}": case for i, case in enumerate(CASES.values()) if "saved" not in case.cannot}
    functions = {name: (case.f, case.xs()) for name, case in saved.items()}
    got = save_and_load_all_in_fresh_process(functions, tmp_path)
    for name, case in saved.items():
        ys, gradients = got[name]
        xs = wide(case.xs())
        close(ys, case.forward(xs), 2e-6)
        close(gradients, case.rule(xs, [np.ones_like(x) for x in xs]), 2e-6)


@pytest.mark.parametrize("name", [name for name in CASES if "saved" in CASES[name].cannot])
def test_saving_it_cannot_do(name, tmp_path):
    error, message = CASES[name].cannot["saved"]
    (x,) = CASES[name].xs()
    CASES[name].f(x)
    with pytest.raises(error, match=message):
        save_and_load_all_in_fresh_process({"f": (CASES[name].f, [x])}, tmp_path)
