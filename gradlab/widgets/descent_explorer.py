"""Gradient descent on a cliff and in a ravine, and what a clip makes of it."""

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.lines import Line2D

from gradlab.experiments.descending import CLIPS, STEPS, SURFACES, descend, heights
from gradlab.plots import LEGEND, PINNED, STYLES, Plot, tidy
from gradlab.specs import ParamSpec, choice_spec, point_specs
from gradlab.widgets.base import Explorer
from gradlab.widgets.code import call_with
from gradlab.widgets.digest import number, setting

_X, _Y = (-3.0, 6.0), (-2.5, 2.5)  # what the figure shows of a surface
_GRID = 181, 101
_LEVELS = {
    "cliff": [0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 3, 4, 4.5],
    "ravine": [0.1, 0.2, 0.5, 1, 2, 5, 10, 20],
}
_LABELLED = {  # where a contour has its value: not on the face of the cliff, where all run together
    "cliff": [(1.29, 0), (2.18, 0), (3.05, 0), (3.9, 0), (4.75, 0), (5.59, 0), (-2.33, 0)],
    "ravine": [(2.6, -0.3), (1.0, -1.1), (-0.4, -1.5), (-2, -1.8), (-0.4, 0.6), (-0.4, 1.6)],
}
_SHADES = LinearSegmentedColormap.from_list("shades", ["#FFFFFF", "#C4C4C4"])
_VALUES = {  # what the figure shows of the values
    "cliff": {"yscale": "linear", "ylim": (0, 5.5)},
    "ravine": {"yscale": "log", "ylim": (5e-3, 3e2)},
}
_PATH = {**STYLES["gradient"], "linewidth": 1.6, "marker": "o", "markersize": 3.5}
_START = {"color": "black", "marker": "o", "markersize": 9, "fillstyle": "none"}
_END = {"color": STYLES["forward"]["color"], "marker": "X", "markersize": 9}
_MARK = {"linestyle": "none", "markeredgewidth": 1.5}
_CLIPPED = {"none": "no clip", "value": "clipped by value", "norm": "clipped by norm"}


def explore_descent(
    surface="cliff",
    clip="none",
    learning_rate=0.5,
    limit=1.0,
    start=(3.0, 2.0),
    steps=60,
    presets=None,
):
    """Show gradient descent on a hard surface, and what a clip of the gradient makes of it.

    The clips are `clip_gradient_by_value` and `clip_gradient_by_norm`, on the way back to the
    point that moves.

    Args:
        surface: "cliff", a slope that ends before a steep face, or "ravine", a bent one.
        clip: "none", "value" or "norm".
        learning_rate: how long a step is, times the gradient; from 0.01 to 1.
        limit: that of the clip; from 0.1 to 5.
        start: where the descent begins: x from −3 to 6, y from −2.5 to 2.5.
        steps: how many, from 1 to 100.
        presets: settings by name, such as {"slow": {"learning_rate": 0.05}}: a button for each.

    Returns:
        An `Explorer`; a notebook shows it. Its ``descent`` has the points and the values.

    Raises:
        TypeError, ValueError: naming the argument that is wrong.

    >>> print(explore_descent(clip="norm", steps=40).digest)
    descent on the cliff, clipped by norm to 1, learning rate 0.5, from (3, 2):
    after 40 steps the value is 0.463, from 1.37, at (0.0839, 0.458)

    """
    given = dict(locals())
    params = (
        choice_spec("surface", surface, SURFACES, "what is descended"),
        choice_spec("clip", clip, CLIPS, "of the gradient, at each step"),
        ParamSpec("learning_rate", learning_rate, 0.01, 1.0, log=True, help="times the gradient"),
        ParamSpec("limit", limit, 0.1, 5.0, log=True, help="that of the clip"),
        ParamSpec("steps", steps, 1, STEPS, kind="int", help="how many"),
        *point_specs("start", start, _X, _Y, help="where it begins; drag it in the figure"),
    )
    return DescentExplorer(params, presets, call_with("gl.explore_descent", explore_descent, given))


class DescentExplorer(Explorer):
    """A descent on a surface: an `Explorer` that also gives the `descent` shown."""

    def __init__(self, params, presets, code):
        super().__init__("explore_descent", params, DescentPlot(), presets, code)
        self._let_drag(self._plot.plane, "start_x", "start_y")

    @property
    def descent(self):
        """The `Descent` shown."""
        return self._found[1]

    def _evaluate(self, values):
        names = ("surface", "clip", "learning_rate", "limit", "steps")
        start = values["start_x"], values["start_y"]
        return descend(start=start, **{name: values[name] for name in names})

    def _show(self, values, found):
        changed = self._plot.show_surface(values["surface"])
        self._plot.update(found)
        return changed

    def _digest(self, states, found):
        return f"{self._subject(states)}:\n{_course(found)}"

    def _subject(self, states):
        clip = _CLIPPED[states["clip"]]
        if states["clip"] != "none":
            clip += f" to {setting(states['limit'])}"
        start = _point((states["start_x"], states["start_y"]))
        rate = setting(states["learning_rate"])
        return f"descent on the {states['surface']}, {clip}, learning rate {rate}, from {start}"


