"""The first cell of a lesson: everything quiet, and the machine named."""

import html
import importlib.metadata
import logging
import os
import platform
import sys

import ipywidgets
import tensorflow as tf
from IPython import get_ipython
from IPython.display import display

from gradlab import devices

_READY = "gradlab is ready."


def start():
    """Prepare a notebook: no log lines, memory taken as needed; says that it's ready.

    The line it prints is the same on every machine. The device and the versions stand in a
    widget, which no comparison of stored outputs reads. Calling it again does no harm.

    >>> start()
    gradlab is ready.

    """
    _quieten()
    devices.available()
    print(_READY)
    if hasattr(get_ipython(), "kernel"):
        display(_Machine())


class _Machine:
    """Device and versions: a widget where there is a kernel, one constant line where not."""

    def _repr_mimebundle_(self, include=None, exclude=None):
        text = " · ".join(f"{name} {value}" for name, value in facts().items())
        widget = ipywidgets.HTML(f'<div class="gradlab-machine">{html.escape(text)}</div>')
        return {
            **widget._repr_mimebundle_(),
            "text/plain": "Device and versions show here once this cell is run.",
        }


def facts():
    """The device and the versions in use, by name."""
    packages = {"gradlab": "gradlab", "Keras": "keras", "NumPy": "numpy"}
    return {
        "on": ", ".join(map(str, devices.available())),
        "TensorFlow": tf.__version__,
        **{name: importlib.metadata.version(package) for name, package in packages.items()},
        "Python": platform.python_version(),
    }


def _quieten():
    logger = logging.getLogger("tensorflow")
    if not any(isinstance(each, _NoRetracing) for each in logger.filters):
        logger.addFilter(_NoRetracing())
    _send_native_lines_to_the_terminal()


class _NoRetracing(logging.Filter):
    """Drops the warning that functions made in a loop are traced: lessons mean to."""

    def filter(self, record):
        return "tf.function retracing" not in str(record.msg)


def _send_native_lines_to_the_terminal():
    """Give C++ libraries the terminal's stderr back.

    A kernel hands what they write there to the notebook as well. What GPU libraries have to say
    differs from machine to machine, and no variable silences all of it.
    """
    terminal = getattr(sys.stderr, "_original_stdstream_copy", None)
    if isinstance(terminal, int):
        os.dup2(terminal, 2)
