"""Keeping TensorFlow's retracing and fallback warnings out of a check, and errors to one line."""

import contextlib
import logging
import re

_LONGEST = 240
_VARYING = (
    (r"\x1b\[[0-9;]*m", ""),
    (r"\{\{[^}]*\}\}|\[Op:[^\]]*\]|name:\s*$", ""),
    (r"\[_XlaMustCompile=[^\]]*\]", ""),
    (r"Exception encountered when calling [\w.]+\(\)\. (.*) Arguments received by .*", r"\1"),
    (r"__(?:inference|forward|backward)_([\w<>]+?)_\d+", r"\1"),
    (r"0x[0-9a-f]+", "0x…"),
    (r"(?:/[\w.\-]+){2,}/([\w.\-]+)", r"…/\1"),
)


class FunctionRaised(Exception):
    """What the checked function, or its rule, raised: a finding, in one line."""


@contextlib.contextmanager
def its_errors():
    """Whatever is raised inside is the checked function's doing."""
    try:
        yield
    except Exception as error:
        raise FunctionRaised(one_line(error)) from error


@contextlib.contextmanager
def quiet():
    """Hold back TensorFlow's Python warnings: a check traces often, and on purpose."""
    logger = logging.getLogger("tensorflow")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def one_line(error):
    """Type and message of an error, in one line that is the same on every run."""
    return said(type(error).__name__, str(error))


def said(kind, message):
    """An error's type and message in one line, without what differs between runs."""
    message = " ".join(_told(message).split())
    for pattern, instead in _VARYING:
        message = re.sub(pattern, instead, message)
    message = message.strip()
    short = message if len(message) <= _LONGEST else message[: _LONGEST - 1].rstrip() + "…"
    return f"{kind}: {short}" if short else kind


def _told(message):
    """A message without the traceback that autograph, or NumPy code in a graph, adds to it."""
    message = message.split("Traceback (most recent call last)")[0].strip() or message
    if not message.startswith("in user code:"):
        return message
    told = re.split(r"\n\s+\w+(?:Error|Exception): ", message)
    return told[-1] if len(told) > 1 else message
