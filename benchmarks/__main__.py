"""Measure against peers, in one run: ``python -m benchmarks [--check]``.

Each file of benchmarks/ offers ``ratios()``, which gives rows of (name, ratio, wanted): how long
ours takes over how long the peer takes, and the most that may be.
"""

import argparse
import importlib
import sys

ROOMS = ("ops", "python", "explorer", "checks", "optimizing")


def rows(rooms=ROOMS):
    """Measure room after room; give (name, ratio, wanted) for each thing measured."""
    for room in rooms:
        yield from importlib.import_module(f"benchmarks.{room}").ratios()


def row_of(name, ratio, wanted):
    """Put one measurement into words."""
    return f"{name:<60} {ratio:>8.3f} {wanted:>8.3f}   {'yes' if ratio <= wanted else 'NO'}"


def main():
    """Print the table; with --check, end with 1 if a ratio is over what is wanted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument("rooms", nargs="*", choices=[[], *ROOMS], help="which files; all if none")
    parser.add_argument("--check", action="store_true", help="end with 1 if a ratio is too high")
    given = parser.parse_args()
    print(f"{'':<60} {'ratio':>8} {'wanted':>8}   ok", flush=True)
    over = 0
    for row in rows(given.rooms or ROOMS):
        over += row[1] > row[2]
        print(row_of(*row), flush=True)
    sys.exit(given.check and over > 0)


if __name__ == "__main__":
    main()
