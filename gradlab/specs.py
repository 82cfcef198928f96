"""What a control, a test and the reference need to know of an op, as frozen data."""

import dataclasses
import inspect
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

LOSSES = {
    "x": lambda y: y,
    "x²/2": lambda y: tf.square(y) / 2,
    "|x|": tf.abs,
    "sin x": tf.sin,
    "quartic": lambda y: tf.square(tf.square(y)) / 4 - tf.square(y) / 2,
}
"""What an op may be composed with, so that an identity forward shows something."""


@dataclasses.dataclass(frozen=True)
class ParamSpec:
    """A parameter that a control can move.

    Attributes:
        name: what the op calls it.
        default: where it starts; a label, for a choice.
        low: the least value, for a number.
        high: the greatest, for a number.
        kind: "float", "int", "bool" or "choice".
        choices: (label, value) pairs, for a choice.
        step: how far one press of an arrow key goes; chosen from the range if None.
        log: whether the slider moves in ratios rather than differences.
        unit: written behind the value.
        help: one line for those who wonder.

    >>> ParamSpec("alpha", 1.0, 0.1, 5.0).step
    0.05

    """

    name: str
    default: Any
    low: float | None = None
    high: float | None = None
    kind: str = "float"
    choices: tuple[tuple[str, Any], ...] = ()
    step: float | None = None
    log: bool = False
    unit: str = ""
    help: str = ""

    def __post_init__(self):
        if self.kind not in ("float", "int", "bool", "choice"):
            raise ValueError(f"kind: got {self.kind!r}; give 'float', 'int', 'bool' or 'choice'")
        if self.is_number:
            self._check_range()
            if self.step is None:
                object.__setattr__(self, "step", _step(self.low, self.high, self.kind))
        labels = [label for label, _ in self.choices]
        twice = next((label for label in labels if labels.count(label) > 1), None)
        if twice is not None:
            raise ValueError(
                f"{self.name}: two choices are called {twice!r}; give {{label: value}} "
                "with a label of its own for each"
            )
        object.__setattr__(self, "default", self.checked(self.default))

    @property
    def is_number(self):
        """Whether it has a range."""
        return self.kind in ("float", "int")

    def checked(self, value):
        """Give the value as this parameter holds it, or raise an error that says what it may be."""
        return getattr(self, f"_checked_{self.kind}")(value)

    def value_of(self, state):
        """What the op is given when the control shows `state`."""
        return dict(self.choices)[state] if self.kind == "choice" else state

    def _check_range(self):
        ends = (self.low, self.high)
        if not all(end is None or math.isfinite(end) for end in ends):
            raise ValueError(
                f"{self.name}: got the range {ends}; a slider needs finite ends, "
                f"such as {self.name}=(0.0, 1.0)"
            )
        if None in ends or not self.low < self.high:
            raise ValueError(
                f"{self.name}: got the range ({self.low}, {self.high}); "
                "the first must lie below the second"
            )
        if self.step is not None and not 0 < self.step <= self.high - self.low:
            raise ValueError(
                f"{self.name}: got the step {self.step}; "
                f"it must lie above 0 and not exceed the range of {self.high - self.low:g}"
            )
        if self.log and self.low <= 0:
            raise ValueError(f"{self.name}: a log slider needs a range above 0, not {self.low}")

    def _checked_float(self, value):
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise TypeError(f"{self.name}: got {value!r}; give a number") from None
        if not self.low <= number <= self.high:
            raise ValueError(
                f"{self.name}: got {value}; it goes from {self.low:g} to {self.high:g}"
            )
        return number

    def _checked_int(self, value):
        number = self._checked_float(value)
        if number != int(number):
            raise ValueError(f"{self.name}: got {value}; give a whole number")
        return int(number)

    def _checked_bool(self, value):
        if value not in (True, False):
            raise TypeError(f"{self.name}: got {value!r}; give True or False")
        return bool(value)

    def _checked_choice(self, value):
        for label, choice in self.choices:
            if value is choice or (_is_plain(value) and _is_plain(choice) and value == choice):
                return label
            if isinstance(value, str) and value == label:
                return label
        labels = ", ".join(repr(label) for label, _ in self.choices)
        raise ValueError(f"{self.name}: got {value!r}; choose one of {labels}")


