"""A matplotlib figure in the browser: only what moves is drawn, and it reads aloud."""

import contextlib
import io
import re
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import anywidget
import matplotlib
import numpy as np
import traitlets
from matplotlib.backend_bases import ResizeEvent
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from gradlab.widgets.dark import PAPER, DarkRenderer, darkened_svg, is_light
from gradlab.widgets.digest import number
from gradlab.widgets.frames import encoded

_HERE = Path(__file__).parent
_WIDEST = 1.4  # times the width it was made with; text keeps its size
_DENSEST = 3.0
_SAVED = 2  # times the density of the figure, in a PNG
_STILL_RATIOS = (2, 1.5, 1)  # the same, in a stored notebook: the first with few enough bytes
_STILL_BYTES = 44_000  # in base64, and with what else is stored, less than 60 000


class _Look(NamedTuple):
    """How a figure is drawn: its width and height in inches, the pixels of an inch, the theme."""

    size: tuple[float, float]
    dpi: float
    theme: str = "light"


class FigureView(anywidget.AnyWidget):
    """A matplotlib figure that a notebook shows and `draw` brings up to date.

    Args:
        fig: the figure; it gets an Agg canvas of its own. One of pyplot's is taken from pyplot,
            which would show it a second time.
        animated: the artists that move between frames. The rest is drawn once and kept, so change
            nothing else without calling `redraw`. None at all: everything is drawn each time.
        alt: what the picture says, for those who can't see it; set it with every change.
        narrowest: times its width; where the page has less room, it is scaled, text too.

    Traits:
        alt, probe (the x, or [x, y], that the reader chose, once `follow` was called).

    The browser gets the background once, and of each frame only what differs from it: so each
    stands alone, and the newest wins where the browser is behind. The figure takes the width that
    the page has for it, its height kept, at the density of the display and in light or dark
    colours, as the page is; matplotlib's ``resize_event`` tells of a new size.

    Who moves artists in a thread holds `lock`, under which it draws.

    What a reader reads beside the pointer is `readout(axes, x, y)`: by default the values there
    of all lines that have a label. Set another function for another text.

    >>> from matplotlib.figure import Figure
    >>> figure = Figure()
    >>> (line,) = figure.subplots().plot([0, 1])
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
    natural_width = traitlets.Int().tag(sync=True)  # this and the next two in CSS pixels
    width = traitlets.Int().tag(sync=True)
    room = traitlets.Int().tag(sync=True)  # what the page has for it; 0: not known yet
    pixel_ratio = traitlets.Float(1.0).tag(sync=True)
    theme = traitlets.Enum(["light", "dark"], "light").tag(sync=True)
    places = traitlets.List().tag(sync=True)  # of the axes whose coordinates the browser can tell
    probe = traitlets.Union(
        [traitlets.Float(), traitlets.List(traitlets.Float())], default_value=None, allow_none=True
    ).tag(sync=True)
    probe_track = traitlets.Dict().tag(sync=True)

    def __init__(self, fig, animated=(), alt="a figure", narrowest=0.6):
        if not isinstance(fig, Figure):
            raise TypeError(f"fig: got {fig!r}; give a matplotlib Figure, such as axes.figure")
        _take_from_pyplot(fig)
        self.lock = threading.RLock()
        self.figure = fig
        self._canvas = _Canvas(fig)
        self._natural = _Look(tuple(fig.get_size_inches()), fig.dpi)
        self._look = self._natural
        self._animated = tuple(animated)
        self._narrowest = narrowest
        for artist in self._animated:
            artist.set_animated(True)
        self.readout = values_at
        width, _ = self.size
        super().__init__(alt=alt, natural_width=width)
        self.on_msg(self._answer)
        self.redraw()

    @property
    def size(self):
        """Width and height of the figure as it was made, in CSS pixels."""
        return tuple(round(side * self._natural.dpi) for side in self._natural.size)

    def draw(self):
        """Draw what moves, and send the frame."""
        if not self._animated:
            self.redraw()
            return
        with self.lock:
            self._canvas.restore_region(self._region)
            self._draw_animated()
            self._send_frame()

    def redraw(self):
        """Draw all of it anew, such as after a change of limits, and send the frame."""
        with self.lock, self.hold_sync():
            self._put_on(self._wanted())
            self._canvas.draw()
            self._region = self._canvas.copy_from_bbox(self.figure.bbox)
            self._kept = self._flat_pixels().copy()
            self._draw_animated()
            self.width = round(self._look.size[0] * self._natural.dpi)
            self.places = _places(self.figure)
            self._send_background()
            self._send_frame()

    def follow(self, axes, label="probe", step=None, plane=False):
        """Let the reader drag a probe along the x of some axes, or move it by the arrow keys.

        The trait `probe` holds where it is; observe it to draw it there.

        Args:
            axes: along whose x.
            label: what the probe is called.
            step: by how much an arrow key moves it; a pair, if x and y differ. None for a
                hundredth of the axes. On a log axis in powers of ten.
            plane: whether it moves along y too: `probe` is then [x, y].

        Raises:
            ValueError: the axes are polar, say, or on another scale than linear and log.

        """
        index = self.figure.axes.index(axes)
        if not _is_plain(axes):
            raise ValueError(
                f"axes: got {axes.name} axes, {axes.get_xscale()} by {axes.get_yscale()}; "
                "a probe needs straight axes with linear or log scales"
            )
        steps = step if isinstance(step, tuple | list) else (step, step)
        self.probe_track = {"axes": index, "label": label, "steps": list(steps), "plane": plane}

    def save(self, path):
        """Write the figure as it is shown to a file.

        Args:
            path: its name; ".png" (at double density) or ".svg" at its end tells the format.

        Raises:
            ValueError: it ends otherwise.

        """
        format_ = Path(path).suffix.lower().lstrip(".")
        if format_ not in _FORMATS:
            raise ValueError(f"path: got {str(path)!r}; give a name that ends in .png or .svg")
        Path(path).write_bytes(_FORMATS[format_](self))

    def still(self):
        """The frame as a small PNG for a page without a kernel.

        It has twice the density of the figure, or less where there is much in it, and its first
        size and colours, whatever the reader's page is like.
        """
        for ratio in _STILL_RATIOS:
            with self._drawn_as(self._natural._replace(dpi=self._natural.dpi * ratio)):
                still = _small_png(self._pixels())
            if len(still) <= _STILL_BYTES:
                break
        return still

    @property
    def png(self):
        """The frame as it stands, as PNG."""
        return _png(self._pixels())

    # How it looks

    def _wanted(self):
        if not np.array_equal(self.figure.get_size_inches(), self._look.size):  # set by its owner
            self._natural = self._natural._replace(size=tuple(self.figure.get_size_inches()))
            self.natural_width, _ = self.size
        (width, height), dpi, _ = self._natural
        if self.room:
            width = min(max(self.room / dpi, self._narrowest * width), _WIDEST * width)
        ratio = min(max(self.pixel_ratio, 1.0), _DENSEST)
        return _Look((width, height), dpi * ratio, self.theme if is_light(self.figure) else "light")

    def _put_on(self, look):
        """Change size, density and colours, without drawing."""
        if self.figure.canvas is not self._canvas:  # pyplot puts another in its place
            self.figure.set_canvas(self._canvas)
        resized = look.size != self._look.size
        self._look = look
        self._canvas.is_dark = look.theme == "dark"
        self.figure.dpi = look.dpi
        self.figure.set_size_inches(look.size)
        if resized:
            self._canvas.callbacks.process(
                "resize_event", ResizeEvent("resize_event", self._canvas)
            )

    @contextlib.contextmanager
    def _drawn_as(self, look):
        with self.lock:
            shown = self._look
            self._put_on(look)
            try:
                self._canvas.draw()
                self._draw_animated()
                yield
            finally:
                self._put_on(shown)
                self._canvas.draw()
                self._draw_animated()

    @traitlets.observe("room", "pixel_ratio", "theme")
    def _follow_page(self, _):
        if self._wanted() != self._look:
            self.redraw()

    # What is drawn, and sent

    def _draw_animated(self):
        renderer = self._canvas.get_renderer()
        for artist in self._animated:
            artist.draw(renderer)

    def _flat_pixels(self):
        return np.asarray(self._canvas.buffer_rgba()).view("<u4").ravel()

    def _pixels(self):
        return Image.fromarray(np.asarray(self._canvas.buffer_rgba())).convert("RGB")

    def _send_background(self):
        width, height = self._canvas.get_width_height(physical=True)
        self.background = {
            "version": self.background.get("version", 0) + 1,
            "width": width,
            "height": height,
            "runs": encoded(self._kept),
        }

    def _send_frame(self):
        self.frame = {
            "version": self.background["version"],
            "runs": encoded(self._flat_pixels(), self._kept),
        }

    # What the browser asks for

    def _answer(self, _, asked, buffers):
        answer, files = _ANSWERS[asked["kind"]](self, asked)
        # All views of this model hear it; the one that asked knows itself by "who".
        self.send({"kind": asked["kind"], "who": asked["who"], **answer}, files)

    def _read_out(self, asked):
        axes = self.figure.axes[asked["axes"]]
        return {"text": self.readout(axes, asked["x"], asked["y"])}, []

    def _download(self, asked):
        format_ = asked["format"]
        return {"name": f"{self._name()}.{format_}"}, [_FORMATS[format_](self)]

    def _name(self):
        """A file name: the first words of the alt text, which say what is shown."""
        words = re.findall(r"[\w.]+", re.split(r": |\n", self.alt)[0])
        return "-".join(words)[:80].strip("-.") or "figure"

    def _saved_png(self):
        dense = self._look._replace(dpi=self._natural.dpi * _SAVED)
        with self._drawn_as(dense):
            return _png(self._pixels())

    def _saved_svg(self):
        file = io.StringIO()
        # Notebooks set the box to "tight"; without a salt each file has other names inside.
        with matplotlib.rc_context({"savefig.bbox": None, "svg.hashsalt": "gradlab"}):
            self.figure.savefig(file, format="svg", metadata={"Date": None})
        text = file.getvalue()
        return (darkened_svg(text) if self._canvas.is_dark else text).encode()


_FORMATS = {"png": FigureView._saved_png, "svg": FigureView._saved_svg}
_ANSWERS = {"readout": FigureView._read_out, "save": FigureView._download}


class _Canvas(FigureCanvasAgg):
    """Agg's canvas, with a renderer for the page's theme."""

    is_dark = False
    _made_for = None

    def get_renderer(self):
        wanted = (*self.get_width_height(physical=True), self.figure.dpi, self.is_dark)
        if wanted != self._made_for:
            self._made_for = wanted
            self.renderer = (DarkRenderer if self.is_dark else RendererAgg)(*wanted[:3])
        return self.renderer

    def draw(self):
        super().draw()
        if self.figure.get_facecolor()[3] < 1:
            self._lay_on_paper()

    def _lay_on_paper(self):
        pixels = np.asarray(self.buffer_rgba())
        paper = to_rgb(PAPER)[0] if self.is_dark else 1.0
        opacity = pixels[..., 3:] / 255
        pixels[..., :3] = np.rint(pixels[..., :3] * opacity + 255 * paper * (1 - opacity))
        pixels[..., 3] = 255


def values_at(axes, x, y):
    """In words, where x is in all axes that share it: the value of each line with a label.

    >>> from matplotlib.figure import Figure
    >>> axes = Figure().subplots()
    >>> _ = axes.plot([0, 2, 4], [0, 1, 4], label="load")
    >>> values_at(axes, 3, 0)
    'load 2.5'

    """
    together = axes.get_shared_x_axes().get_siblings(axes)
    lines = [line for each in axes.figure.axes if each in together for line in each.lines]
    return " · ".join(
        f"{line.get_label()} {number(_value_at(line, x))}" for line in lines if _is_curve(line)
    )


def _is_curve(line):
    x = np.asarray(line.get_xdata(), float)
    named = line.get_visible() and not line.get_label().startswith("_")
    return named and x.size > 1 and bool((np.diff(x) >= 0).all())


def _value_at(line, x):
    xs, ys = (np.asarray(each, float) for each in line.get_data())
    return np.interp(x, xs, ys, left=np.nan, right=np.nan)


def _is_plain(axes):
    return axes.name == "rectilinear" and {axes.get_xscale(), axes.get_yscale()} <= {
        "linear",
        "log",
    }


def _places(figure):
    """Where axes lie in the figure, and what x and y their edges have."""
    return [
        {
            "axes": index,
            "box": [float(edge) for edge in axes.get_position().extents],  # left, bottom, …
            "limits": [[float(end) for end in ends] for ends in (axes.get_xlim(), axes.get_ylim())],
            "log": [axes.get_xscale() == "log", axes.get_yscale() == "log"],
        }
        for index, axes in enumerate(figure.axes)
        if axes.get_visible() and _is_plain(axes)
    ]


def _take_from_pyplot(figure):
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None and getattr(figure, "number", None) in pyplot.get_fignums():
        pyplot.close(figure)


def _png(pixels):
    file = io.BytesIO()
    pixels.save(file, "png")
    return file.getvalue()


def _small_png(pixels):
    """A PNG with a palette: a third of the size in true colour."""
    file = io.BytesIO()
    pixels.quantize(128, method=Image.Quantize.MAXCOVERAGE).save(file, "png", optimize=True)
    return file.getvalue()
