"""The exercise of lesson 02: NumPy's hypot with a gradient, and no NaN at the origin."""

import numpy as np

from gradlab.exercises.asking import forward, gradient, gradient_in_function
from gradlab.exercises.trials import Exercise, Trial

_X, _Y = [3.0, -5.0], [4.0, 12.0]
_SLOPES = ([3 / 5, -5 / 13], [4 / 5, 12 / 13])

EXERCISES = (
    Exercise(
        name="hypot-1",
        trials=(
            Trial(
                "the forward for x = [3, −5] and y = [4, 12]",
                lambda f: forward(f, _X, _Y),
                expected=[5.0, 13.0],
                hints=(([25.0, 169.0], "that is the square of the length"),),
            ),
            Trial(
                "the gradient for x = [3, −5] and y = [4, 12]",
                lambda f: gradient(f, _X, _Y),
                expected=_SLOPES,
                hints=(
                    ((None, None), "there is no gradient yet; give the op a rule"),
                    (
                        (0.0, 0.0),
                        "a silent 0.0: NumPy in tf.py_function leaves nothing on its tape",
                    ),
                    (_SLOPES[::-1], "the two gradients are swapped; the first is that of x"),
                    ((_X, _Y), "divide by the length"),
                ),
            ),
            Trial(
                "the gradient for x = [3, −5], y = [4, 12] and upstream [10, −1]",
                lambda f: gradient(f, _X, _Y, upstream=[10.0, -1.0]),
                expected=([6.0, 5 / 13], [8.0, -12 / 13]),
                hints=(
                    (_SLOPES, "your rule drops upstream; it is right only where upstream is 1"),
                ),
            ),
            Trial(
                "the gradient for x = [0, 3] and y = [0, 4]",
                lambda f: gradient(f, [0.0, 3.0], [0.0, 4.0]),
                expected=([0.0, 0.6], [0.0, 0.8]),
                hints=(
                    (
                        lambda both: np.isnan(both).any(),
                        "0 / 0 is NaN: at the origin the gradient is to be 0",
                    ),
                ),
            ),
            Trial(
                "the gradient in a tf.function",
                lambda f: gradient_in_function(f, _X, _Y),
                expected=_SLOPES,
            ),
        ),
        why="NumPy forward, your rule back, and a 0 where the slope has no value",
    ),
)
