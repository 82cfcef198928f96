"""A quantizer and its surrogate, and a fit that learns quantised weights through it."""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from gradlab.curves import Evaluator
from gradlab.experiments.quantizing import OUTSIDE, QUANTIZERS, STEPS, TAKES, fit, quantize
from gradlab.plots import LEGEND, PINNED, PROBE, STYLES, Plot, tidy
from gradlab.specs import ParamSpec, choice_spec
from gradlab.widgets.base import Explorer
from gradlab.widgets.code import call_with
from gradlab.widgets.digest import number, setting

_X = (-3.0, 3.0)
_VALUES, _RATES = (-3.2, 3.2), (-0.15, 1.25)  # what the figure shows of both curves
_ERRORS = (1e-4, 1e2)  # and of the errors
_POINTS = 401
_LEARNT = {**STYLES["gradient"], "linewidth": 1.8}
_WHOLE = {**STYLES["forward"], "linestyle": "-.", "linewidth": 1.6}
_AFTERWARDS = {**STYLES["slope"], "linewidth": 1.6}


def explore_quantizer(
    quantizer="levels", bits=2, range=2.0, threshold=0.5, outside="zero", presets=None
):
    """Show a quantizer with its surrogate, and how well a small fit learns through it.

    Six weights are fitted to 24 targets by gradient descent; what multiplies the inputs is the
    quantised weights, and what is learnt by is the surrogate's gradient.

    Args:
        quantizer: "round" (`round_ste` of what lies in the range), "levels" (`quantize_ste`),
            "sign" (`sign_ste`) or "ternary" (`ternary_ste`).
        bits: of "levels": 2^bits of them divide the range; from 1 to 8.
        range: the range goes from −range to range: where values end, for "round" and "levels",
            and where the gradient does; from 0.25 to 3.
        threshold: of "ternary": what is no larger becomes 0; from 0 to 1.5.
        outside: the gradient outside the range: "zero", or "pass" for upstream.
        presets: settings by name, such as {"binary": {"quantizer": "sign"}}: a button for each.

    Returns:
        An `Explorer`; a notebook shows it. ``curve`` and ``fit`` have what the figure shows.

    Raises:
        TypeError, ValueError: naming the argument that is wrong.

    >>> print(explore_quantizer().digest)
    levels(bits=2, range=2), gradient outside zero: believed and forward are up to 0.667 apart;
    fit through it: mean squared error 0.441; quantised after learning 0.441

    """
    given = dict(locals())
    params = (
        choice_spec("quantizer", quantizer, QUANTIZERS, "what the weights become"),
        ParamSpec("bits", bits, 1, 8, kind="int", help="there are 2^bits levels"),
        ParamSpec("range", range, 0.25, 3.0, help="from −range to range; drag it in the figure"),
        ParamSpec("threshold", threshold, 0.0, 1.5, help="what is no larger becomes 0"),
        choice_spec("outside", outside, OUTSIDE, "the gradient outside the range"),
    )
    code = call_with("gl.explore_quantizer", explore_quantizer, given)
    return QuantizerExplorer(params, presets, code)


class QuantizerExplorer(Explorer):
    """A quantizer: an `Explorer` that also gives its `curve` and the `fit` through it."""

    def __init__(self, params, presets, code):
        super().__init__("explore_quantizer", params, QuantizerPlot(), presets, code)
        self._let_drag(self._plot.above, "range")

    @property
    def curve(self):
        """The `Curve` of the quantizer."""
        return self._found[1][0]

    @property
    def fit(self):
        """The `Fit` through it."""
        return self._found[1][1]

    def _evaluate(self, values):
        quantizer, outside = values["quantizer"], values["outside"]
        numbers = {
            "reach": values["range"],
            "bits": values["bits"],
            "threshold": values["threshold"],
        }
        curve = _evaluator(quantizer, outside)(**numbers)
        return _centred(curve), fit(quantizer, outside, **numbers)

    def _show(self, values, found):
        for name in ("bits", "threshold"):
            used = name in TAKES[values["quantizer"]]
            self._controls[name].layout.display = None if used else "none"
        self._plot.update(*found, values["range"])
        return False

    def _digest(self, states, found):
        curve, fit = found
        apart = np.max(np.abs(curve.believed - curve.forward))
        return (
            f"{self._subject(states)}: believed and forward are up to {number(apart)} apart;\n"
            f"fit through it: mean squared error {number(fit.errors[-1])}; "
            f"quantised after learning {number(fit.afterwards)}"
        )

    def _subject(self, states):
        names = (*TAKES[states["quantizer"]], "range")
        inside = ", ".join(f"{name}={setting(states[name])}" for name in names)
        return f"{states['quantizer']}({inside}), gradient outside {states['outside']}"

    def _on_drag(self, change):
        if change.new < 0:  # the range has two ends, and either may be pulled
            self.view.probe = -change.new
        else:
            super()._on_drag(change)

    def _pin(self, found):
        self._plot.pin(found[1])


