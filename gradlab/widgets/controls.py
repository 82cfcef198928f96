"""`ParamSpec` -> a control: slider and number box, checkbox, or list of choices."""

from pathlib import Path

import anywidget
import ipywidgets
import traitlets
from ipywidgets.widgets.widget import JUPYTER_WIDGETS_ECHO

_HERE = Path(__file__).parent


class NumberControl(anywidget.AnyWidget):
    """A slider and a number box for one number, both named after it.

    The browser's own range and number inputs: they have names, and answer all the keys that
    readers of screens expect.

    >>> NumberControl(label="alpha", value=1.0, low=0.0, high=2.0, step=0.1).value
    1.0
    """

    _esm = _HERE / "number_control.js"
    _css = _HERE / "number_control.css"

    value = traitlets.Float().tag(sync=True, echo_update=False)
    label = traitlets.Unicode().tag(sync=True)
    low = traitlets.Float().tag(sync=True)
    high = traitlets.Float(1.0).tag(sync=True)
    step = traitlets.Float(0.01).tag(sync=True)
    log = traitlets.Bool(False).tag(sync=True)
    unit = traitlets.Unicode().tag(sync=True)
    help = traitlets.Unicode().tag(sync=True)

    def set_state(self, sync_data):
        """Take what the browser has set; then echo it, which other tabs follow.

        ipywidgets would echo first, and the figure would wait behind the echo.
        """
        super().set_state(sync_data)
        if JUPYTER_WIDGETS_ECHO and "value" in sync_data:
            echo = {"method": "echo_update", "state": {"value": self.value}, "buffer_paths": []}
            self.comm.send(data=echo)

    @traitlets.validate("value")
    def _keep_within(self, proposal):
        return min(max(proposal.value, self.low), self.high)


def control_for(spec):
    """The widget with a `value` that stands for a parameter.

    >>> from gradlab.specs import ParamSpec
    >>> type(control_for(ParamSpec("hard", True, kind="bool"))).__name__
    'Checkbox'
    """
    return _MAKERS[spec.kind](spec)


def choice_control(label, options, value, help=""):
    """A named list to choose from."""
    return ipywidgets.Dropdown(
        options=options,
        value=value,
        description=label,
        tooltip=help or None,
        style={"description_width": "initial"},
    )


def switch_control(label, value, help=""):
    """A named checkbox."""
    return ipywidgets.Checkbox(value=value, description=label, tooltip=help or None, indent=False)


def _number(spec):
    return NumberControl(
        low=spec.low,
        high=spec.high,
        step=spec.step,
        log=spec.log,
        value=spec.default,
        label=spec.name,
        unit=spec.unit,
        help=spec.help,
    )


def _switch(spec):
    return switch_control(spec.name, spec.default, spec.help)


def _choice(spec):
    return choice_control(spec.name, [label for label, _ in spec.choices], spec.default, spec.help)


_MAKERS = {"float": _number, "int": _number, "bool": _switch, "choice": _choice}
