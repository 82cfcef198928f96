"""The figure on its way to the browser: blitted frames equal full ones, and the probe follows."""

import io
import re
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

import gradlab as gl
from gradlab.widgets.frames import encoded


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def runs(data):
    """Where each run begins and ends, and its colour."""
    gaps, lengths, colours = np.frombuffer(zlib.decompress(data), "<u4").reshape(3, -1)
    ends = np.cumsum(gaps + lengths, dtype=int)
    return zip(ends - lengths, ends, colours, strict=True)


def painted(view):
    """What a browser paints from the traits alone."""
    state = view.get_state()
    background, frame = state["background"], state["frame"]
    assert frame["version"] == background["version"]
    canvas = np.zeros(background["width"] * background["height"], "<u4")
    for data in (background["runs"], frame["runs"]):
        for start, end, colour in runs(data):
            canvas[start:end] = colour
    rgba = canvas.view(np.uint8).reshape(background["height"], background["width"], 4)
    assert (rgba[..., 3] == 255).all()
    return rgba[..., :3]


@pytest.fixture
def moving():
    figure = Figure(figsize=(3, 2), dpi=100)
    axes = figure.subplots()
    axes.set(xlim=(0, 4), ylim=(0, 4))
    (line,) = axes.plot([0, 1], [0, 1])
    return gl.FigureView(figure, animated=[line], alt="a line"), line


def test_a_frame_is_what_the_figure_looks_like(moving):
    view, line = moving
    line.set_data([1, 3], [3, 1])
    view.draw()
    expected = io.BytesIO()
    view.figure.savefig(expected, format="png")
    np.testing.assert_array_equal(painted(view), pixels(expected.getvalue()))
    np.testing.assert_array_equal(pixels(view.png), pixels(expected.getvalue()))


def test_a_frame_says_what_differs_from_the_background_and_no_more(moving):
    view, line = moving
    line.set_data([2, 2], [1, 3])
    before = view.background
    view.draw()
    assert view.background is before
    full = 300 * 200
    assert 0 < sum(end - start for start, end, _ in runs(view.frame["runs"])) < full / 50
    line.set_visible(False)
    view.draw()
    assert list(runs(view.frame["runs"])) == []


def test_limits_that_change_make_a_new_background(moving):
    view, line = moving
    line.axes.set_ylim(0, 40)
    view.redraw()
    assert view.background["version"] == 2
    np.testing.assert_array_equal(painted(view), pixels(view.png))


@pytest.mark.parametrize("seed", range(5))
def test_runs_give_back_any_picture(seed):
    random = np.random.default_rng(seed)
    background, picture = random.integers(0, 3, (2, 500), dtype=np.uint32)
    canvas = background.copy()
    for start, end, colour in runs(encoded(picture, background)):
        canvas[start:end] = colour
    np.testing.assert_array_equal(canvas, picture)


def test_nothing_of_the_frame_before_remains(moving):
    view, line = moving
    first = view.png
    line.set_data([0, 4], [4, 0])
    view.draw()
    assert view.png != first
    line.set_data([0, 1], [0, 1])
    view.draw()
    assert view.png == first


def test_without_animated_artists_everything_is_drawn():
    figure = Figure(figsize=(2, 2))
    view = gl.FigureView(figure)
    before = view.png
    figure.subplots().plot([0, 1])
    view.draw()
    assert view.png != before


@pytest.mark.parametrize(("ratio", "times"), [(0.5, 1), (1.25, 1.25), (2.0, 2), (8.0, 3)])
def test_pixels_are_as_dense_as_the_display(moving, ratio, times):
    view, line = moving
    view.pixel_ratio = ratio
    assert painted(view).shape == (200 * times, 300 * times, 3)
    line.set_data([0, 4], [4, 0])
    view.draw()
    np.testing.assert_array_equal(painted(view), pixels(view.png))
    assert view.width == 300


@pytest.mark.parametrize(("room", "width"), [(100, 180), (240, 240), (350, 350), (2000, 420)])
def test_the_figure_takes_the_width_there_is_and_keeps_its_height(moving, room, width):
    view, _ = moving
    told = []
    view.figure.canvas.mpl_connect("resize_event", lambda event: told.append(event.width))
    view.room = room
    assert painted(view).shape == (200, width, 3)
    assert (view.width, view.size, told) == (width, (300, 200), [width])
    assert view.figure.axes[0].xaxis.label.get_size() == 10


def test_what_the_page_tells_at_once_is_drawn_once(moving):
    view, _ = moving
    version = view.background["version"]
    page = {"room": 350, "pixel_ratio": 2.0, "theme": "dark"}
    view.set_state(page)
    assert view.background["version"] == version + 1
    view.set_state(page)
    assert view.background["version"] == version + 1
    assert painted(view).shape == (400, 700, 3)


