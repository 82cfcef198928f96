"""A function's ops as a diagram: what flows through them, as their gradients are overridden."""

import re

import numpy as np
import tensorflow as tf
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Patch

from gradlab.curves import Evaluator, checked_range
from gradlab.flows import Flows
from gradlab.ops.rectifiers import deconv_rule, guided_rule
from gradlab.plots import LEGEND, PINNED, PROBE, STYLES, Plot, tidy
from gradlab.specs import ParamSpec
from gradlab.widgets.base import Explorer
from gradlab.widgets.code import call_with
from gradlab.widgets.digest import number

_OFF = "own"  # the choice of no rule, for a type of op that has several
_POINTS = 301


def explore_override(f=None, rules=None, x=(-3, 3), probe=None, presets=None, **start):
    """Show a function op by op, with values forward and gradients back, as rules go on and off.

    Args:
        f: your own function of one number, a scalar tensor, in TensorFlow's ops, that returns one
            number. None for sin(max(x, 0)²).
        rules: as for `override_gradient`, such as {"Relu": gl.guided_rule}: a switch for each
            type of op. A type with several, as {"Relu": [gl.guided_rule, gl.deconv_rule]} or
            {"Relu": {"guided": gl.guided_rule}}, has a list to choose from.
        x: the lowest and the highest x.
        probe: the x that flows through the diagram.
        presets: settings by name, such as {"off": {"Relu": False}}: a button for each.
        start: for each type whether its rule is on at first, as Square=False, or, of several,
            which: Relu="deconv", or "own" for none. If you don't say, all are on.

    Returns:
        An `OverrideExplorer`; a notebook shows it. Each op is a box, hatched where it has another
        gradient than its own; on each arrow stands the value that goes forward, and below it the
        gradient that comes back.

    Raises:
        TypeError, ValueError: naming the argument that is wrong, such as a rule for a type of op
            that f doesn't have.

    >>> explore_override(Square=False, probe=1.5)
    sin_of_square, Relu by guided, at x = 1.5: forward 0.778, gradient 0, slope -1.88;
    back from 1: Sin -0.628, Square -1.88, Relu (overridden) 0

    """
    given = {"f": f, "rules": rules, "x": x, "probe": probe, "presets": presets}
    code = call_with("gl.explore_override", explore_override, given, **start)
    if f is None and rules is None:
        rules = {"Relu": {"guided": guided_rule, "deconv": deconv_rule}, "Square": clipped}
    f = sin_of_square if f is None else f
    rules = {} if rules is None else rules
    return OverrideExplorer(f, rules, x, probe, presets, start, code)


def sin_of_square(x):
    """What `explore_override` shows if it is given nothing else."""
    return tf.sin(tf.square(tf.nn.relu(x)))


def clipped(op, upstream):
    """The gradient of a square, clipped to -1 … 1."""
    return tf.clip_by_value(2.0 * op.inputs[0] * upstream, -1.0, 1.0)


class OverrideExplorer(Explorer):
    """A function's ops as a diagram, and a control for the rules of each type of op.

    An `Explorer` that also gives the `flow` that the diagram shows, and the `curve` below it.
    """

    def __init__(self, f, rules, x, probe, presets, start, code):
        self._f_name = _name(f)
        self._flows, self._rules = Flows(f), _by_name(rules)
        self._check(self._rules)
        self._low, self._high = checked_range(x)
        self._evaluators = {}
        params = [*_switches(self._rules, start), self._probe(probe)]
        plot = OverridePlot(self._flows(self._low).ops, (self._low, self._high))
        super().__init__(f"explore_override of {_name(f)}", params, plot, presets, code)
        self._let_drag(plot.below, "probe")

    @property
    def flow(self):
        """The `Flow` that the diagram shows: the last that could be evaluated."""
        return self._plot.flow

    @property
    def curve(self):
        """The `Curve` below the diagram."""
        return self._plot.curve

    def _check(self, rules):
        for place in range(max(map(len, rules.values()), default=0)):
            nth = {t: [*named.values()][place % len(named)] for t, named in rules.items()}
            self._flows.check(nth)

    def _probe(self, at):
        low, high = self._low, self._high
        at = low + 3 / 4 * (high - low) if at is None else at
        return ParamSpec("probe", at, low, high, help="the x that flows through the ops")

    def _chosen(self, states):
        """For each type of op whose rule is on, what that is called."""
        return {
            op_type: next(iter(named)) if states[op_type] is True else states[op_type]
            for op_type, named in self._rules.items()
            if states[op_type] not in (False, _OFF)
        }

    def _evaluate(self, values):
        chosen = self._chosen(values)
        rules = {op_type: self._rules[op_type][name] for op_type, name in chosen.items()}
        line, point = self._evaluator(rules).at(values["probe"])
        return chosen, self._flows(values["probe"], rules), line, point

    def _evaluator(self, rules):
        key = tuple((op_type, id(rule)) for op_type, rule in rules.items())
        if key not in self._evaluators:
            x = self._low, self._high
            self._evaluators[key] = Evaluator(self._flows.under(rules), x, _POINTS)
        return self._evaluators[key]

    def _show(self, values, found):
        return self._plot.update(*found)

    def _digest(self, states, found):
        _, flow, line, point = found
        rates = np.abs([*line.gradient, *line.slope])
        scale = np.median(rates[np.isfinite(rates)]) if np.isfinite(rates).any() else 0.0
        here = ", ".join(
            f"{name} {number(getattr(point, name), scale)}"
            for name in ("forward", "gradient", "slope")
        )
        return f"{self._subject(states)}, at x = {number(point.x)}: {here};\n{_back(flow)}"

    def _pin(self, found):
        _, _, line, _ = found
        self._plot.pin(line)

    def _subject(self, states):
        on = [f"{op_type} by {name}" for op_type, name in self._chosen(states).items()]
        return f"{self._f_name}, {', '.join(on) or 'nothing overridden'}"