@functools.cache
def _evaluator(quantizer, outside):
    def quantized(x, reach, bits, threshold):
        # A curve's numbers are floats.
        return quantize(x, quantizer, outside, reach, tf.cast(bits, tf.int32), threshold)

    return Evaluator(quantized, _X, _POINTS)


def _centred(curve):
    """A curve whose believed passes through 0, as quantizers do that jump there or next to it."""
    return dataclasses.replace(
        curve, believed=curve.believed - np.interp(0.0, curve.x, curve.believed)
    )


class QuantizerPlot(Plot):
    """On the left forward and believed, gradient and slope; on the right the errors of a fit.

    `update` moves the artists, and nothing else; all that move are in `animated`.
    """

    def __init__(self):
        super().__init__(7.2, 4.6)
        axes = self.figure.subplot_mosaic("ac;bc", width_ratios=(1.15, 1))
        self.above, self.below, self.course = (axes[name] for name in "abc")
        self._label()
        self._make_artists()
        self._make_legends()
        for artist in self.animated:
            artist.set_in_layout(False)  # what moves pushes nothing aside

    @property
    def animated(self):
        """The artists that `update` moves, in the order they're drawn."""
        return [*self._ends, self._pinned, *self._lines.values(), *self._errors.values()]

    def update(self, curve, fit, reach):
        """Show another quantizer, its range and its fit."""
        for name, line in self._lines.items():
            line.set_data(curve.x, getattr(curve, name))
        for line, end in zip(self._ends, (-reach, reach, -reach, reach), strict=True):
            line.set_xdata([end, end])
        steps = np.arange(STEPS + 1)
        afterwards = np.full(STEPS + 1, fit.afterwards)
        for line, errors in zip(
            self._errors.values(), (fit.whole, afterwards, fit.errors), strict=True
        ):
            line.set_data(steps, errors)
        self._set_opacity(1.0)

    def pin(self, fit):
        """Keep the errors of a fit behind those to come."""
        self._pinned.set_data(np.arange(STEPS + 1), fit.errors)
        self._show_pinned(True)

    def unpin(self):
        """Let go of the pinned errors."""
        self._show_pinned(False)

    def _label(self):
        self.above.sharex(self.below)
        self.above.set(ylim=_VALUES, ylabel="forward")
        self.above.tick_params(labelbottom=False)
        self.below.set(xlim=_X, ylim=_RATES, xlabel="x", ylabel="gradient")
        self.course.set(
            xlim=(0, STEPS), yscale="log", ylim=_ERRORS, xlabel="step", ylabel="error of the fit"
        )
        for axes in (self.above, self.below, self.course):
            tidy(axes)
        self.figure.align_ylabels([self.above, self.below])

    def _make_artists(self):
        place = {"forward": self.above, "believed": self.above}
        place |= {"gradient": self.below, "slope": self.below}
        self._lines = {
            name: axes.plot([], [], **STYLES[name], label=name)[0] for name, axes in place.items()
        }
        self._ends = [
            axes.axvline(0, **PROBE) for axes in (self.above, self.above, self.below, self.below)
        ]
        styles = {
            "not quantised": _WHOLE,
            "quantised after learning": _AFTERWARDS,
            "learnt through the surrogate": _LEARNT,
        }
        self._errors = {
            name: self.course.plot([], [], **style, label=name)[0] for name, style in styles.items()
        }
        (self._pinned,) = self.course.plot([], [], **PINNED, visible=False, label="pinned")

    def _make_legends(self):
        for axes in (self.above, self.below):
            lines = [line for line in self._lines.values() if line.axes is axes]
            axes.legend(handles=lines, ncols=2, **LEGEND)
        lines = [self._pinned] if self._pinned.get_visible() else []
        self.course.legend(handles=[*self._errors.values(), *lines], ncols=1, **LEGEND)

    def _show_pinned(self, wanted):
        self._pinned.set_visible(wanted)
        self._make_legends()
