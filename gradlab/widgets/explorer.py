"""Controls -> `Curve` -> plot -> digest: a figure that answers its sliders."""

import contextlib
import dataclasses
import functools
import threading

import numpy as np

from gradlab import devices
from gradlab.curves import Curve, Evaluator, check_parameters, checked_range, checked_upstream
from gradlab.plots import CurvePlot
from gradlab.registry import SPECS
from gradlab.specs import LOSSES, OpSpec, ParamSpec, op_spec, param_spec
from gradlab.widgets.base import Explorer, line_of_text
from gradlab.widgets.code import call_with, written_as
from gradlab.widgets.digest import digest, subject

_OWN = ("compose", "upstream", "probe", "believed")  # names that the explorer's own controls have
_PATIENCE = 0.5  # seconds for the curves at the ends of all ranges


def explore(
    op,
    compose=None,
    x=None,
    upstream=1.0,
    probe=None,
    believed=False,
    points=401,
    device=None,
    presets=None,
    **ranges,
):
    """Show an op or a function with its gradient, its true slope, and a slider for each parameter.

    Args:
        op: an op of gradlab, its name in `SPECS`, or your own function of a 1-D tensor x.
        compose: what is applied to its value: "x", "x²/2", "|x|", "sin x", "quartic", your own
            function, or {name: function} to choose among several of your own. An op whose forward
            is x shows little until a loss follows it.
        x: the lowest and the highest x.
        upstream: the gradient arriving from the loss: a number, or (lowest, highest) for a slider.
        probe: the x at which both tangents are drawn.
        believed: whether to draw what the optimiser thinks it is descending.
        points: how many points.
        device: None for the best there is, or "cpu", "gpu", "/GPU:1".
        presets: settings by name, such as {"steep": {"alpha": 5.0}}: a button for each.
        ranges: for each parameter what `ipywidgets.interact` takes: (lowest, highest),
            (lowest, highest, step), a list of choices, {label: value}, a number, True or False.

    Returns:
        A `CurveExplorer`; a notebook shows it. What your function reads from outside (a global,
        say) keeps the value it had when it was drawn first; `reset()` reads it anew.

    Raises:
        TypeError, ValueError: naming the argument that is wrong. What your function itself
            raises is shown beside the figure instead.

    >>> explore(lambda x, alpha: alpha * x**2, alpha=(0.0, 2.0), probe=1).set(alpha=0.5)
    <lambda>(alpha=0.5) at x = 1: forward 0.5, gradient 1, slope 1;
    gradient and slope agree on -3…3

    """
    spec = _spec(op, x, ranges)
    given = {
        "compose": compose,
        "upstream": upstream,
        "probe": probe,
        "believed": believed,
        "points": points,
        "device": device,
        "presets": presets,
    }
    return CurveExplorer(spec, **given, code=_code_of(op, spec, {"x": x, **given}, ranges))


