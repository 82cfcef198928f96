"""The figure on its way to the browser: blitted frames equal full ones, and the probe follows."""

import io

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

import gradlab as gl


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


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
    np.testing.assert_array_equal(pixels(view.png), pixels(expected.getvalue()))


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
    box = line.axes.get_position()
    expected = {"label": "x", "low": 0, "high": 4, "step": 0.04, "left": box.x0, "right": box.x1}
    assert view.probe_track == expected


def test_frames_travel_as_binary(moving):
    view, _ = moving
    assert isinstance(view.get_state()["png"], bytes)
    assert view.trait_metadata("png", "sync")


def test_the_script_ships_with_the_package_and_fetches_nothing(moving):
    view, _ = moving
    for source in (view._esm, view._css):
        assert "http" not in str(source)
        assert "import " not in str(source)
    assert "render" in str(view._esm)
