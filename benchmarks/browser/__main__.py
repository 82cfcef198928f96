"""From key press to paint, in JupyterLab in headless Chromium: ``make bench-browser``.

Every contestant has a notebook, a kernel and a tab of its own, and moves the same two curves of
513 points from its own natural slider. They take turns, round after round, since the machine is
never quiet for all of a run. What is timed, and how, stands in watch.js. With --write the table
goes into benchmarks/README.md too.
"""

import argparse
import datetime
import os
import platform
import random
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

from tools.lab import START_SECONDS, chromium, open_lesson, run_all, serving

CELLS = Path(__file__).parent / "contestants"
WATCH = Path(__file__).parent / "watch.js"
README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- make bench-browser ARGS=--write -->", "<!-- end -->"
CONTESTANTS = {
    "gradlab_explore": "gradlab explorer",
    "interact_inline": "interact, inline matplotlib",
    "ipympl_draw_idle": "ipympl, draw_idle",
    "ipympl_blit": "ipympl, blit",
    "bqplot_lines": "bqplot",
    "plotly_figure_widget": "plotly FigureWidget",
    "empty_canvas": "floor: slider, empty canvas",
}
OURS, SLOWEST, FLOOR = "gradlab_explore", "interact_inline", "empty_canvas"
SLIDER = ".jp-OutputArea-output :is(input[type=range], .noUi-handle)"
ROUNDS, PRESSES, WARM_UP = 4, 9, 2
QUIET = 120  # milliseconds
DRAG_SECONDS, MOVES_PER_SECOND = 1.5, 90


@dataclass
class Times:
    """What was measured of one contestant."""

    presses: list = field(default_factory=list)  # milliseconds each
    frames: list = field(default_factory=list)  # per drag
    whole: list = field(default_factory=list)  # whether the first frame was the whole answer

    @property
    def median(self):
        return statistics.median(self.presses)

    @property
    def frame_count(self):
        return statistics.median(self.frames)


# In the browser


def opened(browser, server, name):
    """Run a contestant's notebook in a tab of its own, with its slider in focus."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.add_init_script(path=WATCH)
    open_lesson(page, server, server.write(name, (CELLS / f"{name}.py").read_text()))
    # One notebook to a window, without the side bar: what else JupyterLab shows takes its share.
    page.evaluate(
        "window.jupyterapp.commands.execute('application:set-mode', {mode: 'single-document'})"
    )
    if not run_all(page):
        raise RuntimeError(f"{name} does not run")
    page.locator(SLIDER).first.wait_for(timeout=START_SECONDS * 1000)
    page.locator(SLIDER).first.scroll_into_view_if_needed()
    return page


def press(page, key):
    """Press a key; return the milliseconds until the picture was painted anew."""
    page.locator(SLIDER).first.focus()  # which JupyterLab may have taken meanwhile
    page.keyboard.press(key)
    latency = page.evaluate("window.gradlabWatch.answered()")
    # The next key may fall anywhere between two frames.
    page.evaluate("time => window.gradlabWatch.quiet(time)", QUIET + random.uniform(0, 17))
    return latency


def answers_at_once(page, key):
    """Say whether the first frame after a key is the whole answer: what is seen once all is quiet.

    Else the time to the first frame flatters.
    """
    look = "window.gradlabWatch.look()"
    page.keyboard.press(key)
    page.evaluate("window.gradlabWatch.answered()")
    first = page.evaluate(look)
    page.evaluate("window.gradlabWatch.quiet(500)")
    return first == page.evaluate(look)


def drag(page):
    """Drag the slider to and fro; return the number of frames in which the picture changed."""
    slider = page.locator(SLIDER).first
    native = slider.evaluate("one => one.matches('input')")
    track = slider if native else page.locator(".noUi-base").first
    box, handle = track.bounding_box(), slider.bounding_box()
    y = handle["y"] + handle["height"] / 2
    page.mouse.move(handle["x"] + handle["width"] / 2, y)
    page.mouse.down()
    page.evaluate("window.gradlabWatch.frames = []")
    begin = time.perf_counter()
    while (done := (time.perf_counter() - begin) / DRAG_SECONDS) < 1:
        page.mouse.move(box["x"] + box["width"] * (0.9 - 0.8 * abs(2 * done - 1)), y)
        time.sleep(1 / MOVES_PER_SECOND)
    frames = page.evaluate("window.gradlabWatch.frames.length")
    page.mouse.up()
    page.evaluate("window.gradlabWatch.quiet(500)")
    return frames


def take_turn(page, times, key):
    """One contestant's part of one round."""
    page.bring_to_front()
    page.locator(SLIDER).first.focus()
    for _ in range(WARM_UP):
        press(page, key)
    times.whole.append(answers_at_once(page, key))
    times.presses += [press(page, key) for _ in range(PRESSES)]
    times.frames.append(drag(page))


