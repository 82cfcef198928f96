"""What the checks hand back: results that print, show in a notebook and raise."""

import dataclasses
import html

import numpy as np

PASS, FAIL, KINK = "pass", "fail", "not differentiable here"
_SHOWN = 3  # kinks named before "and … more"


class CheckFailed(AssertionError):
    """Raised by ``raise_if_failed``; the message is the printed result."""


class Report:
    """The common manners of results: truth value, plain and HTML form, raising."""

    @property
    def ok(self):
        """Whether nothing is wrong."""
        raise NotImplementedError

    def __bool__(self):
        return self.ok

    def __repr__(self):
        return str(self)

    def raise_if_failed(self):
        """Raise CheckFailed, an AssertionError that says what is wrong; else return the result."""
        if not self.ok:
            raise CheckFailed(str(self))
        return self


@dataclasses.dataclass(frozen=True)
class Difference:
    """A gradient or tangent beside the slope, at one place."""

    where: str
    gradient: float
    slope: float
    allowed: float
    at_kink: bool = False

    @property
    def error(self):
        """How far the two are apart."""
        return abs(self.gradient - self.slope)

    def say(self, word):
        """One line, rounded."""
        said = f"{self.where}: {word} {figure(self.gradient)}, slope {figure(self.slope)}"
        if self.at_kink:
            return f"{said}, at a kink and outside the slopes of its two sides"
        if not np.isfinite(self.error):
            return said
        return f"{said}, off by {figure(self.error)} where {self.allowed:.0e} is allowed"


@dataclasses.dataclass(frozen=True)
class Part:
    """The verdict on one order of derivative in one mode."""

    order: int
    mode: str
    verdict: str
    checked: str = ""
    worst: Difference | None = None
    kinks: tuple = ()
    reason: str = ""
    gradient: np.ndarray = dataclasses.field(default=None, repr=False, compare=False)
    slope: np.ndarray = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def detail(self):
        """What was found, in one line."""
        found = [self.reason] if self.reason else []
        if self.verdict == FAIL and self.worst is not None:
            found.append(
                "worst " + self.worst.say("gradient" if self.mode == "reverse" else "tangent")
            )
        if self.kinks:
            found.append("not differentiable here, set aside: " + few(self.kinks))
        return "; ".join([*found, self.checked] if self.checked else found)


@dataclasses.dataclass(frozen=True, repr=False)
class GradientCheck(Report):
    """The result of check_gradient or check_surrogate: one part per order and mode."""

    title: str
    parts: tuple
    reason: str = ""

    @property
    def ok(self):
        """Whether every part passed."""
        return self.verdict == PASS

    @property
    def verdict(self):
        """``"pass"``, ``"fail"`` or ``"not differentiable here"``: the worst of the parts."""
        verdicts = {part.verdict for part in self.parts} | ({FAIL} if self.reason else set())
        return next((v for v in (FAIL, KINK) if v in verdicts), PASS)

    @property
    def worst(self):
        """The largest failing difference of the first part that failed, or None."""
        failing = (part.worst for part in self.parts if part.verdict == FAIL)
        return next((worst for worst in failing if worst is not None), None)

    def plot(self):
        """A matplotlib figure: gradient against slope, one panel per part."""
        import gradlab  # the public name: drawing is a room beside this one

        return gradlab.plot_check(self)

    def __str__(self):
        lines = [f"{self.title}: {self.verdict}", *([f"  {self.reason}"] if self.reason else [])]
        for part in self.parts:
            lines += [f"  order {part.order}, {part.mode}: {part.verdict}"]
            lines += [f"    {part.detail}"] if part.detail else []
        return "\n".join(lines)

    def _repr_html_(self):
        rows = [(f"{p.order}", p.mode, p.verdict, p.detail) for p in self.parts]
        caption = f"{self.title}: {self.verdict}" + (f" ({self.reason})" if self.reason else "")
        return table(caption, ("order", "mode", "verdict", "found"), rows)


@dataclasses.dataclass(frozen=True)
class ModeRow:
    """One mode of check_modes: its verdict, and the reason if it did not pass.

    ``raised`` tells an exception, whose type stands first in the reason, from a wrong number.
    """

    mode: str
    verdict: str
    reason: str = ""
    raised: bool = False


@dataclasses.dataclass(frozen=True, repr=False)
class ModesCheck(Report):
    """The result of check_modes: one row per mode."""

    title: str
    rows: tuple

    @property
    def ok(self):
        """Whether no mode failed."""
        return not self.failed

    @property
    def failed(self):
        """The modes that failed, each with its reason."""
        return {row.mode: row.reason for row in self.rows if row.verdict == FAIL}

    def __getitem__(self, mode):
        for row in self.rows:
            if row.mode == mode:
                return row
        raise KeyError(f"no mode {mode!r} in this table; it has {[row.mode for row in self.rows]}")

    def __str__(self):
        width = max(len(row.mode) for row in self.rows)
        lines = [
            f"{row.mode:<{width}}  {row.verdict:<9}  {row.reason}".rstrip() for row in self.rows
        ]
        return "\n".join([self._caption, *lines])

    def _repr_html_(self):
        rows = [(row.mode, row.verdict, row.reason) for row in self.rows]
        return table(self._caption, ("mode", "verdict", "reason"), rows)

    @property
    def _caption(self):
        tried = [row for row in self.rows if row.verdict in (PASS, FAIL)]
        return f"{self.title}: {len(tried) - len(self.failed)} of {len(tried)} modes pass"


def figure(value):
    """A number to three significant digits; no sign on a zero."""
    return f"{value + 0.0:.3g}"


def few(names):
    """The first names, and how many more there are."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def table(caption, heads, rows):
    """An HTML table: text escaped, verdicts in words, nothing told by colour alone."""
    head = "".join(f'<th scope="col" style="text-align:left">{html.escape(h)}</th>' for h in heads)
    body = "\n".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    return (
        f'<table>\n<caption style="text-align:left">{html.escape(caption)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    )


def _cells(row):
    return "".join(f'<td style="text-align:left">{_emphasised(text)}</td>' for text in row)


def _emphasised(text):
    return f"<b>{FAIL}</b>" if text == FAIL else html.escape(text)
