"""``check``: the reader's answer put to the trials of its exercise."""

import functools

import numpy as np

from gradlab.exercises.table import EXERCISES
from gradlab.exercises.trials import hint_for, same, shown


def check(name, answer):
    """Print one line on an answer: "not yet: …", "close: …" with a hint, or "correct: …".

    A wrong answer, or an exception in it, raises nothing: Run All goes on.

    Args:
        name: the exercise's name, as in its cell's tag.
        answer: the function asked for, itself and not its result.

    Raises:
        ValueError: there is no exercise of that name.

    Example:
        >>> import gradlab as gl
        >>> gl.check("square-1", lambda x: None)
        not yet: your function returned None
    """
    if name not in EXERCISES:
        raise ValueError(f"check: no exercise is named {name!r}; there are {', '.join(EXERCISES)}")
    print(verdict(EXERCISES[name], answer))


def verdict(exercise, answer):
    """The line that `check` prints for an answer to an exercise."""
    if answer is None or answer is ...:
        return "not yet: there is no answer here"
    if not callable(answer):
        return f"close: give the function itself, not {shown_kind(answer)} that it returned"
    answer = _Watched(answer)
    for trial in exercise.trials:
        line = _verdict_of_trial(trial, answer)
        if line:
            return line
    return f"correct: {exercise.why}"


def shown_kind(value):
    """A value's kind with its article: "a Tensor", "an int"."""
    kind = "Tensor" if hasattr(value, "numpy") else type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def _verdict_of_trial(trial, answer):
    observed = _observe(trial, answer)
    if answer.fault:
        return answer.fault
    if not isinstance(observed, Exception) and same(observed, trial.expected):
        return None
    hint = hint_for(trial, observed)
    if hint:
        return f"close: {hint}"
    if isinstance(observed, Exception):
        return f"not yet: {answer.name} raised {type(observed).__name__}: {_message(observed)}"
    return f"not yet: {trial.what} should be {shown(trial.expected)}; yours is {shown(observed)}"


def _observe(trial, answer):
    # Whatever the reader's code raises is part of the answer, so all of it is caught.
    try:
        return _tidy(trial.ask(answer))
    except Exception as error:
        return error


def _tidy(observed):
    if isinstance(observed, tuple):
        return tuple(map(_tidy, observed))
    return observed if observed is None else np.asarray(observed)


def _message(error):
    """The line that says something: AutoGraph puts it last, below the user's code."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["(no message)"]
    line = lines[-1] if lines[0].startswith("in user code") else lines[0]
    return line.removeprefix(f"{type(error).__name__}: ")


class _Watched:
    """The reader's function, remembering the line on what it must never return, if it did.

    Remembered rather than read off an exception, for a trial may call it deep inside TensorFlow,
    which re-raises as it pleases.
    """

    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.function = function
        self.name = _name(function)
        self.fault = None

    def __call__(self, *args, **kwargs):
        result = self.function(*args, **kwargs)
        self.fault = self.fault or _fault(self.name, result)
        if self.fault:
            raise TypeError(self.fault)
        return result


def _fault(name, result):
    if result is None:
        return f"not yet: {name} returned None"
    if isinstance(result, tuple) and any(map(callable, result)):
        return (
            f"close: {name} returned its rule along with the forward; "
            "put @tf.custom_gradient above it, which takes the two apart"
        )
    return None


def _name(function):
    name = getattr(function, "__name__", None)
    return "your function" if name in (None, "<lambda>") else name
