"""The figure: what moves, what stays, and what is never cut off."""

import numpy as np
import pytest
import tensorflow as tf

from gradlab.curves import Evaluator, curve
from gradlab.plots import STYLES, CurvePlot


def parted(x):
    return tf.stop_gradient(tf.square(x)) + x - tf.stop_gradient(x)


@pytest.fixture
def plot():
    return CurvePlot(curve(tf.square, points=51))


def lines(plot):
    return {line.get_label(): line for axes in plot.figure.axes for line in axes.lines}


def test_the_lines_hold_the_curve(plot):
    other = curve(parted, points=51)
    plot.update(other)
    for name in STYLES:
        x, y = lines(plot)[name].get_data()
        np.testing.assert_array_equal(x, other.x)
        np.testing.assert_array_equal(y, getattr(other, name))


def test_infinities_are_gaps(plot):
    plot.update(curve(tf.math.log, points=51))
    assert np.isnan(lines(plot)["forward"].get_ydata()[:26]).all()


def test_the_shade_covers_where_they_part(plot):
    assert not plot._shade.get_paths()
    other = curve(parted, x=(0, 1), points=3)  # gradient 1, slope 2x: they meet at a half
    plot.update(other)
    outlines = [path.vertices for path in plot._shade.get_paths()]
    assert len(outlines) == 2
    np.testing.assert_allclose(outlines[1][:2], [[1, 1], [1, 2]], atol=1e-6)


def test_a_kink_leaves_no_crack_in_the_shade(plot):
    plot.update(
        curve(lambda x: tf.stop_gradient(tf.sign(x)) + 3 * (x - tf.stop_gradient(x)), points=51)
    )
    assert len(plot._shade.get_paths()) == 1


def test_tangents_have_the_slopes_at_the_probe(plot):
    line, point = Evaluator(parted, points=51).at(2.0)
    plot.update(line, point)
    for name, slope in (("gradient", 1.0), ("slope", 4.0)):
        x, y = plot._tangents[name].get_data()
        np.testing.assert_allclose(np.diff(y) / np.diff(x), slope, rtol=1e-6)
        np.testing.assert_allclose(np.interp(2.0, x, y), 4.0, rtol=1e-6)


def test_tangents_are_of_one_length_on_the_page(plot):
    lengths = []
    for x in (0.0, 3.0):
        plot.update(*Evaluator(tf.square, points=51).at(x))
        ends = plot.above.transData.transform(np.column_stack(plot._tangents["slope"].get_data()))
        lengths.append(np.linalg.norm(ends[1] - ends[0]))
    np.testing.assert_allclose(*lengths, rtol=1e-3)


def test_upstream_moves_neither_believed_nor_tangents_off_the_forward():
    line, point = Evaluator(tf.square, points=51).at(2.0, upstream=5.0)
    plot = CurvePlot(line)
    plot.update(line, point)
    np.testing.assert_allclose(lines(plot)["believed"].get_ydata(), line.forward, atol=1e-4)
    x, y = plot._tangents["gradient"].get_data()
    np.testing.assert_allclose(np.diff(y) / np.diff(x), 4.0, rtol=1e-6)


def test_update_moves_artists_and_nothing_else(plot):
    children = [axes.get_children() for axes in plot.figure.axes]
    limits = [axes.get_ylim() for axes in plot.figure.axes]
    plot.update(*Evaluator(parted, points=51).at(1.0))
    assert [axes.get_children() for axes in plot.figure.axes] == children
    assert [axes.get_ylim() for axes in plot.figure.axes] == limits
    assert all(artist.get_animated() for artist in plot.animated)


@pytest.mark.parametrize(
    "f", [tf.square, tf.exp, tf.sin, tf.zeros_like, lambda x: x + 1e6, tf.round]
)
def test_limits_hold_the_whole_curve(f):
    line = curve(f, points=51)
    plot = CurvePlot(line)
    assert plot.fits(line)
    for axes, names in ((plot.above, ("forward",)), (plot.below, ("gradient", "slope"))):
        low, high = axes.get_ylim()
        for name in names:
            there = getattr(line, name)[np.isfinite(getattr(line, name))]
            assert there.size == 0 or (low < there.min() and there.max() < high)


def test_limits_widen_for_a_curve_that_does_not_fit(plot):
    tall = curve(lambda x: 100 * x**2, points=51)
    assert not plot.fits(tall)
    before = [axes.get_ylim() for axes in plot.figure.axes]
    plot.widen(tall)
    assert plot.fits(tall)
    assert all(
        axes.get_ylim()[0] <= low and high <= axes.get_ylim()[1]
        for axes, (low, high) in zip(plot.figure.axes, before, strict=True)
    )


def test_limits_have_room_for_others_but_not_at_our_cost():
    own, twice, huge = (curve(lambda x, k=k: k * x**2, points=51) for k in (1, 1.9, 1000))
    assert CurvePlot(own, [twice]).fits(twice)
    assert CurvePlot(own, [huge]).above.get_ylim()[1] < 30


def test_a_pole_does_not_flatten_the_rest():
    for f in (lambda x: 1 / x, tf.tan):
        assert CurvePlot(curve(f)).above.get_ylim()[1] < 60


def test_fading_is_undone_by_the_next_curve(plot):
    plot.fade()
    assert lines(plot)["forward"].get_alpha() < 0.5
    plot.update(plot.curve)
    assert lines(plot)["forward"].get_alpha() == 1


def test_no_two_lines_share_colour_or_style():
    for key in ("color", "linestyle"):
        values = {
            str(style[key]) for name, style in STYLES.items() if name in ("forward", "believed")
        }
        assert len(values) == 2
        values = {
            str(style[key]) for name, style in STYLES.items() if name in ("gradient", "slope")
        }
        assert len(values) == 2
    assert len({style["color"] for style in STYLES.values()}) == 4


@pytest.mark.parametrize("believed", [False, True])
def test_legends_are_whole_and_off_the_curves(plot, believed):
    plot.believed = believed
    plot.figure.canvas.draw()
    page = plot.figure.bbox
    for axes in plot.figure.axes:
        legend = axes.get_legend().get_window_extent()
        assert page.x0 <= legend.x0
        assert legend.x1 <= page.x1
        assert legend.y1 <= page.y1 + 1
        assert legend.y0 >= axes.bbox.y1 - 1
