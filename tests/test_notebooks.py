"""The stored lessons, and the tools that build and check them."""

import base64
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tools import notebooks
from tools.notebooks import KERNEL_MEGABYTES, NOTEBOOKS, WIDGET, execute, faults, read_source

SOURCES = notebooks.sources()
SANITIZE = Path(__file__).parent / "nbval_sanitize.cfg"
SOLUTION = re.compile(r"<details><summary>Solution</summary>\s*```python\n(.*?)```", re.S)
TRIAL = """---
kernelspec: {name: python3, display_name: Python 3}
---
# A trial

```{code-cell}
print(1 / 7)
```

```{code-cell}
:tags: [exercise-trial]
x = 2 ** 10
x
```
"""


# The stored lessons.


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_lesson_is_its_source_executed_and_frozen(source):
    assert faults(source) == []


def test_no_lesson_without_a_source():
    assert notebooks.strays() == []


def exercise_of(cell):
    names = [tag for tag in cell.metadata.get("tags", []) if tag.startswith("exercise-")]
    return names[0] if names else None


def solved(source):
    """The lesson with the solution of each exercise in its place, and the exercises' cells."""
    lesson = read_source(source)
    exercises = [cell for cell in lesson.cells if exercise_of(cell)]
    for cell in exercises:
        following = lesson.cells[lesson.cells.index(cell) + 1 :]
        [solution, *_] = itertools.chain(*(SOLUTION.findall(one.source) for one in following))
        [check] = [line for line in cell.source.splitlines() if line.startswith("gl.check(")]
        cell.source = f"{solution}\n{check}"
    return lesson, exercises


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_lesson_with_its_solutions(source):
    lesson, exercises = solved(source)
    memory = execute(lesson, NOTEBOOKS)
    assert exercises
    for cell in exercises:
        assert cell.outputs[-1].text.startswith("correct"), cell.outputs[-1].text
    assert memory is None or memory < KERNEL_MEGABYTES


# The tools, on lessons of their own.


@pytest.fixture
def trial(tmp_path):
    """The source of a small lesson, not yet built."""
    (tmp_path / "source").mkdir()
    source = tmp_path / "source" / "90_trial.md"
    source.write_text(TRIAL)
    return source


def stored(source):
    return notebooks.lesson_path(source).read_text()


def alter(source, old, new):
    """Change the stored lesson behind its source's back."""
    text = stored(source)
    assert old in text
    notebooks.lesson_path(source).write_text(text.replace(old, new, 1))


def nbval(folder):
    command = [sys.executable, "-m", "pytest", "--nbval", f"--nbval-sanitize-with={SANITIZE}"]
    options = ["-q", "-p", "no:cacheprovider", f"--rootdir={folder}", str(folder)]
    return subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True)


def test_building_twice_makes_no_difference_and_one_digit_is_noticed(trial):
    assert faults(trial) == ["it was never built"]
    notebooks.build(trial)
    first = stored(trial)
    assert faults(trial) == []
    notebooks.build(trial)
    assert stored(trial) == first

    run = nbval(trial.parent.parent)
    assert "2 passed" in run.stdout, run.stdout
    alter(trial, "0.142857", "0.142851")
    alter(trial, '"1024"', '"1025"')
    run = nbval(trial.parent.parent)
    assert run.returncode == 1
    assert "2 failed" in run.stdout, run.stdout


@pytest.mark.parametrize("line", ["1 / 0", "input('name?')"])
def test_a_cell_that_fails_or_asks_ends_the_build(trial, line):
    trial.write_text(TRIAL.replace("x = 2 ** 10", line))
    with pytest.raises(CellExecutionError):
        notebooks.build(trial)
    assert not notebooks.lesson_path(trial).exists()


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
SOFTWARE = b"\x00\x00\x00\x0etEXtSoftware\x00any 1\x00\x00\x00\x00"


def outputs_of(*outputs):
    cell = new_code_cell("a", execution_count=7, outputs=list(outputs))
    cell.metadata["execution"] = {"iopub.status.busy": "2026-01-01"}
    return notebooks.freeze(new_notebook(cells=[cell])).cells[0]


def shown(data, **more):
    return new_output("execute_result", data=data, execution_count=7, **more)


def test_freezing_counts_anew_and_drops_times():
    cell = outputs_of(shown({"text/plain": "1"}))
    assert cell.execution_count == cell.outputs[0].execution_count == 1
    assert cell.metadata == {}


def test_freezing_keeps_of_a_widget_what_shows_without_a_kernel():
    view = {"model_id": "0", "version_major": 2, "version_minor": 0}
    cell = outputs_of(shown({WIDGET: view, "text/plain": "digest"}), shown({WIDGET: view}))
    assert [output.data for output in cell.outputs] == [{"text/plain": "digest"}]


def test_freezing_drops_who_wrote_a_png_and_when():
    signed = PNG[:33] + SOFTWARE + PNG[33:]
    cell = outputs_of(shown({"image/png": base64.b64encode(signed).decode() + "\n"}))
    assert base64.b64decode(cell.outputs[0].data["image/png"]) == PNG


def with_output(lesson, **output):
    lesson.cells[1].outputs = [nbformat.from_dict(output)]


FAULTS = {
    "its cells are not its source's": lambda lesson: lesson.cells.pop(),
    "its metadata": lambda lesson: lesson.metadata.update(widgets={}),
    "its execution count is None, not 1": lambda lesson: lesson.cells[1].update(
        execution_count=None
    ),
    "it ends in ValueError": lambda lesson: with_output(
        lesson, output_type="error", ename="ValueError", evalue="", traceback=[]
    ),
    "it writes to stderr": lambda lesson: with_output(
        lesson, output_type="stream", name="stderr", text="log"
    ),
    "it holds a widget": lambda lesson: with_output(
        lesson, output_type="display_data", data={WIDGET: {}}, metadata={}
    ),
    "it shows '0x7f3a5c2b1d90'": lambda lesson: with_output(
        lesson, output_type="stream", name="stdout", text="<f at 0x7f3a5c2b1d90>"
    ),
    "it shows '/tmp/'": lambda lesson: with_output(
        lesson, output_type="display_data", data={"text/plain": "'/tmp/x.py'"}, metadata={}
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(trial, fault):
    lesson = read_source(trial)
    for number, cell in enumerate(lesson.cells[1:], start=1):
        cell.execution_count = number
    path = notebooks.lesson_path(trial)
    nbformat.write(lesson, path)
    assert faults(trial) == []
    FAULTS[fault](lesson)
    path.write_text(json.dumps(lesson))
    assert fault in " ".join(faults(trial))


def test_check_ends_with_what_is_wrong(trial):
    with pytest.raises(SystemExit, match="90_trial: it was never built\nBuild the lessons again"):
        notebooks.main(["--check", f"--folder={trial.parent.parent}"])


def test_the_same_text_has_the_same_ids_and_equal_cells_have_different_ones(trial):
    trial.write_text(TRIAL + "\n```{code-cell}\nprint(1 / 7)\n```\n")
    ids = [cell.id for cell in read_source(trial).cells]
    assert ids == [cell.id for cell in read_source(trial).cells]
    assert len(set(ids)) == len(ids) == 4


def test_a_number_without_a_lesson():
    with pytest.raises(SystemExit, match="no lesson 77"):
        notebooks.sources(numbers=["77"])
