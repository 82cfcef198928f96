"""What builds and checks the lessons and the locked lists; not part of the package."""
