"""The exercise of lesson 03: one clip for a tensor that is used twice."""

import numpy as np

from gradlab.exercises.asking import forward, gradient
from gradlab.exercises.trials import Exercise, Trial

_A = np.array([[1.0, 2.0], [3.0, 4.0]])
_B = np.array([[2.0, 0.0], [1.0, 3.0]])
_LIMIT = 1.0


def _loss(a, b):
    return np.sum(a @ b) + np.sum(a**2)


def _gradient_of_a(a, b):
    """∂/∂a (Σ a·b + Σ a²), as the two uses give it, unclipped."""
    return np.ones((2, 2)) @ b.T + 2 * a


def _norm_of_a(loss):
    gradients = gradient(loss, _A, _B)
    return None if gradients[0] is None else np.linalg.norm(gradients[0])


_UNCLIPPED = _gradient_of_a(_A, _B)
_LENGTH = np.linalg.norm(_UNCLIPPED)

EXERCISES = (
    Exercise(
        name="clip-1",
        trials=(
            Trial(
                "the loss at a = [[1, 2], [3, 4]], b = [[2, 0], [1, 3]]",
                lambda f: forward(f, _A, _B),
                expected=_loss(_A, _B),
                hints=(
                    (
                        _loss(_A / np.linalg.norm(_A), _B),
                        "the loss itself has changed; a clip on the way back leaves the forward "
                        "alone",
                    ),
                    (
                        lambda value: np.shape(value) == (2, 2),
                        "the loss is one number; add up the entries of both terms",
                    ),
                ),
            ),
            Trial(
                "the norm of a's gradient",
                _norm_of_a,
                expected=_LIMIT,
                hints=(
                    (None, "the gradient of a is None: something between a and the loss stops it"),
                    (_LENGTH, "nothing shortens the gradient of a on its way"),
                    (
                        lambda norm: _LIMIT < norm <= 3 * _LIMIT,
                        "each use has a clip of its own, and the two gradients are added after "
                        "both; clip once, before the uses part",
                    ),
                    (
                        lambda norm: norm > 3 * _LIMIT,
                        "your clip stands too far on; what lies between it and a multiplies again",
                    ),
                ),
            ),
            Trial(
                "the gradient of a",
                lambda f: gradient(f, _A, _B)[0],
                expected=_UNCLIPPED * _LIMIT / _LENGTH,
                hints=(
                    (
                        lambda g: np.isclose(np.linalg.norm(g), _LIMIT),
                        "its norm is 1, but it points elsewhere; shorten it by one factor",
                    ),
                ),
            ),
            Trial(
                "the gradient of b",
                lambda f: gradient(f, _A, _B)[1],
                expected=_A.T @ np.ones((2, 2)),
                hints=(
                    (
                        lambda g: g is not None and np.linalg.norm(g) <= _LIMIT + 1e-5,
                        "the gradient of b is clipped as well; leave it alone",
                    ),
                ),
            ),
            Trial(
                "the gradient of a at a = [[0.1, 0], [0, 0.1]], b = 0",
                lambda f: gradient(f, 0.1 * np.eye(2), np.zeros((2, 2)))[0],
                expected=0.2 * np.eye(2),
                hints=(
                    (
                        lambda g: g is not None and np.linalg.norm(g) > 0.9 * _LIMIT,
                        "that gradient was shorter than 1 already; at most 1 doesn't mean 1",
                    ),
                ),
            ),
            Trial(
                "the gradient of a at zero",
                lambda f: gradient(f, np.zeros((2, 2)), np.zeros((2, 2)))[0],
                expected=np.zeros((2, 2)),
                hints=(
                    (
                        lambda g: g is not None and np.isnan(g).any(),
                        "a gradient of zero has become NaN: 0 / 0 in your norm",
                    ),
                ),
            ),
        ),
        why="one clip, before the uses part, sees their gradients added up",
    ),
)
