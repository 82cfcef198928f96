"""The exercise of lesson 04: a clipped forward, exact, with upstream as its gradient."""

import numpy as np

from gradlab.exercises.asking import forward, gradient, gradient_in_function
from gradlab.exercises.trials import Exercise, Trial

_X = [-2.0, 0.3, 5.0]
_UPSTREAM = [2.0, -3.0, 10.0]

EXERCISES = (
    Exercise(
        name="trick-1",
        trials=(
            Trial(
                "the forward at [−2, 0.3, 5]",
                lambda f: forward(f, _X),
                expected=[0.1, 0.3, 0.9],
                hints=((_X, "the forward is x as it was: are f and b in each other's place?"),),
            ),
            Trial(
                "the gradient at [−2, 0.3, 5]",
                lambda f: gradient(f, _X),
                expected=[1.0, 1.0, 1.0],
                hints=(
                    ([0.0, 1.0, 0.0], "that is the clip's own gradient: nothing from outside"),
                    (None, "the gradient is None: stop_gradient stops all of it"),
                ),
            ),
            Trial(
                "the gradient at [−2, 0.3, 5] with upstream [2, −3, 10]",
                lambda f: gradient(f, _X, upstream=_UPSTREAM),
                expected=_UPSTREAM,
                hints=(([1.0, 1.0, 1.0], "your rule drops upstream"),),
            ),
            Trial(
                "the forward at [1000.1, 3e7]",
                lambda f: forward(f, [1000.1, 3e7]),
                expected=[0.9, 0.9],
                hints=(
                    (
                        lambda y: np.shape(y) == (2,) and y[0] > 0.9 and y[1] == 0,
                        "at 1000.1 the forward is 0.90002, at 3e7 it is 0: x does not cancel out",
                    ),
                ),
            ),
            Trial(
                "the forward at infinity",
                lambda f: forward(f, [np.inf, -np.inf]),
                expected=[0.9, 0.1],
            ),
            Trial(
                "the gradient in a tf.function",
                lambda f: gradient_in_function(f, _X, upstream=_UPSTREAM),
                expected=_UPSTREAM,
            ),
        ),
        why="the forward is the clip to the last bit, and upstream passes everywhere",
    ),
)
