"""What a lesson asks, and how it answers: ``predict`` before a surprise, ``check`` after a try.

To add an exercise to lesson NN:

1. In ``notebooks/source/NN_name.md``, a code cell with the tag ``exercise-<name>`` that defines
   the unanswered function and ends with ``gl.check("<name>", function)``; below it a Markdown
   cell with ``<details><summary>Solution</summary>``, a blank line, a fenced ``python`` block,
   any closing words, and ``</details>``. Cells that the solution stands on (beyond the set-up
   cell, which is the lesson's first) carry the tag ``before-exercise``.
2. In ``gradlab/exercises/lesson_NN.py``, ``EXERCISES``: a tuple of `Exercise`, each a list of
   `Trial`. A trial asks the reader's function for something (see ``asking``), knows what is
   expected from an oracle of its own, and foresees wrong observations, each with its hint.
   The first trial that fails speaks.
3. ``lesson_NN`` in ``table.py``.
4. In ``tests/wrong_answers/NN_name.md``, under ``## <name>``, each foreseen mistake as a fenced
   ``python`` block, and below it the line that ``check`` must print. The tests run them, run the
   solution, run the cell as it stands, and refuse a hint that no wrong answer reaches.
"""

from gradlab.exercises.checking import check
from gradlab.exercises.predicting import Prediction, predict

__all__ = ["Prediction", "check", "predict"]
