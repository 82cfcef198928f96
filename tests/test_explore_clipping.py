"""How clips turn gradients: against NumPy, and what the explorer shows of it."""

import base64
import json

import numpy as np
import pytest

import gradlab as gl
from gradlab.experiments.turning import CLIPS, angle, turned

CASES = {
    "the lesson's": ((3.0, 4.0), (0.6, 0.0), 1.0, 1.0),
    "nothing clipped": ((0.3, -0.2), (0.1, 0.4), 1.0, 1.0),
    "all of it": ((-5.0, 4.0), (2.0, -3.0), 0.1, 0.1),
    "limits apart": ((1.5, -4.5), (-2.0, 2.5), 2.0, 0.5),
}


def shortened(g, limit):
    return g * min(1.0, limit / np.linalg.norm(g))


ORACLES = {
    "value": lambda u, v, value, norm: np.clip([u, v], -value, value),
    "norm": lambda u, v, value, norm: [shortened(u, norm), shortened(v, norm)],
    "global norm": lambda u, v, value, norm: shortened(np.array([u, v]), norm),
}


def degrees(u, v):
    u, v = np.ravel(u), np.ravel(v)
    cosine = u @ v / np.linalg.norm(u) / np.linalg.norm(v)
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("case", CASES)
def test_clipped_gradients_and_their_angles(case, clip):
    first, second, value, norm = CASES[case]
    given = np.array([first, second])
    expected = np.array(ORACLES[clip](*given, value, norm))
    found = turned(*CASES[case])[clip]
    np.testing.assert_allclose(found.gradients, expected, rtol=1e-12)
    pairs = [(given[0], expected[0]), (given[1], expected[1]), (given, expected)]
    expected_angles = [degrees(*pair) for pair in pairs]
    np.testing.assert_allclose(found.angles, expected_angles, atol=1e-5)


def test_no_clip_by_norm_turns_a_gradient_alone():
    for case in CASES.values():
        for name in ("norm", "global norm"):
            assert max(turned(*case)[name].angles[:2]) < 1e-6
        assert turned(*case)["global norm"].angles[2] < 1e-6


def test_what_has_no_direction_has_no_angle():
    found = turned((0.0, 0.0), (3.0, 4.0), 1.0, 1.0)["value"]
    assert np.isnan(found.angles[0])
    assert found.angles[1] > 0
    assert "turn by no angle by value" in gl.explore_clipping((0, 0), (0, 0)).digest


@pytest.mark.parametrize("size", [1e-290, 1e-8, 1.0, 1e300])
def test_small_angles_keep_their_digits(size):
    small = 1e-9
    found = angle([size, 0.0], [size, small * size])
    np.testing.assert_allclose(found, np.degrees(small), rtol=1e-6)


def test_the_explorer_shows_what_is_turned():
    explorer = gl.explore_clipping().set(first_x=-2.0, first_y=1.0, clip_value=0.5, clip_norm=2.0)
    expected = turned((-2.0, 1.0), (0.6, 0.0), 0.5, 2.0)
    plot = explorer._plot
    for i, (name, clip) in enumerate(expected.items()):
        x, y = plot._clipped[name].get_data()
        np.testing.assert_allclose(np.transpose([x, y])[[1, 4]], clip.gradients)
        np.testing.assert_allclose(plot._bars[i].get_height(), clip.angles[2])
        assert plot._texts[i].get_text() in explorer.digest
    assert plot._box.get_bbox().bounds == (-0.5, -0.5, 1.0, 1.0)
    assert plot._circle.get_radius() == 2.0
    assert explorer.turned["value"].angles == expected["value"].angles


def test_the_digest_is_that_of_the_lesson():
    assert repr(gl.explore_clipping()) == (
        "gradients (3, 4) and (0.6, 0), clip_value 1, clip_norm 1;\n"
        "both together turn by 17.9° by value, 24.1° by norm, 0° by global norm"
    )


