"""Descent on hard surfaces: against NumPy, and what the explorer shows of it."""

import json

import numpy as np
import pytest

import gradlab as gl
from gradlab.experiments import descending
from gradlab.experiments.descending import CLIPS, STEPS, SURFACES, descend, heights


def cliff(x, y):
    up = np.clip(-(x + 0.4 * y) / 0.4, 0, 1)
    length = np.sqrt(1 + (x + 1) ** 2 + y**2)
    rise = 24 * up * (1 - up) / -0.4
    gradient = 0.3 * np.array([x + 1, y]) / length + rise * np.array([1, 0.4])
    return 0.3 * length + 4 * up * up * (3 - 2 * up), gradient


def ravine(x, y):
    off = y - x * x / 6 + 1.5
    return 0.1 * (x - 3.5) ** 2 + 2 * off * off, np.array(
        [0.2 * (x - 3.5) - off * x * 4 / 3, 4 * off]
    )


ORACLES = {"cliff": cliff, "ravine": ravine}
SETTINGS = {  # surface, start, learning rate, limit
    "down the slope": ("cliff", (3.0, 2.0), 0.2, 1.0),
    "on the plateau": ("cliff", (-2.0, 1.0), 0.5, 0.2),
    "along the ravine": ("ravine", (-2.0, 2.0), 0.05, 2.0),
    "short limit": ("ravine", (1.0, -1.0), 0.1, 0.3),
}


def clipped(gradient, clip, limit):
    if clip == "value":
        return np.clip(gradient, -limit, limit)
    return gradient * min(1.0, limit / np.linalg.norm(gradient)) if clip == "norm" else gradient


def path(surface, clip, start, rate, limit, steps):
    points = [np.array(start)]
    for _ in range(steps):
        _, gradient = ORACLES[surface](*points[-1])
        points.append(points[-1] - rate * clipped(gradient, clip, limit))
    return np.array(points)


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_descent_goes_where_numpy_goes(setting, clip):
    surface, start, rate, limit = SETTINGS[setting]
    found = descend(surface, clip, start, rate, limit, steps=20)
    expected = path(surface, clip, start, rate, limit, 20)
    np.testing.assert_allclose(found.points, expected, rtol=1e-9, atol=1e-9)
    values = [ORACLES[surface](*point)[0] for point in expected]
    np.testing.assert_allclose(found.values, values, rtol=1e-9)


@pytest.mark.parametrize("surface", SURFACES)
def test_the_heights_are_those_of_the_surface(surface):
    x, y = np.linspace(-3, 6, 7), np.linspace(-2.5, 2.5, 5)
    expected = [[ORACLES[surface](each, other)[0] for each in x] for other in y]
    np.testing.assert_allclose(heights(surface, x, y), expected, rtol=1e-12)


def test_the_face_of_the_cliff_is_ten_times_as_steep_as_the_rest():
    _, face = cliff(-0.2, 0.0)
    _, slope = cliff(3.0, 2.0)
    assert np.linalg.norm(face) > 10 > 10 * np.linalg.norm(slope)


def test_nothing_is_traced_anew_as_parameters_move(monkeypatch):
    explorer = gl.explore_descent()
    explorer.set(surface="ravine").set(surface="cliff")
    monkeypatch.setattr(descending, "traced", None)
    explorer.set(learning_rate=0.1, limit=0.3, steps=7, start_x=-1.0).set(clip="value")
    explorer.set(surface="ravine", clip="norm")
    assert explorer.error is None


def test_clips_hold_every_step():
    for rate, limit in ((0.5, 1.0), (1.0, 0.3)):
        by_norm = descend("cliff", "norm", (3.0, 2.0), rate, limit)
        by_value = descend("cliff", "value", (3.0, 2.0), rate, limit)
        steps = np.diff(by_norm.points, axis=0)
        assert np.linalg.norm(steps, axis=1).max() <= rate * limit * (1 + 1e-12)
        assert np.abs(np.diff(by_value.points, axis=0)).max() <= rate * limit * (1 + 1e-12)


def test_without_a_clip_the_cliff_throws_the_path_out_of_the_figure():
    explorer = gl.explore_descent()
    assert "it leaves the figure at step 28 and comes back" in explorer.digest
    explorer.set(clip="norm")
    assert "leaves" not in explorer.digest
    assert explorer.descent.values[-1] < 0.6


