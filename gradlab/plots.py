"""A `Curve` as a figure: made once, then only moved."""

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import ScalarFormatter

from gradlab.curves import Curve
from gradlab.reducing import shown

# Okabe and Ito's colours, told apart by all eyes; a line style each for where colour is lost.
STYLES = {
    "forward": {"color": "#0072B2", "linestyle": "-", "linewidth": 2.2},
    "believed": {"color": "#CC79A7", "linestyle": "-.", "linewidth": 2.2},
    "gradient": {"color": "#D55E00", "linestyle": "-", "linewidth": 2.2},
    "slope": {"color": "#009E73", "linestyle": (0, (5, 2)), "linewidth": 2.2},
}
PINNED = {"color": "#777777", "linestyle": (0, (1, 1.2)), "linewidth": 2.2}
_PARTED = {"facecolor": "#F0E442", "edgecolor": "none", "alpha": 0.45}
PROBE = {"color": "#444444", "linewidth": 1.0, "linestyle": ":"}
_THIN = {"linewidth": 1.6}
# Above the axes: a legend inside them would lie on the curves for some setting or other.
LEGEND = {
    "loc": "lower left",
    "bbox_to_anchor": (0, 1),
    "frameon": False,
    "borderaxespad": 0.1,
    "borderpad": 0.2,
    "columnspacing": 1.4,
    "handlelength": 2.6,
    "handletextpad": 0.6,
}
_COLUMNS = 1000  # as many as a figure may have, to choose limits before it is drawn
_SLACK = 8  # pixels beside a legend, for labels of axes that get wider
_TANGENT = 0.17  # half a tangent's length, in parts of the axes' width
_KINK = 5  # points, at most, at which a slope is missing for a kink or a jump
STALE = 0.25  # opacity of a curve that belongs to an earlier setting


class Plot:
    """A figure of which an explorer moves some artists: they are in `animated`.

    Args:
        width: in inches.
        height: in inches.

    """

    narrowest = 0.95  # times its width; where there is less room it is scaled, so nothing is cut

    def __init__(self, width, height):
        self.figure = Figure(figsize=(width, height), dpi=100, layout="constrained")
        FigureCanvasAgg(self.figure)
        self._opacity = 1.0

    def fade(self):
        """Grey what is shown: it belongs to an earlier setting."""
        self._set_opacity(STALE)

    def _set_opacity(self, opacity):
        if opacity != self._opacity:
            self._opacity = opacity
            for artist in self.animated:
                artist.set_alpha(opacity * self._alpha_of(artist))

    def _alpha_of(self, artist):
        return 1.0


class _Ticks(ScalarFormatter):
    """Numbers that each tell their own power of ten: one for all would lie on the legend."""

    def __call__(self, x, pos=None):
        if not super().get_offset():
            return super().__call__(x, pos)
        mantissa, _, exponent = f"{x:.10g}".partition("e")
        return self.fix_minus(f"{mantissa}e{int(exponent)}" if exponent else mantissa)

    def get_offset(self):
        return ""


def tidy(axes, **grid):
    """Give axes a quiet grid, and no frame above and on the right; numbers say all of a size."""
    for axis, scale in ((axes.xaxis, axes.get_xscale()), (axes.yaxis, axes.get_yscale())):
        if scale == "linear" and isinstance(axis.get_major_formatter(), ScalarFormatter):
            axis.set_major_formatter(_Ticks())
    axes.grid(color="#E5E5E5", linewidth=0.8, **grid)
    axes.spines[["top", "right"]].set_visible(False)


