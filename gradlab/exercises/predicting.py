"""``predict``: a guess, committed before the run that settles it."""

import html
import re
from pathlib import Path

import anywidget
import traitlets

_HERE = Path(__file__).parent


def predict(question, choices):
    """Ask for a guess; once it is committed it stays, and the remark on it shows.

    Without a kernel the question still shows, with the remarks folded under the choices.

    Args:
        question: one sentence; `code` between backticks.
        choices: a dict from each choice to the remark that its commitment reveals.

    Returns:
        A `Prediction`, to be the last line of its cell.

    Raises:
        ValueError: fewer than two choices.

    Example:
        >>> import gradlab as gl
        >>> guess = gl.predict("What is 1 + 1?", {"2": "In most rings.", "0": "Modulo 2, yes."})
        >>> print(guess.text)
        What is 1 + 1?
          ○ 2
          ○ 0
    """
    return Prediction(question, choices)


class Prediction(anywidget.AnyWidget):
    """The form behind `predict`: `choose`, `commit` and `reset` do what its controls do."""

    _esm = _HERE / "prediction.js"
    _css = _HERE / "prediction.css"
    _question = traitlets.Unicode().tag(sync=True)
    _labels = traitlets.List(traitlets.Unicode()).tag(sync=True)
    _chosen = traitlets.Int(-1).tag(sync=True)
    _remark = traitlets.Unicode().tag(sync=True)
    committed = traitlets.Bool(False).tag(sync=True)

    def __init__(self, question, choices):
        if not isinstance(choices, dict) or len(choices) < 2:
            raise ValueError(
                f"predict: choices must be a dict of at least two choices and the remarks on "
                f"them, got {choices!r}"
            )
        self.question, self.choices = question, dict(choices)
        super().__init__(_question=_inline(question), _labels=list(map(_inline, choices)))

    @property
    def choice(self):
        """The choice that is marked, or None."""
        return None if self._chosen < 0 else list(self.choices)[self._chosen]

    @property
    def reveal(self):
        """The remark on the committed choice, or None before it is committed."""
        return self.choices[self.choice] if self.committed else None

    @property
    def text(self):
        """The question and its choices as plain text: the same before and after a guess."""
        return "\n".join([self.question, *(f"  ○ {choice}" for choice in self.choices)])

    def choose(self, choice):
        """Mark a choice; after the commit this does nothing."""
        if choice not in self.choices:
            raise ValueError(f"choose: {choice!r} is none of {', '.join(self.choices)}")
        if not self.committed:
            self._chosen = list(self.choices).index(choice)

    def commit(self):
        """Fix the choice and show the remark on it; without a choice this does nothing."""
        self.committed = self.choice is not None

    def reset(self):
        """Forget the choice and hide the remark."""
        self.committed = False
        self._chosen = -1

    @traitlets.observe("committed")
    def _on_committed(self, _):
        self._remark = _inline(self.reveal or "")

    def _repr_mimebundle_(self, **kwargs):
        data, metadata = super()._repr_mimebundle_(**kwargs)
        return {**data, "text/plain": self.text, "text/html": self._folded()}, metadata

    def _folded(self):
        """The form of a stored notebook: each remark folded under its choice."""
        folds = (
            f"<details><summary>{_inline(choice)}</summary>{_inline(remark)}</details>"
            for choice, remark in self.choices.items()
        )
        return f"<p><b>{_inline(self.question)}</b></p>" + "".join(folds)


def _inline(text):
    """Text as HTML, `code` between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))
