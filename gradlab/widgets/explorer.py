"""Controls -> `Curve` -> plot -> digest: a figure that answers its sliders."""

import base64
import contextlib
import dataclasses
import html
import time

import ipywidgets
import numpy as np

from gradlab import devices
from gradlab.curves import Curve, Evaluator, check_parameters, checked_range, checked_upstream
from gradlab.plots import CurvePlot
from gradlab.registry import SPECS
from gradlab.specs import LOSSES, OpSpec, ParamSpec, op_spec, param_spec
from gradlab.widgets.controls import control_for
from gradlab.widgets.digest import digest, subject
from gradlab.widgets.figure_view import FigureView

_OWN = ("compose", "upstream", "probe", "believed")  # names that the explorer's own controls have
_PATIENCE = 0.2  # seconds: a slower function isn't evaluated at the ends of its ranges as well


def explore(
    op,
    compose=None,
    x=None,
    upstream=1.0,
    probe=None,
    believed=False,
    points=401,
    device=None,
    **ranges,
):
    """Show an op or a function with its gradient, its true slope, and a slider for each parameter.

    Args:
        op: an op of gradlab, its name in `SPECS`, or your own function of a 1-D tensor x.
        compose: what is applied to its value: "x", "x²/2", "|x|", "sin x", "quartic", or your own
            function. An op whose forward is x shows little until a loss follows it.
        x: the lowest and the highest x.
        upstream: the gradient arriving from the loss: a number, or (lowest, highest) for a slider.
        probe: the x at which both tangents are drawn.
        believed: whether to draw what the optimiser thinks it is descending.
        points: how many points.
        device: None for the best there is, or "cpu", "gpu", "/GPU:1".
        ranges: for each parameter what `ipywidgets.interact` takes: (lowest, highest),
            (lowest, highest, step), a list of choices, {label: value}, a number, True or False.

    Returns:
        An `Explorer`; a notebook shows it. What your function reads from outside (a global, say)
        keeps the value it had when it was drawn first; `reset()` reads it anew.

    Raises:
        TypeError, ValueError: naming the argument that is wrong. What your function itself
            raises is shown beside the figure instead.

    >>> explore(lambda x, alpha: alpha * x**2, alpha=(0.0, 2.0), probe=1).set(alpha=0.5)
    <lambda>(alpha=0.5) at x = 1: forward 0.5, gradient 1, slope 1;
    gradient and slope agree on -3…3

    """
    spec = _spec(op, x, ranges)
    return Explorer(spec, compose, upstream, probe, believed, points, device)


