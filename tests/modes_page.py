"""What the two files that test ``docs/modes.md`` share: two, so that two processes run them."""

import modes  # noqa: F401 - gives this process two devices, where the replicas run
import pytest

from tools.examples import EXAMPLES
from tools.modes import PAGE, SILENT, outcomes, read

SECOND = ("surrogates", "python")
FIRST = tuple(room for room in EXAMPLES if room not in SECOND)
STORED = PAGE.read_text()


def every_member(rooms):
    """Parametrize a test over the members of some rooms."""
    members = [(room, member) for room in rooms for member in EXAMPLES[room]]
    return pytest.mark.parametrize(("room", "member"), members)


def truth(rooms):
    """A fixture that runs the members of some rooms in every mode, once."""
    return pytest.fixture(scope="module", name="found")(lambda: outcomes(rooms))


def hold(found, room, member):
    """What works according to the page works; what doesn't raises the error it names."""
    silent = {mode for mode, said in found[room][member].items() if said.startswith(SILENT)}
    assert not silent, found[room][member]
    assert found[room][member] == read(STORED)[room][member], "make modes"
