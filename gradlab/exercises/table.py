"""All exercises by name: one explicit table, in the order of the lessons."""

from gradlab.exercises import lesson_00, lesson_01, lesson_02, lesson_03, lesson_04

LESSONS = {
    "00_start_here": lesson_00,
    "01_overriding_gradients": lesson_01,
    "02_python_functions": lesson_02,
    "03_clipping_gradients": lesson_03,
    "04_stop_gradient_trick": lesson_04,
}

EXERCISES = {
    exercise.name: exercise for lesson in LESSONS.values() for exercise in lesson.EXERCISES
}
