"""Explorers without a kernel and a browser: set a value, and see what follows."""

import base64
import io
import sys
import threading
import types

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import gradlab as gl
from gradlab.widgets.controls import NumberControl, control_for
from gradlab.widgets.digest import number


def scaled(x, alpha):
    return alpha * tf.square(x)


def picky(x, alpha):
    if alpha > 2:
        raise ValueError("alpha <b>too</b> big")
    return alpha * x


@pytest.fixture
def explorer():
    return gl.explore(scaled, alpha=(0.0, 2.0), probe=1.0)


def shown(explorer):
    return explorer.digest, explorer.view.alt, explorer.view.png, explorer._digest_line.value


def test_digest_of_the_clip_on_a_square():
    explorer = gl.explore(gl.clip_gradient_by_value, compose="x²/2", probe=2)
    assert repr(explorer) == (
        "x²/2 of clip_gradient_by_value(clip_value_min=-1, clip_value_max=1) at x = 2: "
        "forward 2, gradient 1, slope 2;\ngradient and slope part on 67 % of -3…3"
    )


def test_set_moves_curve_digest_alt_and_picture(explorer):
    before = shown(explorer)
    assert explorer.set(alpha=0.5) is explorer
    np.testing.assert_allclose(explorer.curve.forward, explorer.curve.x**2 / 2, atol=1e-5)
    assert explorer.digest.startswith(
        "scaled(alpha=0.5) at x = 1: forward 0.5, gradient 1, slope 1;"
    )
    assert all(new != old for new, old in zip(shown(explorer), before, strict=True))
    assert explorer.view.alt == explorer.digest


def test_a_slider_does_what_set_does(explorer):
    explorer._controls["alpha"].value = 0.25
    by_slider = shown(explorer)
    explorer.set(alpha=1.0).set(alpha=0.25)
    assert shown(explorer) == by_slider
    assert explorer.parameters == {"alpha": 0.25}


def test_the_handle_begins_where_the_probe_is(explorer):
    assert explorer.view.probe == explorer.probe == 1.0


def test_dragging_the_probe_moves_its_control_and_the_tangents(explorer):
    curve = explorer.curve.forward
    explorer.view.probe = -2.0
    assert explorer.probe == -2.0
    assert explorer._controls["probe"].value == -2.0
    assert "at x = -2: forward 4, gradient -4, slope -4" in explorer.digest
    np.testing.assert_array_equal(explorer.curve.forward, curve)
    explorer.probe = 0.5
    assert explorer.view.probe == 0.5


def test_a_slider_never_retraces():
    traces = []

    def f(x, alpha, hard=False):
        traces.append(1)
        return tf.where(hard, x, alpha * x)

    explorer = gl.explore(f, alpha=(0.0, 2.0))
    before = len(traces)
    for alpha in np.linspace(0, 2, 9):
        explorer.set(alpha=alpha, probe=alpha)
    explorer.set(hard=True).set(believed=True)
    assert len(traces) == before


def test_several_values_make_one_update(explorer):
    frames = []
    explorer.view.observe(frames.append, "frame")
    explorer.set(alpha=0.5, probe=-1.0, believed=True)
    assert len(frames) == 1


def test_reset_puts_everything_back(explorer):
    before = shown(explorer)
    explorer.set(alpha=0.1, compose="sin x", probe=-2.0, believed=True)
    explorer.reset()
    assert explorer.digest == before[0]
    assert explorer.parameters == {"alpha": 1.0}
    assert (explorer.compose, explorer.probe) == ("x", 1.0)


def test_reset_reads_globals_anew():
    factor = [1.0]
    explorer = gl.explore(lambda x: factor[0] * x)
    factor[0] = 2.0
    np.testing.assert_allclose(explorer.set(probe=0.0).curve.gradient, 1)
    np.testing.assert_allclose(explorer.reset().curve.gradient, 2)


@pytest.mark.parametrize(
    ("compose", "oracle"),
    [
        ("x", lambda y: y),
        ("x²/2", lambda y: y**2 / 2),
        ("|x|", np.abs),
        ("sin x", np.sin),
        ("quartic", lambda y: y**4 / 4 - y**2 / 2),
        (tf.exp, np.exp),
    ],
)
def test_compose_applies_a_loss_to_the_value(compose, oracle):
    explorer = gl.explore(lambda x: 2 * x, compose=compose, x=(-1, 1))
    np.testing.assert_allclose(explorer.curve.forward, oracle(2 * explorer.curve.x), atol=1e-5)