def measure(names=tuple(CONTESTANTS), rounds=ROUNDS):
    """Measure all contestants in turns; return their times by name."""
    times = {name: Times() for name in names}
    with serving(CELLS) as server, chromium() as browser:
        pages = {name: opened(browser, server, name) for name in names}
        for number in range(rounds):
            key = ("ArrowRight", "ArrowLeft")[number % 2]
            for name in random.sample(names, len(names)):
                take_turn(pages[name], times[name], key)
    return times


# The table


def verdicts(times):
    """List what is wanted of the explorer: in words, what it is, and whether it holds."""
    ours, floor = times[OURS], times[FLOOR]
    others = {name: one for name, one in times.items() if name not in (OURS, FLOOR)}
    fastest = min(others, key=lambda name: others[name].median)
    to_floor = ours.median / floor.median
    to_fastest = ours.median / others[fastest].median
    to_slowest = others[SLOWEST].median / ours.median
    frames = ours.frame_count / floor.frame_count
    return [
        ("key to paint, over the floor's: at most 1.3", to_floor, to_floor <= 1.3),
        (
            f"over that of the fastest other, {CONTESTANTS[fastest]}: at most 1",
            to_fastest,
            to_fastest <= 1,
        ),
        ("times as fast as interact: at least 2.5", to_slowest, to_slowest >= 2.5),
        ("frames in a drag, over the floor's: at least 0.9", frames, frames >= 0.9),
    ]


def table(times):
    """Compose the tables, in Markdown."""
    floor = times[FLOOR].median
    lines = [
        "| | key to paint, ms | middle half | × floor | frames in a drag | whole at once |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, one in sorted(times.items(), key=lambda item: item[1].median):
        low, _, high = statistics.quantiles(one.presses, n=4)
        lines.append(
            f"| {CONTESTANTS[name]} | {one.median:.0f} | {low:.0f} to {high:.0f} "
            f"| {one.median / floor:.2f} | {one.frame_count:.0f} "
            f"| {sum(one.whole)} of {len(one.whole)} |"
        )
    lines += ["", "| wanted of the explorer | is | ok |", "|---|--:|---|"]
    for words, value, holds in verdicts(times):
        lines.append(f"| {words} | {value:.2f} | {'yes' if holds else 'NO'} |")
    return "\n".join(lines)


def circumstances(times):
    """Say when and on what it was measured."""
    from gradlab import devices  # here, since it brings TensorFlow, which all else does without

    presses = min(len(one.presses) for one in times.values())
    return (
        f"{datetime.date.today()}, {os.cpu_count()} × {devices.choose('cpu').model}, "
        f"{platform.system()}; medians of {presses} presses and {len(times[OURS].frames)} drags; "
        f"load over the last quarter of an hour: {os.getloadavg()[2]:.1f}."
    )


def write(text, readme=README):
    """Put the text between the marks in benchmarks/README.md."""
    before, rest = readme.read_text().split(BEGIN)
    _, after = rest.split(END)
    readme.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def main():
    """Measure, print the table, and with --write put it into benchmarks/README.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.browser", description=main.__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into the README too")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"{PRESSES} presses each")
    given = parser.parse_args()
    times = measure(rounds=given.rounds)
    text = f"{circumstances(times)}\n\n{table(times)}"
    print(text)
    if given.write:
        write(text)


if __name__ == "__main__":
    main()
