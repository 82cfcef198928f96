"""One step of a slider against drawing the figure anew, and one import against another."""

import io
import itertools
import statistics
import subprocess
import sys

import gradlab as gl
from benchmarks.timing import Ratio, ratio, seconds


def ratios() -> list[Ratio]:
    """An explorer's update in Python, from slider value to encoded frame; and `import gradlab`."""
    return [
        Ratio("explorer update / the same figure built and saved anew", _update(), 0.2),
        Ratio("explorer update with 401 points / 8 ms", _median(401, turns=40) / 0.008, 1.0),
        Ratio("explorer update with 1,000,000 points / 50 ms", _median(10**6, turns=9) / 0.05, 1.0),
        Ratio("import gradlab / import tensorflow", _imports(), 0.1),
    ]


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


def _median(points, turns):
    """The seconds of an update, from value to encoded frame."""
    explorer = gl.explore(gl.clip_gradient_by_value, points=points)
    values = itertools.cycle([-1.5, -1.0, -0.5])

    def step():
        explorer.set(clip_value_min=next(values))

    for _ in range(3):
        step()
    return statistics.median(seconds(step) for _ in range(turns))


def _imports():
    return ratio(lambda: _fresh("import gradlab"), lambda: _fresh("import tensorflow"), turns=5)


def _fresh(code):
    """Run code in a fresh process; the start of Python counts too, against us."""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
