"""`ipywidgets.interact` round a figure that is made anew, as its documentation shows it."""

import ipywidgets
import matplotlib.pyplot as plt
from curves import HIGH, INCHES, LOW, START, STEP, X, curves
from IPython import get_ipython


def show(alpha):
    plt.figure(figsize=INCHES)
    for curve in curves(alpha):
        plt.plot(X, curve)
    plt.show()


slider = ipywidgets.FloatSlider(START, min=LOW, max=HIGH, step=STEP)
get_ipython().run_line_magic("matplotlib", "inline")
_ = ipywidgets.interact(show, alpha=slider)