def test_compose_can_change_by_its_list():
    explorer = gl.explore("scale_gradient", compose="x")
    explorer._controls["compose"].value = "|x|"
    np.testing.assert_allclose(explorer.curve.forward, np.abs(explorer.curve.x))
    assert explorer.digest.startswith("|x| of scale_gradient(scale=0.5)")


def test_clipping_composed_with_a_square_believes_in_huber():
    explorer = gl.explore("clip_gradient_by_value", compose="x²/2", believed=True)
    size = np.abs(explorer.curve.x)
    huber = np.where(size <= 1, size**2 / 2, size - 0.5)
    np.testing.assert_allclose(explorer.curve.believed, huber, atol=1e-4)
    explorer.set(clip_value_min=-2.0, clip_value_max=2.0)
    huber = np.where(size <= 2, size**2 / 2, 2 * size - 2)
    np.testing.assert_allclose(explorer.curve.believed, huber, atol=1e-4)


def test_upstream_may_have_a_slider():
    explorer = gl.explore(tf.square, upstream=(-2.0, 2.0), probe=1)
    explorer.set(upstream=-2.0)
    np.testing.assert_allclose(explorer.curve.gradient, -4 * explorer.curve.x, atol=1e-5)
    assert "upstream -2 at x = 1: forward 1, gradient -4, slope -4" in explorer.digest


def test_an_exception_shows_beside_the_figure_and_the_next_good_value_clears_it():
    explorer = gl.explore(picky, alpha=(0.0, 4.0))
    explorer.set(alpha=1.5)
    good = explorer.curve
    explorer._controls["alpha"].value = 3.0
    assert isinstance(explorer.error, ValueError)
    assert explorer.curve is good
    assert "ValueError: alpha <b>too</b> big" in explorer.digest
    assert 'role="alert"' in explorer._message.value
    assert "&lt;b&gt;too&lt;/b&gt;" in explorer._message.value
    greyed = explorer.view.png
    explorer.set(alpha=1.5)
    assert (explorer.error, explorer._message.value) == (None, "")
    assert explorer.view.png != greyed


def test_a_preset_sets_what_it_names_and_all_else_as_at_first(explorer):
    flat = gl.explore(scaled, alpha=(0.0, 2.0), presets={"flat": {"alpha": 0.0, "compose": "|x|"}})
    flat.set(probe=-1.0)
    (button,) = flat.widget.children[0].children[1].children[0].children
    assert button.description == "flat"
    button.click()
    assert (flat.parameters, flat.compose, flat.probe) == ({"alpha": 0.0}, "|x|", 1.0)
    with pytest.raises(ValueError, match="name: got 'steep'; the presets are 'flat'"):
        flat.apply_preset("steep")


def test_your_own_losses_join_the_list():
    explorer = gl.explore(scaled, alpha=(0.0, 2.0), compose={"twice": lambda y: 2 * y, "e": tf.exp})
    assert explorer.compose == "twice"
    np.testing.assert_allclose(explorer.curve.forward, 2 * explorer.curve.x**2, atol=1e-5)
    explorer.set(compose="e", alpha=0.0)
    np.testing.assert_allclose(explorer.curve.forward, 1)
    assert explorer.set(compose="sin x").compose == "sin x"


def test_a_pinned_setting_stays_for_comparison(explorer):
    explorer.set(alpha=0.5).pin()
    pinned = explorer.curve
    before = explorer.view.png
    explorer.set(alpha=2.0, probe=0.0)
    assert explorer.digest.endswith("\npinned: scaled(alpha=0.5)")
    for axes, values in zip(explorer.figure.axes, (pinned.forward, pinned.gradient), strict=True):
        (line,) = (line for line in axes.lines if line is explorer._plot._pinned[axes])
        assert line.get_visible()
        np.testing.assert_array_equal(line.get_ydata(), values)
        assert "pinned" in [text.get_text() for text in axes.get_legend().get_texts()]
    explorer._pin_button.click()
    assert "pinned" not in explorer.digest
    explorer.set(alpha=0.5, probe=1.0)
    assert explorer.view.png != before
    explorer.pin().reset()
    assert explorer.pinned is None