@dataclasses.dataclass(frozen=True)
class OpSpec:
    """An op as an explorer draws it.

    Attributes:
        name: its public name.
        op: the op itself.
        params: its parameters, in order.
        apply: ``apply(x, **params)``, elementwise on a 1-D x; parameters arrive as tensors.
        x: the range of x.
        compose: the name of one of `LOSSES`.
        forward_formula: the value it returns.
        gradient_formula: what backprop reports, with g for upstream.
        room: the module it lives in.
        probe: where the probe stands at first.

    """

    name: str
    op: Callable | None
    params: tuple[ParamSpec, ...]
    apply: Callable
    x: tuple[float, float] = (-3, 3)
    compose: str = "x"
    forward_formula: str = ""
    gradient_formula: str = ""
    room: str = ""
    probe: float = 1.0

    def __post_init__(self):
        if self.compose not in LOSSES:
            raise ValueError(
                f"compose: got {self.compose!r}; choose one of {', '.join(map(repr, LOSSES))}"
            )


def op_spec(function, x=(-3, 3), **ranges):
    """The `OpSpec` of a reader's own function.

    Args:
        function: of a tensor x and of parameters.
        x: the range of x.
        ranges: for each parameter (lowest, highest), (lowest, highest, step), a list of choices,
            {label: value}, a number, True or False, or a widget with a value. What has a default
            that is a number or a boolean needs no range.

    Raises:
        TypeError: a parameter is missing, unknown, or its range is none of these.

    >>> op_spec(lambda x, alpha: alpha * x, alpha=(0.1, 5.0)).params[0].default
    2.55

    """
    if not callable(function):
        raise TypeError(f"f: got {function!r}; give a function of a tensor x")
    defaults = _defaults(function)
    movable = {name: value for name, value in defaults.items() if _is_number_or_bool(value)}
    params = {**movable, **ranges}
    low, high = x
    return OpSpec(
        name=getattr(function, "__name__", type(function).__name__),
        op=function,
        params=tuple(
            param_spec(name, range_, defaults.get(name)) for name, range_ in params.items()
        ),
        apply=function,
        x=x,
        room=getattr(function, "__module__", ""),
        probe=_on_a_step(low + 2 / 3 * (high - low), low, high),
    )


def choice_spec(name, default, choices, help=""):
    """The `ParamSpec` of a choice among names.

    >>> choice_spec("clip", "norm", ["none", "norm"]).checked("none")
    'none'
    """
    pairs = tuple((choice, choice) for choice in choices)
    return ParamSpec(name, default, kind="choice", choices=pairs, help=help)


def point_specs(name, point, xs, ys, help=""):
    """The two `ParamSpec`s of a point in the plane, or of a vector: its x and its y.

    >>> [spec.name for spec in point_specs("start", (1, 2), (-3.0, 3.0), (0.0, 5.0))]
    ['start_x', 'start_y']
    """
    try:
        x, y = point
    except (TypeError, ValueError):
        raise TypeError(f"{name}: got {point!r}; give x and y, such as (1.0, 2.0)") from None
    return tuple(
        ParamSpec(f"{name}_{axis}", value, *ends, help=help)
        for axis, value, ends in (("x", x, xs), ("y", y, ys))
    )


def param_spec(name, abbreviation, default=None):
    """A `ParamSpec` from what `ipywidgets.interact` would take for a parameter.

    >>> param_spec("alpha", (0.0, 2.0, 0.5)).step
    0.5
    >>> param_spec("mode", ["down", "up"]).default
    'down'
    """
    if isinstance(abbreviation, ParamSpec):
        return abbreviation
    for matches, make in _ABBREVIATIONS:
        if matches(abbreviation):
            return make(name, abbreviation, default)
    raise TypeError(
        f"{name}: got {abbreviation!r}; give (lowest, highest), (lowest, highest, step), "
        "a list of choices, {label: value}, a number, True or False"
    )


