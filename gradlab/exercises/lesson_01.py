"""The exercise of lesson 01: the deconvnet rule for ReLU."""

import tensorflow as tf

from gradlab.exercises.asking import gradient, gradient_in_function
from gradlab.exercises.trials import Exercise, Trial
from gradlab.ops.overriding import override_gradient

_X = [-1.0, 2.0, -3.0, 4.0]
_UPSTREAM = [5.0, 6.0, -7.0, -8.0]


def _overridden(rule):
    return override_gradient({"Relu": rule})(tf.nn.relu)


EXERCISES = (
    Exercise(
        name="deconv-1",
        trials=(
            Trial(
                "for inputs [−1, 2, −3, 4] and upstream [5, 6, −7, −8] the gradient",
                lambda rule: gradient(_overridden(rule), _X, upstream=_UPSTREAM),
                expected=[5.0, 6.0, 0.0, 0.0],
                hints=(
                    (
                        [0.0, 6.0, 0.0, 0.0],
                        "that is the guided rule; this one passes where the input was negative too",
                    ),
                    (
                        [0.0, 6.0, 0.0, -8.0],
                        "that is the plain rule, which looks at the input; look at upstream",
                    ),
                    ([0.0, 2.0, 0.0, 4.0], "that is the forward; return a part of upstream"),
                    (
                        [1.0, 1.0, 0.0, 0.0],
                        "that tells where it passes; return upstream there, not 1",
                    ),
                    ([5.0, 6.0, -7.0, -8.0], "all of upstream passes; the negative must not"),
                ),
            ),
            Trial(
                "with the tape inside a tf.function the gradient",
                lambda rule: gradient_in_function(_overridden(rule), _X, upstream=_UPSTREAM),
                expected=[5.0, 6.0, 0.0, 0.0],
            ),
        ),
        why="positive upstream passes, and only that: a ReLU on the way back",
    ),
)
