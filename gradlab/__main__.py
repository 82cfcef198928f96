"""``python -m gradlab doctor``: what the lab needs, what is there, and how to mend the rest."""

import argparse
import importlib.metadata
import os
import sys

_NEEDED = {
    "numpy": "pip install gradlab",
    "matplotlib": "pip install gradlab",
    "ipywidgets": "pip install gradlab",
    "anywidget": "pip install gradlab",
    "jupyterlab": "pip install 'gradlab[lab]'",
}
_TENSORFLOW = "pip install 'gradlab[cpu]', or 'gradlab[gpu]' on a machine with an NVIDIA GPU"
_TENSORFLOW_NAMES = ("tensorflow", "tensorflow-cpu")
_MEMORY = 1.5e9  # bytes: a lesson's kernel takes up to 0.9 GB, JupyterLab and the browser the rest


def main(arguments=None):
    """Run a command; gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gradlab", description=__doc__)
    parser.add_argument("command", choices=["doctor"])
    parser.parse_args(arguments)
    return doctor()


def doctor():
    """Print what was found; 0 if the lessons will run, else 1."""
    results = [result for check in _CHECKS for result in check()]
    for good, name, text in results:
        print(f"{'ok ' if good else 'BAD'}  {name:<18} {text}")
    bad = sum(not good for good, _, _ in results)
    print("All is well." if not bad else f"{bad} to mend, as told above.")
    return int(bad > 0)


def _python():
    good = (3, 10) <= sys.version_info < (3, 14)
    return [(good, "Python", f"{sys.version.split()[0]}{'' if good else ': use 3.10 to 3.13'}")]


def _packages():
    return [_package(name, mend) for name, mend in _NEEDED.items()]


def _package(name, mend):
    version = _version(name)
    return version is not None, name, version or f"missing: {mend}"


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _tensorflow():
    try:
        import tensorflow as tf
    except Exception as problem:  # a broken installation raises more than ImportError
        return [(False, "TensorFlow", f"{_reason(problem)}: {_TENSORFLOW}")]
    return [(True, "TensorFlow", tf.__version__), *_devices()]


def _reason(problem):
    return "missing" if isinstance(problem, ModuleNotFoundError) else f"broken ({problem})"


def _devices():
    from gradlab import devices

    found = [
        (True, "device", f"{each}, {', '.join(each.abilities)}") for each in devices.available()
    ]
    if any(each.kind == "GPU" and not each.grows for each in devices.available()):
        found.append((False, "GPU memory", "is taken all at once: call gl.start() first"))
    if os.path.exists("/proc/driver/nvidia/version") and not any(
        "GPU" in text for *_, text in found
    ):
        found.append(
            (False, "GPU", "is there, but TensorFlow can't use it: pip install 'gradlab[gpu]'")
        )
    return found


def _browser_side():
    """The widgets need a script that JupyterLab finds beside its own."""
    try:
        from jupyter_core.paths import jupyter_path
    except ImportError:
        return [(False, "widgets", "no Jupyter here: pip install 'gradlab[lab]'")]
    places = jupyter_path("labextensions")
    return [
        _script(places, "anywidget", "anywidget"),
        _script(places, "@jupyter-widgets/jupyterlab-manager", "jupyterlab_widgets"),
    ]


def _script(places, folder, package):
    good = any(os.path.isdir(os.path.join(place, folder)) for place in places)
    mend = f"its script for JupyterLab is missing: pip install --force-reinstall {package}"
    return good, package, "its script for JupyterLab is there" if good else mend


def _memory():
    try:
        with open("/proc/meminfo") as file:
            free = 1024 * int(file.read().split("MemAvailable:")[1].split()[0])
    except (OSError, IndexError, ValueError):  # not on this system
        return []
    text = f"{free / 1e9:.1f} GB free"
    return [(free >= _MEMORY, "memory", text if free >= _MEMORY else f"{text}: shut kernels down")]


_CHECKS = (_python, _packages, _tensorflow, _browser_side, _memory)

if __name__ == "__main__":
    sys.exit(main())