class CurvePlot(Plot):
    """Two axes over one x: forward and believed above, gradient and slope below.

    Args:
        curve: the `Curve` it starts with; limits are chosen for it, and for `others`.
        others: curves for which the limits should do as well.
        xlabel: what x is called.

    `update` moves the artists, and nothing else; all that move are in `animated`. Of many points
    it draws those that the pixels can show.

    >>> from gradlab.curves import curve
    >>> plot = CurvePlot(curve(lambda x: x**2))
    >>> [axes.get_ylabel() for axes in plot.figure.axes]
    ['forward', 'gradient']

    """

    narrowest = 0.6

    def __init__(self, curve, others=(), xlabel="x"):
        if not isinstance(curve, Curve):
            raise TypeError(f"curve: got {curve!r}; give a Curve, as gl.curve returns it")
        super().__init__(7.2, 5.0)
        self.figure.canvas.mpl_connect("resize_event", self._on_resize)
        self.figure.canvas.mpl_connect("draw_event", self._on_draw)
        self.above, self.below = self.figure.subplots(2, 1, sharex=True)
        self._point = None
        self._boxes = None  # of the axes, as what they show was fitted to them
        self._left = None  # where they begin, in inches
        self.pinned = ()  # the curve that is kept for comparison, if one is
        self._label(xlabel)
        self._make_artists()
        self.above.set_xlim(curve.x[0], curve.x[-1])
        self.fit(curve, others)
        self.update(curve)

    @property
    def animated(self):
        """The artists that `update` moves, in the order they're drawn."""
        return [
            self._shade, *self._verticals, *self._pinned.values(), *self._lines.values(),
            *self._tangents.values(), *self._marks.values(), self._remark,
        ]  # fmt: skip

    @property
    def believed(self):
        """Whether the believed curve shows."""
        return self._lines["believed"].get_visible()

    @believed.setter
    def believed(self, wanted):
        if wanted != self.believed:
            self._lines["believed"].set_visible(wanted)
            self._set_lines()
            self._make_legend()

    def update(self, curve, point=None, remark=""):
        """Show another curve, and the probe at a point of it."""
        self.curve = curve
        self._set_lines()
        self._remark.set_text(remark)
        self._set_opacity(1.0)
        self.probe(point)

    def probe(self, point):
        """Put the probe at a `Point` of the curve, or away with None."""
        self._point = point
        for artist in (*self._verticals, *self._marks.values(), *self._tangents.values()):
            artist.set_visible(point is not None)
        if point is not None:
            self._move_probe(point)

    def pin(self, curve):
        """Keep a curve's forward and gradient behind those of the curves to come."""
        self.pinned = (curve,)
        self._set_pinned()
        self._show_pinned(True)

    def unpin(self):
        """Let go of the pinned curve."""
        self.pinned = ()
        self._show_pinned(False)

    def fit(self, curve, others=()):
        """Choose limits for a curve, and as far as it doesn't dwarf it, for others."""
        for axes, own, all_ in zip(
            self._axes, _extents([curve]), _extents([curve, *others]), strict=True
        ):
            axes.set_ylim(*_padded(*_within(all_, own)))

    def fits(self, curve):
        """Whether nothing of a curve is cut off, poles apart."""
        drawn = [name for name, line in self._lines.items() if line.get_visible()]
        # Most curves fit whole; only of the others is it asked what a pole excuses.
        return any(self._holds(_extents([curve], drawn, cut)) for cut in (False, True))

    def _holds(self, extents):
        return all(
            axes.get_ylim()[0] <= low and high <= axes.get_ylim()[1]
            for axes, (low, high) in zip(self._axes, extents, strict=True)
        )

    def widen(self, curve):
        """Widen the limits until a curve fits."""
        for axes, (low, high) in zip(self._axes, _extents([curve]), strict=True):
            bottom, top = axes.get_ylim()
            padded = _padded(low, high)
            axes.set_ylim(bottom if bottom <= low else padded[0], top if high <= top else padded[1])

    @property
    def _axes(self):
        return self.above, self.below

    def _label(self, xlabel):
        self.above.set_ylabel("forward")
        self.below.set_ylabel("gradient")
        self.below.set_xlabel(xlabel)
        for axes in self._axes:
            tidy(axes)
            axes.axhline(0, color="#999999", linewidth=0.8)
            axes.margins(x=0)
        self.figure.align_ylabels()

    def _on_resize(self, _):
        self._make_legend()

    def _on_draw(self, _):
        """Fit to the axes, whose place and density a full draw may change, what depends on them."""
        boxes = [axes.bbox.bounds for axes in self._axes]
        if boxes == self._boxes or self.figure.canvas.is_saving():
            return
        self._boxes = boxes
        self._left = self.above.bbox.x0 / self.figure.dpi
        self._set_lines()
        self._set_pinned()
        self.probe(self._point)

    def _set_lines(self):
        for name, line in self._lines.items():
            if not line.get_visible():
                continue
            line.set_data(*self._shown(self.curve, name))
        self._shade.set_verts(_areas(self.curve, self._columns()))

    def _set_pinned(self):
        for curve in self.pinned:
            for axes, name in zip(self._axes, ("forward", "gradient"), strict=True):
                self._pinned[axes].set_data(*self._shown(curve, name))

    def _shown(self, curve, name):
        kept = shown(getattr(curve, name), self._columns())
        return curve.x[kept], _drawable(curve, name, kept)

    def _columns(self):
        return round(self.above.bbox.width)

    def _make_artists(self):
        above, below = self.above, self.below
        place = {"forward": above, "believed": above, "gradient": below, "slope": below}
        self._lines = {
            name: axes.plot([], [], **STYLES[name], animated=True, label=name)[0]
            for name, axes in place.items()
        }
        self._pinned = {
            axes: axes.plot([], [], **PINNED, animated=True, visible=False)[0]
            for axes in self._axes
        }
        self._shade = below.add_collection(PolyCollection([], **_PARTED, animated=True))
        self._verticals = [axes.axvline(0, **PROBE, animated=True) for axes in self._axes]
        self._tangents = {
            name: above.plot([], [], **{**STYLES[name], **_THIN}, animated=True)[0]
            for name in ("gradient", "slope")
        }
        self._marks = {
            name: place[name].plot([], [], "o", color=STYLES[name]["color"], ms=6, animated=True)[0]
            for name in ("forward", "gradient", "slope")
        }
        self._remark = below.text(
            0.5, 0.7, "", ha="center", va="center", transform=below.transAxes, animated=True
        )
        self._lines["believed"].set_visible(False)
        self._make_legend()

    def _show_pinned(self, wanted):
        for line in self._pinned.values():
            line.set_visible(wanted)
        self._make_legend()

    def _make_legend(self):
        above = {"forward": Line2D([], [], **STYLES["forward"])}
        if self.believed:
            above["believed"] = Line2D([], [], **STYLES["believed"])
        above |= {
            "backprop's tangent": Line2D([], [], **{**STYLES["gradient"], **_THIN}),
            "true tangent": Line2D([], [], **{**STYLES["slope"], **_THIN}),
        }
        below = {
            "gradient (backprop)": Line2D([], [], **STYLES["gradient"]),
            "slope (the truth)": Line2D([], [], **STYLES["slope"]),
            "where they part": Patch(**_PARTED),
        }
        for axes, entries in ((self.above, above), (self.below, below)):
            if self._pinned[axes].get_visible():
                entries["pinned"] = Line2D([], [], **PINNED)
            self._put_legend(axes, entries)

    def _put_legend(self, axes, entries):
        """Put a legend above axes: in one row, or in as many as the figure's width asks for."""
        # As far from the left as last drawn: of a new width, axes aren't laid out yet.
        left = axes.bbox.x0 if self._left is None else self._left * self.figure.dpi
        for columns in range(len(entries), 0, -1):
            legend = axes.legend(entries.values(), entries.keys(), ncols=columns, **LEGEND)
            if left + legend.get_window_extent().width <= self.figure.bbox.x1 - _SLACK:
                break

    def _move_probe(self, point):
        for line in self._verticals:
            line.set_xdata([point.x, point.x])
        for name, mark in self._marks.items():
            mark.set_data([point.x], [getattr(point, name)])
        for name, line in self._tangents.items():
            line.set_data(*self._tangent(point, getattr(point, name)))

    def _tangent(self, point, steepness):
        """A stretch of constant length on the page, through the point, with a slope.

        The gradient holds the upstream as a factor; the forward, against which it's drawn, doesn't.
        """
        if not (np.isfinite([point.forward, steepness]).all() and self.curve.upstream):
            return [], []
        steepness = steepness / self.curve.upstream
        (left, right), (bottom, top) = self.above.get_xlim(), self.above.get_ylim()
        box = self.above.bbox
        aspect = (right - left) / (top - bottom) * box.height / box.width
        reach = _TANGENT * (right - left) / np.hypot(1, steepness * aspect)
        x = point.x + reach * np.array([-1.0, 1.0])
        return x, point.forward + steepness * (x - point.x)

    def _alpha_of(self, artist):
        return _PARTED["alpha"] if artist is self._shade else 1.0


