"""The error of a finite difference against its step, and what the difference looks at."""

import numpy as np
import tensorflow as tf

from gradlab.ops.custom import custom_gradient
from gradlab.plots import LEGEND, PINNED, PROBE, STYLES, Plot, tidy
from gradlab.specs import ParamSpec
from gradlab.step_sizes import ORDERS, STEPS, WINDOW, Stepper
from gradlab.widgets.base import Explorer
from gradlab.widgets.code import call_with
from gradlab.widgets.digest import number


@custom_gradient
def _one_percent_off(x):
    return tf.sin(x), lambda g: 1.01 * g * tf.cos(x)


FUNCTIONS = {
    "sin x": tf.sin,
    "exp x": tf.exp,
    "x³": lambda x: x**3,
    "|x|": tf.abs,
    "1000 + sin x": lambda x: 1000.0 + tf.sin(x),
    "sin x, its gradient 1 % off": _one_percent_off,
}


def explore_check(
    f=None, x=1.0, step=1e-3, difference="central", between=(-3.0, 3.0), presets=None
):
    """Show by how much a finite difference misses the gradient, for every step, on log axes.

    Too long a step leaves out how the function bends; too short a step divides rounding by next
    to nothing. Between them lies the step that a check has to choose, another one in float32 than
    in float64. Where the gradient is wrong, no step brings the difference near it.

    Args:
        f: your own function of a float tensor x of shape (1,), {name: function} for several, or
            the name of one to begin with, such as "sin x".
        x: the point, a number.
        step: the step that is looked at closely, from 1e-16 to 1.
        difference: "central", from x − step to x + step, or "forward", from x to x + step.
        between: the lowest and the highest x.
        presets: settings by name, such as {"short": {"step": 1e-8}}: a button for each.

    Returns:
        A `CheckExplorer`; a notebook shows it. ``sizes`` has what is drawn.

    Raises:
        TypeError, ValueError: naming the argument that is wrong. What your function itself
            raises is shown beside the figure instead.

    >>> explore_check("sin x", step=1e-8)
    sin x at x = 1, central difference: step 1e-8 is off by 1e-8 in float64 (rounding),
    1 in float32 (x + step is x);
    best step 1e-5 in float64, off by 1e-11; 0.01 in float32, off by 1e-5

    """
    code = call_with("gl.explore_check", explore_check, dict(locals()))
    functions, first = _functions(f)
    start = {"x": x, "step": step, "difference": difference}
    return CheckExplorer(functions, first, start, between, presets, code)


class CheckExplorer(Explorer):
    """Errors of finite differences over their step, and controls for what is differenced.

    An `Explorer` that also gives the `sizes` shown.
    """

    def __init__(self, functions, first, start, between, presets, code):
        self._functions = functions
        self._steppers = {}
        params = _params(functions, first, start, between)
        super().__init__("explore_check", params, CheckPlot(), presets, code)
        self._let_drag(self._plot.above, "step")

    @property
    def sizes(self):
        """The `StepSizes` shown: the last that could be measured."""
        return self._plot.sizes

    def _evaluate(self, values):
        f, x = values["f"], values["x"]
        if f not in self._steppers:
            self._steppers[f] = Stepper(f, x)
        return self._steppers[f](x, values["step"], values["difference"])

    def _show(self, values, found):
        return self._plot.update(
            found, values["difference"], key=(values["f"], values["difference"])
        )

    def _digest(self, states, sizes):
        here = ", ".join(
            f"{_power_of_ten(errors.size)} in {dtype} ({errors.why})"
            for dtype, errors in sizes.by_dtype.items()
        )
        best = "; ".join(
            f"{_power_of_ten(errors.best)} in {dtype}, off by {_power_of_ten(errors.least)}"
            for dtype, errors in sizes.by_dtype.items()
        )
        return (
            f"{self._subject(states)}: step {number(sizes.step)} is off by {here};\n"
            f"best step {best}"
        )

    def _notes(self, sizes):
        return "" if len(sizes.by_dtype) == 2 else "f doesn't take float64, so a check has float32"

    def _subject(self, states):
        return f"{states['f']} at x = {number(states['x'])}, {states['difference']} difference"


def _functions(f):
    """All functions by name, and the name of the one to begin with."""
    if f is None:
        return FUNCTIONS, "sin x"
    own = {getattr(f, "__name__", "f"): f} if callable(f) else f
    if isinstance(own, dict) and own and all(map(callable, own.values())):
        return {**own, **FUNCTIONS, **own}, next(iter(own))  # its own first, and before ours
    if not isinstance(f, str) or f not in FUNCTIONS:
        names = ", ".join(map(repr, FUNCTIONS))
        raise ValueError(f"f: got {f!r}; give a function, {{name: function}}, or one of {names}")
    return FUNCTIONS, f


