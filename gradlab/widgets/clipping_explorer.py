"""Two gradients in the plane, and how far each way of clipping turns them."""

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Rectangle

from gradlab.experiments.turning import CLIPS, turned
from gradlab.plots import LEGEND, PINNED, STYLES, Plot, tidy
from gradlab.specs import ParamSpec, choice_spec, point_specs
from gradlab.widgets.base import Explorer
from gradlab.widgets.code import call_with
from gradlab.widgets.digest import number, setting

_PLANE = (-5.0, 5.0)  # what it shows, along x and along y
_STEEPEST = 65.0  # degrees; no clip turns two gradients in the plane by more than 60
_NAMES = ("first", "second")
_INK = "#444444"
_GIVEN = {"color": _INK, "linewidth": 1.2}
_PAPER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5}
_STYLES = {
    "value": {"color": STYLES["gradient"]["color"], "linestyle": "-.", "marker": "s"},
    "norm": {"color": STYLES["slope"]["color"], "linestyle": (0, (5, 2)), "marker": "o"},
    "global norm": {"color": STYLES["forward"]["color"], "linestyle": "-", "marker": "D"},
}
_ALONE = {"color": _INK, "markerfacecolor": "white", "linestyle": "none", "clip_on": False}
_VECTOR = {"linewidth": 2.2, "markersize": 5}
_LIMIT = {"fill": False, "linewidth": 1.2}
_BAR = 0.6  # wide
_REACH = 0.4  # of a pinned line to either side: beyond the bar, so that it is seen before one
_NUMBER = 4.0  # degrees, the height of what stands above a bar


def explore_clipping(
    first=(3.0, 4.0), second=(0.6, 0.0), clip_value=1.0, clip_norm=1.0, drag="first", presets=None
):
    """Show how clipping by value, by norm and by global norm turns the gradients of two variables.

    The clips are `clip_gradient_by_value`, `clip_gradient_by_norm` and
    `clip_gradients_by_global_norm`, and the angles are between what arrives with and without them.

    Args:
        first: the gradient of a variable with two entries; each from −5 to 5.
        second: the gradient of another.
        clip_value: the limit of the clip by value, from 0.1 to 5.
        clip_norm: the limit of both clips by norm, from 0.1 to 7.
        drag: which gradient the handle in the figure moves, "first" or "second".
        presets: settings by name, such as {"short": {"clip_norm": 0.2}}: a button for each.

    Returns:
        An `Explorer`; a notebook shows it.

    Raises:
        TypeError, ValueError: naming the argument that is wrong.

    >>> print(explore_clipping().digest)
    gradients (3, 4) and (0.6, 0), clip_value 1, clip_norm 1;
    both together turn by 17.9° by value, 24.1° by norm, 0° by global norm

    """
    given = dict(locals())
    params = (
        *point_specs("first", first, _PLANE, _PLANE, help="the gradient of the one variable"),
        *point_specs("second", second, _PLANE, _PLANE, help="the gradient of the other"),
        ParamSpec("clip_value", clip_value, 0.1, 5.0, help="half a side of the box"),
        ParamSpec("clip_norm", clip_norm, 0.1, 7.0, help="the radius of the circle"),
        choice_spec("drag", drag, _NAMES, "which gradient the handle in the figure moves"),
    )
    code = call_with("gl.explore_clipping", explore_clipping, given)
    return ClippingExplorer(params, presets, code)


class ClippingExplorer(Explorer):
    """Two gradients under three clips: an `Explorer` that also gives what is `turned`."""

    def __init__(self, params, presets, code):
        super().__init__("explore_clipping", params, ClippingPlot(), presets, code)

    @property
    def turned(self):
        """A `Turned` for each clip, by name."""
        return self._found[1]

    def _evaluate(self, values):
        return turned(*_gradients(values), values["clip_value"], values["clip_norm"])

    def _show(self, values, found):
        names = tuple(f"{values['drag']}_{axis}" for axis in "xy")
        if self._dragged != names:
            self._let_drag(self._plot.plane, *names)
        self._plot.update(_gradients(values), values["clip_value"], values["clip_norm"], found)
        return False

    def _digest(self, states, found):
        angles = ", ".join(f"{_degrees(each.angles[2])} by {name}" for name, each in found.items())
        return f"{self._subject(states)};\nboth together turn by {angles}"

    def _subject(self, states):
        first, second = (
            f"({', '.join(map(setting, map(float, each)))})" for each in _gradients(states)
        )
        limits = ", ".join(
            f"{name} {setting(states[name])}" for name in ("clip_value", "clip_norm")
        )
        return f"gradients {first} and {second}, {limits}"


