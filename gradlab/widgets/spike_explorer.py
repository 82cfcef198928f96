"""A spiking neuron over time, and how far the gradient of one of its spikes reaches back."""

import dataclasses

import numpy as np

from gradlab.neurons import Neuron
from gradlab.plots import LEGEND, PINNED, PROBE, STYLES, Plot, tidy
from gradlab.registry import SPECS
from gradlab.specs import ParamSpec
from gradlab.widgets.base import Explorer
from gradlab.widgets.code import call_with
from gradlab.widgets.digest import number

_OWN = "your current"
_LEFT = 1e-3  # of the largest gradient: less is said not to reach


def explore_spike(current="constant", steps=48, presets=None, **start):
    """Show a spiking neuron over time, and the gradient that reaches back through its steps.

    At each step the membrane loses a part, its leak, and gains the current; where it reaches the
    threshold, it fires and is set back by the threshold. Going back, each spike passes on what
    its surrogate says.

    Args:
        current: your own current, a number for each step, or the name of one to begin with:
            "constant", "wave", "two pulses" or "ramp".
        steps: how many steps, 2 to 200, if current is a name.
        presets: settings by name, such as {"steep": {"alpha": 10.0}}: a button for each.
        start: where controls start, by name: strength, leak, threshold, surrogate, alpha,
            through_reset, step.

    Returns:
        A `SpikeExplorer`; a notebook shows it. ``run`` has what is drawn.

    Raises:
        TypeError, ValueError: naming the argument that is wrong.

    >>> explore_spike(strength=0.3, step=40, surrogate="Boxcar", alpha=1.0)
    Boxcar(alpha=1), leak 0.1, threshold 1, 0.3 times constant: 11 spikes in 48 steps;
    gradient of the spike at step 40: 1 there, at most 1; it reaches 3 steps back

    """
    shapes = _shapes(current, steps)
    named = isinstance(current, str)
    given = {"current": current if named else shapes[_OWN].tolist(), "steps": steps}
    given["presets"] = presets
    code = call_with("gl.explore_spike", explore_spike, given, **start)
    start["current"] = current if named else _OWN
    return SpikeExplorer(shapes, start, presets, code)


class SpikeExplorer(Explorer):
    """A neuron's currents, membrane, spikes and gradients over time, and its controls.

    An `Explorer` that also gives the `run` shown.
    """

    def __init__(self, shapes, start, presets, code):
        self._shapes = shapes
        self._neuron = Neuron(len(next(iter(shapes.values()))))
        params = _params(shapes, start)
        super().__init__("explore_spike", params, SpikePlot(self._neuron.steps), presets, code)
        self._let_drag(self._plot.middle, "step")

    @property
    def run(self):
        """The `Run` shown."""
        return self._plot.run

    def _evaluate(self, values):
        names = ("leak", "threshold", "alpha", "through_reset")
        return self._neuron(
            values["strength"] * self._shapes[values["current"]],
            values["surrogate"],
            of=round(values["step"]),
            **{name: values[name] for name in names},
        )

    def _show(self, values, run):
        return self._plot.update(run, values["threshold"])

    def _digest(self, states, run):
        fired = int(run.spikes.sum())
        spikes = f"{fired} spike{'' if fired == 1 else 's'} in {run.spikes.size} steps"
        back = f"gradient of the spike at step {run.of}: {_reach(run)}"
        return f"{self._subject(states)}: {spikes};\n{back}"

    def _subject(self, states):
        surrogate = f"{states['surrogate']}(alpha={number(states['alpha'])})"
        neuron = ", ".join(f"{name} {number(states[name])}" for name in ("leak", "threshold"))
        cut = "" if states["through_reset"] else ", none through the reset"
        return f"{surrogate}, {neuron}, {number(states['strength'])} times {states['current']}{cut}"


def _reach(run):
    size = np.abs(run.gradient)
    if not size.any():
        return "none reaches any step"
    first = int(np.flatnonzero(size >= _LEFT * size.max())[0])
    here, most = number(run.gradient[run.of], size.max()), number(size.max())
    back = run.of - first
    return f"{here} there, at most {most}; it reaches {back} step{'' if back == 1 else 's'} back"


