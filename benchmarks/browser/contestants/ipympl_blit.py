"""matplotlib's own widget, and the background kept: only the lines are drawn."""

import ipywidgets
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from curves import HIGH, INCHES, LOW, START, STEP, X, curves

matplotlib.use("module://ipympl.backend_nbagg")
with plt.ioff():
    figure, axes = plt.subplots(figsize=INCHES)
lines = axes.plot(X, np.transpose(curves(START)), animated=True)
canvas = figure.canvas
kept = []


def keep(event):
    kept[:] = [canvas.copy_from_bbox(figure.bbox)]
    paint()


def paint():
    for line in lines:
        axes.draw_artist(line)


def move(change):
    canvas.restore_region(*kept)
    for line, curve in zip(lines, curves(change.new), strict=True):
        line.set_ydata(curve)
    paint()
    canvas.blit(figure.bbox)


canvas.mpl_connect("draw_event", keep)
slider = ipywidgets.FloatSlider(START, min=LOW, max=HIGH, step=STEP)
slider.observe(move, "value")
ipywidgets.VBox([slider, canvas])