def test_a_size_that_its_owner_sets_is_taken_over(moving):
    view, _ = moving
    view.figure.set_size_inches(4, 1)
    view.redraw()
    assert (view.size, view.width, view.natural_width) == ((400, 100), 400, 400)


def test_on_a_dark_page_greys_turn_round_and_artists_stay_as_they_are(moving):
    view, line = moving
    line.set_color("#0072b2")
    line.axes.grid(color="#e5e5e5")
    line.axes.scatter([1, 2, 3], [2, 2, 2], color=["black", "white", "red"])
    line.axes.text(1, 3, "ink", color="black", alpha=0.5)
    view.redraw()
    light = painted(view)
    view.theme = "dark"
    dark = painted(view)
    assert (light[0, 0] == 255).all()
    assert tuple(dark[0, 0]) == (0x11, 0x11, 0x11)
    np.testing.assert_array_equal(dark, pixels(view.png))
    present = {tuple(colour) for colour in dark.reshape(-1, 3)}
    assert {to_bytes("#4ba3e3"), to_bytes("#e8e8e8"), to_bytes("red")} <= present
    assert to_bytes("#0072b2") not in present
    assert line.get_color() == "#0072b2"
    view.theme = "light"
    np.testing.assert_array_equal(painted(view), light)


def to_bytes(colour):
    return tuple(round(255 * channel) for channel in to_rgb(colour))


def test_a_figure_on_dark_paper_stays_as_it_is():
    figure = Figure(figsize=(2, 2), facecolor="#222222")
    view = gl.FigureView(figure)
    before = view.png
    view.theme = "dark"
    assert view.png == before


def test_still_is_small_white_and_changes_nothing(moving):
    view, _ = moving
    before = view.png
    still = view.still()
    assert pixels(still).shape == (400, 600, 3)
    assert tuple(pixels(still)[0, 0]) == (255, 255, 255)
    assert len(still) < 20_000
    view.draw()
    assert view.png == before


def test_still_knows_nothing_of_the_page(explored):
    before = explored.still()
    explored.set_state({"room": 470, "pixel_ratio": 2.5, "theme": "dark"})
    shown = painted(explored)
    assert explored.still() == before
    np.testing.assert_array_equal(pixels(explored.png), shown)
    explored.draw()
    np.testing.assert_array_equal(painted(explored), shown)


@pytest.fixture
def explored():
    """A figure whose layout depends on its size, as an explorer has one."""
    figure = Figure(figsize=(6, 4), dpi=100, layout="constrained")
    axes = figure.subplots(2, 1, sharex=True)
    (line,) = axes[0].plot([0, 1, 2], [0, 1, 4], label="square")
    axes[1].set(xlabel="x", ylabel="slope")
    (slope,) = axes[1].plot([0, 1, 2], [0, 2, 4], "--", label="slope")
    return gl.FigureView(figure, animated=[line, slope], alt="a square at x = 1: forward 1")


def test_the_probe_track_lies_over_the_axes(moving):
    view, line = moving
    view.follow(line.axes, label="x")
    assert view.probe_track == {"axes": 0, "label": "x", "steps": [None, None], "plane": False}
    place = {
        "axes": 0,
        "box": list(line.axes.get_position().extents),
        "limits": [[0.0, 4.0], [0.0, 4.0]],
        "log": [False, False],
    }
    assert view.places == [place]


def test_frames_travel_as_binary(moving):
    view, _ = moving
    for name in ("background", "frame"):
        assert isinstance(view.get_state()[name]["runs"], bytes)


def test_the_script_ships_with_the_package_and_fetches_nothing(moving):
    view, _ = moving
    for source in (view._esm, view._css):
        assert "http" not in str(source)
        assert "import " not in str(source)
    assert "render" in str(view._esm)


def test_the_probe_in_the_plane_has_two_numbers(moving):
    view, line = moving
    view.follow(line.axes, label="start", step=(0.5, 0.25), plane=True)
    assert view.probe_track == {"axes": 0, "label": "start", "steps": [0.5, 0.25], "plane": True}
    seen = []
    view.observe(lambda change: seen.append(change.new), "probe")
    view.set_state({"probe": [1.0, 2.5]})
    assert seen == [[1.0, 2.5]]


def test_log_axes_say_so_and_others_have_no_probe():
    figure = Figure()
    plain, log, odd = figure.subplots(1, 3)
    log.set(xscale="log", yscale="log", xlim=(1e-3, 10))
    odd.set_yscale("symlog")
    view = gl.FigureView(figure)
    assert [place["axes"] for place in view.places] == [0, 1]
    assert view.places[1]["log"] == [True, True]
    assert view.places[1]["limits"][0] == [1e-3, 10]
    view.follow(log)
    with pytest.raises(ValueError, match="axes: got rectilinear axes, linear by symlog"):
        view.follow(odd)