def _from_bool(name, value, default):
    return ParamSpec(name, value, kind="bool")


def _from_number(name, value, default):
    value = _as_python(value)
    if not math.isfinite(value):
        raise ValueError(
            f"{name}: starts at {value}, which gives no range; say one, such as {name}=(0.0, 1.0)"
        )
    if value == 0:
        return _from_range(name, (value, type(value)(1)), value)
    ends = sorted((-value, 3 * value))
    return _from_range(name, tuple(ends), value)


def _from_range(name, ends, default):
    low, high, *step = ends = [_as_python(end) for end in ends]
    kind = "int" if all(isinstance(end, int) for end in ends) else "float"
    if not _is_number(default) or not low <= default <= high:
        default = (low + high) // 2 if kind == "int" else round((low + high) / 2, 12)
    elif isinstance(default, float) and default != int(default):
        kind = "float"
    return ParamSpec(name, default, low, high, kind, step=step[0] if step else None)


def _from_mapping(name, choices, default):
    return _from_choices(
        name, tuple((str(label), value) for label, value in choices.items()), default
    )


def _from_list(name, choices, default):
    return _from_choices(name, tuple((_label(value), value) for value in choices), default)


def _from_choices(name, pairs, default):
    if not pairs:
        raise ValueError(f"{name}: got no choices; give at least one")
    first = next((label for label, value in pairs if value is default), pairs[0][0])
    return ParamSpec(name, first, kind="choice", choices=pairs)


def _from_widget(name, widget, default):
    if hasattr(widget, "options"):
        pairs = zip(widget._options_labels, widget._options_values, strict=True)
        return _from_choices(name, tuple(pairs), widget.value)
    if hasattr(widget, "min") and hasattr(widget, "max"):
        spec = _from_range(name, (widget.min, widget.max), widget.value)
        return dataclasses.replace(spec, step=getattr(widget, "step", None))
    return param_spec(name, widget.value)


def _is_plain(value):
    return isinstance(value, str | int | float)


def _is_bool(value):
    return isinstance(value, bool)


def _is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _as_python(number):
    """A number of NumPy as one of Python."""
    return number.item() if hasattr(number, "item") else number


def _is_number_or_bool(value):
    return isinstance(value, int | float)


def _is_range(value):
    return isinstance(value, tuple) and len(value) in (2, 3) and all(map(_is_number, value))


def _is_sequence(value):
    return isinstance(value, Sequence) and not isinstance(value, str)


_ABBREVIATIONS = (
    (_is_bool, _from_bool),
    (_is_number, _from_number),
    (_is_range, _from_range),
    (lambda value: isinstance(value, Mapping), _from_mapping),
    (_is_sequence, _from_list),
    (lambda value: hasattr(value, "value") and hasattr(value, "observe"), _from_widget),
)


def _label(value):
    return value if isinstance(value, str) else getattr(value, "__name__", str(value))


def _defaults(function):
    """The defaults of all parameters but the first."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[1:]
    except (TypeError, ValueError):  # some built-in functions have no signature
        return {}
    return {each.name: each.default for each in parameters if each.default is not each.empty}


def _on_a_step(value, low, high):
    """A value near by that is as round as the steps of its range."""
    step = _step(low, high, "float")
    return min(max(round(round(value / step) * step, 12), low), high)


def _step(low, high, kind):
    """About a hundredth of the range: 1, 2 or 5 times a power of ten."""
    raw = (high - low) / 100
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(size for size in (1, 2, 5, 10) if size * power >= raw * 0.999) * power
    return max(1, round(step)) if kind == "int" else round(step, 15)