def _by_name(rules):
    """For each type of op its rules by name."""
    if not isinstance(rules, dict):
        raise TypeError(f"rules: got {rules!r}; give a dict such as {{'Relu': gl.guided_rule}}")
    return {op_type: _named(op_type, given) for op_type, given in rules.items()}


def _named(op_type, given):
    if not isinstance(given, dict | list | tuple):
        return {_name(given): given}
    named = given if isinstance(given, dict) else {_name(rule): rule for rule in given}
    if len(named) < len(given) or not named or _OFF in named:
        raise ValueError(
            f"rules: got {given!r} for {op_type}; give at least one rule, each with another "
            f"name than the others, and than {_OFF!r}"
        )
    return {str(name): rule for name, rule in named.items()}


def _name(function):
    own = getattr(function, "__name__", type(function).__name__)
    return function if isinstance(function, str) else own


def _switches(rules, start):
    for op_type in start:
        if op_type not in rules:
            known = ", ".join(rules) or "none"
            raise TypeError(f"{op_type}: there is no rule for this type of op; rules has {known}")
    return [_switch(op_type, named, start) for op_type, named in rules.items()]


def _switch(op_type, named, start):
    first, *others = named
    if not others:
        help_ = f"whether {first} is in place of the op's own gradient"
        return ParamSpec(op_type, start.get(op_type, True), kind="bool", help=help_)
    return ParamSpec(
        op_type,
        start.get(op_type, first),
        kind="choice",
        choices=tuple((name, name) for name in (_OFF, *named)),
        help="which gradient the op has",
    )


def _back(flow):
    """What leaves each op on the way back, in words."""
    return "back from 1: " + ", ".join(
        f"{op.type}{' (overridden)' if op.overridden else ''} "
        f"{' and '.join(_text(gradient) for gradient in gradients)}"
        for op, gradients in zip(reversed(flow.ops), reversed(flow.gradients), strict=True)
    )


def _text(value):
    """A value or a gradient in a few characters; of a vector, what fits, or its length."""
    if value is None:
        return "none"
    entries = [number(each, np.abs(value).max()) for each in np.ravel(value)]
    text = ", ".join(entries)
    return text if len(text) < 10 else f"‖{number(np.linalg.norm(value))}‖"


# The diagram, in inches: boxes in columns and rows, columns wrapped into lines

_WIDE = 7.0
_ONE_LINE, _WRAPPED = 6, 5  # columns: of a diagram of one line, and of a line of several
_MARGIN = 0.3  # where arrows go from the end of a line to the beginning of the next
_ROW = 0.92
_BOX = 0.42  # high
_NUMBERS = np.array([0.5, 0.38])  # wide and high, the value above an edge and the gradient below
_SHARES = (
    0.5,
    0.42,
    0.65,
    0.58,
    0.35,
    0.75,
    0.25,
    0.85,
    0.15,
)  # of an edge, the best place for numbers first
_APART = 0.045  # from the middle of an edge to the arrow forward, and to the arrow back


