"""Write ``docs/modes.md``: what each member can do, and what it raises: ``python -m tools.modes``.

``read`` gives back what ``page`` was made of, so that a test can hold the stored page to what
``check_modes`` finds.
"""

import re
from pathlib import Path

import tensorflow as tf

from gradlab.checks.modes import Call, check_each
from gradlab.checks.reports import PASS
from tools.examples import EXAMPLES, X

PAGE = Path(__file__).parent.parent / "docs" / "modes.md"
GROUPS = {
    "calls": (
        "eager",
        "function, tape outside",
        "function, tape inside",
        "jit_compile",
        "vectorized_map, tape outside",
        "vectorized_map, tape inside",
    ),
    "derivatives": ("jacobian", "second order", "forward mode", "forward mode in a function"),
    "dtypes": ("mixed_float16", "float16", "bfloat16", "float64", "complex64"),
    "shapes": ("ragged", "dynamic shape", "unknown rank", "empty tensor", "scalar"),
    "elsewhere": ("saved and loaded", ".keras", "two replicas"),
}
SILENT = "differs without an error"
_HEAD = """\
# What works where

Made by `make modes`, and held to the truth by the tests: each ✓ and each error stands for a run \
of `gl.check_modes(f, x)`, which does the same for a function of your own.

A ✓ says that values and gradients are those of eager mode in float64. Nothing differs in silence: \
what isn't ✓ raises [the error listed below](#what-is-refused). The members are called as in \
[tools/examples.py](../tools/examples.py), with a float32 tensor of shape (2, 3).
"""
_REFUSED = """\
## What is refused

By member, each mode with the error that it raises.
"""


def outcomes(rooms):
    """Run the members of rooms: {room: {member: {mode: what was said where it doesn't pass}}}."""
    named = [(room, member) for room in rooms for member in EXAMPLES[room]]
    examples = [EXAMPLES[room][member] for room, member in named]
    checks = check_each([Call(each.make(), (X,), each.believed) for each in examples])
    found = {room: {} for room in rooms}
    for (room, member), check in zip(named, checks, strict=True):
        found[room][member] = {row.mode: _said(row) for row in check.rows if row.verdict != PASS}
    return found


def _said(row):
    if row.raised:
        return row.reason
    return f"{SILENT if row.verdict == 'fail' else row.verdict}: {row.reason}"


def page(found):
    """The page for {room: outcomes}."""
    rooms = [_room(room, rows) for room, rows in found.items()]
    refused = [
        _member(room, *row) for room, rows in found.items() for row in rows.items() if row[1]
    ]
    return "\n".join([_HEAD, _legend(), *rooms, _REFUSED, *refused])


def _legend():
    lines = [f"- **{group}**: {'; '.join(modes)}." for group, modes in GROUPS.items()]
    return "\n".join(["The modes:\n", *lines, ""])


def _room(room, rows):
    head = ["member", *GROUPS]
    table = [head, ["---"] * len(head), *(_row(*row) for row in rows.items())]
    return "\n".join([f"## {room}\n", *(f"| {' | '.join(cells)} |" for cells in table), ""])


def _row(member, said):
    return [f"`{member}`", *(_cell(said, modes) for modes in GROUPS.values())]


def _cell(said, modes):
    short = [mode for mode in modes if mode in said]
    return f"✓ but {'; '.join(short)}" if short else "✓"


def _member(room, member, said):
    lines = [f"- {mode}: `{text}`" for mode, text in said.items()]
    return "\n".join([f"### {room}: `{member}`\n", *lines, ""])


def read(text):
    """What a page was made of: {room: {member: {mode: text}}}."""
    tables, refused = text.split(_REFUSED)
    found = {}
    for part in re.split(r"^## ", tables, flags=re.M)[1:]:
        found[part.split("\n")[0]] = {row: {} for row in re.findall(r"^\| `(.+?)` \|", part, re.M)}
    for part in re.split(r"^### ", refused, flags=re.M)[1:]:
        room, member = re.match(r"(\w+): `(.+)`\n", part).groups()
        found[room][member] = dict(re.findall(r"^- (.+?): `(.*)`$", part, re.M))
    return found


def main():
    """Run every member in every mode, and write the page."""
    devices = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
    text = page(outcomes(EXAMPLES))
    if SILENT in text:
        raise SystemExit("\n".join(line for line in text.splitlines() if SILENT in line))
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
