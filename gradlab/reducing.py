"""A line of many points cut down to what the pixels can show."""

import numpy as np


def shown(values, columns):
    """Which points of a line to draw, so that the picture stays the same.

    Of each column the first and the last point, the least and the greatest, and both ends of
    every gap: a spike of one point is still there, and so is its height.

    Args:
        values: shape (n,), at evenly spaced x; NaN leaves a gap.
        columns: how many columns of pixels they are drawn on.

    Returns:
        Indices, rising. All of them where that is hardly more than the columns need.

    >>> values = np.zeros(1000)
    >>> values[617] = 5.0
    >>> shown(values, 4)
    array([  0, 249, 250, 499, 500, 617, 749, 750, 999])

    """
    values = np.asarray(values)
    each = values.size // max(1, columns)
    if each < 8:
        return np.arange(values.size)
    whole = values.size // each * each
    blocks = values[:whole].reshape(-1, each)
    firsts = np.arange(0, whole, each)
    least, greatest = blocks.argmin(1), blocks.argmax(1)  # or a gap, where there is one
    gaps = np.isnan(blocks[np.arange(len(blocks)), least])
    kept = [firsts, firsts + each - 1, firsts + least, firsts + greatest]
    kept += [
        first + _beside_gaps(block) for first, block in zip(firsts[gaps], blocks[gaps], strict=True)
    ]
    return np.unique(np.concatenate([*kept, np.arange(whole, values.size)]))


def _beside_gaps(block):
    """Of a column with gaps in it: the ends of each gap, the least and the greatest value."""
    gap = np.isnan(block)
    if gap.all():
        return np.array([0])
    ends = np.flatnonzero(gap[1:] != gap[:-1])
    return np.concatenate([ends, ends + 1, [np.nanargmin(block), np.nanargmax(block)]])
