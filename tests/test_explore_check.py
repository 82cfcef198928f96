"""The explorer of finite differences: set a step, a point, a function, and see what follows."""

import json

import numpy as np
import pytest
import tensorflow as tf

import gradlab as gl
from gradlab.step_sizes import STEPS


@pytest.fixture(scope="module")
def explorer():
    return gl.explore_check()


@pytest.fixture(autouse=True)
def reset(request):
    yield
    if "explorer" in request.fixturenames:
        request.getfixturevalue("explorer").reset()


def lines(explorer, name):
    return explorer._plot._lines[name].get_data()


def test_the_lines_are_the_errors_against_the_steps(explorer):
    for dtype, errors in explorer.sizes.by_dtype.items():
        steps, heights = lines(explorer, dtype)
        np.testing.assert_array_equal(steps, STEPS)
        np.testing.assert_allclose(heights, np.maximum(errors.errors, 1e-18))


def test_the_digest_names_branches_and_best_steps_in_powers_of_ten(explorer):
    assert repr(explorer.set(step=1e-3)) == (
        "sin x at x = 1, central difference: step 0.001 is off by 1e-7 in float64 (truncation), "
        "1e-4 in float32 (rounding);\n"
        "best step 1e-5 in float64, off by 1e-11; 0.01 in float32, off by 1e-5"
    )
    assert repr(explorer.set(step=1e-8, difference="forward")).endswith(
        "best step 1e-8 in float64, off by 1e-8; 0.001 in float32, off by 0.001"
    )


def test_the_best_step_is_marked(explorer):
    for dtype, errors in explorer.sizes.by_dtype.items():
        x, y = explorer._plot._bests[dtype].get_data()
        assert (x[0], y[0]) == (errors.best, errors.least)
    best = explorer.sizes.by_dtype["float64"].best
    np.testing.assert_allclose(best, np.cbrt(2**-52 * 1.3818 * 3 / 2 / 0.5403 * 1), rtol=0.05)


def test_the_branches_are_named(explorer):
    names = explorer._plot._names
    shown = {text.get_text() for text in names.values() if text.get_visible()}
    assert shown == {"truncation ∝ step²", "rounding in float64", "rounding in float32"}
    explorer.set(difference="forward")
    assert names["truncation"].get_text() == "truncation ∝ step"
    explorer.set(f="sin x, its gradient 1 % off")
    assert names["floor"].get_visible()
    assert explorer._plot._floor.get_ydata()[0] == explorer.sizes.gap


def test_dragging_sets_the_step(explorer):
    window = explorer._plot._windows["float32"].get_ydata()
    explorer.view.probe = 1e-7
    assert explorer.parameters["step"] == 1e-7
    assert "step 1e-7 is off by" in explorer.digest
    assert not np.array_equal(explorer._plot._windows["float32"].get_ydata(), window)


def test_dragging_the_step_draws_only_what_moves(explorer):
    explorer.set(step=1e-3)
    version = explorer.view.background["version"]
    for step in (1e-4, 1e-6, 1e-9, 1e-12):
        explorer.set(step=step)
    assert explorer.view.background["version"] == version


def test_a_function_of_your_own_comes_first():
    def own(x):
        return tf.exp(2.0 * x)

    explorer = gl.explore_check(own, x=0.5)
    assert explorer.digest.startswith("own at x = 0.5")
    np.testing.assert_allclose(explorer.sizes.slope, 2 * np.e, rtol=1e-8)
    np.testing.assert_allclose(explorer.set(f="x³", x=0.5).sizes.slope, 0.75, rtol=1e-8)
    assert explorer.code.endswith("gl.explore_check(f=own, x=0.5).set(f='x³')")
    assert gl.explore_check("x³").sizes.gradient == 3.0


def test_a_function_of_float32_alone_has_one_line():
    factor = tf.constant(3.0)
    explorer = gl.explore_check(lambda x: factor * x)
    assert not explorer._plot._lines["float64"].get_visible()
    assert "float64" not in explorer.digest
    assert "float64" in explorer._note.value


def test_what_f_raises_shows_and_a_good_value_clears_it():
    def picky(x):
        tf.debugging.assert_positive(x)
        return tf.math.log(x)

    explorer = gl.explore_check(picky, x=1.0)
    explorer.set(x=-1.0)
    assert explorer.error is not None
    assert explorer._plot._lines["float64"].get_alpha() < 1
    explorer.set(x=2.0)
    assert explorer.error is None
    np.testing.assert_allclose(explorer.sizes.gradient, 0.5)


@pytest.mark.parametrize("x", [-1.0, 0.0, 2.0])
def test_infinite_and_undefined_values_are_drawn_around(x):
    explorer = gl.explore_check(lambda x: 1.0 / x, x=x, step=0.1)
    assert explorer.error is None
    assert all(np.isfinite(axes.get_ylim()).all() for axes in explorer.figure.axes)


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"f": 3}, ValueError, "^f: got 3"),
        ({"f": "tan"}, ValueError, "^f: got 'tan'.*'sin x'"),
        ({"x": 9.0}, ValueError, "^x: got 9"),
        ({"x": "a"}, TypeError, "^x: got 'a'"),
        ({"step": 0.0}, ValueError, "^step: got 0"),
        ({"difference": "backward"}, ValueError, "^difference: .*'central', 'forward'"),
        ({"between": 3}, TypeError, "^between: got 3"),
        ({"presets": {"a": {"h": 1}}}, TypeError, "^presets: 'a': h: "),
    ],
    ids=lambda value: None if not isinstance(value, dict) else "-".join(map(str, value.values())),
)
def test_errors_name_the_argument(given, kind, words):
    with pytest.raises(kind, match=words):
        gl.explore_check(**given)


def test_stored_it_is_small(explorer):
    data, _ = explorer._repr_mimebundle_()
    assert len(json.dumps(data)) < 60_000
    assert data["text/plain"] == explorer.digest


def test_pinned_errors_stay_behind_the_next(explorer):
    pinned = explorer.sizes
    explorer.pin().set(difference="forward", x=2.0)
    for dtype, line in explorer._plot._pinned.items():
        np.testing.assert_array_equal(line.get_xdata(), STEPS)
        seen = pinned.by_dtype[dtype].errors > 1e-12
        np.testing.assert_array_equal(line.get_ydata()[seen], pinned.by_dtype[dtype].errors[seen])
    assert {*explorer._plot._pinned.values()} <= {*explorer._plot.animated}
    bottom, top = explorer._plot.above.get_ylim()
    heights = np.concatenate([line.get_ydata() for line in explorer._plot._pinned.values()])
    assert ((bottom <= heights) & (heights <= top)).all()
    assert "pinned: " in explorer.digest
    assert "pinned" in [text.get_text() for text in explorer._plot.above.get_legend().texts]
    explorer.unpin()
    assert "pinned" not in [text.get_text() for text in explorer._plot.above.get_legend().texts]
    assert not any(line.get_visible() for line in explorer._plot._pinned.values())
    assert explorer._plot.above.get_ylim()[0] > bottom  # nothing is that small any more


def test_pinned_errors_of_0_leave_the_limits_alone(explorer):
    limits = explorer.set(f="|x|")._plot.above.get_ylim()
    assert any((errors.errors == 0).any() for errors in explorer.sizes.by_dtype.values())
    assert explorer.pin()._plot.above.get_ylim() == limits


def test_a_function_of_ones_own_comes_before_ours_of_its_name():
    explorer = gl.explore_check({"sin x": lambda x: 5 * x**2}, x=1.0)
    assert explorer.sizes.gradient == pytest.approx(10)
