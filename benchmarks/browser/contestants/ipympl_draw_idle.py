"""matplotlib's own widget: the lines are moved, and the figure drawn when there is time."""

import ipywidgets
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from curves import HIGH, INCHES, LOW, START, STEP, X, curves

matplotlib.use("module://ipympl.backend_nbagg")
with plt.ioff():
    figure, axes = plt.subplots(figsize=INCHES)
lines = axes.plot(X, np.transpose(curves(START)))


def move(change):
    for line, curve in zip(lines, curves(change.new), strict=True):
        line.set_ydata(curve)
    figure.canvas.draw_idle()


slider = ipywidgets.FloatSlider(START, min=LOW, max=HIGH, step=STEP)
slider.observe(move, "value")
ipywidgets.VBox([slider, figure.canvas])