class Layout:
    """Where boxes and arrows go: x first, then each op behind what it takes, f(x) last.

    Nodes are places in the list of ops; -1 is x, and one more than the last is f(x).

    Args:
        ops: each an `Op` of a `Flow`.

    Attributes:
        edges: (source, op, which of its inputs) for each arrow; the last leads to f(x).
        height: in inches.

    >>> from gradlab.flows import Op
    >>> layout = Layout([Op("Relu", (-1,), ()), Op("Square", (0,), ())])
    >>> layout.edges, [f"{layout.places[node][0]:.2f}" for node in (-1, 0, 1, 2)]
    ([(-1, 0, 0), (0, 1, 0), (1, 2, 0)], ['0.88', '2.62', '4.38', '6.12'])

    """

    def __init__(self, ops):
        self.edges = [(s, i, k) for i, op in enumerate(ops) for k, s in enumerate(op.sources)]
        self.edges.append((len(ops) - 1, len(ops), 0))
        self._columns = _columns(self.edges)
        # An edge past a column takes a row of it, so that it doesn't cross a box.
        self._paths = {edge: self._path(edge) for edge in self.edges}
        rows = _rows(self._columns, self._paths.values())
        n = 1 + max(self._columns.values())
        self._per_line = n if n <= _ONE_LINE else _WRAPPED
        self._margin = 0 if n <= _ONE_LINE else _MARGIN
        self.pitch = (_WIDE - 2 * self._margin) / self._per_line
        self.box = min(0.95, 0.52 * self.pitch), _BOX
        self._place(rows)
        self._numbers = {}
        self._put_numbers()

    def line(self, edge):
        """The points that an edge goes through, and the point at which its numbers stand."""
        return self._points(edge), self._numbers[edge]

    def _points(self, edge):
        path = self._paths[edge]
        points = [self._beside(path[0], 1)]
        for one, other in zip(path, path[1:], strict=False):
            points += self._turn(one, other) + [self._beside(other, -1)]
            if other != path[-1]:
                points.append(self._beside(other, 1))
        return np.array(points)

    def is_level(self, edge):
        """Whether an edge runs straight from left to right, so that nothing lies on its numbers."""
        points, _ = self.line(edge)
        return len(points) == 2 and points[0][1] == points[1][1]

    def _put_numbers(self):
        """For each edge a point of it that is away from the numbers of other edges."""
        for edge in sorted(self.edges, key=lambda edge: -len(self._paths[edge])):
            points = self._points(edge)  # the longest first: they have the fewest places
            passed = self._paths[edge][1:-1]
            if passed:  # there it has a row to itself
                places = [self.places[node] for node in passed]
            else:
                places = [points[0] + share * (points[1] - points[0]) for share in _SHARES]
            self._numbers[edge] = max(places, key=self._room)

    def _room(self, place):
        """How far a point is from the numbers placed so far; 1 if none overlaps."""
        apart = [np.abs(place - other) / _NUMBERS for other in self._numbers.values()]
        return min([1.0, *(max(both) for both in apart)])

    def _path(self, edge):
        source, op, _ = edge
        between = range(self._columns[source] + 1, self._columns[op])
        for column in between:
            self._columns[edge, column] = column
        return [source, *((edge, column) for column in between), op]

    def _place(self, rows):
        n_lines = 1 + max(self._columns.values()) // self._per_line
        reach = [0.5] * n_lines
        for node, column in self._columns.items():
            line = column // self._per_line
            reach[line] = max(reach[line], abs(rows[node]) + 0.5)
        self.height = 2 * _ROW * sum(reach)
        tops = self.height - 2 * _ROW * np.cumsum([0, *reach])
        self._tops = tops
        self.places = {
            node: np.array(
                [
                    self._margin + (column % self._per_line + 0.5) * self.pitch,
                    (tops[column // self._per_line] + tops[column // self._per_line + 1]) / 2
                    - _ROW * rows[node],
                ]
            )
            for node, column in self._columns.items()
        }

    def _beside(self, node, side):
        return self.places[node] + [side * (self.box[0] / 2 + 0.02), 0]

    def _turn(self, one, other):
        """The corners on the way from the end of a line to the beginning of the next."""
        line = self._columns[other] // self._per_line
        if self._columns[one] // self._per_line == line:
            return []
        left, right, middle = 0.06, _WIDE - 0.06, self._tops[line]
        before, behind = self.places[one][1], self.places[other][1]
        return [(right, before), (right, middle), (left, middle), (left, behind)]


def _columns(edges):
    columns = {-1: 0}
    for source, op, _ in edges:
        columns[op] = max(columns.get(op, 0), columns[source] + 1)
    return columns


def _rows(columns, paths):
    """The row of each node, 0 in the middle: near those it comes from."""
    before = {}
    for path in paths:
        for one, other in zip(path, path[1:], strict=False):
            before.setdefault(other, []).append(one)
    rows = {-1: 0.0}
    for column in range(1, 1 + max(columns.values())):
        nodes = [node for node, its in columns.items() if its == column]
        nodes.sort(key=lambda node: np.mean([rows[each] for each in before[node]]))
        rows |= {node: row - (len(nodes) - 1) / 2 for row, node in enumerate(nodes)}
    return rows


_PLAIN = {"facecolor": "#F2F2F2", "edgecolor": "#555555", "linewidth": 1.2, "hatch": None}
_HATCHED = {"facecolor": "#FFFFFF", "edgecolor": "#D55E00", "linewidth": 1.8, "hatch": "///"}
_PAPER = {"facecolor": "#FFFFFF", "edgecolor": "none", "pad": 0.8}
_CURVES = 2.2  # inches


class OverridePlot(Plot):
    """A diagram of ops above, and below it gradient and slope over x.

    Args:
        ops: each an `Op` of a `Flow`.
        x: the lowest and the highest x.

    """

    def __init__(self, ops, x):
        self.flow = self.curve = self._chosen = None
        self._layout = Layout(ops)
        height = self._layout.height + 0.35
        super().__init__(7.2, height + _CURVES)
        self.above, self.below = self.figure.subplots(2, 1, height_ratios=[height, _CURVES])
        self._make_diagram(ops)
        self._make_curves(x)

    @property
    def animated(self):
        """The artists that move without a redraw."""
        numbers = [text for pair in self._numbers.values() for text in pair]
        lines = [self._pinned, *self._lines.values()]
        return [*numbers, self._total, self._vertical, *lines, *self._marks.values()]

    def update(self, chosen, flow, curve, point):
        """Show a flow, and its x on a curve; return whether more than `animated` changed."""
        changed = chosen != self._chosen
        self._chosen, self.flow, self.curve = chosen, flow, curve
        if changed:
            self._mark_boxes(chosen)
        self._write_numbers()
        self._set_opacity(1.0)
        return self._move_curves(point) or changed

    def pin(self, curve):
        """Keep a gradient behind those of other rules."""
        self._pinned.set_data(
            curve.x, np.where(np.isfinite(curve.gradient), curve.gradient, np.nan)
        )
        self._show_pinned(True)

    def unpin(self):
        """Let go of the pinned gradient."""
        self._show_pinned(False)

    def _show_pinned(self, wanted):
        self._pinned.set_visible(wanted)
        lines = [line for line in (*self._lines.values(), self._pinned) if line.get_visible()]
        self.below.legend(handles=lines, ncols=len(lines), **LEGEND)

    def _make_diagram(self, ops):
        axes, layout = self.above, self._layout
        axes.set(xlim=(0, _WIDE), ylim=(0, layout.height))
        axes.axis("off")
        self._numbers = {edge: self._make_edge(edge) for edge in layout.edges}
        self._boxes = [self._make_box(i, op) for i, op in enumerate(ops)]
        for node, name in ((-1, "x"), (len(ops), "f(x)")):
            axes.text(*layout.places[node], name, ha="center", va="center", style="italic", size=12)
        x, y = layout.places[-1]
        self._total = axes.text(x, y - 0.2, "", ha="center", va="top", size=8.5, **_INK["gradient"])
        entries = {
            "value, forward": Line2D([], [], marker=">", **_ARROW["forward"]),
            "gradient, back": Line2D([], [], marker="<", **_ARROW["gradient"]),
            "overridden": Patch(**_HATCHED),
        }
        axes.legend(entries.values(), entries.keys(), ncols=3, **LEGEND)

    def _make_edge(self, edge):
        points, middle = self._layout.line(edge)
        for name, side, marker, end in (("forward", 1, ">", -1), ("gradient", -1, "<", 0)):
            shifted = points + [0, side * _APART]
            self.above.plot(*shifted.T, **_ARROW[name])
            self.above.plot(*shifted[end], marker=marker, markersize=4.5, **_ARROW[name])
        paper = None if self._layout.is_level(edge) else _PAPER
        return [
            self.above.text(
                *(middle + [0, 1.6 * side * _APART]),
                "", ha="center", va=va, size=8.5, bbox=paper, **_INK[name],
            )
            for name, side, va in (("forward", 1, "bottom"), ("gradient", -1, "top"))
        ]  # fmt: skip

    def _make_box(self, i, op):
        (x, y), (width, height) = self._layout.places[i], self._layout.box
        style = "round,pad=0,rounding_size=0.06"
        box = FancyBboxPatch((x - width / 2, y - height / 2), width, height, style, **_PLAIN)
        self.above.add_patch(box)
        words = _in_lines(op.type)
        longest = max(map(len, words.split("\n")))
        size = min(9.5, 72 * width / (0.66 * longest))
        text = self.above.text(x, y, words, ha="center", va="center", size=size, linespacing=0.95)
        rule = self.above.text(
            x,
            y - height / 2 - 0.04,
            "",
            ha="center",
            va="top",
            size=8,
            **_INK["gradient"],
            parse_math=False,  # a reader's name may have a $ in it
        )
        return box, text, rule

    def _mark_boxes(self, chosen):
        for op, (box, text, rule) in zip(self.flow.ops, self._boxes, strict=True):
            box.set(**_HATCHED if op.overridden else _PLAIN)
            text.set_bbox(_PAPER if op.overridden else None)
            rule.set_text(_short(", ".join(chosen.get(each, each) for each in op.overridden)))

    def _write_numbers(self):
        flow = self.flow
        for source, op, which in self._layout.edges:
            value = flow.x if source == -1 else flow.values[source]
            gradient = flow.gradients[op][which] if op < len(flow.ops) else np.float32(1)
            forward, back = self._numbers[source, op, which]
            forward.set_text(_text(np.float32(value)))
            back.set_text(_text(gradient))
        several = sum(source == -1 for source, *_ in self._layout.edges) > 1
        self._total.set_visible(several)
        self._total.set_text(f"sum {_text(flow.gradient)}" if several else "")

    def _make_curves(self, x):
        axes = self.below
        axes.set(xlim=x, xlabel="x", ylabel="gradient")
        tidy(axes)
        axes.axhline(0, color="#999999", linewidth=0.8)
        self._vertical = axes.axvline(0, **PROBE)
        labels = {"slope": "slope (the truth)", "gradient": "gradient (backprop)"}
        self._lines = {
            name: axes.plot([], [], label=label, **STYLES[name])[0]
            for name, label in labels.items()
        }
        self._marks = {
            name: axes.plot([], [], "o", ms=6, color=STYLES[name]["color"])[0] for name in labels
        }
        (self._pinned,) = axes.plot([], [], label="pinned", **PINNED)
        self._show_pinned(False)
        axes.set_ylim(-1e-9, 1e-9)  # until there is a curve

    def _move_curves(self, point):
        self._vertical.set_xdata([point.x, point.x])
        for name, line in self._lines.items():
            values = getattr(self.curve, name)
            line.set_data(self.curve.x, np.where(np.isfinite(values), values, np.nan))
            self._marks[name].set_data([point.x], [getattr(point, name)])
        return self._widen()

    def _widen(self):
        """Widen the limits until the curves fit; return whether they had to be."""
        values = np.concatenate([line.get_ydata() for line in self._lines.values()])
        values = values[np.isfinite(values)]
        if not values.size:
            return False
        most = 6 * np.percentile(np.abs(values), 90) or 1.0  # a pole goes out of sight
        low, high = np.clip([values.min(), values.max()], -most, most)
        bottom, top = self.below.get_ylim()
        if bottom <= low and high <= top:
            return False
        room = 0.07 * (max(high, top, 0) - min(low, bottom, 0)) or 1.0
        self.below.set_ylim(min(bottom, low - room), max(top, high + room))
        return True


_ARROW = {
    name: {"color": STYLES[name]["color"], "linestyle": style, "linewidth": 1.2}
    for name, style in (("forward", "-"), ("gradient", (0, (4, 1.5))))
}
_INK = {name: {"color": STYLES[name]["color"], "weight": "bold"} for name in _ARROW}


def _in_lines(op_type):
    """A type in lines of words, if it is long."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "\n", op_type) if len(op_type) > 8 else op_type


def _short(name, most=16):
    return name if len(name) <= most else f"{name[: most - 1]}…"