def _shapes(current, steps):
    """The currents to choose from, by name; one is 1 at its most, but for the reader's own."""
    if not isinstance(current, str):
        return {_OWN: _checked_current(current)}
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer):
        raise TypeError(f"steps: got {steps!r}; give a whole number")
    if not 2 <= steps <= 200:
        raise ValueError(f"steps: got {steps}; give 2 to 200")
    t = np.arange(steps) / steps
    return {
        "constant": np.ones(steps),
        "wave": 0.5 - 0.5 * np.cos(6 * np.pi * t),
        "two pulses": 1.0 * (((t > 0.1) & (t < 0.3)) | ((t > 0.6) & (t < 0.8))),
        "ramp": t,
    }


def _checked_current(current):
    try:
        values = np.asarray(current, float)
    except (TypeError, ValueError):
        raise TypeError(f"current: got {current!r}; give a number for each step") from None
    if values.ndim != 1 or not 2 <= values.size <= 200:
        raise ValueError(
            f"current: got shape {values.shape}; give a number for each of 2 to 200 steps"
        )
    if not np.isfinite(values).all():
        raise ValueError("current: it isn't finite at every step")
    return values


def _params(shapes, start):
    steps = len(next(iter(shapes.values())))
    surrogate, alpha = SPECS["spike"].params
    first = next(iter(shapes))
    params = [
        ParamSpec("current", first, kind="choice", choices=tuple((name, name) for name in shapes)),
        ParamSpec("strength", 1.0 if first == _OWN else 0.3, 0.0, 2.0, step=0.01,
                  help="what the current is multiplied by"),
        ParamSpec("leak", 0.1, 0.0, 0.9, help="what part of it the membrane loses in a step"),
        ParamSpec("threshold", 1.0, 0.1, 3.0, step=0.05, help="where the neuron fires"),
        surrogate,
        alpha,
        ParamSpec("through_reset", True, kind="bool",
                  help="whether gradient flows through the reset, too"),
        ParamSpec("step", steps - 1, 0, steps - 1, kind="int", step=1,
                  help="the step whose spike is asked about"),
    ]  # fmt: skip
    return [_starting(param, start) for param in _all_known(params, start)]


def _all_known(params, start):
    names = [param.name for param in params]
    for name in start:
        if name not in names:
            raise TypeError(f"{name}: explore_spike has no such control; it has {', '.join(names)}")
    return params


def _starting(param, start):
    at = param.checked(start[param.name]) if param.name in start else param.default
    return dataclasses.replace(param, default=at)


_UP = {"color": STYLES["gradient"]["color"], "linewidth": 1.6, "marker": "o", "markersize": 4}
_DOWN = {"color": STYLES["believed"]["color"], "linewidth": 1.6, "marker": "X", "markersize": 5}
_MEMBRANE = {"color": STYLES["forward"]["color"], "linewidth": 1.8}
_CURRENT = {"color": STYLES["slope"]["color"], "linewidth": 1.6, "drawstyle": "steps-mid"}
_SPIKES = {"color": "#222222", "linewidth": 1.8}
_THRESHOLD = {"color": "#777777", "linewidth": 1.2, "linestyle": (0, (5, 2))}
_PINNED_SIZE = {"color": PINNED["color"], "linestyle": "", "marker": "s", "markersize": 4.5}
_LEAST, _MOST = 1e-6, 1e2  # of the gradients that show at first


