"""What all explorers share: controls, a figure that answers them, a digest, and what went wrong."""

import base64
import functools
import html

import ipywidgets

from gradlab.widgets.code import CodeBox, call
from gradlab.widgets.controls import control_for
from gradlab.widgets.digest import subject
from gradlab.widgets.figure_view import FigureView
from gradlab.widgets.newest import PATIENCE, Newest


class Explorer:
    """A figure and its controls: what `explore` returns.

    `set` does from code what the controls do; `digest`, `figure` and `parameters` give what is
    shown; `error` what was raised, if it was; `widget` goes into a layout of your own.

    Args:
        name: what it shows.
        params: the `ParamSpec` of each control, in order.
        plot: a `Plot`. If it has ``pin(found)`` and ``unpin()``, an earlier setting can be kept
            beside the present.
        presets: settings by name, such as ``{"steep": {"alpha": 5.0}}``: a button for each.
        code: the call that makes it.

    A kind of explorer adds, beside what it has of its own:

    - ``_evaluate(values)``: what to show for the controls' values, by name. It may raise, and take
      its time; since it may run in a thread, it touches neither artists nor controls.
    - ``_show(values, found)``: moves the artists; returns whether others than ``animated`` changed.
    - ``_digest(states, found)``: one or two lines, the same on every machine. States are values
      but for choices, which go by their labels.
    - ``_notes(found)``: remarks below the figure, if there are any.
    """

    def __init__(self, name, params, plot, presets, code):
        self.name = name
        self.error = None
        self.pinned = None
        self._plot = plot
        self._made_by = code
        self._held = False
        self._dragged = ()
        self._found = None  # the subject of what is shown, and what was found for it
        self._stale = False  # whether artists that don't move have changed
        self._params = {param.name: param for param in params}
        self._presets = self._checked_presets(presets or {})
        self._controls = {param.name: control_for(param) for param in params}
        self.view = FigureView(plot.figure, plot.animated, narrowest=plot.narrowest)
        self._newest = Newest(self._attempt, self._finish, self._wait, self.view.lock)
        self.widget = self._make_widget()
        for control in self._controls.values():
            control.observe(self._on_change, "value")
        self._newest.now(self._states())

    def set(self, **values):
        """Set what the controls set, by name, as they would.

        Returns:
            The explorer itself.

        Raises:
            TypeError, ValueError: naming what is unknown or out of its range; nothing is changed.

        """
        self._put({name: self._param(name).checked(value) for name, value in values.items()})
        self._newest.now(self._states())
        return self

    def reset(self):
        """Put every control back to where it was at first, and let go of what is pinned."""
        self.unpin()
        return self.set(**{name: param.default for name, param in self._params.items()})

    def apply_preset(self, name):
        """Set what a preset sets; all else goes back to where it was at first."""
        if name not in self._presets:
            known = ", ".join(map(repr, self._presets)) or "none"
            raise ValueError(f"name: got {name!r}; the presets are {known}")
        first = {name: param.default for name, param in self._params.items()}
        return self.set(**first | self._presets[name])

    def pin(self):
        """Keep what is shown beside what the controls will show, for comparison."""
        if self._found is None:
            raise ValueError("there is nothing to pin yet: no setting could be drawn")
        self.pinned, found = self._found
        with self.view.lock:
            self._pin(found)
        return self._after_pinning("Unpin")

    def unpin(self):
        """Let go of what was pinned."""
        if self.pinned is None:
            return self
        self.pinned = None
        with self.view.lock:
            self._plot.unpin()
        return self._after_pinning("Pin")

    @property
    def code(self):
        """The code that reproduces what is shown."""
        states = {
            name: state
            for name, state in self._states().items()
            if state != self._params[name].default
        }
        setting = f".{call('set', **states)}" if states else ""
        return f"import gradlab as gl\n\n{self._made_by}{setting}"

    @property
    def parameters(self):
        """What the controls are set to, by name."""
        return self._values(self._states())

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
        _, metadata = (
            self.view._repr_mimebundle_()
        )  # what Colab asks of widgets that aren't its own
        width, height = self.view.size  # as it was made, not as a page has it
        data = {
            **self.widget._repr_mimebundle_(),
            "text/plain": self.digest,
            "image/png": base64.b64encode(self.view.still()).decode("ascii"),
        }
        return data, {**metadata, "image/png": {"width": width, "height": height}}

    # What the controls say: states are what they hold, values what a function is given

    def _param(self, name):
        if name not in self._params:
            raise TypeError(f"{name}: the explorer has none; it has {', '.join(self._params)}")
        return self._params[name]

    def _states(self):
        return {name: self._state(param) for name, param in self._params.items()}

    def _state(self, param):
        value = self._controls[param.name].value
        return int(value) if param.kind == "int" else value

    def _values(self, states):
        return {name: self._params[name].value_of(state) for name, state in states.items()}

    def _put(self, states):
        self._held = True
        try:
            for name, state in states.items():
                self._controls[name].value = state
        finally:
            self._held = False

    def _on_change(self, _):
        if not self._held:
            self._newest.soon(self._states())

    def _let_drag(self, axes, *names):
        """Let the reader drag what the control of x, or those of x and y, set."""
        self._dragged = names
        step = self._params[names[0]].step
        plane = {"plane": True} if len(names) == 2 else {}
        self.view.follow(axes, label=" and ".join(names), step=step, **plane)
        self._place_handle(self._states())
        self.view.observe(self._on_drag, "probe")

    def _on_drag(self, change):
        places = change.new if len(self._dragged) == 2 else [change.new]
        states = dict(zip(self._dragged, places, strict=True))
        if not states.items() <= self._states().items():  # else it follows the controls
            self._put(states)
            self._on_change(change)

    # From states to a picture

    def _attempt(self, states):
        try:
            return self._evaluate(self._values(states))
        except Exception as problem:  # a reader's function may raise anything at all
            return problem

    def _finish(self, states, found):
        if isinstance(found, Exception):
            self.error = found
            self._refuse(states, _message(found))
            return
        self.error = None
        self._found = self._subject(states), found
        self._pin_button.disabled = False
        self._stale |= self._show(self._values(states), found)
        pinned = f"\npinned: {self.pinned}" if self.pinned else ""
        text = self._digest(states, found) + pinned
        self._say(states, text, text, note=self._notes(found))

    def _notes(self, found):
        return ""

    def _pin(self, found):
        self._plot.pin(found)

    def _wait(self, states):
        self._refuse(
            states,
            f"not there after {PATIENCE:g} s; it will show when it is, "
            "and the controls answer meanwhile",
        )

    def _refuse(self, states, why):
        self._plot.fade()
        subject = self._subject(states)
        shown = f"{subject} has no curve; greyed, the last that could be drawn"
        self._say(states, f"{subject}: {why}", shown, error=why)

    def _subject(self, states):
        return subject(self.name, states)

    def _say(self, states, alt, digest, note="", error=""):
        with self.view.hold_sync():
            self.view.alt = alt
            self._place_handle(states)
            self.view.redraw() if self._stale else self.view.draw()
        self._stale = False
        self._code_box.code = self.code
        self._digest_line.value = _paragraph("gradlab-digest", digest)
        self._note.value = _paragraph("gradlab-note", note)
        self._message.value = _paragraph("gradlab-message", error, role="alert")

    def _place_handle(self, states):
        if self._dragged:
            places = [states[name] for name in self._dragged]
            self.view.probe = places if len(places) == 2 else places[0]

    def _after_pinning(self, description):
        self._pin_button.description = description
        self._stale = True
        return self.set()

    # Parts

    def _checked_presets(self, presets):
        for preset, settings in presets.items():
            for name, value in settings.items():
                try:
                    self._param(name).checked(value)
                except (TypeError, ValueError) as problem:
                    raise type(problem)(f"presets: {preset!r}: {problem}") from None
        return presets

    def _make_widget(self):
        self._digest_line, self._note, self._message = (ipywidgets.HTML() for _ in range(3))
        self._code_box = CodeBox()
        panel = ipywidgets.VBox(
            [*self._preset_buttons(), *self._controls.values(), *self._below_controls()]
        )
        panel.add_class("gradlab-controls")
        body = ipywidgets.HBox([self.view, panel])
        body.add_class("gradlab-body")
        widget = ipywidgets.VBox([body, self._message, self._note, self._digest_line])
        widget.add_class("gradlab-explorer")
        return widget

    def _preset_buttons(self):
        buttons = [
            _button(name, "A setting worth seeing", functools.partial(self.apply_preset, name))
            for name in self._presets
        ]
        return [_row(buttons)] if buttons else []

    def _below_controls(self):
        """What stands below the controls: buttons, and the code."""
        buttons = [_button("Reset", "Put every control back", self.reset)]
        self._pin_button = _button("Pin", "Keep this setting for comparison", self._toggle_pin)
        self._pin_button.disabled = True
        if hasattr(self._plot, "pin"):
            buttons.append(self._pin_button)
        return [_row(buttons), self._code_box]

    def _toggle_pin(self):
        self.pin() if self.pinned is None else self.unpin()


def _button(description, tooltip, action):
    button = ipywidgets.Button(description=description, tooltip=tooltip)
    button.on_click(lambda _: action())
    return button


def _row(buttons):
    row = ipywidgets.HBox(buttons)
    row.add_class("gradlab-buttons")
    return row


def line_of_text(name, text):
    """A widget that shows a line of text, in the style of a class."""
    return ipywidgets.HTML(_paragraph(name, text))


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