def _params(functions, first, start, between):
    try:
        low, high = between
    except (TypeError, ValueError):
        raise TypeError(f"between: got {between!r}; give the lowest and the highest x") from None
    orders = tuple((order, order) for order in ORDERS)
    return [
        ParamSpec("f", first, kind="choice", choices=tuple(functions.items())),
        ParamSpec("difference", start["difference"], kind="choice", choices=orders),
        ParamSpec("x", start["x"], low, high, help="the point at which the gradient is checked"),
        ParamSpec(
            "step", start["step"], STEPS[0], STEPS[-1], log=True, step=0.25,
            help="the step that is looked at closely",
        ),
    ]  # fmt: skip


def _power_of_ten(size):
    """A size without the digits that another machine would round otherwise."""
    if not np.isfinite(size) or size == 0:
        return number(size)
    return number(10.0 ** round(float(np.log10(size))))


_LOOKS = {
    "float64": {"color": STYLES["forward"]["color"], "linestyle": "-", "marker": "o"},
    "float32": {"color": STYLES["gradient"]["color"], "linestyle": (0, (4, 1.5)), "marker": "s"},
}
_TRUTH = {"color": STYLES["slope"]["color"], "linestyle": (0, (5, 2)), "linewidth": 1.6}
_TANGENT = {"color": STYLES["slope"]["color"], "linewidth": 4.5}  # under both lines of f
_ESTIMATE = {"color": "#999999", "linewidth": 1.0}
_PAPER = {"facecolor": "#FFFFFF", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
_LEAST = 1e-18  # an error of 0 has no place on a log axis


class CheckPlot(Plot):
    """Errors over steps, on log axes, and below them f as a difference with one step sees it."""

    def __init__(self):
        self.sizes = None
        self._key = None
        super().__init__(7.2, 4.5)
        self.above, self.below = self.figure.subplots(2, 1, height_ratios=[3.2, 2])
        self._make_errors(self.above)
        self._make_window(self.below)

    @property
    def animated(self):
        """The artists that move without a redraw."""
        return [
            self._vertical, *self._estimates.values(), self._floor, *self._pinned.values(),
            *self._lines.values(),
            *self._bests.values(), *self._marks.values(), *self._names.values(),
            self._tangent, *self._windows.values(), *self._secants.values(), self._note,
        ]  # fmt: skip

    def update(self, sizes, difference, key):
        """Show other sizes; return whether more than `animated` changed."""
        self.sizes = sizes
        self._power = ORDERS[difference]
        self._move_errors()
        self._move_window(0.0 if difference == "forward" else -1.0)
        self._set_opacity(1.0)
        return bool(self._fit_errors(key) | self._fit_window())

    def pin(self, sizes):
        """Keep measured errors behind those to come."""
        for dtype, line in self._pinned.items():
            errors = sizes.by_dtype.get(dtype)
            line.set_data(
                *([], []) if errors is None else (STEPS, np.maximum(errors.errors, _LEAST))
            )
        self._show_pinned(True)

    def unpin(self):
        """Let go of the pinned errors."""
        self._show_pinned(False)

    def _show_pinned(self, wanted):
        for line in self._pinned.values():
            line.set_visible(wanted)
        self._key = None  # limits are chosen anew, for both
        pinned = [line for line in self._pinned.values() if wanted][:1]
        handles = [*self._lines.values(), self._star, *pinned]
        self.above.legend(handles=handles, ncols=len(handles), **LEGEND)

    def _make_errors(self, axes):
        axes.set(xscale="log", yscale="log", xlim=(STEPS[0] / 1.5, 1.5 * STEPS[-1]))
        axes.set(xlabel="step", ylabel="|difference − gradient|", ylim=(1e-15, 10))
        tidy(axes)
        self._vertical = axes.axvline(1, **PROBE)
        names = ("truncation", *(f"rounding in {dtype}" for dtype in _LOOKS))
        self._estimates = {name: axes.plot([], [], **_ESTIMATE)[0] for name in names}
        self._floor = axes.axhline(1, visible=False, **_TRUTH)
        self._lines = {
            d: axes.plot([], [], lw=1.8, label=d, **{**look, "marker": ""})[0]
            for d, look in _LOOKS.items()
        }
        self._bests = {d: self._mark(axes, look, "*", 13) for d, look in _LOOKS.items()}
        self._marks = {d: self._mark(axes, look, look["marker"], 7) for d, look in _LOOKS.items()}
        ink = {"size": 8.5, "color": "#444444", "bbox": _PAPER, "clip_on": True}
        self._names = {name: axes.text(1, 1, name, **ink) for name in (*names, "floor")}
        (self._star,) = axes.plot(
            [], [], "*", ms=11, mfc="#FFFFFF", mec="#444444", ls="", label="best step"
        )
        self._pinned = {d: axes.plot([], [], label="pinned", **PINNED)[0] for d in _LOOKS}
        self._show_pinned(False)

    def _mark(self, axes, look, marker, size):
        return axes.plot(
            [], [], marker, markersize=size, color=look["color"], markeredgecolor="#FFFFFF"
        )[0]

    def _make_window(self, axes):
        axes.set(xlim=(WINDOW[0], WINDOW[-1]), xlabel="distance from x, in steps")
        axes.set_ylabel("rise of f, in steps")
        tidy(axes)
        (self._tangent,) = axes.plot([], [], label="the gradient's tangent", **_TANGENT)
        self._windows = {
            d: axes.plot(
                [], [], color=look["color"], ls=look["linestyle"], lw=1.6, label=f"f in {d}"
            )[0]
            for d, look in _LOOKS.items()
        }
        self._secants = {
            d: axes.plot([], [], look["marker"], color=look["color"], ms=7, mec="#FFFFFF")[0]
            for d, look in _LOOKS.items()
        }
        self._note = axes.text(
            0.99, 0.04, "", transform=axes.transAxes, ha="right", size=8.5, bbox=_PAPER
        )
        axes.legend(ncols=3, **LEGEND)

    def _move_errors(self):
        sizes = self.sizes
        self._vertical.set_xdata([sizes.step, sizes.step])
        for dtype in _LOOKS:
            errors = sizes.by_dtype.get(dtype)
            shown = errors is not None
            for artists in (self._lines, self._bests, self._marks):
                artists[dtype].set_visible(shown)
            rounding = f"rounding in {dtype}"
            self._estimates[rounding].set_visible(shown)
            self._names[rounding].set_visible(False)
            if shown:
                self._move_dtype(dtype, errors)
        self._move_truncation(next(iter(sizes.by_dtype.values())))
        self._move_floor()

    def _move_dtype(self, dtype, errors):
        self._lines[dtype].set_data(STEPS, np.maximum(errors.errors, _LEAST))
        self._bests[dtype].set_data([errors.best], [errors.least])
        off = abs(errors.secant - self.sizes.gradient)
        self._marks[dtype].set_data([self.sizes.step], [max(off, _LEAST)])
        self._estimates[f"rounding in {dtype}"].set_data(STEPS, errors.rounding)
        at = 2 * np.sqrt(errors.best * (STEPS[0] if dtype == "float64" else 1e-7))
        self._put_name(f"rounding in {dtype}", at, errors.rounding[0] * STEPS[0] / at * 4)

    def _put_name(self, name, x, y, **text):
        """Put the name of a branch beside it, unless nothing is seen of the branch there."""
        self._names[name].set(position=(x, y), visible=y > 5 * self.sizes.gap, **text)

    def _move_truncation(self, errors):
        there = np.isfinite(errors.truncation).all() and errors.truncation.any()
        line, name = self._estimates["truncation"], self._names["truncation"]
        line.set_visible(bool(there))
        name.set_visible(False)
        if there:
            line.set_data(STEPS, errors.truncation)
            # Below the right end of the branch, where there is room for the words.
            height = errors.truncation[-1] * 10 ** (-3.4 * self._power)
            text = f"truncation ∝ step{'²' if self._power == 2 else ''}"
            self._put_name("truncation", STEPS[-1], height, ha="right", text=text)

    def _move_floor(self):
        gap = self.sizes.gap
        self._floor.set_visible(gap > 0)
        self._names["floor"].set_visible(gap > 0)
        if gap > 0:
            self._floor.set_ydata([gap, gap])
            self._names["floor"].set(position=(1e-12, gap / 1.5), va="top")
            self._names["floor"].set_text("gradient and slope are this far apart")

    def _fit_errors(self, key):
        """Choose limits for another function, widen them for another point of the same."""
        pinned = [line.get_ydata() for line in self._pinned.values() if line.get_visible()]
        heights = np.concatenate([*(e.errors for e in self.sizes.by_dtype.values()), *pinned])
        there = heights[np.isfinite(heights) & (heights > _LEAST)]
        low, high = (there.min(), there.max()) if there.size else (1e-15, 1.0)
        bottom, top = self.above.get_ylim()
        if key == self._key and bottom <= low and high <= top:
            return False
        if key == self._key:
            low, high = min(low, bottom), max(high, top)
        self._key = key
        # Whole decades, with room for other points of the same function.
        self.above.set_ylim(
            10.0 ** (np.floor(np.log10(low)) - 1), 10.0 ** np.ceil(np.log10(3 * high))
        )
        return True

    def _move_window(self, left):
        sizes = self.sizes
        rise = sizes.gradient if np.isfinite(sizes.gradient) else np.nan
        self._tangent.set_data(WINDOW, rise * WINDOW)
        for dtype in _LOOKS:
            errors = sizes.by_dtype.get(dtype)
            for artists in (self._windows, self._secants):
                artists[dtype].set_visible(errors is not None)
            if errors is not None:
                self._windows[dtype].set_data(WINDOW, errors.window)
                ends = np.array([left, 1.0])
                self._secants[dtype].set_data(ends, np.interp(ends, WINDOW, errors.window))
        rises = ", ".join(f"{d} {number(e.secant)}" for d, e in sizes.by_dtype.items())
        self._note.set_text(f"secant: {rises}")

    def _fit_window(self):
        size = max(abs(self.sizes.slope), abs(self.sizes.gradient), 1e-9)
        size = size if np.isfinite(size) else 1.0
        reach = self.below.get_ylim()[1]
        if 1.1 * size <= reach <= 10 * size:
            return False
        self.below.set_ylim(-3 * size, 3 * size)
        return True