class Explorer:
    """A figure and its controls: what `explore` returns.

    `set` does from code what the controls do; `curve`, `digest`, `figure` and `parameters` give
    what is shown; `error` what the function raised, if it did; `widget` goes into a layout of
    your own.
    """

    def __init__(
        self, spec, compose=None, upstream=1.0, probe=None, believed=False, points=401, device=None
    ):
        self.spec = spec
        self.error = None
        self._losses, loss = _losses(compose, spec)
        self._points, self._device = points, device
        self._evaluators = {}
        self._limits_for = None
        self._held = False
        own = _own_params(spec, tuple(self._losses), loss, upstream, probe, believed)
        self._params = {param.name: param for param in (*spec.params, *own)}
        self._upstream = None if "upstream" in self._params else checked_upstream(upstream)
        self._controls = {name: control_for(param) for name, param in self._params.items()}
        self._evaluator()  # says what is wrong with x, points or device
        self._make_figure()
        self.widget = self._make_widget()
        for control in self._controls.values():
            control.observe(self._on_change, "value")
        self.view.observe(self._on_drag, "probe")
        self._update()

    def set(self, **values):
        """Set parameters, or compose, upstream, probe and believed, as their controls would.

        Returns:
            The explorer itself.

        Raises:
            TypeError, ValueError: naming what is unknown or out of its range; nothing is changed.

        """
        states = {name: self._param(name).checked(value) for name, value in values.items()}
        self._put(states)
        return self

    def reset(self):
        """Put everything back to where it was at first, limits included; read globals anew."""
        self._limits_for = None
        self._evaluators = {}
        self._put({name: param.default for name, param in self._params.items()})
        return self

    @property
    def parameters(self):
        """What the function is given, by name."""
        return {param.name: self._value(param.name) for param in self.spec.params}

    @property
    def curve(self):
        """The `Curve` shown: the last one that could be evaluated."""
        return self._plot.curve

    @property
    def compose(self):
        """The name of the loss applied to the op's value."""
        return self._value("compose")

    @property
    def upstream(self):
        """The gradient arriving from the loss."""
        return self._value("upstream") if "upstream" in self._params else self._upstream

    @property
    def probe(self):
        """The x at which both tangents are drawn."""
        return self._value("probe")

    @probe.setter
    def probe(self, x):
        self.set(probe=x)

    @property
    def figure(self):
        """The matplotlib figure."""
        return self._plot.figure

    @property
    def digest(self):
        """What is shown, in one or two lines."""
        return self.view.alt

    def __repr__(self):
        return self.digest

    def _repr_mimebundle_(self, include=None, exclude=None):
        width, height = (round(100 * side) for side in self.figure.get_size_inches())
        data = {
            **self.widget._repr_mimebundle_(),
            "text/plain": self.digest,
            "image/png": base64.b64encode(self.view.still()).decode("ascii"),
        }
        return data, {"image/png": {"width": width, "height": height}}

    # State

    def _param(self, name):
        if name not in self._params:
            raise TypeError(f"{name}: the explorer has none; it has {', '.join(self._params)}")
        return self._params[name]

    def _value(self, name):
        param, state = self._params[name], self._controls[name].value
        return param.value_of(int(state) if param.kind == "int" else state)

    def _put(self, states):
        self._held = True
        try:
            for name, state in states.items():
                self._controls[name].value = state
        finally:
            self._held = False
        self._update()

    def _on_change(self, change):
        if not self._held:
            self._update()

    def _on_drag(self, change):
        self._controls["probe"].value = change.new

    # From state to picture

    def _update(self):
        try:
            line, point = self._evaluate(self.parameters)
        except Exception as problem:  # the reader's function may raise anything at all
            self._refuse(problem)
        else:
            self._accept(line, point)

    def _evaluate(self, parameters):
        return self._evaluator().at(self.probe, self.upstream, **parameters)

    def _evaluator(self):
        if self.compose not in self._evaluators:
            self._evaluators[self.compose] = Evaluator(
                _composed(self._losses[self.compose], self.spec.apply),
                self.spec.x,
                self._points,
                self._device,
            )
        return self._evaluators[self.compose]

    def _accept(self, line, point):
        self.error = None
        believed = self._value("believed")
        moves_only = self._has_limits(line) and believed == self._plot.believed
        self._plot.believed = believed
        self._plot.update(line, point, remark=_remark(line))
        text = digest(self._subject(), line, point)
        self._say(text, note="; ".join(line.notes), redraw=not moves_only)

    def _has_limits(self, line):
        """Whether the limits can stay; makes them fit if not."""
        if self._limits_for != self.compose:
            self._limits_for = self.compose
            self._plot.fit(line, self._curves_at_the_ends())
            return False
        if self._plot.fits(line):
            return True
        self._plot.widen(line)
        return False

    def _curves_at_the_ends(self):
        """Curves with one parameter at an end of its range: what limits should have room for."""
        curves, start = [], time.perf_counter()
        for name, param in self._params.items():
            for end in (param.low, param.high) if param in self.spec.params else ():
                if end is None or time.perf_counter() - start > _PATIENCE:
                    continue
                with contextlib.suppress(Exception):
                    curves.append(self._evaluate({**self.parameters, name: end})[0])
        return curves

    def _refuse(self, problem):
        self.error = problem
        self._plot.fade()
        self._say(f"{self._subject()}: {_message(problem)}", error=_message(problem))

    def _subject(self):
        states = {param.name: self._state(param) for param in self.spec.params}
        return subject(self.spec.name, states, self.compose)

    def _state(self, param):
        value = self._controls[param.name].value
        return int(value) if param.kind == "int" else value

    def _say(self, text, note="", error="", redraw=False):
        with self.view.hold_sync():
            self.view.alt = text
            self.view.probe = self.probe
            self.view.redraw() if redraw else self.view.draw()
        shown = f"{self._subject()} has no curve; greyed, the last that could be drawn"
        self._digest.value = _paragraph("gradlab-digest", shown if error else text)
        self._note.value = _paragraph("gradlab-note", note)
        self._message.value = _paragraph("gradlab-message", error, role="alert")

    # Parts

    def _make_figure(self):
        self._plot = CurvePlot(_blank(self.spec.x, self._points))
        self.view = FigureView(self._plot.figure, self._plot.animated)
        step = self._params["probe"].step
        self.view.follow(self._plot.above, label="probe", step=step)

    def _make_widget(self):
        self._digest, self._note, self._message, self._device_line = (
            ipywidgets.HTML() for _ in range(4)
        )
        device = devices.choose(self._device)
        self._device_line.value = _paragraph("gradlab-device", f"evaluated on {device}")
        reset = ipywidgets.Button(description="Reset", tooltip="Put every control back")
        reset.on_click(lambda _: self.reset())
        panel = ipywidgets.VBox([*self._controls.values(), reset, self._device_line])
        panel.add_class("gradlab-controls")
        body = ipywidgets.HBox([self.view, panel])
        body.add_class("gradlab-body")
        widget = ipywidgets.VBox([body, self._message, self._note, self._digest])
        widget.add_class("gradlab-explorer")
        return widget


