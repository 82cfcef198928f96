"""A matplotlib figure in the browser: only what moves is drawn, and it reads aloud."""

import io
from pathlib import Path

import anywidget
import numpy as np
import traitlets
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from gradlab.widgets.frames import encoded

_HERE = Path(__file__).parent


class FigureView(anywidget.AnyWidget):
    """A matplotlib figure that a notebook shows and `draw` brings up to date.

    Args:
        fig: the figure; it gets an Agg canvas of its own.
        animated: the artists that move between frames. The rest is drawn once and kept, so change
            nothing else without calling `redraw`. None at all: everything is drawn each time.
        alt: what the picture says, for those who can't see it; set it with every change.

    Traits:
        alt, probe (the x the reader chose, once `follow` was called).

    The browser gets the background once, and of each frame only what differs from it: so each
    stands alone, and the newest wins where the browser is behind.

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

    background = traitlets.Dict().tag(sync=True)  # version, width, height, runs
    frame = traitlets.Dict().tag(sync=True)  # version of its background, runs
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
        self._canvas.restore_region(self._region)
        self._draw_animated()
        self._send_frame()

    def redraw(self):
        """Draw all of it anew, such as after a change of limits, and send the frame."""
        self._canvas.draw()
        self._region = self._canvas.copy_from_bbox(self.figure.bbox)
        self._still_pixels = self._flat_pixels().copy()
        self._draw_animated()
        with self.hold_sync():
            self._place_track()
            self._send_background()
            self._send_frame()

    @property
    def png(self):
        """The frame as it stands, as PNG."""
        file = io.BytesIO()
        self._pixels().save(file, "png")
        return file.getvalue()

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

    def _send_background(self):
        width, height = self._canvas.get_width_height()
        self.background = {
            "version": self.background.get("version", 0) + 1,
            "width": width,
            "height": height,
            "runs": encoded(self._still_pixels),
        }

    def _send_frame(self):
        self.frame = {
            "version": self.background["version"],
            "runs": encoded(self._flat_pixels(), self._still_pixels),
        }

    def _flat_pixels(self):
        return np.asarray(self._canvas.buffer_rgba()).view("<u4").ravel()

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


def _small_png(pixels):
    """A PNG with a palette: a third of the size in true colour."""
    file = io.BytesIO()
    pixels.quantize(128, method=Image.Quantize.MAXCOVERAGE).save(file, "png", optimize=True)
    return file.getvalue()
