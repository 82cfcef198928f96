"""plotly: the arrays are sent, and drawn as SVG, both in one update."""

import ipywidgets
import plotly.graph_objects as go
from curves import HIGH, LOW, START, STEP, X, curves

figure = go.FigureWidget([go.Scatter(x=X.numpy(), y=curve) for curve in curves(START)])
figure.update_layout(width=720, height=480, yaxis_range=[-3, 3], xaxis_range=[-3, 3])


def move(change):
    with figure.batch_update():
        for trace, curve in zip(figure.data, curves(change.new), strict=True):
            trace.y = curve


slider = ipywidgets.FloatSlider(START, min=LOW, max=HIGH, step=STEP)
slider.observe(move, "value")
ipywidgets.VBox([slider, figure])
