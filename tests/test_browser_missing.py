"""What the browser tests do on a machine without a Chromium."""

import os
import subprocess
import sys

import pytest

from tools.lab import NO_CHROMIUM
from tools.lock import ROOT


def browser_tests(tmp_path, required):
    """Run them where no Chromium can be found."""
    environment = os.environ | {
        "PATH": str(tmp_path),
        "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path),
        "GRADLAB_CHROMIUM": "",
        "GRADLAB_REQUIRE_BROWSER": required,
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "tests/browser/test_lessons.py::test_lesson"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(("required", "code", "word"), [("", 0, "skipped"), ("1", 1, "error")])
def test_without_chromium(tmp_path, required, code, word):
    run = browser_tests(tmp_path, required)
    assert run.returncode == code, run.stdout
    assert NO_CHROMIUM in run.stdout
    assert word in run.stdout.splitlines()[-1]
    assert "passed" not in run.stdout.splitlines()[-1]