class SpikePlot(Plot):
    """Three axes over one time: the current, the membrane with its spikes, the gradient.

    Args:
        steps: how many.

    """

    def __init__(self, steps):
        self.run = None
        super().__init__(7.2, 5.6)
        self._all = self.figure.subplots(3, 1, sharex=True, height_ratios=[1, 1.9, 1.7])
        self.above, self.middle, self.below = self._all
        self._t = np.arange(steps)
        self._label()
        self._make_artists()

    @property
    def animated(self):
        """The artists that move without a redraw."""
        return [
            *self._verticals, *self._pinned, self._current, self._threshold, self._membrane,
            self._spikes, *self._stems.values(), self._none,
        ]  # fmt: skip

    def update(self, run, threshold):
        """Show another run; return whether more than `animated` changed."""
        self.run = run
        t = self._t
        for line in self._verticals:
            line.set_xdata([run.of, run.of])
        self._current.set_data(t, run.current)
        self._threshold.set_ydata([threshold, threshold])
        self._membrane.set_data(t, run.membrane)
        changed = self._widen(self.above, run.current, 1.15)
        changed |= self._widen(self.middle, [*run.membrane, threshold], 1.35)
        changed |= self._raise_top(np.abs(run.gradient))
        fired = run.spikes > 0
        top = self.middle.get_ylim()[1]
        self._spikes.set_data(*_stems(t[fired], run.membrane[fired], top))
        for sign, stems in self._stems.items():
            shown = sign * run.gradient >= _LEAST
            stems.set_data(*_stems(t[shown], sign * run.gradient[shown], _LEAST / 10))
        self._none.set_visible(not (np.abs(run.gradient) >= _LEAST).any())
        self._set_opacity(1.0)
        return changed

    def pin(self, run):
        """Keep a run's membrane, and the size of its gradient, behind those to come."""
        membrane, gradient = self._pinned
        membrane.set_data(self._t, run.membrane)
        size = np.abs(run.gradient)
        gradient.set_data(self._t, np.where(size >= _LEAST, size, np.nan))
        self._show_pinned(True)

    def unpin(self):
        """Let go of the pinned run."""
        self._show_pinned(False)

    def _label(self):
        self.above.set(ylabel="current", ylim=(-0.05, 0.35))
        self.middle.set(ylabel="membrane", ylim=(-0.1, 1.6))
        self.below.set(ylabel="|gradient| to current", yscale="log", ylim=(_LEAST, _MOST))
        self.below.set(xlabel="step", xlim=(-0.7, self._t[-1] + 0.7))
        for axes in self._all:
            tidy(axes)
        self.figure.align_ylabels()

    def _make_artists(self):
        self._verticals = [axes.axvline(0, **PROBE) for axes in self._all]
        (self._current,) = self.above.plot([], [], label="current", **_CURRENT)
        self._threshold = self.middle.axhline(1, label="threshold", **_THRESHOLD)
        (self._membrane,) = self.middle.plot([], [], label="membrane", **_MEMBRANE)
        (self._spikes,) = self.middle.plot([], [], label="spike", **_SPIKES)
        looks = {1: ("raises the spike asked about", _UP), -1: ("lowers it", _DOWN)}
        self._stems = {
            sign: self.below.plot([], [], label=word, markevery=3, **look)[0]
            for sign, (word, look) in looks.items()
        }
        self._none = self.below.text(
            0.5, 0.5, "no gradient reaches any step", ha="center", transform=self.below.transAxes
        )
        self._pinned = [
            self.middle.plot([], [], label="pinned", **PINNED)[0],
            self.below.plot([], [], label="pinned", **_PINNED_SIZE)[0],
        ]
        self._show_pinned(False)

    def _show_pinned(self, wanted):
        for line in self._pinned:
            line.set_visible(wanted)
        for axes in self._all:
            named = [line for line in axes.lines if not line.get_label().startswith("_")]
            axes.legend(handles=[line for line in named if line.get_visible()], ncols=4, **LEGEND)

    def _widen(self, axes, values, room):
        """Widen limits until values fit; return whether they had to be."""
        bottom, top = axes.get_ylim()
        low, high = min(values), max(values)
        if bottom <= low and high * room / 1.1 <= top:
            return False
        axes.set_ylim(min(bottom, 1.2 * low), max(top, room * high))
        return True

    def _raise_top(self, sizes):
        """Raise the limit of the gradients until all have a head; return whether it had to be."""
        most = sizes.max(where=np.isfinite(sizes), initial=0.0)
        if most < self.below.get_ylim()[1]:
            return False
        self.below.set_ylim(_LEAST, 10.0 ** np.ceil(np.log10(2 * most)))  # a whole decade
        return True


def _stems(t, heights, base):
    """One line up or down to each height, with gaps between them: the height first."""
    gap = np.full(len(t), np.nan)
    x = np.column_stack([t, t, gap]).ravel()
    return x, np.column_stack([heights, np.full(len(t), base), gap]).ravel()
