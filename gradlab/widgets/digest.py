"""An explorer's state in words: the same on every machine, to three significant digits."""

from decimal import ROUND_HALF_EVEN, Context

import numpy as np

# Twice: what differs between machines is behind the sixth digit, so the first rounding removes it,
# and the second meets the same number everywhere, even one that lies on the edge.
_FIRST = Context(prec=6, rounding=ROUND_HALF_EVEN)
_SECOND = Context(prec=3, rounding=ROUND_HALF_EVEN)
_NOTHING = 1e-6  # times the size of its neighbours: such a value is rounding


def number(value, scale=0.0):
    """A number to three significant digits.

    Args:
        value: a number.
        scale: the size of its neighbours; what is a million times smaller is rounding: zero.

    >>> number(0.123456), number(-0.0), number(12345.0), number(1e-9, scale=1.0), number(2)
    ('0.123', '0', '12300', '0', '2')
    >>> number(float("nan")), number(float("-inf")), number(1.5e-7), number(-3e12)
    ('undefined', '-∞', '1.5e-7', '-3e12')

    """
    value = float(value)
    if np.isnan(value):
        return "undefined"
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    if abs(value) <= _NOTHING * scale or value == 0:
        return "0"
    rounded = _SECOND.create_decimal(_FIRST.create_decimal_from_float(value)).normalize()
    if 1e-4 <= abs(rounded) < 1e6:
        return f"{rounded:f}"
    mantissa, _, exponent = f"{rounded:e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def setting(value):
    """A parameter's value as the reader wrote it, numbers to six digits."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def subject(name, states, loss="x"):
    """What is shown: the op with its parameters, and the loss applied to it.

    >>> subject("scale_gradient", {"scale": 2.0}, "x²/2")
    'x²/2 of scale_gradient(scale=2)'
    """
    inside = ", ".join(f"{key}={setting(state)}" for key, state in states.items())
    op = f"{name}({inside})" if inside else name
    return op if loss == "x" else f"{loss} of {op}"


def digest(subject, curve, point):
    """Two lines: what the probe shows, and where gradient and slope part."""
    upstream = "" if curve.upstream == 1 else f", upstream {number(curve.upstream)}"
    here = f"{subject}{upstream} at x = {number(point.x)}"
    return f"{here}: {_values(curve, point)};\n{_comparison(curve)}"


def _values(curve, point):
    rounding = _size(np.atleast_1d(curve.rounding))
    rates = max(_size(curve.gradient), _size(curve.slope), rounding / _NOTHING)
    return ", ".join(
        f"{name} {number(getattr(point, name), scale)}"
        for name, scale in (
            ("forward", _size(curve.forward)),
            ("gradient", rates),
            ("slope", rates),
        )
    )


def _size(values):
    """A typical size, so that a pole doesn't count all the rest as rounding."""
    some = values[:: max(1, len(values) // 10_000)]
    there = np.abs(some[np.isfinite(some)])
    return float(np.median(there)) if there.size else 0.0


def _comparison(curve):
    low, high = number(curve.x[0]), number(curve.x[-1])
    compared = np.isfinite(curve.gradient) & np.isfinite(curve.slope)
    if not np.isfinite(curve.gradient).any():
        return f"no gradient on {low}…{high}"
    if not compared.any():
        return f"no slope to compare with on {low}…{high}"
    lost = np.isfinite(curve.forward) & ~np.isfinite(curve.gradient)
    without = f"; no gradient on {_percent(lost.mean())} %" if lost.any() else ""
    share = np.count_nonzero(curve.parted) / np.count_nonzero(compared)
    if share == 0:
        return f"gradient and slope agree on {low}…{high}{without}"
    return f"gradient and slope part on {_percent(share)} % of {low}…{high}{without}"


def _percent(share):
    """A share in whole percents: 0 and 100 are none and all."""
    return 100 if share == 1 else min(max(round(100 * share), 1), 99)