def _gradients(values):
    return [(values[f"{name}_x"], values[f"{name}_y"]) for name in _NAMES]


def _degrees(angle):
    return f"{number(angle, 90.0)}°" if np.isfinite(angle) else "no angle"


class ClippingPlot(Plot):
    """The plane with both gradients, as they were and clipped; beside it, the angles between.

    `update` moves the artists, and nothing else; all that move are in `animated`.
    """

    def __init__(self):
        super().__init__(7.2, 4.9)
        self.plane, self.turns = self.figure.subplots(1, 2, width_ratios=(2, 1))
        self._label_plane()
        self._label_turns()
        self._make_vectors()
        self._make_bars()
        self._make_legend()
        for artist in self.animated:
            artist.set_in_layout(False)  # what moves pushes nothing aside

    @property
    def animated(self):
        """The artists that `update` moves, in the order they're drawn."""
        return [
            self._box, self._circle, *self._pinned, *self._given, *self._clipped.values(),
            *self._names, *self._bars, self._pinned_turns, *self._alone, *self._texts,
        ]  # fmt: skip

    def update(self, gradients, clip_value, clip_norm, found):
        """Show two gradients and what each clip makes of them."""
        self._box.set_bounds(-clip_value, -clip_value, 2 * clip_value, 2 * clip_value)
        self._circle.set_radius(clip_norm)
        self._place_given(gradients)
        for name, clip in found.items():
            self._clipped[name].set_data(*_from_zero(clip))
        self._place_turns(np.array([clip.angles for clip in found.values()]))
        self._set_opacity(1.0)

    def pin(self, found):
        """Keep what each clip makes of two gradients behind what is to come."""
        for line, clip in zip(self._pinned, found.values(), strict=True):
            line.set_data(*_from_zero(clip))
        self._pinned_turns.set_data(*_across([clip.angles[2] for clip in found.values()]))
        self._show_pinned(True)

    def unpin(self):
        """Let go of what was pinned."""
        self._show_pinned(False)

    def _show_pinned(self, wanted):
        for line in (*self._pinned, self._pinned_turns):
            line.set_visible(wanted)
        self.figure.legends[0].remove()
        self._make_legend()

    def _label_plane(self):
        self.plane.set(
            xlim=_PLANE,
            ylim=_PLANE,
            xlabel="first entry of the gradient",
            ylabel="second entry of the gradient",
            aspect="equal",
        )
        tidy(self.plane)
        for line in (self.plane.axhline, self.plane.axvline):
            line(0, color="#999999", linewidth=0.8)

    def _label_turns(self):
        self.turns.set(
            xlim=(-0.6, len(CLIPS) - 0.4),
            ylim=(0, _STEEPEST),
            yticks=range(0, 61, 15),
            xlabel="clipped by",
            ylabel="both together turned by (degrees)",
        )
        self.turns.set_xticks(range(len(CLIPS)), [name.replace(" ", "\n") for name in CLIPS])
        tidy(self.turns, axis="y")
        self.turns.set_axisbelow(True)

    def _make_legend(self):
        entries = {
            "as it arrives": Line2D([], [], marker=">", **_GIVEN),
            **{f"by {name}": Line2D([], [], **each, **_VECTOR) for name, each in _STYLES.items()},
            **{f"{name} alone": Line2D([], [], **_alone(name)) for name in _NAMES},
        }
        if self._pinned[0].get_visible():
            entries["pinned"] = Line2D([], [], **PINNED)
        # Of the whole figure: one of the plane is as wide as the plane, and pushes it aside.
        place = {**LEGEND, "loc": "outside upper left", "bbox_to_anchor": None}
        columns = (len(entries) + 1) // 2  # in two rows, pinned or not
        self.figure.legend(entries.values(), entries.keys(), ncols=columns, **place)

    def _make_vectors(self):
        self._box = self.plane.add_patch(Rectangle((0, 0), 0, 0, **_LIMIT, **_outline("value")))
        self._circle = self.plane.add_patch(Circle((0, 0), 1, **_LIMIT, **_outline("norm")))
        self._given = [
            self.plane.plot([], [], markevery=[1], markersize=9, **_GIVEN)[0] for _ in _NAMES
        ]
        self._clipped = {
            name: self.plane.plot([], [], **style, **_VECTOR, markevery=[1, 4])[0]
            for name, style in _STYLES.items()
        }
        self._pinned = [
            self.plane.plot([], [], **_pinned(name), markevery=[1, 4], visible=False)[0]
            for name in CLIPS
        ]
        self._names = [
            self.plane.text(0, 0, name, va="center", color=_INK, bbox=_PAPER) for name in _NAMES
        ]

    def _make_bars(self):
        self._bars = self.turns.bar(
            range(len(CLIPS)),
            0,
            width=_BAR,
            color=[_STYLES[name]["color"] for name in CLIPS],
            edgecolor=_INK,
        )
        (self._pinned_turns,) = self.turns.plot([], [], **PINNED, visible=False)
        self._alone = [self.turns.plot([], [], **_alone(name))[0] for name in _NAMES]
        self._texts = [
            self.turns.text(i, 0, "", ha="center", va="bottom", color="black")
            for i in range(len(CLIPS))
        ]

    def _place_given(self, gradients):
        for line, name, (x, y) in zip(self._given, self._names, gradients, strict=True):
            line.set_data([0, x], [0, y])
            line.set_marker((3, 0, np.degrees(np.arctan2(y, x)) - 90))
            line.set_visible(bool(x or y))
            name.set_position(_beside(x, y))
            name.set_horizontalalignment("right" if x < 0 else "left")

    def _place_turns(self, angles):
        turns = np.nan_to_num(angles[:, 2])
        for bar, height in zip(self._bars, turns, strict=True):
            bar.set_height(height)
        for text, base, angle in zip(self._texts, self._bases(turns), angles[:, 2], strict=True):
            text.set_y(base + 1)
            text.set_text(_degrees(angle))
        for line, heights, shift in zip(self._alone, angles.T, (-0.12, 0.12), strict=False):
            line.set_data(np.arange(len(CLIPS)) + shift, heights)

    def _bases(self, heights):
        """What numbers stand on: their bars, or a pinned line that would else strike them out."""
        if not self._pinned_turns.get_visible():
            return heights
        pinned = np.nan_to_num(self._pinned_turns.get_ydata()[::3])
        return np.where((heights < pinned) & (pinned < heights + _NUMBER), pinned, heights)


