"""bqplot: the arrays are sent, and drawn as SVG. One mark, so that one message moves both."""

import bqplot
import ipywidgets
import numpy as np
from curves import HIGH, LOW, START, STEP, X, curves

scales = {"x": bqplot.LinearScale(min=-3, max=3), "y": bqplot.LinearScale(min=-3, max=3)}
lines = bqplot.Lines(x=X.numpy(), y=np.stack(curves(START)), scales=scales)
axes = [
    bqplot.Axis(scale=scales["x"]),
    bqplot.Axis(scale=scales["y"], orientation="vertical"),
]
figure = bqplot.Figure(marks=[lines], axes=axes, layout={"width": "720px", "height": "480px"})


def move(change):
    lines.y = np.stack(curves(change.new))


slider = ipywidgets.FloatSlider(START, min=LOW, max=HIGH, step=STEP)
slider.observe(move, "value")
ipywidgets.VBox([slider, figure])
