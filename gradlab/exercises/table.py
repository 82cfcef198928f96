"""All exercises by name: one explicit table, in the order of the lessons."""

from gradlab.exercises import lesson_00, lesson_03, lesson_04

LESSONS = {
    "00_start_here": lesson_00,
    "03_clipping_gradients": lesson_03,
    "04_stop_gradient_trick": lesson_04,
}

EXERCISES = {
    exercise.name: exercise for lesson in LESSONS.values() for exercise in lesson.EXERCISES
}