def _spec(op, x, ranges):
    known = op if isinstance(op, OpSpec) else _known(op)
    if known is None:
        spec = op_spec(op, **({} if x is None else {"x": checked_range(x)}), **ranges)
        check_parameters(spec.apply, {param.name: param.default for param in spec.params})
        return spec
    if x is not None:
        known = dataclasses.replace(known, x=checked_range(x))
    return dataclasses.replace(known, params=_with_ranges(known, ranges))


def _known(op):
    """The row of the table for a name or an op of it, or None for a reader's function."""
    if not isinstance(op, str):
        return next((spec for spec in SPECS.values() if spec.op is op), None)
    if op not in SPECS:
        raise ValueError(f"op: got {op!r}; choose one of {', '.join(sorted(SPECS))}")
    return SPECS[op]


def _with_ranges(spec, ranges):
    params = {param.name: param for param in spec.params}
    for name, range_ in ranges.items():
        if name not in params:
            raise TypeError(
                f"{name}: {spec.name} has no such parameter; it takes {', '.join(params) or 'none'}"
            )
        params[name] = param_spec(name, range_, params[name].default)
    return tuple(params.values())


def _losses(compose, spec):
    """All losses by name, and the name of the one to begin with."""
    if compose is None:
        return LOSSES, spec.compose
    if callable(compose):
        name = getattr(compose, "__name__", "your loss")
        return {**LOSSES, name: compose}, name
    if compose not in LOSSES:
        names = ", ".join(repr(name) for name in LOSSES)
        raise ValueError(f"compose: got {compose!r}; choose one of {names}, or give a function")
    return LOSSES, compose


def _own_params(spec, losses, loss, upstream, probe, believed):
    for param in spec.params:
        if param.name in _OWN:
            raise ValueError(
                f"{param.name}: the explorer has a control of this name; call the parameter another"
            )
    low, high = spec.x
    start = min(max(spec.probe, low), high) if probe is None else probe
    params = [
        ParamSpec("compose", loss, kind="choice", choices=tuple(zip(losses, losses, strict=True))),
        ParamSpec("probe", start, low, high, help="where both tangents are drawn"),
        ParamSpec("believed", believed, kind="bool", help="what the optimiser thinks it descends"),
    ]
    if isinstance(upstream, tuple):
        params.append(param_spec("upstream", upstream, 1.0))
    return params


def _composed(loss, apply):
    return lambda x, **parameters: loss(apply(x, **parameters))


def _blank(x, points):
    nothing = np.full(points, np.nan)
    return Curve(np.linspace(*x, points), nothing, nothing, nothing, nothing)


def _remark(line):
    return "" if np.isfinite(line.gradient).any() else "no gradient"


def _message(problem):
    """An exception in a few lines, as a reader needs it."""
    text = " ".join(str(problem).split())
    name = type(problem).__name__
    return f"{name}: {text[:400]}{'…' if len(text) > 400 else ''}" if text else name


def _paragraph(name, text, role=None):
    if not text:
        return ""
    attributes = f' role="{role}"' if role else ""
    return f'<div class="{name}"{attributes}>{html.escape(text)}</div>'
