"""An exercise: trials put to the reader's answer, each with the mistakes it foresees."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Trial:
    """One thing asked of an answer.

    Attributes:
        what: what is asked, so that "<what> should be 0.1; yours is 1.0" reads well.
        ask: takes the answer, returns what it observed: an array, a number, None, or a tuple.
        expected: what a right answer gives, from an oracle that does not use the op taught.
        hints: pairs of a foreseen wrong observation and the sentence for it. The observation is
            a value like `expected`, an exception class, or a predicate of the observed.
    """

    what: str
    ask: Callable
    expected: object
    hints: tuple = ()


@dataclass(frozen=True)
class Exercise:
    """One exercise: its name, its trials in order, and one line on why a right answer is right."""

    name: str
    trials: tuple
    why: str


def same(observed, expected):
    """Whether two observations agree: None only with None, arrays in shape and to 1e-5."""
    if isinstance(expected, tuple):
        return (
            isinstance(observed, tuple)
            and len(observed) == len(expected)
            and all(map(same, observed, expected))
        )
    if observed is None or expected is None or isinstance(observed, tuple):
        return observed is expected
    observed, expected = np.asarray(observed), np.asarray(expected)
    return observed.shape == expected.shape and _alike(observed, expected)


def _alike(observed, expected):
    if not (_numeric(observed) and _numeric(expected)):
        return bool(np.all(observed == expected))
    return np.allclose(observed, expected, rtol=1e-5, atol=1e-6, equal_nan=True)


def _numeric(array):
    return array.dtype.kind in "fciub"


def shown(value):
    """A value as a hint prints it: four digits, one line."""
    if isinstance(value, tuple):
        return " and ".join(map(shown, value))
    if value is None or not _numeric(np.asarray(value)):
        return " ".join(str(value).split())
    four_digits = {"float_kind": "{:.4g}".format}
    text = np.array2string(np.asarray(value), separator=", ", formatter=four_digits)
    return " ".join(text.split())


def hint_for(trial, observed):
    """The sentence written for a foreseen wrong observation, or None."""
    for wrong, sentence in trial.hints:
        if _foreseen(wrong, observed):
            return sentence
    return None


def _foreseen(wrong, observed):
    if isinstance(wrong, type) and issubclass(wrong, Exception):
        return isinstance(observed, wrong)
    if isinstance(observed, Exception):
        return False
    return _holds(wrong, observed) if callable(wrong) else same(observed, wrong)


def _holds(predicate, observed):
    # What a reader returns may be of any kind: a predicate it makes no sense to doesn't foresee it.
    try:
        return bool(predicate(observed))
    except Exception:
        return False