def test_what_never_could_be_drawn_cannot_be_pinned():
    explorer = gl.explore(picky, alpha=(3.0, 4.0))
    assert explorer._pin_button.disabled
    with pytest.raises(ValueError, match="nothing to pin"):
        explorer.pin()


def double(y):
    return 2 * y


CODE = {
    "": lambda: gl.explore(scaled, alpha=(0.0, 2.0)),
    "table": lambda: gl.explore(gl.scale_gradient, compose="x²/2", x=(-1, 1)).set(scale=2.0),
    "own loss": lambda: gl.explore(scaled, alpha=(0.0, 2.0, 0.5), compose=double, probe=0.5),
    "all set": lambda: gl.explore("clip_gradient_by_value", upstream=(-2.0, 2.0), points=11).set(
        clip_value_min=-0.1 - 0.2, upstream=-1.5, believed=True, probe=-0.25, compose="quartic"
    ),
    "presets": lambda: gl.explore(
        scaled, alpha=[0.5, 1.5], presets={"high": {"alpha": 1.5}}
    ).apply_preset("high"),
}


@pytest.mark.parametrize("name", CODE)
def test_the_code_reproduces_what_is_shown(name):
    explorer = CODE[name]()
    *statements, last = explorer.code.split("\n\n")
    assert statements == ["import gradlab as gl"]
    again = eval(last, {"gl": gl, "scaled": scaled, "double": double})
    assert again.digest == explorer.digest
    assert again.code == explorer.code == explorer._code_box.code
    np.testing.assert_array_equal(again.curve.gradient, explorer.curve.gradient)


def test_a_slow_value_is_said_and_the_next_good_one_clears_it(monkeypatch):
    monkeypatch.setattr("gradlab.widgets.newest.PATIENCE", 0.05)
    gate = threading.Event()
    gate.set()

    def wait(x, alpha):
        if alpha > 1:
            gate.wait(20)
        return x

    def slow(x, alpha):
        return alpha * tf.ensure_shape(tf.numpy_function(wait, [x, alpha], x.dtype), x.shape)

    explorer = gl.explore(slow, alpha=(0.0, 2.0))
    gate.clear()
    good = explorer.set(alpha=0.5).curve
    explorer._controls["alpha"].value = 1.5
    assert "not there after" in explorer._message.value
    assert explorer.curve is good
    monkeypatch.setattr("gradlab.widgets.newest.PATIENCE", 20)
    explorer._controls["alpha"].value = 0.75
    assert explorer._message.value == ""
    assert explorer.digest.startswith("slow(alpha=0.75)")
    gate.set()


def test_a_function_slow_at_the_end_of_a_range_appears_at_once():
    go_on, asked, answered = threading.Event(), [], []

    def slow_at_two(x, alpha):
        def wait(alpha):
            if alpha == 2:
                asked.append(alpha)
                go_on.wait(5)
                answered.append(alpha)
            return alpha

        return tf.reshape(tf.numpy_function(wait, [alpha], x.dtype), []) * x

    explorer = gl.explore(slow_at_two, alpha=(0.0, 2.0))
    assert asked
    assert not answered
    assert explorer.error is None
    assert explorer.set(alpha=1.5).digest.startswith("slow_at_two(alpha=1.5)")
    go_on.set()


def test_a_function_that_always_raises_still_gives_an_explorer():
    explorer = gl.explore(picky, alpha=(3.0, 4.0))
    assert "ValueError" in explorer.digest
    assert explorer.view.png


def test_undefined_points_are_gaps_not_crashes(capfd):
    explorer = gl.explore(lambda x, alpha: alpha * tf.math.log(x), alpha=(0.5, 2.0), probe=-1)
    assert "forward undefined, gradient undefined, slope undefined" in explorer.digest
    explorer.set(probe=0.0)
    assert "forward -∞, gradient ∞, slope undefined" in explorer.digest
    assert capfd.readouterr() == ("", "")


def test_rounding_is_not_printed_as_a_value():
    explorer = gl.explore(lambda x: tf.sin(x) ** 2 + tf.cos(x) ** 2, probe=1.23)
    assert repr(explorer) == (
        "<lambda> at x = 1.23: forward 1, gradient 0, slope 0;\ngradient and slope agree on -3…3"
    )


def test_no_gradient_says_why():
    explorer = gl.explore(lambda x: tf.numpy_function(np.sin, [x], x.dtype))
    assert "no gradient on -3…3" in explorer.digest
    assert "backprop reports None" in explorer._note.value


