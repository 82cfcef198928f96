"""The browser benchmark's table, from times that are given; it is measured in no test."""

import ast

import pytest

from benchmarks.browser.__main__ import (
    BEGIN,
    CELLS,
    CONTESTANTS,
    END,
    README,
    Times,
    table,
    verdicts,
    write,
)


def times(ours=40.0, interact=140.0, frames=80.0):
    """Contestants of which the explorer answers in 40 ms, the floor in 36, the next best in 50."""
    others = {name: Times([50.0, 50.0, 50.0], [60.0]) for name in CONTESTANTS}
    return {
        **others,
        "gradlab_explore": Times([ours - 1, ours, ours + 100], [frames, frames], [True, False]),
        "interact_inline": Times([interact] * 3, [10.0]),
        "empty_canvas": Times([36.0] * 3, [88.0]),
    }


@pytest.mark.parametrize(
    ("given", "holds"),
    [
        ({}, [True, True, True, True]),
        ({"ours": 47.0}, [False, True, True, True]),
        ({"ours": 51.0}, [False, False, True, True]),
        ({"interact": 99.0}, [True, True, False, True]),
        ({"frames": 79.0}, [True, True, True, False]),
    ],
)
def test_what_is_wanted(given, holds):
    assert [verdict[-1] for verdict in verdicts(times(**given))] == holds


def test_the_fastest_other_is_neither_ours_nor_the_floor():
    words = verdicts(times())[1][0]
    assert any(CONTESTANTS[name] in words for name in set(CONTESTANTS) - {"empty_canvas"})
    assert CONTESTANTS["empty_canvas"] not in words
    assert CONTESTANTS["gradlab_explore"] not in words


def test_the_table_has_a_row_for_each_and_tells_what_does_not_hold():
    text = table(times(ours=51.0))
    assert "| gradlab explorer | 51 | 50 to 151 | 1.42 | 80 | 1 of 2 |" in text
    assert text.count("| NO |") == 2
    assert all(f"| {title} |" in text for title in CONTESTANTS.values())


def test_the_table_goes_between_the_marks(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(README.read_text())
    write("| new |", readme)
    write("| newer |", readme)
    before, rest = README.read_text().split(BEGIN)
    assert readme.read_text() == f"{before}{BEGIN}\n| newer |\n{END}{rest.split(END)[1]}"


def test_every_contestant_has_a_cell_of_the_same_curves():
    cells = {path.stem: path.read_text() for path in CELLS.glob("*.py")}
    assert set(cells) == {*CONTESTANTS, "curves"}
    showing = set(CONTESTANTS) - {"empty_canvas"}
    for name in showing:
        imports = [
            node.module
            for node in ast.walk(ast.parse(cells[name]))
            if isinstance(node, ast.ImportFrom)
        ]
        assert "curves" in imports
