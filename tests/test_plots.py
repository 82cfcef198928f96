"""The figure: what moves, what stays, and what is never cut off."""

import numpy as np
import pytest
import tensorflow as tf
from matplotlib.backend_bases import ResizeEvent
from matplotlib.colors import to_rgb

from gradlab.curves import Curve, Evaluator, curve
from gradlab.plots import _PARTED, PINNED, PROBE, STYLES, CurvePlot, plot_check
from gradlab.widgets.dark import darkened


def parted(x):
    return tf.stop_gradient(tf.square(x)) + x - tf.stop_gradient(x)


@pytest.fixture
def plot():
    return CurvePlot(curve(tf.square, points=51))


def lines(plot):
    return {line.get_label(): line for axes in plot.figure.axes for line in axes.lines}


def test_the_lines_hold_the_curve(plot):
    other = curve(parted, points=51)
    plot.believed = True
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
    plot.believed = True
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


def test_what_is_no_curve_or_check_is_named():
    with pytest.raises(TypeError, match="curve: got None; give a Curve"):
        CurvePlot(None)
    with pytest.raises(TypeError, match="check: got 'x'; give what check_gradient"):
        plot_check("x")


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


MANY = 1_000_000


def test_of_a_million_points_a_spike_of_one_is_drawn(plot):
    line = many()
    line.forward[617_283] = 50.0
    plot.update(line)
    x, y = lines(plot)["forward"].get_data()
    assert len(x) < 10_000
    assert line.x[617_283] == x[np.argmax(y)]
    assert y.max() == 50.0


def test_a_shade_over_many_points_has_few_and_its_whole_height(plot):
    line = many()
    line.slope[:] = 1.0
    line.slope[400_000] = 30.0
    plot.update(line)
    (path,) = plot._shade.get_paths()
    assert len(path.vertices) < 10_000
    assert path.vertices[:, 1].max() == 30.0
    assert path.vertices[:, 0].min() == line.x[0]


def many():
    x = np.linspace(-3, 3, MANY)
    return Curve(x, np.sin(x), np.zeros(MANY), np.full(MANY, np.nan), np.sin(x))


def test_a_wider_figure_shows_finer_lines(plot):
    plot.update(many())
    plot.figure.canvas.draw()
    before = len(lines(plot)["forward"].get_xdata())
    plot.figure.set_size_inches(14, 5)
    plot.figure.canvas.draw()
    assert len(lines(plot)["forward"].get_xdata()) > 1.5 * before


def test_tangents_keep_their_length_when_the_figure_changes_its_shape(plot):
    plot.update(*Evaluator(tf.square, points=51).at(3.0))
    plot.figure.set_size_inches(12, 5)
    plot.figure.canvas.draw()
    length = {}
    for x in (0.0, 3.0):
        plot.update(*Evaluator(tf.square, points=51).at(x))
        length[x] = tangent_length(plot)
    assert length[3.0] == pytest.approx(length[0.0], rel=1e-3)
    plot.figure.set_size_inches(5, 5)
    plot.figure.canvas.draw()
    after = tangent_length(plot)
    plot.update(*Evaluator(tf.square, points=51).at(3.0))
    assert tangent_length(plot) == pytest.approx(after, rel=1e-6)


def tangent_length(plot):
    ends = plot.above.transData.transform(np.column_stack(plot._tangents["slope"].get_data()))
    return np.linalg.norm(ends[1] - ends[0])


@pytest.mark.parametrize("inches", [4.4, 5.5, 7.2])
def test_legends_are_whole_in_a_narrow_figure(plot, inches):
    plot.believed = True
    plot.figure.set_size_inches(inches, 5)
    event = ResizeEvent("resize_event", plot.figure.canvas)
    plot.figure.canvas.callbacks.process("resize_event", event)
    plot.figure.canvas.draw()
    for axes in plot.figure.axes:
        assert axes.get_legend().get_window_extent().x1 <= plot.figure.bbox.x1
        assert axes.bbox.width > 0.7 * plot.figure.bbox.width


def luminance(colour):
    channels = np.array(to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    dim, bright = sorted([luminance(one), luminance(other)])
    return (bright + 0.05) / (dim + 0.05)


def over(paper, colour, alpha):
    return alpha * np.array(to_rgb(colour)) + (1 - alpha) * np.array(to_rgb(paper))


@pytest.mark.parametrize("name", [*STYLES, "pinned", "probe"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_lines_stand_out_from_paper_and_shade(name, dark):
    style = {**STYLES, "pinned": PINNED, "probe": PROBE}[name]
    seen = darkened if dark else to_rgb
    paper, line = seen("white"), seen(style["color"])
    shade = over(paper[:3], seen(_PARTED["facecolor"])[:3], _PARTED["alpha"])
    assert contrast(line[:3], paper[:3]) >= 3
    assert contrast(line[:3], shade) >= 2.5


def test_large_numbers_tell_their_size_at_each_tick():
    plot = CurvePlot(curve(lambda x: 1e13 * x))
    plot.figure.canvas.draw()
    labels = [text.get_text() for text in plot.above.get_yticklabels()]
    assert "2e13" in labels
    assert plot.above.yaxis.get_offset_text().get_text() == ""