def test_the_stored_form_is_a_picture_and_a_digest(explorer):
    data, metadata = explorer._repr_mimebundle_()
    assert set(data) == {"text/plain", "image/png", "application/vnd.jupyter.widget-view+json"}
    assert data["text/plain"] == explorer.digest
    picture = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
    assert picture.size == tuple(2 * side for side in metadata["image/png"].values())
    assert len(data["image/png"]) < 60_000


def test_colab_is_told_where_widgets_come_from(explorer, monkeypatch):
    colab = types.SimpleNamespace(
        enable_custom_widget_manager=lambda: None,
        _widgets=types.SimpleNamespace(_installed_url="https://example.org/manager.js"),
    )
    monkeypatch.setitem(sys.modules, "google.colab.output", colab)
    _, metadata = explorer._repr_mimebundle_()
    manager = metadata["application/vnd.jupyter.widget-view+json"]["colab"]["custom_widget_manager"]
    assert manager == {"url": colab._widgets._installed_url}
    assert set(metadata) == {"application/vnd.jupyter.widget-view+json", "image/png"}


def test_stored_text_names_no_device(explorer):
    assert "CPU" not in explorer.digest
    assert "CPU" in explorer.widget.children[0].children[1].children[-1].value


def test_limits_follow_a_curve_that_leaves_them():
    explorer = gl.explore(lambda x, power: x**power, power=(1.0, 9.0), x=(0, 3))
    for power in (1.0, 5.0, 9.0):
        explorer.set(power=power)
        assert explorer.curve.forward.max() <= explorer._plot.above.get_ylim()[1]


def test_every_op_of_the_table_explores():
    for name in gl.SPECS:
        explorer = gl.explore(name)
        assert explorer.error is None, name
        assert np.isfinite(explorer.curve.gradient).all(), name


def test_ranges_replace_those_of_the_table():
    explorer = gl.explore(gl.scale_gradient, scale=(-9.0, 9.0), x=(0, 1))
    explorer.set(scale=9.0)
    assert (explorer.curve.x[0], explorer.curve.x[-1]) == (0, 1)