def ask(view, **question):
    """What the browser sends, and what it gets for it."""
    answers = []
    view.send = lambda content, buffers=None: answers.append((content, buffers))
    view._handle_custom_msg({"who": "me", **question}, [])
    return answers


def test_values_are_read_out_in_all_axes_that_share_x(explored):
    (answer, _), *others = ask(explored, kind="readout", axes=0, x=1.5, y=0.0)
    assert answer == {"kind": "readout", "who": "me", "text": "square 2.5 · slope 3"}
    assert others == []
    explored.readout = lambda axes, x, y: f"{axes.get_ylabel()} {x} {y}"
    ((answer, _),) = ask(explored, kind="readout", axes=1, x=1.5, y=0.5)
    assert answer["text"] == "slope 1.5 0.5"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("format_", ["png", "svg"])
def test_what_is_saved_is_what_is_shown(explored, tmp_path, format_, theme):
    explored.set_state({"room": 500, "theme": theme})
    shown = painted(explored)
    path = tmp_path / f"figure.{format_.upper()}"
    explored.save(path)
    ((answer, (file,)),) = ask(explored, kind="save", format=format_)
    assert answer["name"] == f"a-square-at-x-1.{format_}"
    assert file == path.read_bytes()
    np.testing.assert_array_equal(painted(explored), shown)
    if format_ == "png":
        assert pixels(file).shape == (2 * 400, 2 * 500, 3)
        assert (pixels(file)[0, 0] == shown[0, 0]).all()
    else:
        root = ElementTree.fromstring(file)
        assert root.get("width") == "360pt"  # 500 CSS pixels, of which a point has 1.39 at 100 dpi
        paper, ink = ("#111111", "#e8e8e8") if theme == "dark" else ("#ffffff", "#000000")
        assert paper in file.decode()
        assert root.get("fill") == (ink if theme == "dark" else None)
        curves = re.findall(r"stroke: #1f77b4", file.decode())
        assert len(curves) == 2  # both animated lines are in it
        assert ("#ffffff" in file.decode()) is (theme == "light")


@pytest.mark.parametrize("name", ["figure.jpg", "figure", "png"])
def test_another_format_says_which_there_are(moving, tmp_path, name):
    view, _ = moving
    with pytest.raises(ValueError, match=r"path: got .*; give a name that ends in .png or .svg"):
        view.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_figure_of_pyplot_is_shown_once():
    figure, axes = pyplot.subplots()
    (line,) = axes.plot([0, 1])
    view = gl.FigureView(figure, animated=[line])
    assert figure.number not in pyplot.get_fignums()
    before = view.png
    line.set_ydata([1, 0])
    view.draw()
    assert view.png != before
    pyplot.close("all")
    view.pixel_ratio = 2.0
    assert painted(view).shape[1] == 2 * view.width


def test_transparent_paper_lies_on_that_of_the_page():
    figure = Figure(figsize=(1, 1), facecolor="none")
    view = gl.FigureView(figure)
    assert (painted(view) == 255).all()
    view.theme = "dark"
    assert (painted(view) == 0x11).all()


def test_what_is_no_figure_is_named():
    with pytest.raises(TypeError, match="fig: got 'x'; give a matplotlib Figure"):
        gl.FigureView("x")


EXPLORERS = {
    "explore": lambda: gl.explore("clip_gradient_by_value"),
    "explore, believed": lambda: gl.explore("sign_ste", believed=True),
    "explore, pinned": lambda: gl.explore("clip_gradient_by_value", believed=True).pin(),
    "explore_clipping": lambda: gl.explore_clipping().pin(),
    "explore_descent": lambda: gl.explore_descent().pin(),
    "explore_quantizer": lambda: gl.explore_quantizer().pin(),
    "explore_override": lambda: gl.explore_override().pin(),
    "explore_check": lambda: gl.explore_check().pin(),
    "explore_spike": lambda: gl.explore_spike().pin(),
}


@pytest.mark.parametrize("name", EXPLORERS)
def test_no_legend_of_an_explorer_is_cut_or_lies_on_another(name):
    for room in (1, 480, 520, 600, 680, 760, 10_000):
        view = EXPLORERS[name]().view
        view.room = room
        legends = [axes.get_legend() for axes in view.figure.axes] + view.figure.legends
        boxes = [legend.get_window_extent() for legend in legends if legend]
        for i, box in enumerate(boxes):
            assert box.x0 >= 0, room
            assert box.x1 <= view.figure.bbox.x1, room
            assert box.y1 <= view.figure.bbox.y1 + 1, room
            assert not any(box.overlaps(other) for other in boxes[:i]), room
