"""The code that reproduces what an explorer shows, to read and to copy."""

import inspect
from pathlib import Path

import anywidget
import traitlets

_HERE = Path(__file__).parent
_WIDE = 88  # columns


class CodeBox(anywidget.AnyWidget):
    """Python code that unfolds, with a button that copies it.

    >>> CodeBox(code="1 + 1").code
    '1 + 1'
    """

    _esm = _HERE / "code.js"
    _css = _HERE / "code.css"

    code = traitlets.Unicode().tag(sync=True)


def call(function, *arguments, **keywords):
    """A call as code: broken into one argument a line where it is too long for one.

    >>> call("gl.explore", "f", alpha=(0.0, 2.0))
    'gl.explore(f, alpha=(0.0, 2.0))'
    """
    written = [
        *arguments,
        *(f"{name}={written_as(value, name)}" for name, value in keywords.items()),
    ]
    line = f"{function}({', '.join(written)})"
    if len(line) <= _WIDE:
        return line
    return "\n".join([f"{function}(", *(f"    {argument}," for argument in written), ")"])


def call_with(name, function, given, *arguments, **others):
    """The call of a function with what was given; what is as its default says is left out.

    Arguments, which are code, come first; others are what it takes by names of their own.

    >>> call_with("curve", lambda f, low=0, high=1: None, {"low": 0, "high": 2}, "f")
    'curve(f, high=2)'
    """
    parameters = inspect.signature(function).parameters
    changed = {
        key: value
        for key, value in given.items()
        if written_as(value) != written_as(parameters[key].default)
    }
    return call(name, *arguments, **changed, **others)


def written_as(value, unnamed="f"):
    """A value as code: a function by its name, or another if it has none; a number to 12 digits.

    >>> written_as(0.1 + 0.2), written_as([abs, "x"])
    ('0.3', "[abs, 'x']")
    """
    if isinstance(value, float):
        return repr(float(f"{value:.12g}"))
    if isinstance(value, tuple | list):
        inside = ", ".join(map(written_as, value))
        comma = "," if len(value) == 1 else ""
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{comma})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {written_as(item)}' for key, item in value.items())}}}"
    name = getattr(value, "__name__", None)
    return (unnamed if name == "<lambda>" else name) or repr(value)
