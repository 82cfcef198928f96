"""Every exercise of every lesson: unanswered, solved, and wrong in each way foreseen."""

import contextlib
import functools
import io
import linecache
import re
from pathlib import Path

import jupytext
import numpy as np
import pytest

import gradlab as gl
from gradlab.exercises import table
from gradlab.exercises.checking import verdict
from gradlab.exercises.trials import Exercise, Trial, same, shown

SOURCES = Path(__file__).parent.parent / "notebooks" / "source"
WRONG_ANSWERS = Path(__file__).parent / "wrong_answers"
LESSON_OF = {
    exercise.name: lesson
    for lesson, module in table.LESSONS.items()
    for exercise in module.EXERCISES
}
SOLUTION = re.compile(
    r"<details><summary>Solution</summary>\n\n```python\n(.*?)```\n.*?</details>", re.S
)
WRONG = re.compile(r"```python\n(.*?)```\n([^\n]+)", re.S)


@functools.cache
def cells(lesson):
    return jupytext.read(SOURCES / f"{lesson}.md").cells


def tags(cell):
    return cell.metadata.get("tags", [])


def exercise_cell(name):
    [cell] = [c for c in cells(LESSON_OF[name]) if f"exercise-{name}" in tags(c)]
    return cell.source


def solution(name):
    """The first solution after the exercise's cell."""
    found = cells(LESSON_OF[name])
    [place] = [i for i, c in enumerate(found) if f"exercise-{name}" in tags(c)]
    following = "\n".join(c.source for c in found[place + 1 :] if c.cell_type == "markdown")
    return SOLUTION.search(following).group(1)


def check_line(name):
    [line] = [x for x in exercise_cell(name).splitlines() if x.startswith("gl.check(")]
    return line


@functools.cache
def wrong_answers(lesson):
    """(exercise, code, the line that check must print) for each wrong answer written down."""
    text = (WRONG_ANSWERS / f"{lesson}.md").read_text(encoding="utf-8")
    sections = re.split(r"^## (\S+)$", text, flags=re.M)[1:]
    pairs = zip(sections[::2], sections[1::2], strict=True)
    return [(name, code, line) for name, body in pairs for code, line in WRONG.findall(body)]


ALL_WRONG = [wrong for lesson in table.LESSONS for wrong in wrong_answers(lesson)]


def execute(code, namespace, label):
    """Run code as a cell would be: AutoGraph and inspect find its lines by its file name."""
    linecache.cache[label] = (len(code), None, code.splitlines(True), label)
    exec(compile(code, label, "exec"), namespace)


@functools.cache
def prepared(lesson):
    """The names that the set-up cell and the cells tagged before-exercise leave behind."""
    code = [c for c in cells(lesson) if c.cell_type == "code"]
    namespace = {"__name__": "__main__"}
    for number, cell in enumerate(code):
        if number == 0 or "before-exercise" in tags(cell):
            execute(cell.source, namespace, f"<{lesson} {number}>")
    return namespace


def printed_by(name, code):
    namespace = dict(prepared(LESSON_OF[name]))
    with contextlib.redirect_stdout(io.StringIO()) as out:
        execute(code, namespace, f"<{name} {hash(code)}>")
    return out.getvalue().strip()


@pytest.mark.parametrize("name", table.EXERCISES)
def test_unanswered_cell_says_so(name):
    assert re.fullmatch(r"not yet: \w+ returned None", printed_by(name, exercise_cell(name)))


@pytest.mark.parametrize("name", table.EXERCISES)
def test_solution_is_correct(name):
    line = printed_by(name, f"{solution(name)}\n{check_line(name)}")
    assert line == f"correct: {table.EXERCISES[name].why}"


@pytest.mark.parametrize(
    ("name", "code", "line"), ALL_WRONG, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(ALL_WRONG)]
)
def test_wrong_answer_gets_its_hint(name, code, line):
    assert printed_by(name, f"{code}\n{check_line(name)}") == line


@pytest.mark.parametrize("name", table.EXERCISES)
def test_every_hint_is_reached(name):
    reached = {line for exercise, _, line in ALL_WRONG if exercise == name}
    hints = {f"close: {s}" for trial in table.EXERCISES[name].trials for _, s in trial.hints}
    assert len(hints) >= 2
    assert hints <= reached


def test_lessons_and_table_name_the_same_exercises():
    marked = [
        tag.removeprefix("exercise-")
        for lesson in table.LESSONS
        for cell in cells(lesson)
        for tag in tags(cell)
        if tag.startswith("exercise-")
    ]
    assert marked == list(table.EXERCISES)
    assert {path.stem for path in SOURCES.glob("[0-9]*.md")} == set(table.LESSONS)


# The machinery, on exercises of its own.

DOUBLE = Exercise(
    "double",
    (
        Trial("the double of 2", lambda f: f(2.0), 4.0, ((2.0, "that is 2 itself"),)),
        Trial("the double of [1, 3]", lambda f: f(np.array([1.0, 3.0])), [2.0, 6.0]),
        Trial("both", lambda f: (f(1.0), f(np.zeros(2))), (2.0, [0.0, 0.0])),
    ),
    why="2x",
)
PICKY = Exercise(
    "picky",
    (
        Trial(
            "the value",
            lambda f: f(1.0),
            1.0,
            ((ZeroDivisionError, "that divides by zero"), (np.isnan, "that is NaN")),
        ),
    ),
    why="one",
)


