"""All exercises by name: one explicit table, in the order of the lessons."""

from gradlab.exercises import lesson_00

LESSONS = {
    "00_start_here": lesson_00,
}

EXERCISES = {
    exercise.name: exercise for lesson in LESSONS.values() for exercise in lesson.EXERCISES
}
