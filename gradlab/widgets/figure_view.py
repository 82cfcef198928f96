"""A matplotlib figure in the browser: only what moves is drawn, and it reads aloud."""

import io
import zlib
from pathlib import Path

import anywidget
import numpy as np
import traitlets
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

_HERE = Path(__file__).parent


class FigureView(anywidget.AnyWidget):
    """A matplotlib figure that a notebook shows and `draw` brings up to date.

    Args:
        fig: the figure; it gets an Agg canvas of its own.
        animated: the artists that move between frames. The rest is drawn once and kept, so change
            nothing else without calling `redraw`. None at all: everything is drawn each time.
        alt: what the picture says, for those who can't see it; set it with every change.

    Traits:
        alt, png (the frame as it stands), probe (the x the reader chose, once `follow` was called).

    >>> from matplotlib.figure import Figure
    >>> figure = Figure()
    >>> (line,) = figure.subplots().plot([0, 1], animated=True)
    >>> view = FigureView(figure, animated=[line], alt="a rising line")
    >>> before = view.png
    >>> line.set_ydata([1, 0])
    >>> view.draw()
    >>> view.png == before
    False

    """

    _esm = _HERE / "figure_view.js"
    _css = _HERE / "figure_view.css"

    png = traitlets.Bytes().tag(sync=True)
    alt = traitlets.Unicode("a figure").tag(sync=True)
    width = traitlets.Int().tag(sync=True)
    pixel_ratio = traitlets.Float(1.0).tag(sync=True)
    probe = traitlets.Float(None, allow_none=True).tag(sync=True)
    probe_track = traitlets.Dict().tag(sync=True)

    def __init__(self, fig, animated=(), alt="a figure"):
        self.figure = fig
        self._canvas = FigureCanvasAgg(fig)
        self._dpi = fig.dpi
        self._animated = tuple(animated)
        for artist in self._animated:
            artist.set_animated(True)
        self._followed = None
        super().__init__(alt=alt, width=round(fig.get_figwidth() * fig.dpi))
        self.redraw()

    def draw(self):
        """Draw what moves, and send the frame."""
        if not self._animated:
            self.redraw()
            return
        self._canvas.restore_region(self._background)
        self._draw_animated()
        self.png = _quick_png(self._pixels())

    def redraw(self):
        """Draw all of it anew, such as after a change of limits, and send the frame."""
        self._canvas.draw()
        self._background = self._canvas.copy_from_bbox(self.figure.bbox)
        self._draw_animated()
        self._place_track()
        self.png = _quick_png(self._pixels())

    def follow(self, axes, label="probe", step=None):
        """Let the reader drag a probe along the x of some axes, or move it by the arrow keys.

        The trait `probe` holds where it is; observe it to draw it there.
        """
        low, high = axes.get_xlim()
        self._followed = axes
        self.probe_track = {
            "label": label,
            "low": low,
            "high": high,
            "step": step or (high - low) / 100,
        }
        self._place_track()

    def still(self, ratio=2):
        """The frame as a small PNG, at `ratio` times the density, for a page without a kernel."""
        shown = self.figure.dpi
        self.figure.dpi = self._dpi * ratio
        try:
            self._canvas.draw()
            self._draw_animated()
            return _small_png(self._pixels())
        finally:
            self.figure.dpi = shown
            self._canvas.draw()

    def _pixels(self):
        return Image.fromarray(np.asarray(self._canvas.buffer_rgba())).convert("RGB")

    def _draw_animated(self):
        for artist in self._animated:
            artist.axes.draw_artist(artist)

    def _place_track(self):
        if self._followed is not None:
            box = self._followed.get_position()
            self.probe_track = {**self.probe_track, "left": box.x0, "right": box.x1}

    @traitlets.observe("pixel_ratio")
    def _change_density(self, change):
        self.figure.dpi = self._dpi * min(max(change.new, 1.0), 3.0)
        self.redraw()


def _quick_png(pixels):
    """A PNG soon made: runs of one colour, which is most of a figure, are all it looks for."""
    file = io.BytesIO()
    pixels.save(file, "png", compress_level=1, compress_type=zlib.Z_RLE)
    return file.getvalue()


def _small_png(pixels):
    """A PNG with a palette: a third of the size in true colour."""
    file = io.BytesIO()
    pixels.quantize(128, method=Image.Quantize.MAXCOVERAGE).save(file, "png", optimize=True)
    return file.getvalue()
