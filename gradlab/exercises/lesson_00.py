"""The exercise of lesson 00: a square whose rule halves its slope."""

from gradlab.exercises.asking import forward, gradient, gradient_in_function
from gradlab.exercises.trials import Exercise, Trial

_X = [1.0, -2.0, 3.0]
_UPSTREAM = [10.0, 10.0, -1.0]

EXERCISES = (
    Exercise(
        name="square-1",
        trials=(
            Trial(
                "the forward at [1, −2, 3]",
                lambda f: forward(f, _X),
                expected=[1.0, 4.0, 9.0],
                hints=(
                    (
                        [0.5, 2.0, 4.5],
                        "that halves the forward too; only the rule is to be halved",
                    ),
                ),
            ),
            Trial(
                "the gradient at [1, −2, 3]",
                lambda f: gradient(f, _X),
                expected=[1.0, -2.0, 3.0],
                hints=(
                    ([2.0, -4.0, 6.0], "that is the slope itself, not half of it"),
                    ([0.5, 0.5, 0.5], "half of upstream; the slope of x² is missing from it"),
                    (None, "the gradient is None: the forward left TensorFlow on its way"),
                ),
            ),
            Trial(
                "the gradient at [1, −2, 3] with upstream [10, 10, −1]",
                lambda f: gradient(f, _X, upstream=_UPSTREAM),
                expected=[10.0, -20.0, -3.0],
                hints=(
                    (
                        [1.0, -2.0, 3.0],
                        "your rule drops upstream; it is right only where upstream is 1",
                    ),
                ),
            ),
            Trial(
                "the gradient in a tf.function",
                lambda f: gradient_in_function(f, _X),
                expected=[1.0, -2.0, 3.0],
            ),
        ),
        why="forward x², gradient upstream · x; the rule decides, the slope does not",
    ),
)
