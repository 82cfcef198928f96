"""A light figure on a dark page: colours are exchanged while it is drawn, so no artist knows.

Greys turn round, white paper and black ink first of all; the colours of gradlab's lines, Okabe
and Ito's, have a counterpart each; what else the reader chose stays.
"""

import functools
import re

import numpy as np
from matplotlib.backend_bases import GraphicsContextBase
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.colors import to_hex, to_rgba

PAPER = "#111111"  # as JupyterLab's
INK = "#e8e8e8"
COUNTERPARTS = {
    "#0072b2": "#4ba3e3",
    "#cc79a7": "#dd8fbb",
    "#d55e00": "#ff8533",
    "#009e73": "#1fc296",
    "#f0e442": "#8c8526",  # dim, for what lies over it is light
}


def is_light(figure):
    """Whether a figure was made for a light page: one on dark paper stays as it is."""
    red, green, blue, alpha = figure.get_facecolor()
    return alpha * (0.3 * red + 0.59 * green + 0.11 * blue) + 1 - alpha > 0.5


def darkened(colour):
    """What a colour becomes on a dark page, as RGBA.

    >>> to_hex(darkened("white")), to_hex(darkened("black")), to_hex(darkened("C0"))
    ('#111111', '#e8e8e8', '#1f77b4')
    """
    return _darkened(to_rgba(colour))


@functools.lru_cache(maxsize=4096)
def _darkened(rgba):
    red, green, blue, alpha = rgba
    name = to_hex(rgba)
    if name in COUNTERPARTS:
        return to_rgba(COUNTERPARTS[name], alpha)
    if max(red, green, blue) - min(red, green, blue) > 0.004:
        return rgba
    ink, paper = to_rgba(INK)[0], to_rgba(PAPER)[0]
    grey = ink + (paper - ink) * green
    return grey, grey, grey, alpha


def darkened_svg(text):
    """An SVG of matplotlib's with its colours exchanged."""
    text = re.sub(
        r'(?<=[:"] )#[0-9a-f]{6}\b|(?<=")#[0-9a-f]{6}(?=")', lambda found: _hex(found[0]), text
    )
    return text.replace("<svg ", f'<svg fill="{INK}" ', 1)  # black is what it leaves unsaid


def _hex(colour):
    return to_hex(darkened(colour))


class DarkRenderer(RendererAgg):
    """Agg that draws each colour as it is on a dark page."""

    def new_gc(self):
        """A context that exchanges the colours it is given."""
        return _DarkContext()

    def draw_path(self, gc, path, transform, rgbFace=None):
        """Draw a path, its face dark."""
        super().draw_path(gc, path, transform, _face(rgbFace))

    def _update_methods(self):
        super()._update_methods()  # sets these as attributes, over any method of a subclass
        self.draw_markers = functools.partial(_draw_markers, self.draw_markers)
        self.draw_path_collection = functools.partial(_draw_collection, self.draw_path_collection)


class _DarkContext(GraphicsContextBase):
    """Holds the colour it was given too: with a new alpha, that one is exchanged again."""

    def __init__(self):
        super().__init__()
        self.set_foreground("black")

    def set_foreground(self, fg, isRGBA=False):
        super().set_foreground(fg, isRGBA)
        self._light = self._rgb
        self._rgb = darkened(self._light)

    def set_alpha(self, alpha):
        self._rgb = self._light
        super().set_alpha(alpha)

    def copy_properties(self, gc):
        super().copy_properties(gc)
        self._light = gc._light

    def set_hatch_color(self, hatch_color):
        super().set_hatch_color(darkened(hatch_color))


def _draw_markers(draw, gc, marker_path, marker_trans, path, trans, rgbFace=None):
    draw(gc, marker_path, marker_trans, path, trans, _face(rgbFace))


def _draw_collection(draw, gc, transform, paths, all_, offsets, offset, faces, edges, *rest, **kw):
    faces, edges = _all_darkened(faces), _all_darkened(edges)
    draw(gc, transform, paths, all_, offsets, offset, faces, edges, *rest, **kw)


def _all_darkened(colours):
    return np.array([darkened(colour) for colour in colours]).reshape(-1, 4)


def _face(rgb):
    return None if rgb is None else darkened(rgb)[: len(rgb)]
