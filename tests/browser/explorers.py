"""What the browser tests do to an explorer, by mouse and by keyboard, and what they look at."""

import re
import time

PICTURE = ".gradlab-figure"
SLIDERS = ("input[type=range]", ".gradlab-probe")  # of a parameter, and over the figure
STEPS = 5
SECONDS = 20
# What tells of a failure, wherever notebooks open.
ERRORS = (
    "[data-mime-type='application/vnd.jupyter.error']",
    "[data-mime-type='application/vnd.jupyter.stderr']",
    ".jupyter-widgets-error-widget",
    ".gradlab-message[role=alert]:not(:empty)",
)


def errors(outputs):
    """The text of everything within ``outputs`` that tells of a failure."""
    return outputs.locator(", ".join(ERRORS)).filter(visible=True).all_inner_texts()


def state(explorer):
    """What an explorer shows: digest, alt text and picture."""
    picture = explorer.locator(PICTURE).first
    return {
        "digest": explorer.locator(".gradlab-digest").first.inner_text(),
        "alt": picture.get_attribute("alt") or picture.get_attribute("aria-label"),
        "picture": picture.screenshot(),
    }


def sliders(explorer):
    """The first slider of each kind the explorer has."""
    return [one for one in (explorer.locator(kind).first for kind in SLIDERS) if one.count()]


def press_arrows(slider):
    """Move a slider by the keyboard."""
    slider.focus()
    for _ in range(STEPS):
        slider.page.keyboard.press("ArrowRight")


def drag(slider):
    """Move a slider by the mouse, to and fro along its track, to an end elsewhere."""
    box, mouse = slider.bounding_box(), slider.page.mouse
    y = box["y"] + box["height"] / 2
    for part, act in ((0.3, mouse.down), (0.7, None), (0.6, mouse.up)):
        mouse.move(box["x"] + part * box["width"], y, steps=STEPS)
        if act:
            act()


def unchanged_after(act, explorer, slider):
    """Do something to a slider; give what of the explorer did not follow."""
    slider.focus()  # before the first look: a focused slider may show it over the picture
    before = state(explorer)
    assert before["alt"]
    assert re.search(r"\d", before["digest"])
    act(slider)
    give_up = time.monotonic() + SECONDS
    while time.monotonic() < give_up:
        after = state(explorer)
        unchanged = [name for name in before if before[name] == after[name]]
        if not unchanged:
            break
        slider.page.wait_for_timeout(100)
    return unchanged
