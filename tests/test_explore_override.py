"""A function's ops as a diagram: set a switch, and see the gradients that flow."""

import json

import numpy as np
import pytest
import tensorflow as tf

import gradlab as gl
from gradlab.flows import Op
from gradlab.widgets.override_explorer import Layout


def sin_of_square(x):
    return tf.sin(tf.square(tf.nn.relu(x)))


def doubled(op, upstream):
    return 2.0 * upstream


@pytest.fixture
def explorer():
    return gl.explore_override(sin_of_square, {"Relu": gl.guided_rule, "Sin": doubled}, probe=1.5)


def texts(explorer):
    """What stands on the arrows: value and gradient, from x to f(x)."""
    plot = explorer._plot
    pairs = [plot._numbers[edge] for edge in plot._layout.edges]
    return [tuple(text.get_text() for text in pair) for pair in pairs]


def hatched(explorer):
    return [bool(box.get_hatch()) for box, *_ in explorer._plot._boxes]


def test_all_rules_are_on_at_first(explorer):
    assert explorer.parameters == {"Relu": True, "Sin": True, "probe": 1.5}
    assert hatched(explorer) == [True, False, True]
    assert [rule.get_text() for *_, rule in explorer._plot._boxes] == ["guided_rule", "", "doubled"]
    np.testing.assert_allclose(np.ravel(explorer.flow.gradients), [6.0, 6.0, 2.0])


def test_numbers_stand_on_the_arrows(explorer):
    explorer.set(Sin=False)
    assert texts(explorer) == [
        ("1.5", "0"),
        ("1.5", "-1.88"),
        ("2.25", "-0.628"),
        ("0.778", "1"),
    ]


def test_a_switch_changes_diagram_curve_and_digest(explorer):
    explorer.set(Relu=False, Sin=False)
    assert hatched(explorer) == [False, False, False]
    x = explorer.curve.x
    own = np.where(x > 0, 2 * x * np.cos(x**2), 0.0)
    np.testing.assert_allclose(explorer.curve.gradient, own, atol=1e-4)
    assert repr(explorer) == (
        "sin_of_square, nothing overridden, at x = 1.5: forward 0.778, gradient -1.88, "
        "slope -1.88;\nback from 1: Sin -0.628, Square -1.88, Relu -1.88"
    )
    explorer.set(Relu=True).set(Relu=False)  # traced, so that a switch answers at once
    explorer._controls["Relu"].value = True
    np.testing.assert_allclose(explorer.curve.gradient, np.maximum(own, 0.0), atol=1e-4)
    assert repr(explorer) == (
        "sin_of_square, Relu by guided_rule, at x = 1.5: forward 0.778, gradient 0, "
        "slope -1.88;\nback from 1: Sin -0.628, Square -1.88, Relu (overridden) 0"
    )


def test_dragging_moves_the_x_that_flows(explorer):
    explorer.view.probe = 0.5
    assert explorer.flow.x == 0.5
    np.testing.assert_allclose(explorer.flow.values, [0.5, 0.25, np.sin(0.25)], rtol=1e-6)
    assert texts(explorer)[0] == ("0.5", "2")


def test_a_slider_never_retraces_and_a_switch_only_once():
    calls = []

    def counted(x):
        calls.append(1)
        return tf.nn.relu(x) ** 2

    explorer = gl.explore_override(counted, {"Relu": gl.guided_rule})
    explorer.set(Relu=False).set(Relu=True)
    before = len(calls)
    for x in np.linspace(-3, 3, 7):
        explorer.set(probe=x)
    explorer.set(Relu=False).set(Relu=True)
    assert len(calls) == before


def test_several_rules_for_a_type_are_a_list_to_choose_from():
    rules = {"Relu": {"guided": gl.guided_rule, "deconv": gl.deconv_rule}}
    explorer = gl.explore_override(lambda x: -tf.nn.relu(x), rules, Relu="own", probe=1.0)
    assert explorer.flow.gradient == -1.0
    assert hatched(explorer)[0] is False
    assert explorer.set(Relu="guided").flow.gradient == 0.0
    explorer = gl.explore_override(tf.nn.relu, {"Relu": [gl.guided_rule, gl.deconv_rule]}, probe=-1)
    assert explorer.flow.gradient == 0.0
    assert explorer.set(Relu="deconv_rule").flow.gradient == 1.0


def test_the_default_function():
    explorer = gl.explore_override(probe=1.5)
    assert explorer.parameters == {"Relu": "guided", "Square": True, "probe": 1.5}
    assert explorer.set(Relu="own").flow.gradient == -1.0  # clipped behind the square
    code = "import gradlab as gl\n\ngl.explore_override(probe=1.5).set(Relu='own')"
    assert explorer.code == code


def test_the_code_gives_the_function_and_its_rules(explorer):
    assert "gl.explore_override(" in explorer.code
    assert "sin_of_square" in explorer.code
    assert "'Relu': guided_rule" in explorer.code


def test_without_rules_it_is_a_diagram():
    explorer = gl.explore_override(lambda x: x * tf.sin(x), probe=2.0)
    assert list(explorer.parameters) == ["probe"]
    assert "sum" in explorer._plot._total.get_text()


