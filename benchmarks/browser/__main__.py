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
ROUNDS, PRESSES, WARM_UP = 5, 8, 2
DRAG_SECONDS, MOVES_PER_SECOND = 1.5, 60


@dataclass
class Times:
    """What was measured of one contestant."""

    presses: list = field(default_factory=list)  # milliseconds each
    frames: list = field(default_factory=list)  # per drag

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
    page.keyboard.press(key)
    latency = page.evaluate("window.gradlabWatch.answered()")
    # What is left to do is done before the next key, which may fall anywhere between two frames.
    page.wait_for_timeout(120 + random.uniform(0, 17))
    return latency


def check(page, key):
    """See that the first frame after a key is another picture, and the whole answer."""
    look = "window.gradlabWatch.look()"
    before = page.evaluate(look)
    press(page, key)
    first = page.evaluate(look)
    page.wait_for_timeout(500)
    if not before != first == page.evaluate(look):
        raise RuntimeError(f"{page.title()}: the first frame after a key is not its answer")


def drag(page):
    """Drag the slider to and fro; return the number of frames in which the picture changed."""
    slider = page.locator(SLIDER).first
    track = (
        slider if slider.evaluate("one => one.matches('input')") else slider.locator("xpath=../..")
    )
    box, handle = track.bounding_box(), slider.bounding_box()
    y = handle["y"] + handle["height"] / 2
    page.mouse.move(handle["x"] + handle["width"] / 2, y)
    page.mouse.down()
    begin, at = time.perf_counter(), page.evaluate("performance.now()")
    moves = round(DRAG_SECONDS * MOVES_PER_SECOND)
    for move in range(moves):
        there_and_back = 1 - abs(2 * move / moves - 1)
        page.mouse.move(box["x"] + box["width"] * (0.1 + 0.8 * there_and_back), y)
        time.sleep(max(0, begin + (move + 1) / MOVES_PER_SECOND - time.perf_counter()))
    frames = page.evaluate("at => window.gradlabWatch.framesSince(at)", at)
    page.mouse.up()
    page.wait_for_timeout(500)
    return frames


def take_turn(page, times, key):
    """One contestant's part of one round."""
    page.bring_to_front()
    page.locator(SLIDER).first.focus()
    for _ in range(WARM_UP):
        press(page, key)
    check(page, key)
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
        "| | key to paint, ms | middle half | × floor | frames in a drag of 1.5 s |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, one in sorted(times.items(), key=lambda item: item[1].median):
        low, _, high = statistics.quantiles(one.presses, n=4)
        lines.append(
            f"| {CONTESTANTS[name]} | {one.median:.0f} | {low:.0f} to {high:.0f} "
            f"| {one.median / floor:.2f} | {one.frame_count:.0f} |"
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
        f"{platform.system()}; medians of {presses} presses and {len(times[OURS].frames)} drags."
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
