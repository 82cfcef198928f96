"""Write the locked lists and the conda environments: ``python -m tools.lock [--upgrade]``.

pyproject.toml says which versions may do; requirements/ says which are used, with hashes and
no address they come from; environment.yml and binder/environment.yml repeat them for conda.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from packaging.requirements import Requirement

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
CPU, GPU = ROOT / "requirements/cpu.txt", ROOT / "requirements/gpu.txt"
BENCH = ROOT / "requirements/bench.txt"  # the CPU's list, and the peers of `make bench-browser`
ENVIRONMENTS = (ROOT / "environment.yml", ROOT / "binder/environment.yml")
EVERYWHERE = ("lab", "test", "dev")  # the extras that every list holds
EXTRAS = {
    CPU: ("cpu", *EVERYWHERE),
    GPU: ("gpu", *EVERYWHERE),
    BENCH: ("cpu", "bench", *EVERYWHERE),
}
CONDA_EXTRAS = ("cpu", "lab")  # what a reader of the lessons needs
CONDA_PYTHON = "3.11"
OLDEST_PYTHON = "3.10"


def wanted(*extras):
    """List what pyproject.toml asks for itself and for ``extras``, as requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = project["dependencies"] + [
        line for extra in extras for line in project["optional-dependencies"][extra]
    ]
    return [Requirement(line) for line in lines]


def pins(lock):
    """List the packages of a locked list with their versions and markers, as requirements."""
    lines = lock.read_text().splitlines()
    return [Requirement(line.rstrip(" \\")) for line in lines if line[:1].isalnum()]


def pinned(requirement, lock):
    """Find the version that ``lock`` gives ``requirement`` under conda's Python."""
    here = {"python_version": CONDA_PYTHON, "python_full_version": f"{CONDA_PYTHON}.0"}
    for pin in pins(lock):
        if pin.name == requirement.name and (
            requirement.marker or not pin.marker or pin.marker.evaluate(here)
        ):
            return str(pin.specifier).removeprefix("==")
    raise LookupError(f"{requirement.name} is not in {lock.name}: make lock")


def environment():
    """Compose environment.yml: the versions of the CPU's locked list, for conda's pip."""
    lines = [f"      - {_conda_line(one)!r}" for one in wanted(*CONDA_EXTRAS)]
    return "\n".join(
        [
            "# Made by `make lock` from pyproject.toml and requirements/cpu.txt: edit those.",
            "# conda env create -f environment.yml && conda activate gradlab",
            "# pip install --no-deps -e .",
            "name: gradlab",
            "channels:",
            "  - conda-forge",
            "dependencies:",
            f"  - python={CONDA_PYTHON}",
            "  - pip",
            "  - pip:",
            *lines,
            "",
        ]
    )


def _conda_line(requirement):
    marker = f" ; {requirement.marker}" if requirement.marker else ""
    return f"{requirement.name}=={pinned(requirement, CPU)}{marker}"


def compile_list(lock, options=()):
    """Resolve pyproject.toml for a list, keeping the versions in it that still do."""
    extras = [word for extra in EXTRAS[lock] for word in ("--extra", extra)]
    how = ["--universal", "--python-version", OLDEST_PYTHON, "--generate-hashes"]
    quiet = ["--quiet", "--no-emit-index-url", "--no-emit-find-links", "--no-header"]
    command = [sys.executable, "-m", "uv", "pip", "compile", *how, *quiet, *extras, *options]
    output = str(lock.relative_to(ROOT))
    subprocess.run([*command, "pyproject.toml", "-o", output], cwd=ROOT, check=True)


def main(options):
    """Write the lists and the environments, with uv's ``options``."""
    compile_list(CPU, options)
    for lock in (GPU, BENCH):
        shutil.copy(CPU, lock)  # so that what all lists hold has the same version in all
        compile_list(lock)
    for path in ENVIRONMENTS:
        path.parent.mkdir(exist_ok=True)
        path.write_text(environment())


if __name__ == "__main__":
    main(sys.argv[1:])