def test_the_handle_moves_the_gradient_it_is_put_on():
    explorer = gl.explore_clipping()
    assert explorer.view.probe == [3.0, 4.0]
    explorer.view.probe = [1.0, -2.0]
    assert (explorer.parameters["first_x"], explorer.parameters["first_y"]) == (1.0, -2.0)
    explorer.set(drag="second")
    assert explorer.view.probe == [0.6, 0.0]
    assert explorer.view.probe_track["label"] == "second_x and second_y"
    explorer.view.probe = [2.0, 2.0]
    assert (explorer.parameters["second_x"], explorer.parameters["first_x"]) == (2.0, 1.0)
    assert "gradients (1, -2) and (2, 2)" in explorer.digest


def test_the_start_is_set_by_keywords_and_written_as_code():
    explorer = gl.explore_clipping(first=(1, 2), clip_norm=0.5, drag="second")
    assert explorer.code.endswith("gl.explore_clipping(first=(1, 2), clip_norm=0.5, drag='second')")
    again = eval(explorer.set(clip_value=2.0).code.splitlines()[-1])
    assert again.digest == explorer.digest


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"first": 3.0}, "first: got 3.0; give x and y"),
        ({"first": (6, 0)}, "first_x: got 6; it goes from -5 to 5"),
        ({"second": (0, "a")}, "second_y: got 'a'; give a number"),
        ({"clip_value": 0}, "clip_value: got 0; it goes from 0.1 to 5"),
        ({"clip_norm": -1}, "clip_norm: got -1"),
        ({"drag": "third"}, "drag: got 'third'; choose one of 'first', 'second'"),
        ({"presets": {"a": {"first": 1}}}, "presets: 'a': first: the explorer has none"),
    ],
)
def test_errors_name_the_argument(given, problem):
    with pytest.raises((TypeError, ValueError)) as raised:
        gl.explore_clipping(**given)
    assert str(raised.value).startswith(problem)


def test_the_stored_form_is_small_and_an_update_draws_what_moves_alone():
    explorer = gl.explore_clipping()
    data, _ = explorer._repr_mimebundle_()
    assert len(base64.b64decode(data["image/png"])) < len(json.dumps(data)) < 60_000
    background = explorer.view.background
    explorer.set(first_x=1.0)
    assert explorer.view.background == background


def test_pinned_clips_stay_behind_the_next():
    explorer = gl.explore_clipping()
    pinned = explorer.pin()._found[1]
    explorer.set(first_x=-1.0, clip_norm=0.5)
    for line, clip in zip(explorer._plot._pinned, pinned.values(), strict=True):
        np.testing.assert_array_equal(np.transpose(line.get_data())[[1, 4]], clip.gradients)
    turns = explorer._plot._pinned_turns
    angles = [clip.angles[2] for clip in pinned.values()]
    np.testing.assert_array_equal(np.reshape(turns.get_ydata(), (3, 3)).T, [angles] * 3)
    assert {*explorer._plot._pinned, turns} <= {*explorer._plot.animated}
    assert "pinned: " in explorer.digest
    (legend,) = explorer.figure.legends
    assert "pinned" in [text.get_text() for text in legend.texts]
    explorer.reset()
    (legend,) = explorer.figure.legends
    assert "pinned" not in [text.get_text() for text in legend.texts]
    assert not any(line.get_visible() for line in (*explorer._plot._pinned, turns))


def test_a_pinned_line_strikes_out_no_number():
    explorer = gl.explore_clipping().pin()
    plot = explorer._plot
    for y in np.arange(2.0, 5.0, 0.1):
        explorer.set(first_y=y)
        explorer.view.still()
        pinned = plot.turns.transData.transform(np.transpose(plot._pinned_turns.get_data()))[::3, 1]
        for text, height in zip(plot._texts, pinned, strict=True):
            box = text.get_window_extent()
            assert not box.y0 < height < box.y1