def _course(descent):
    """How a descent went.

    Of one that ends outside the figure no value is told: where it diverges, machines differ.
    """
    steps = len(descent.points) - 1
    outside = _outside(descent.points)
    left = f"it leaves the figure at step {outside.argmax()}" if outside.any() else ""
    first, last = (number(value) for value in descent.values[[0, -1]])
    after = f"after {steps} step{'s' * (steps > 1)}"
    if outside[-1]:
        return f"the value is {first} at first; {left}, and is outside {after}"
    back = f"; {left} and comes back" if left else ""
    return f"{after} the value is {last}, from {first}, at {_point(descent.points[-1])}{back}"


def _outside(points):
    """Which points aren't in the figure; what isn't a number is nowhere."""
    (left, right), (bottom, top) = _X, _Y
    x, y = points.T
    return ~((left <= x) & (x <= right) & (bottom <= y) & (y <= top))


def _point(point):
    return f"({', '.join(number(each, 1.0) for each in point)})"


class DescentPlot(Plot):
    """A surface by its contours with a path on it; below, the value after each step.

    `update` moves the artists in `animated`, and nothing else; `show_surface` changes the rest.
    """

    def __init__(self):
        super().__init__(7.2, 5.6)
        self.plane, self.course = self.figure.subplots(2, 1, height_ratios=(2.9, 1))
        self._shown = None
        self._label()
        self._surfaces = {name: self._draw_surface(name) for name in SURFACES}
        self._make_artists()
        self._make_legend()
        for artist in self.animated:
            artist.set_in_layout(False)  # what moves pushes nothing aside

    @property
    def animated(self):
        """The artists that `update` moves, in the order they're drawn."""
        return [*self._pinned, self._path, self._start, self._end, self._values]

    def show_surface(self, name):
        """Put a surface behind the path; say whether it is another one."""
        if name == self._shown:
            return False
        self._shown = name
        self.course.set(**_VALUES[name])
        for each, artists in self._surfaces.items():
            for artist in artists:
                artist.set_visible(each == name)
        return True

    def update(self, descent):
        """Show another descent."""
        points = _drawable(descent.points)
        self._path.set_data(*points.T)
        self._start.set_data(*points[:1].T)
        self._end.set_data(*points[-1:].T)
        self._values.set_data(np.arange(len(points)), _drawable(descent.values))
        self._set_opacity(1.0)

    def pin(self, descent):
        """Keep a descent behind those to come."""
        path, values = self._pinned
        path.set_data(*_drawable(descent.points).T)
        values.set_data(np.arange(len(descent.values)), _drawable(descent.values))
        self._show_pinned(True)

    def unpin(self):
        """Let go of the pinned descent."""
        self._show_pinned(False)

    def _label(self):
        self.plane.set(xlim=_X, ylim=_Y, xlabel="x", ylabel="y", aspect="equal")
        self.course.set(xlim=(0, STEPS), xlabel="step", ylabel="value")
        tidy(self.course)

    def _draw_surface(self, name):
        x, y = (np.linspace(*ends, n) for ends, n in zip((_X, _Y), _GRID, strict=True))
        grid, levels = heights(name, x, y), _LEVELS[name]
        shades = self.plane.contourf(x, y, grid, [0, *levels], cmap=_SHADES, extend="max", zorder=0)
        # Not antialiased: with two greys on either side that would fill half of the stored picture.
        lines = self.plane.contour(
            x, y, grid, levels, colors="#999999", linewidths=0.5, antialiased=False, zorder=1
        )
        labels = self.plane.clabel(
            lines, fmt="%g", fontsize=8, colors="#555555", manual=_LABELLED[name]
        )
        return [shades, lines, *labels]

    def _make_artists(self):
        self._path = self.plane.plot([], [], **_PATH)[0]
        self._start = self.plane.plot([], [], **_START, **_MARK)[0]
        self._end = self.plane.plot([], [], **_END, **_MARK)[0]
        self._values = self.course.plot([], [], **{**_PATH, "markersize": 2.5}, label="value")[0]
        self._pinned = [
            axes.plot([], [], **PINNED, visible=False)[0] for axes in (self.plane, self.course)
        ]

    def _make_legend(self):
        entries = {
            "path": Line2D([], [], **_PATH),
            "start": Line2D([], [], **_START, **_MARK),
            "end": Line2D([], [], **_END, **_MARK),
        }
        if self._pinned[0].get_visible():
            entries["pinned"] = Line2D([], [], **PINNED)
        self.plane.legend(entries.values(), entries.keys(), ncols=len(entries), **LEGEND)

    def _show_pinned(self, wanted):
        for line in self._pinned:
            line.set_visible(wanted)
        self._make_legend()


def _drawable(values):
    """Values with gaps for infinities and for what is too far off to be drawn."""
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(values) < 1e6, values, np.nan)
