"""``predict``: a guess, committed before the run that settles it."""

import html
import re

import ipywidgets as widgets


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


class Prediction(widgets.VBox):
    """The form behind `predict`: `choose`, `commit` and `reset` do what its controls do."""

    def __init__(self, question, choices):
        if not isinstance(choices, dict) or len(choices) < 2:
            raise ValueError(
                f"predict: choices must be a dict of at least two choices and their reveals, "
                f"got {choices!r}"
            )
        self.question, self.choices = question, dict(choices)
        self._radio = widgets.RadioButtons(
            options=list(choices), value=None, layout={"width": "max-content"}
        )
        self._button = widgets.Button(description="Commit", disabled=True)
        self._remark = widgets.HTML()
        self._radio.observe(self._on_choice, "value")
        self._button.on_click(lambda _: self.reset() if self.committed else self.commit())
        asked = widgets.HTML(f"<b>{_inline(question)}</b>")
        super().__init__([asked, self._radio, self._button, self._remark])
        self.committed = False

    @property
    def choice(self):
        """The choice that is marked, or None."""
        return self._radio.value

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
        if not self.committed:
            self._radio.value = choice

    def commit(self):
        """Fix the choice and show the remark on it; without a choice this does nothing."""
        if self.choice is None:
            return
        self.committed = True
        self._radio.disabled = True
        self._button.description = "Guess again"
        self._remark.value = _inline(self.reveal)

    def reset(self):
        """Forget the choice and hide the remark."""
        self.committed = False
        self._radio.disabled = False
        self._radio.value = None
        self._button.description = "Commit"
        self._remark.value = ""

    def _on_choice(self, change):
        self._button.disabled = change["new"] is None

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        return {**bundle, "text/plain": self.text, "text/html": self._folded()}

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