def _drawable(curve, name, kept=slice(None)):
    """A curve's values with gaps for infinities, on the scale of the axes they're drawn in."""
    values = getattr(curve, name)[kept]
    with np.errstate(all="ignore"):
        if name == "believed":
            values = values / curve.upstream
        return np.where(np.isfinite(values), values, np.nan)


def _areas(curve, columns):
    """The outlines of what lies between gradient and slope where they part."""
    parts, slope = _bridged(curve.parted, curve.slope)
    edges = np.flatnonzero(np.diff(parts, prepend=False, append=False))
    return [
        _outline(
            curve.x[run], curve.gradient[run], slope[run], columns * len(parts[run]) / len(parts)
        )
        for run in (slice(*ends) for ends in edges.reshape(-1, 2))
    ]


def _outline(x, one, other, columns):
    """There along one line, and back along the other."""
    there, back = shown(one, round(columns)), shown(other, round(columns))[::-1]
    return np.column_stack(
        [np.concatenate([x[there], x[back]]), np.concatenate([one[there], other[back]])]
    )


def _bridged(parts, slope):
    """With gaps of a few points, as a kink leaves, filled: a shade needs no crack there."""
    starts, ends = (
        np.flatnonzero(np.diff(np.isnan(slope), prepend=False, append=False)).reshape(-1, 2).T
    )
    inside = (ends - starts <= _KINK) & (starts > 0) & (ends < len(slope))
    starts, ends = starts[inside], ends[inside]
    both = parts[starts - 1] & parts[ends]
    parts, slope = parts.copy(), slope.copy()
    for offset in range(_KINK):
        gap = both & (starts + offset < ends)
        at = starts[gap] + offset
        parts[at] = True
        slope[at] = (slope[starts[gap] - 1] + slope[ends[gap]]) / 2
    return parts, slope