def test_what_f_raises_shows_and_a_good_value_clears_it():
    def checked(op, upstream):
        tf.debugging.assert_less(op.inputs[0], 2.0)
        return upstream

    explorer = gl.explore_override(lambda x: -tf.nn.relu(x), {"Relu": checked}, probe=1.0)
    explorer.set(probe=2.5)
    assert explorer.error is not None
    assert explorer._plot._lines["gradient"].get_alpha() < 1
    assert explorer.flow.x == 1.0
    explorer.set(Relu=False)
    assert explorer.error is None
    assert explorer._plot._lines["gradient"].get_alpha() == 1


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"f": 3}, TypeError, "^f: "),
        ({"rules": 3}, TypeError, "^rules: "),
        ({"rules": {"Tanh": doubled}}, ValueError, "^rules: .*'Tanh'"),
        ({"rules": {"Relu": []}}, ValueError, "^rules: .*at least one"),
        ({"rules": {"Relu": [doubled, doubled]}}, ValueError, "^rules: .*another name"),
        ({"rules": {"Relu": {"own": doubled}}}, ValueError, "^rules: .*another name"),
        ({"x": 3}, TypeError, "^x: "),
        ({"probe": 9}, ValueError, "^probe: "),
        ({"Tanh": True}, TypeError, "^Tanh: "),
        ({"Relu": "guided"}, TypeError, "^Relu: "),
        ({"presets": {"a": {"Tanh": True}}}, TypeError, "^presets: 'a': Tanh: "),
    ],
    ids=lambda value: None if not isinstance(value, dict) else "-".join(value),
)
def test_errors_name_the_argument(given, kind, words):
    with pytest.raises(kind, match=words):
        gl.explore_override(**{"f": sin_of_square, "rules": {"Relu": doubled}, **given})


def chain(n):
    return [Op("Sin", (i - 1,), ()) for i in range(n)]


def test_boxes_stand_in_order_and_wrap_into_lines():
    layout = Layout(chain(4))
    places = [layout.places[node] for node in range(-1, 5)]
    assert np.all(np.diff([x for x, _ in places]) > layout.box[0])
    assert len({y for _, y in places}) == 1
    layout = Layout(chain(12))
    assert len({round(y, 6) for _, y in (layout.places[node] for node in range(13))}) == 3
    assert layout.height > 2 * Layout(chain(4)).height


def test_an_edge_past_a_box_goes_round_it():
    ops = [Op("Sin", (-1,), ()), Op("Exp", (0,), ()), Op("Mul", (-1, 1), ())]
    layout = Layout(ops)
    points, _ = layout.line((-1, 2, 0))
    for node in (0, 1):
        x, y = layout.places[node]
        width, height = layout.box
        beside = np.interp(x + np.array([-0.5, 0, 0.5]) * width, points[:, 0], points[:, 1])
        assert np.all(np.abs(beside - y) > height / 2)


def test_numbers_of_no_two_arrows_lie_on_one_another():
    ops = [
        Op("Mul", (-1,), ()), Op("Sin", (0,), ()), Op("Neg", (-1,), ()), Op("Mul", (2, -1), ()),
        Op("Exp", (3,), ()), Op("Mul", (-1, 1), ()), Op("Mul", (4, -1), ()),
        Op("AddV2", (5, 6), ()),
    ]  # fmt: skip
    layout = Layout(ops)
    places = np.array([layout.line(edge)[1] for edge in layout.edges])
    apart = np.abs(places[:, None] - places[None])
    clear = (apart[..., 0] > 0.45) | (apart[..., 1] > 0.35) | np.eye(len(places), dtype=bool)
    assert clear.all()


def test_stored_it_is_small(explorer):
    data, _ = explorer._repr_mimebundle_()
    assert len(json.dumps(data)) < 60_000
    assert data["text/plain"] == explorer.digest


def test_stored_the_largest_is_small_too():
    def large(x):
        for _ in range(4):
            x = tf.nn.relu(tf.sin(x) * x)
        return x

    explorer = gl.explore_override(large, {"Relu": gl.guided_rule})
    data, size = explorer._repr_mimebundle_()
    assert len(json.dumps(data)) < 60_000
    width, height = explorer.view.size
    assert size == {"image/png": {"width": width, "height": height}}


def test_a_pinned_gradient_stays_behind_that_of_other_rules():
    explorer = gl.explore_override(sin_of_square, {"Relu": gl.guided_rule})
    pinned = explorer._plot.curve.gradient
    explorer.pin().set(Relu=not explorer.parameters["Relu"])
    line = explorer._plot._pinned
    np.testing.assert_array_equal(line.get_ydata(), pinned)
    assert (explorer._plot.curve.gradient != pinned).any()
    assert line in explorer._plot.animated
    assert explorer.digest.endswith("\npinned: sin_of_square, Relu by guided_rule")
    assert "pinned" in [text.get_text() for text in explorer._plot.below.get_legend().texts]
    explorer.unpin()
    assert "pinned" not in [text.get_text() for text in explorer._plot.below.get_legend().texts]
    assert not line.get_visible()


def test_a_rule_may_have_any_name():
    rules = {"Relu": {"ok": gl.guided_rule, r"$\frac$": gl.deconv_rule}}
    explorer = gl.explore_override(sin_of_square, rules)
    assert r"Relu by $\frac$" in explorer.set(Relu=r"$\frac$").digest
    assert explorer.error is None
