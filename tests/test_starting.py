"""The set-up cell in a real kernel, and the doctor."""

import logging

import nbformat
import pytest
from nbclient import NotebookClient

import gradlab as gl
from gradlab import __main__ as command
from gradlab import devices
from gradlab.widgets import starting

NOISY = """
import gradlab as gl
import tensorflow as tf

gl.start()
gl.start()
for power in range(8):
    tf.function(lambda x: x**power)(tf.constant(2.0))
"""


@pytest.fixture(scope="module")
def outputs():
    cells = [nbformat.v4.new_code_cell(code) for code in (NOISY, "gl.explore('scale_gradient')")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, kernel_name="python3", timeout=120).execute()
    return [cell.outputs for cell in notebook.cells]


def test_a_kernel_prints_one_constant_line_and_nothing_else(outputs):
    streams = [output for output in outputs[0] if output.output_type == "stream"]
    assert {output.name for output in streams} == {"stdout"}
    assert "".join(output.text for output in streams) == "gradlab is ready.\n" * 2


def test_device_and_versions_are_in_a_widget_alone(outputs):
    shown = [output.data for output in outputs[0] if output.output_type == "display_data"]
    assert len(shown) == 2
    for data in shown:
        assert set(data) == {"text/plain", "application/vnd.jupyter.widget-view+json"}
        assert data["text/plain"] == "Device and versions show here once this cell is run."


def test_a_kernel_shows_an_explorer_with_its_digest(outputs):
    (output,) = outputs[1]
    assert output.output_type == "execute_result"
    assert output.data["text/plain"].startswith("x²/2 of scale_gradient(scale=0.5) at x = 1:")
    assert output.data["image/png"].startswith("iVBOR")


def test_facts_name_device_and_versions():
    facts = starting.facts()
    assert facts["on"] == ", ".join(map(str, devices.available()))
    assert facts["gradlab"] == gl.__version__
    assert {"TensorFlow", "Keras", "NumPy", "Python"} <= set(facts)


def test_starting_twice_adds_one_filter(capsys):
    gl.start()
    gl.start()
    assert capsys.readouterr() == ("gradlab is ready.\n" * 2, "")
    filters = logging.getLogger("tensorflow").filters
    assert sum(isinstance(each, starting._NoRetracing) for each in filters) == 1


def test_other_warnings_of_tensorflow_still_show():
    drop = starting._NoRetracing()
    retracing = "5 out of the last 5 calls to %s triggered tf.function retracing."
    for message, kept in ((retracing, False), ("something else", True)):
        record = logging.LogRecord("tensorflow", logging.WARNING, "", 0, message, ("f",), None)
        assert drop.filter(record) is kept


def test_the_doctor_is_content_here(capsys):
    assert command.main(["doctor"]) == 0
    told = capsys.readouterr().out
    assert "All is well." in told
    for name in ("Python", "TensorFlow", "device", "anywidget", "memory"):
        assert name in told


def test_the_doctor_says_what_is_missing_and_how_to_mend_it(capsys, monkeypatch):
    version = command._version
    monkeypatch.setattr(
        command, "_version", lambda name: None if name == "jupyterlab" else version(name)
    )
    assert command.main(["doctor"]) == 1
    told = capsys.readouterr().out
    assert "BAD  jupyterlab" in told
    assert "pip install 'gradlab[lab]'" in told
    assert "1 to mend" in told


def test_the_doctor_works_without_tensorflow(capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tensorflow", None)
    assert command.main(["doctor"]) == 1
    assert "pip install 'gradlab[cpu]'" in capsys.readouterr().out


def test_devices_by_name():
    assert devices.choose("CPU:0") is devices.choose("/CPU:0") is devices.choose("cpu")
    assert devices.choose() is devices.available()[0]
    assert devices.choose(devices.available()[0]) is devices.available()[0]
    assert str(devices.choose("cpu")).startswith("CPU (")