class CurveExplorer(Explorer):
    """The curves of an op or a function, and a control for each of its parameters.

    An `Explorer` that also gives the `curve` shown, and what it was evaluated with.
    """

    def __init__(
        self,
        spec,
        compose=None,
        upstream=1.0,
        probe=None,
        believed=False,
        points=401,
        device=None,
        presets=None,
        code="",
    ):
        self.spec = spec
        self._losses, loss = _losses(compose, spec)
        self._points, self._device = points, device
        self._evaluators = {}
        self._limits_for = None
        own = _own_params(spec, tuple(self._losses), loss, upstream, probe, believed)
        self._upstream = None if isinstance(upstream, tuple) else checked_upstream(upstream)
        self._evaluator(loss)  # says what is wrong with x, points or device
        plot = CurvePlot(_blank(spec.x, points))
        super().__init__(spec.name, (*spec.params, *own), plot, presets, code)
        self._let_drag(plot.above, "probe")

    def reset(self):
        """Put everything back to where it was at first, limits included; read globals anew."""
        self._limits_for = None
        self._evaluators = {}
        return super().reset()

    @property
    def parameters(self):
        """What the function is given, by name."""
        values = super().parameters
        return {param.name: values[param.name] for param in self.spec.params}

    @property
    def curve(self):
        """The `Curve` shown: the last one that could be evaluated."""
        return self._plot.curve

    @property
    def compose(self):
        """The name of the loss applied to the op's value."""
        return self._state(self._params["compose"])

    @property
    def upstream(self):
        """The gradient arriving from the loss."""
        return self._upstream_of(self._states())

    @property
    def probe(self):
        """The x at which both tangents are drawn."""
        return self._state(self._params["probe"])

    @probe.setter
    def probe(self, x):
        self.set(probe=x)

    def _upstream_of(self, values):
        return values.get("upstream", self._upstream)

    def _evaluate(self, values):
        evaluator = self._evaluator(values["compose"])
        parameters = {param.name: values[param.name] for param in self.spec.params}
        evaluate = functools.partial(evaluator.at, values["probe"], self._upstream_of(values))
        line, point = evaluate(**parameters)
        anew = self._limits_for != values["compose"]
        return line, point, self._at_the_ends(evaluate, parameters) if anew else ()

    def _evaluator(self, compose):
        if compose not in self._evaluators:
            self._evaluators[compose] = Evaluator(
                _composed(self._losses[compose], self.spec),
                self.spec.x,
                self._points,
                self._device,
            )
        return self._evaluators[compose]

    def _at_the_ends(self, evaluate, parameters):
        """Curves with one parameter at an end of its range: what limits should have room for.

        Those that are there in time: a function may take minutes for a value that nobody chose.
        """
        curves, give_up = [], threading.Event()

        def look():
            for param in self.spec.params:
                for end in (param.low, param.high):
                    if end is None or give_up.is_set():
                        continue
                    with contextlib.suppress(Exception):
                        curves.append(evaluate(**{**parameters, param.name: end})[0])

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        thread.join(_PATIENCE)
        give_up.set()
        return tuple(curves)

    def _show(self, values, found):
        line, point, others = found
        changed = self._plot.believed != values["believed"]
        self._plot.believed = values["believed"]
        if self._limits_for != values["compose"]:
            self._limits_for = values["compose"]
            self._plot.fit(line, [*others, *self._plot.pinned])
            changed = True
        elif not self._plot.fits(line):
            self._plot.widen(line)
            changed = True
        self._plot.update(line, point, remark=_remark(line))
        return changed

    def _digest(self, states, found):
        line, point, _ = found
        return digest(self._subject(states), line, point)

    def _notes(self, found):
        return "; ".join(found[0].notes)

    def _pin(self, found):
        self._plot.pin(found[0])

    def _subject(self, states):
        of_op = {param.name: states[param.name] for param in self.spec.params}
        return subject(self.name, of_op, states["compose"])

    def _below_controls(self):
        device = devices.choose(self._device)
        return [
            *super()._below_controls(),
            line_of_text("gradlab-device", f"evaluated on {device}"),
        ]


def _code_of(op, spec, given, ranges):
    """The call of `explore`: an op of the table goes by its name there."""
    row = SPECS.get(spec.name)
    written = repr(spec.name) if row and row.op is spec.op else written_as(op)
    return call_with("gl.explore", explore, given, written, **ranges)


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
    own = {getattr(compose, "__name__", "your loss"): compose} if callable(compose) else compose
    if isinstance(own, dict) and own and all(map(callable, own.values())):
        return {**LOSSES, **own}, next(iter(own))
    if not isinstance(compose, str) or compose not in LOSSES:
        names = ", ".join(repr(name) for name in LOSSES)
        raise ValueError(
            f"compose: got {compose!r}; choose one of {names}, or give a function or "
            "{name: function}"
        )
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


def _composed(loss, spec):
    def composed(x, **parameters):
        return loss(spec.apply(x, **parameters))

    composed.__name__ = spec.name  # by which errors call it
    return composed


def _blank(x, points):
    nothing = np.full(points, np.nan)
    return Curve(np.linspace(*x, points), nothing, nothing, nothing, nothing)


def _remark(line):
    return "" if np.isfinite(line.gradient).any() else "no gradient"
