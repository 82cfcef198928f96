"""What is left of a line is what its picture shows."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from gradlab.reducing import shown

N = 1_000_000


def picture(x, y):
    figure = Figure(figsize=(6, 2), dpi=100)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.plot(x, y, linewidth=1.5)
    axes.set(xlim=(0, 1), ylim=(-1.3, 1.3))
    axes.set_axis_off()
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].astype(int)


@pytest.mark.parametrize("at", [0, 1, 500_000, 617_283, N - 1])
def test_a_spike_of_one_point_among_a_million_is_kept(at):
    values = np.sin(np.linspace(0, 3, N))
    values[at] = 9.0
    kept = shown(values, 600)
    assert at in kept
    assert len(kept) < 4 * 600 + 2000


@pytest.mark.parametrize(
    "f",
    [
        np.sin,
        lambda x: np.sign(x - 5.0),
        lambda x: np.sin(40 * x),
        lambda x: np.where(x < 3, np.nan, np.cos(x)),
        lambda x: np.where(np.abs(x - 5) < 0.3, np.nan, np.cos(x)),
    ],
)
def test_the_picture_is_the_same_within_antialiasing(f):
    x = np.linspace(0, 1, 20_011)
    y = f(10 * x)
    kept = shown(y, 600)
    assert len(kept) < len(y) / 4
    difference = np.abs(picture(x[kept], y[kept]) - picture(x, y)).max(axis=2)
    assert np.mean(difference > 64) < 2e-4
    assert difference.max() < 160


@pytest.mark.parametrize("seed", range(20))
def test_extremes_ends_and_gaps_of_every_column_are_kept(seed):
    random = np.random.default_rng(seed)
    values = random.normal(size=random.integers(100, 3000))
    for start in random.integers(0, len(values), 4):
        values[start : start + random.integers(1, 90)] = np.nan
    columns = int(random.integers(1, 20))
    kept = shown(values, columns)
    assert (np.diff(kept) > 0).all()
    assert {0, len(values) - 1} <= set(kept)
    assert np.nanmin(values[kept]) == np.nanmin(values)
    assert np.nanmax(values[kept]) == np.nanmax(values)
    gap, left = np.isnan(values), np.isnan(values[kept])
    # Between two points drawn side by side there is no gap that was not there before.
    for first, last in zip(kept[:-1], kept[1:], strict=True):
        assert gap[first] or gap[last] or not gap[first:last].any()
    assert left.any() == gap.any()


def test_few_points_all_stay():
    np.testing.assert_array_equal(shown(np.zeros(401), 600), np.arange(401))


def test_a_gap_everywhere_is_a_gap():
    kept = shown(np.full(N, np.nan), 600)
    assert 0 < len(kept) < 5000