def _extents(curves, names=tuple(STYLES), cut=True):
    """For each of the two axes the least and the greatest value to show, cut at poles."""
    above, below = [], [(0.0, 0.0)]
    for curve in curves:
        drawn = {name: _drawable(curve, name, _telling(curve, name)) for name in names}
        through_pole = cut and _has_pole(drawn["forward"])
        if through_pole and "believed" in drawn:
            drawn["believed"] = drawn["forward"]  # an integral through a pole means nothing
        extents = {
            name: _extent(values, cut and (through_pole or _has_pole(values)))
            for name, values in drawn.items()
        }
        above += [extents[name] for name in ("forward", "believed") if name in extents]
        below += [extents["gradient"], extents["slope"]]
    return _union(above), _union(below)


def _telling(curve, name):
    """Points enough to tell how far the values reach."""
    return shown(getattr(curve, name), _COLUMNS)


def _extent(values, cut):
    there = values[np.isfinite(values)]
    if not there.size:
        return np.inf, -np.inf
    most = 6 * np.percentile(np.abs(there), 90) if cut else np.inf
    return max(there.min(), -most), min(there.max(), most)


def _has_pole(values):
    """Whether values go out of sight: beside a gap, or through infinity between two points."""
    if not np.isfinite(values).any():
        return False
    size = np.abs(values)
    large = size > 10 * np.nanmedian(size)
    gap = np.isnan(values)
    through = large[1:] & large[:-1] & (values[1:] * values[:-1] < 0)
    beside = (large[1:] & gap[:-1]) | (large[:-1] & gap[1:])
    return bool((through | beside).any())


def _union(extents):
    lows, highs = zip(*extents, strict=True)
    low, high = min(lows), max(highs)
    return (low, high) if low <= high else (-1.0, 1.0)


def _within(extent, own):
    """An extent, but at most so much larger than our own that ours can still be read."""
    slack = max(own[1] - own[0], 1e-12 * max(1.0, *np.abs(own)))
    if own[0] == own[1]:
        return extent
    return max(extent[0], own[0] - slack), min(extent[1], own[1] + slack)


def _padded(low, high):
    room = 0.07 * (high - low) or max(1.0, abs(low)) / 2
    return low - room, high + room


def plot_check(check):
    """Draw the result of `check_gradient` or `check_surrogate`: gradient and slope, side by side.

    Args:
        check: a `GradientCheck`. Each of its parts that measured anything has a panel: one point
            per element, direction or tangent, in the order in which they were walked.

    Returns:
        A matplotlib `Figure`.

    Raises:
        TypeError: it is no GradientCheck.
        ValueError: nothing was measured, because f is random or its rule raises.
    """
    if not hasattr(check, "parts"):
        raise TypeError(
            f"check: got {check!r}; give what check_gradient or check_surrogate returns"
        )
    parts = [part for part in check.parts if part.slope is not None]
    if not parts:
        raise ValueError(f"nothing to draw, as nothing was measured: {check}")
    figure = Figure(figsize=(7, 2.2 * len(parts)), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{check.title}: {check.verdict}")
    for axes, part in zip(figure.subplots(len(parts), squeeze=False)[:, 0], parts, strict=True):
        _draw_part(axes, part)
    return figure


def _draw_part(axes, part):
    at = np.arange(part.slope.size)
    colors = {name: STYLES[name]["color"] for name in ("slope", "gradient")}
    name = "gradient" if part.mode == "reverse" else "tangent"
    axes.plot(at, part.slope, "s", color=colors["slope"], fillstyle="none", label="slope")
    axes.plot(at, part.gradient, "x", color=colors["gradient"], label=name)
    axes.set_title(
        f"order {part.order}, {part.mode}: {part.verdict}", loc="left", fontsize="medium"
    )
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.locator_params(axis="x", integer=True)
