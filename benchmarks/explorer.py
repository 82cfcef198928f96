"""What explorers take: time, memory, room in a notebook; and one import against another."""

import gc
import io
import itertools
import json
import statistics
import subprocess
import sys

import psutil
import tensorflow as tf

import gradlab as gl
from benchmarks.timing import Ratio, ratio, seconds

_KEPT = []  # explorers whose memory was measured: no other may take it over
EXPLORERS = {
    "explore": lambda: gl.explore(gl.clip_gradient_by_value),
    "explore_clipping": gl.explore_clipping,
    "explore_descent": gl.explore_descent,
    "explore_quantizer": gl.explore_quantizer,
    "explore_override": lambda: gl.explore_override(_some_ops, {"Relu": gl.guided_rule}),
    "explore_check": gl.explore_check,
    "explore_spike": gl.explore_spike,
}


def ratios() -> list[Ratio]:
    """An update in Python, from slider value to encoded frame; what one more takes; the import."""
    rows = [row for name, make in EXPLORERS.items() for row in _rows(name, make)]
    fine = gl.explore(gl.clip_gradient_by_value, points=10**6)
    return [
        *rows,
        Ratio("explore, update with 1,000,000 points / 50 ms", _median(fine, 9) / 0.05, 1.0),
        Ratio("explore, update / the same figure built and saved anew", _update(), 0.2),
        Ratio("import gradlab / import tensorflow", _imports(), 0.1),
    ]


def _rows(name, make):
    make()  # what TensorFlow loads once belongs to none of them
    stored, memory = zip(*(_added(make) for _ in range(3)), strict=True)
    return [
        Ratio(f"{name}, update / 8 ms", _median(make(), turns=40) / 0.008, 1.0),
        Ratio(f"{name}, memory of one more / 15 MB", statistics.median(memory) / 15e6, 1.0),
        Ratio(f"{name}, stored / 60 KB", max(stored) / 60e3, 1.0),
    ]


def _added(make):
    """The bytes that one more explorer adds to the notebook, and to the kernel."""
    gc.collect()
    before = psutil.Process().memory_info().rss
    _KEPT.append(make())
    data, _ = _KEPT[-1]._repr_mimebundle_()
    gc.collect()
    return len(json.dumps(data)), psutil.Process().memory_info().rss - before


def _some_ops(x):
    return tf.nn.relu(tf.sin(x) * x) ** 2


def _update():
    explorer = gl.explore(gl.clip_gradient_by_value, believed=True)
    slider = next(iter(explorer._controls.values()))
    values = itertools.cycle([-1.5, -1.0, -0.5])

    def step():
        slider.value = next(values)

    def anew():
        line, point, _ = explorer._evaluate(explorer._values(explorer._states()))
        plot = gl.CurvePlot(line)
        plot.believed = True
        plot.update(line, point)
        plot.figure.savefig(io.BytesIO(), format="png")

    return ratio(step, anew, turns=30)


def _median(explorer, turns):
    """The seconds of an update, from value to encoded frame."""
    param = next(param for param in explorer._params.values() if param.kind == "float")
    low, high = param.low, param.high
    values = itertools.cycle(low + (high - low) * part for part in (0.3, 0.35, 0.4))

    def step():
        explorer.set(**{param.name: next(values)})

    for _ in range(3):
        step()
    return statistics.median(seconds(step) for _ in range(turns))


def _imports():
    return ratio(lambda: _fresh("import gradlab"), lambda: _fresh("import tensorflow"), turns=5)


def _fresh(code):
    """Run code in a fresh process; the start of Python counts too, against us."""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