def named(result):
    def mine(x):
        return result(x)

    return mine


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (None, "not yet: there is no answer here"),
        (..., "not yet: there is no answer here"),
        (4.0, "close: give the function itself, not a float that it returned"),
        (7, "close: give the function itself, not an int that it returned"),
        (lambda x: None, "not yet: your function returned None"),
        (named(lambda x: None), "not yet: mine returned None"),
        (named(lambda x: x), "close: that is 2 itself"),
        (named(lambda x: 5.0), "not yet: the double of 2 should be 4; yours is 5"),
        (
            named(lambda x: 4.0),
            "not yet: the double of [1, 3] should be [2, 6]; yours is 4",
        ),
        (named(lambda x: 2 * x), "correct: 2x"),
        (named(lambda x: x / "a"), "TypeError"),
        (named(lambda x: [][1]), "not yet: mine raised IndexError: list index out of range"),
    ],
)
def test_verdicts(answer, line):
    said = verdict(DOUBLE, answer)
    assert said == line if line != "TypeError" else said.startswith("not yet: mine raised TypeErr")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (lambda x: x / 0, "close: that divides by zero"),
        (lambda x: float("nan"), "close: that is NaN"),
        (lambda x: x, "correct: one"),
        (lambda x: [[1.0], [2.0, 3.0]], "not yet: your function raised ValueError: "),
        (lambda x: {"a": 1}, "not yet: the value should be 1; yours is {'a': 1}"),
        (lambda x: "one", "not yet: the value should be 1; yours is one"),
    ],
)
def test_foreseen_exceptions_and_predicates(answer, line):
    said = verdict(PICKY, answer)
    assert said == line if not line.endswith(": ") else said.startswith(line)


def test_none_is_noticed_inside_a_function_of_tensorflow():
    import tensorflow as tf

    traced = Exercise("t", (Trial("y", lambda f: tf.function(f)(tf.constant(1.0)), 1.0),), "")
    assert verdict(traced, named(lambda x: None)) == "not yet: mine returned None"


def test_an_exception_under_autograph_shows_its_own_message():
    import tensorflow as tf

    def mine(x):
        raise ValueError("mine alone")

    traced = Exercise("t", (Trial("y", lambda f: tf.function(f)(tf.constant(1.0)), 1.0),), "")
    assert verdict(traced, mine) == "not yet: mine raised ValueError: mine alone"


def test_an_unknown_name_lists_the_names():
    with pytest.raises(ValueError, match=r"'square-7'; there are square-1"):
        gl.check("square-7", lambda x: x)


@pytest.mark.parametrize(
    ("observed", "expected", "agree"),
    [
        (None, None, True),
        (None, 0.0, False),
        (0.0, None, False),
        ([1.0, 2.0], (1.0, 2.0), False),
        ((1.0, None), (1.0, None), True),
        ((1.0,), (1.0, 2.0), False),
        ([1.0], 1.0, False),
        (np.float32(0.1), 0.1, True),
        (np.nan, np.nan, True),
        (np.inf, -np.inf, False),
        (0.1001, 0.1, False),
    ],
)
def test_same(observed, expected, agree):
    assert same(observed, expected) is agree


def test_shown_rounds_and_stays_on_one_line():
    assert shown((np.float32(0.1), None)) == "0.1 and None"
    assert "\n" not in shown(np.arange(100.0))


# The form that asks for a guess.

CHOICES = {"1.0": "A zero gradient moves `nothing`.", "less": "x < 1, you say."}


@pytest.fixture
def guess():
    return gl.predict("Where is it?", CHOICES)


def test_a_guess_shows_nothing_until_it_is_committed(guess):
    guess.choose("less")
    assert guess.reveal is None
    assert not guess.committed
    guess.commit()
    assert guess.reveal == "x < 1, you say."
    assert "x &lt; 1" in guess._remark


def test_a_committed_guess_stays(guess):
    guess.choose("1.0")
    guess.commit()
    guess.choose("less")
    assert guess.choice == "1.0"
    assert "<code>nothing</code>" in guess._remark


def test_a_commit_without_a_choice_does_nothing(guess):
    guess.commit()
    assert not guess.committed


def test_reset_asks_anew(guess):
    guess.choose("1.0")
    guess.commit()
    guess.reset()
    assert (guess.choice, guess.reveal, guess.committed) == (None, None, False)
    guess.choose("less")
    guess.commit()
    assert guess.reveal == CHOICES["less"]


def test_what_the_browser_sets_counts_as_a_guess(guess):
    guess.set_state({"_chosen": 1})
    assert guess.choice == "less"
    guess.set_state({"committed": True})
    assert guess._remark == "x &lt; 1, you say."
    guess.set_state({"committed": False, "_chosen": -1})
    assert (guess.choice, guess._remark) == (None, "")


def test_remarks_stay_in_python_until_the_commit(guess):
    assert "you say" not in str(guess.get_state())


def test_choose_wants_one_of_the_choices(guess):
    with pytest.raises(ValueError, match="'more' is none of 1.0, less"):
        guess.choose("more")


def test_the_stored_form_does_not_change_with_the_guess(guess):
    before, _ = guess._repr_mimebundle_()
    guess.choose("less")
    guess.commit()
    after, _ = guess._repr_mimebundle_()
    assert before["text/plain"] == after["text/plain"] == "Where is it?\n  ○ 1.0\n  ○ less"
    assert before["text/html"] == after["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in before
    assert "<summary>less</summary>x &lt; 1, you say.</details>" in before["text/html"]


@pytest.mark.parametrize("choices", [{}, {"one": "alone"}, ["a", "b"]])
def test_predict_wants_two_choices(choices):
    with pytest.raises(ValueError, match="at least two choices"):
        gl.predict("?", choices)
