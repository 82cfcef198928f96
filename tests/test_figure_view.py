"""The figure on its way to the browser: blitted frames equal full ones, and the probe follows."""

import io
import zlib

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

import gradlab as gl
from gradlab.widgets.frames import encoded


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def runs(data):
    """Where each run begins and ends, and its colour."""
    gaps, lengths, colours = np.frombuffer(zlib.decompress(data), "<u4").reshape(3, -1)
    ends = np.cumsum(gaps + lengths, dtype=int)
    return zip(ends - lengths, ends, colours, strict=True)


def painted(view):
    """What a browser paints from the traits alone."""
    state = view.get_state()
    background, frame = state["background"], state["frame"]
    assert frame["version"] == background["version"]
    canvas = np.zeros(background["width"] * background["height"], "<u4")
    for data in (background["runs"], frame["runs"]):
        for start, end, colour in runs(data):
            canvas[start:end] = colour
    rgba = canvas.view(np.uint8).reshape(background["height"], background["width"], 4)
    assert (rgba[..., 3] == 255).all()
    return rgba[..., :3]


@pytest.fixture
def moving():
    figure = Figure(figsize=(3, 2), dpi=100)
    axes = figure.subplots()
    axes.set(xlim=(0, 4), ylim=(0, 4))
    (line,) = axes.plot([0, 1], [0, 1])
    return gl.FigureView(figure, animated=[line], alt="a line"), line


def test_a_frame_is_what_the_figure_looks_like(moving):
    view, line = moving
    line.set_data([1, 3], [3, 1])
    view.draw()
    expected = io.BytesIO()
    view.figure.savefig(expected, format="png")
    np.testing.assert_array_equal(painted(view), pixels(expected.getvalue()))
    np.testing.assert_array_equal(pixels(view.png), pixels(expected.getvalue()))


def test_a_frame_says_what_differs_from_the_background_and_no_more(moving):
    view, line = moving
    line.set_data([2, 2], [1, 3])
    before = view.background
    view.draw()
    assert view.background is before
    full = 300 * 200
    assert 0 < sum(end - start for start, end, _ in runs(view.frame["runs"])) < full / 50
    line.set_visible(False)
    view.draw()
    assert list(runs(view.frame["runs"])) == []


def test_limits_that_change_make_a_new_background(moving):
    view, line = moving
    line.axes.set_ylim(0, 40)
    view.redraw()
    assert view.background["version"] == 2
    np.testing.assert_array_equal(painted(view), pixels(view.png))


@pytest.mark.parametrize("seed", range(5))
def test_runs_give_back_any_picture(seed):
    random = np.random.default_rng(seed)
    background, picture = random.integers(0, 3, (2, 500), dtype=np.uint32)
    canvas = background.copy()
    for start, end, colour in runs(encoded(picture, background)):
        canvas[start:end] = colour
    np.testing.assert_array_equal(canvas, picture)


def test_nothing_of_the_frame_before_remains(moving):
    view, line = moving
    first = view.png
    line.set_data([0, 4], [4, 0])
    view.draw()
    assert view.png != first
    line.set_data([0, 1], [0, 1])
    view.draw()
    assert view.png == first


def test_without_animated_artists_everything_is_drawn():
    figure = Figure(figsize=(2, 2))
    view = gl.FigureView(figure)
    before = view.png
    figure.subplots().plot([0, 1])
    view.draw()
    assert view.png != before


def test_a_display_of_twice_the_density_gets_twice_the_pixels(moving):
    view, line = moving
    assert pixels(view.png).shape == (200, 300, 3)
    view.pixel_ratio = 2.0
    assert pixels(view.png).shape == (400, 600, 3)
    line.set_data([0, 4], [4, 0])
    view.draw()
    assert pixels(view.png).shape == (400, 600, 3)
    assert view.width == 300


def test_still_is_small_white_and_changes_nothing(moving):
    view, _ = moving
    before = view.png
    still = view.still()
    assert pixels(still).shape == (400, 600, 3)
    assert tuple(pixels(still)[0, 0]) == (255, 255, 255)
    assert len(still) < 20_000
    view.draw()
    assert view.png == before


def test_the_probe_track_lies_over_the_axes(moving):
    view, line = moving
    view.follow(line.axes, label="x")
    assert view.probe_track == {"axes": 0, "label": "x", "steps": [None, None], "plane": False}
    place = {
        "axes": 0,
        "box": list(line.axes.get_position().extents),
        "limits": [[0.0, 4.0], [0.0, 4.0]],
        "log": [False, False],
    }
    assert view.places == [place]


def test_frames_travel_as_binary(moving):
    view, _ = moving
    for name in ("background", "frame"):
        assert isinstance(view.get_state()[name]["runs"], bytes)


def test_the_script_ships_with_the_package_and_fetches_nothing(moving):
    view, _ = moving
    for source in (view._esm, view._css):
        assert "http" not in str(source)
        assert "import " not in str(source)
    assert "render" in str(view._esm)