def test_a_path_that_diverges_is_told_without_a_number():
    explorer = gl.explore_descent("ravine", start=(3.0, 2.0), steps=STEPS)
    assert explorer.error is None
    assert explorer.digest.splitlines()[1] == (
        "the value is 8.02 at first; it leaves the figure at step 1, and is outside after 100 steps"
    )
    assert not np.abs(explorer._plot._path.get_xdata()[1:]).max() > 1e6
    assert "after 60 steps the value is" in explorer.set(clip="norm", steps=60).digest


@pytest.mark.parametrize(
    ("surface", "clip", "rate", "start"),
    [
        (surface, clip, rate, start)
        for surface, rate, start in (("cliff", 0.5, (3.0, 2.0)), ("ravine", 0.3, (-2.0, 2.0)))
        for clip in CLIPS
    ],
)
def test_where_lessons_look_a_rounding_error_changes_no_digest(surface, clip, rate, start):
    nudged = tuple(each * (1 + 1e-13) for each in start)
    digests = {
        gl.explore_descent(surface, clip, rate, start=each).digest for each in (start, nudged)
    }
    assert len(digests) == 1


def test_the_figure_shows_the_path_and_its_values():
    explorer = gl.explore_descent(clip="norm", steps=12)
    plot, descent = explorer._plot, explorer.descent
    np.testing.assert_array_equal(np.transpose(plot._path.get_data()), descent.points)
    np.testing.assert_array_equal(plot._values.get_ydata(), descent.values)
    np.testing.assert_array_equal(np.transpose(plot._end.get_data()), descent.points[-1:])
    assert len(descent.points) == 13
    assert "after 12 steps the value is" in explorer.digest
    assert "after 1 step the value is" in explorer.set(steps=1).digest


def test_only_another_surface_draws_the_background_anew():
    explorer = gl.explore_descent()
    version = explorer.view.background["version"]
    explorer.set(learning_rate=0.2, clip="value", start_y=1.0)
    assert explorer.view.background["version"] == version
    explorer.set(surface="ravine")
    assert explorer.view.background["version"] == version + 1
    visible = {
        name: all(artist.get_visible() for artist in artists)
        for name, artists in explorer._plot._surfaces.items()
    }
    assert visible == {"cliff": False, "ravine": True}


def test_the_start_is_dragged_in_the_plane():
    explorer = gl.explore_descent()
    explorer.view.probe = [4.0, -1.0]
    assert (explorer.parameters["start_x"], explorer.parameters["start_y"]) == (4.0, -1.0)
    np.testing.assert_allclose(explorer.descent.points[0], [4.0, -1.0])
    assert "from (4, -1)" in explorer.digest


def test_a_pinned_descent_stays_behind_the_next():
    explorer = gl.explore_descent()
    pinned = explorer.descent
    explorer.pin().set(clip="norm")
    line = explorer._plot._pinned[1]
    assert line.get_visible()
    np.testing.assert_array_equal(line.get_ydata(), pinned.values)
    assert "pinned: descent on the cliff, no clip" in explorer.digest
    explorer.unpin()
    assert not line.get_visible()


def test_code_makes_it_again():
    explorer = gl.explore_descent("ravine", clip="value", start=(1.0, 1.0)).set(steps=10)
    line = explorer.code.splitlines()[-1]
    assert line == (
        "gl.explore_descent(surface='ravine', clip='value', start=(1.0, 1.0)).set(steps=10)"
    )
    assert eval(line).digest == explorer.digest


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"surface": "hill"}, "surface: got 'hill'; choose one of 'cliff', 'ravine'"),
        ({"clip": "global"}, "clip: got 'global'; choose one of 'none', 'value', 'norm'"),
        ({"learning_rate": 2}, "learning_rate: got 2; it goes from 0.01 to 1"),
        ({"limit": 0}, "limit: got 0; it goes from 0.1 to 5"),
        ({"start": (0, 3)}, "start_y: got 3; it goes from -2.5 to 2.5"),
        ({"start": 1}, "start: got 1; give x and y"),
        ({"start": (float("nan"), 0)}, "start_x: got nan"),
        ({"steps": 0}, "steps: got 0; it goes from 1 to 100"),
        ({"steps": 2.5}, "steps: got 2.5; give a whole number"),
    ],
)
def test_errors_name_the_argument(given, problem):
    with pytest.raises((TypeError, ValueError)) as raised:
        gl.explore_descent(**given)
    assert str(raised.value).startswith(problem)


@pytest.mark.parametrize("surface", SURFACES)
def test_the_stored_form_is_small(surface):
    data, _ = gl.explore_descent(surface, start=(-2.0, 2.0))._repr_mimebundle_()
    assert len(json.dumps(data)) < 60_000
