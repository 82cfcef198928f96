"""`import gradlab` is light, and says what to install where TensorFlow is missing."""

import subprocess
import sys

import pytest

HEAVY = ("matplotlib", "ipywidgets", "anywidget", "IPython", "tensorflow", "numpy")


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_importing_gradlab_imports_nothing_heavy():
    done = run(
        f"import sys, gradlab; dir(gradlab); print([m for m in {HEAVY} if m in sys.modules])"
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_ops_and_curves_need_no_widgets_and_are_quiet():
    code = (
        "import sys, gradlab as gl, tensorflow; before = set(sys.modules);"
        "gl.scale_gradient; gl.curve; gl.SPECS;"
        f"print([m for m in {HEAVY[:4]} if m in set(sys.modules) - before])"
    )
    done = run(code)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


WITHOUT_TENSORFLOW = (
    "import sys; sys.modules['tensorflow'] = None\n"
    "import importlib.abc\n"
    "class No(importlib.abc.MetaPathFinder):\n"
    "    def find_spec(self, name, path, target=None):\n"
    "        if name == 'tensorflow': raise ModuleNotFoundError(name=name)\n"
    "del sys.modules['tensorflow']; sys.meta_path.insert(0, No())\n"
    "import gradlab as gl\n"
)


@pytest.mark.parametrize("name", ["explore", "start", "curve", "scale_gradient", "SPECS"])
def test_the_first_use_without_tensorflow_says_what_to_install(name):
    done = run(f"{WITHOUT_TENSORFLOW}gl.{name}")
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ModuleNotFoundError: gradlab.{name} needs TensorFlow")
    assert "pip install 'gradlab[cpu]'" in last
    assert "gradlab[gpu]" in last


def test_a_figure_view_needs_no_tensorflow():
    code = "from matplotlib.figure import Figure; print(len(gl.FigureView(Figure()).png) > 100)"
    done = run(WITHOUT_TENSORFLOW + code)
    assert (done.stdout.strip(), done.stderr) == ("True", "")


def test_an_unknown_name_is_an_attribute_error():
    done = run("import gradlab; gradlab.no_such_op")
    assert "AttributeError: module 'gradlab' has no attribute 'no_such_op'" in done.stderr


def test_every_public_name_is_there():
    import gradlab as gl

    assert [name for name in gl.__all__ if not hasattr(gl, name)] == []