BAD = {
    "op: got 'no_such'": lambda: gl.explore("no_such"),
    "f: got 3": lambda: gl.explore(3),
    "compose: got 'cube'": lambda: gl.explore(tf.sin, compose="cube"),
    "compose: got {}": lambda: gl.explore(tf.sin, compose={}),
    "presets: 'far': alpha: got 9": lambda: gl.explore(
        scaled, alpha=(0.0, 2.0), presets={"far": {"alpha": 9}}
    ),
    "x: got 3": lambda: gl.explore(tf.sin, x=3),
    "scale: clip_gradient_by_norm has no such": lambda: gl.explore(
        "clip_gradient_by_norm", scale=(0, 1)
    ),
    "alpha: scaled needs it": lambda: gl.explore(scaled),
    "compose: <lambda> has a parameter of this name": lambda: gl.explore(lambda x, compose: x),
    "alpha: got the step 0": lambda: gl.explore(scaled, alpha=(0.0, 1.0, 0)),
    "alpha: got the step -1": lambda: gl.explore(scaled, alpha=(0.0, 1.0, -1.0)),
    "alpha: got the step 2": lambda: gl.explore(scaled, alpha=(0.0, 1.0, 2.0)),
    "alpha: got the range (0.0, inf)": lambda: gl.explore(scaled, alpha=(0.0, np.inf)),
    "top: starts at inf": lambda: gl.explore(lambda x, top=np.inf: tf.minimum(x, top)),
    "beta: scaled has no such": lambda: gl.explore(scaled, alpha=(0, 1), beta=(0, 1)),
    "alpha: got 'fast'": lambda: gl.explore(scaled, alpha="fast"),
    "probe: got 7": lambda: gl.explore(tf.sin, probe=7),
    "points: got 1": lambda: gl.explore(tf.sin, points=1),
    "device: there is no": lambda: gl.explore(tf.sin, device="gpu:7"),
    "upstream: got 'a'": lambda: gl.explore(tf.sin, upstream="a"),
    "believed: the explorer has a control": lambda: gl.explore(
        lambda x, believed=1.0: believed * x
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_names_the_argument(message):
    with pytest.raises((TypeError, ValueError)) as caught:
        BAD[message]()
    assert str(caught.value).startswith(message)


def test_set_changes_nothing_where_it_refuses(explorer):
    before = shown(explorer)
    for values in ({"alpha": 7.0}, {"beta": 1.0}, {"probe": 0.0, "alpha": "a"}):
        with pytest.raises((TypeError, ValueError)):
            explorer.set(**values)
    assert shown(explorer) == before


def test_controls_are_named_and_keep_to_their_range(explorer):
    control = explorer._controls["alpha"]
    assert (control.label, control.low, control.high, control.step) == ("alpha", 0.0, 2.0, 0.02)
    control.value = 9.0
    assert control.value == 2.0
    kinds = [control_for(param).__class__.__name__ for param in explorer._params.values()]
    assert kinds == ["NumberControl", "Dropdown", "NumberControl", "Checkbox"]
    assert "aria-label" in str(NumberControl._esm)


def test_explorers_do_not_share_state():
    one, two = (gl.explore(scaled, alpha=(0.0, 2.0)) for _ in range(2))
    one.set(alpha=0.5)
    assert two.parameters == {"alpha": 1.0}


@pytest.mark.parametrize("edge", [0.1235, 2.345, 99.95, 1.005e-3, 123450.0])
def test_numbers_on_the_edge_of_rounding_read_alike_everywhere(edge):
    for off in (-1e-7, 0, 1e-7):
        assert number(edge * (1 + off)) == number(edge)
        assert number(-edge * (1 + off)) == number(-edge)


def test_the_figure_is_sent_before_the_echo(explorer, monkeypatch):
    control, sent = explorer._controls["alpha"], []
    for widget in (control, explorer.view):
        monkeypatch.setattr(widget.comm, "send", lambda data, buffers=None: sent.append(data))
    control.set_state({"value": 3.0})
    assert [(each["method"], "frame" in each["state"]) for each in sent[-2:]] == [
        ("update", True),
        ("echo_update", False),
    ]
    assert sent[-1]["state"] == {"value": 2.0}  # as the kernel has it, within the range


def test_a_random_function_is_called_one():
    noisy = gl.explore(lambda x: x + tf.random.normal(tf.shape(x)))
    assert "gives other values each time" in noisy._note.value
    assert "one point at a time" not in noisy._note.value
    assert "each time" not in gl.explore(lambda x: x / tf.norm(x))._note.value


def test_a_missing_gradient_is_not_called_agreement():
    explorer = gl.explore(lambda x: tf.where(tf.abs(x) < 1, tf.acos(x), 0.0), probe=2.0)
    curve = explorer.curve
    lost = np.mean(np.isfinite(curve.forward) & np.isnan(curve.gradient))
    assert lost > 0.6
    assert explorer.digest.endswith(f"agree on -3…3; no gradient on {round(100 * lost)} %")


@pytest.mark.parametrize("number", [np.float32(1.0), np.int64(1), tf.constant(1.0)])
def test_numbers_of_other_libraries_are_numbers(number):
    assert gl.explore(scaled, alpha=(0.0, 2.0), probe=number).probe == 1.0


@pytest.mark.parametrize("ends", [np.float32([0, 2]), np.float64([0, 2])])
def test_a_range_of_numpy_numbers_is_a_range(ends):
    explorer = gl.explore(scaled, alpha=tuple(ends)).set(alpha=0.5)
    control = explorer._controls["alpha"]
    assert (control.low, control.high, control.value) == (0.0, 2.0, 0.5)
    assert gl.explore(scaled, alpha=tuple(np.int64([0, 2])))._params["alpha"].kind == "int"


def test_choices_of_one_name_are_refused():
    with pytest.raises(ValueError, match="act: two choices are called '<lambda>'"):
        gl.explore(lambda x, act: act(x), act=[lambda x: x, lambda x: x**2])


def test_the_code_keeps_what_a_range_needs_and_a_loss_apart_from_the_function():
    explorer = gl.explore(lambda x: x, compose=lambda y: y**2, x=(1e6, 1e6 + 1))
    assert explorer.code.endswith("gl.explore(f, x=(1000000.0, 1000001.0), compose=compose)")


def test_errors_call_a_function_by_its_name():
    def net(x):
        return x[:, None]

    assert "lambda x: net(x[:, None])[:, 0]" in gl.explore(net).digest