def _pinned(name):
    """The look of a pinned clip: its tips tell which it is."""
    return {**PINNED, "marker": _STYLES[name]["marker"], "markersize": _VECTOR["markersize"]}


def _across(heights):
    """The x and the y of a line across each bar's place, with gaps between."""
    x = [[i - _REACH, i + _REACH, np.nan] for i in range(len(heights))]
    return np.ravel(x), np.repeat(heights, 3)


def _from_zero(clip):
    """The x and the y of a line from 0 to one clipped gradient, and of another to the other."""
    first, second = clip.gradients
    return np.transpose([(0, 0), first, (np.nan, np.nan), (0, 0), second])


def _outline(name):
    return {"edgecolor": _STYLES[name]["color"], "linestyle": _STYLES[name]["linestyle"]}


def _alone(name):
    marker = {"first": "^", "second": "v"}[name]
    return {
        "marker": marker,
        "color": _INK,
        "markerfacecolor": "white",
        "linestyle": "none",
        "clip_on": False,
    }


def _beside(x, y):
    """Where the name of a vector begins, or ends if it points left: beyond its tip."""
    length = np.hypot(x, y) or 1.0
    far = 3.6  # from 0, for a name to have room
    return np.clip(x + 0.4 * x / length, -far, far), np.clip(y + 0.4 * y / length, -4.7, 4.7)
