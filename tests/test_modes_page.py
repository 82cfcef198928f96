"""``docs/modes.md`` has a row for every member, and says what is true: the first rooms."""

from modes_page import FIRST, SECOND, STORED, every_member, hold, truth

import gradlab as gl
from gradlab import _ROOMS
from gradlab.checks.reports import ModeRow
from tools import modes as tool
from tools.examples import EXAMPLES

found = truth(FIRST)


@every_member(FIRST)
def test_the_page_tells_the_truth(found, room, member):
    hold(found, room, member)


def test_every_member_has_a_row():
    rooms = {
        module.rpartition(".")[2]: set(names)
        for module, names in _ROOMS.items()
        if ".ops." in module
    }
    rooms["layers"] = set(gl.layers.__all__)
    assert {
        room: {member.split(",")[0] for member in rows} for room, rows in EXAMPLES.items()
    } == rooms
    assert {*FIRST, *SECOND} == set(EXAMPLES)
    assert set(gl.SPECS) <= {member for rows in EXAMPLES.values() for member in rows}


def test_the_page_is_what_the_tool_writes():
    assert tool.page(tool.read(STORED)) == STORED
    assert list(tool.read(STORED)) == list(EXAMPLES)
    assert all(list(tool.read(STORED)[room]) == list(rows) for room, rows in EXAMPLES.items())


def test_the_page_shows_every_mode():
    shown = [mode for modes in tool.GROUPS.values() for mode in modes]
    assert sorted(shown) == sorted(gl.check_modes.names)


def test_a_page_reads_back():
    found = {
        "clipping": {"a": {"ragged": "TypeError: a `x`: y", ".keras": "not tried: z"}, "b": {}}
    }
    assert tool.read(tool.page(found)) == found


def test_a_difference_without_an_error_is_no_refusal():
    silent, raised = (ModeRow("jit_compile", "fail", "TypeError: x", raised) for raised in (0, 1))
    assert tool._said(silent).startswith(tool.SILENT)
    assert tool._said(raised) == "TypeError: x"
