"""The house itself: one set of versions, nothing that holds on one machine only, import layers."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packaging.utils import canonicalize_name

import benchmarks.__main__ as benchmarks
import gradlab
from tools import lock, notebooks

ROOT = lock.ROOT
LOCKS = {path.stem: path for path in lock.EXTRAS}
README = (ROOT / "README.md").read_text()
# In pieces, so that this file doesn't hold what it looks for.
ELSEWHERE = re.compile(
    "|".join(
        [
            r"(pypi|pythonhosted|anaconda|conda-forge)\.(org|io|com)",
            r"(extra-)?" + r"index-url\s*[= ]\s*\w",
            r"find-" + r"links\s*[= ]\s*\w",
            r"registry\." + r"npmjs",
            r"(?<![\w.:])/(root|work)/",
            r"(?<![\w.])/(home|Users)/\w",
        ]
    )
)


# One set of versions.


@pytest.mark.parametrize("device", LOCKS)
def test_locked_versions_are_those_pyproject_allows(device):
    pins = lock.pins(LOCKS[device])
    for requirement in lock.wanted(*lock.EXTRAS[LOCKS[device]]):
        chosen = [
            next(iter(pin.specifier)).version
            for pin in pins
            if canonicalize_name(pin.name) == canonicalize_name(requirement.name)
        ]
        assert chosen, f"{requirement.name} is not in {device}.txt: make lock"
        assert all(map(requirement.specifier.contains, chosen)), requirement


def versions(path):
    return {(canonicalize_name(pin.name), str(pin.specifier)) for pin in lock.pins(path)}


def test_the_lists_give_the_same_versions():
    cpu, gpu, bench = map(versions, (lock.CPU, lock.GPU, lock.BENCH))
    assert {name for name, _ in cpu - gpu} == {"tensorflow-cpu"}
    assert all(name.startswith("nvidia-") for name, _ in gpu - cpu)
    assert cpu <= bench
    assert {"ipympl", "bqplot", "plotly"} <= {name for name, _ in bench - cpu}


@pytest.mark.parametrize("device", LOCKS)
def test_every_locked_package_has_an_exact_version_and_a_hash(device):
    text = LOCKS[device].read_text()
    entries = re.split(r"\n(?=\w)", text)
    assert len(entries) == len(lock.pins(LOCKS[device])) > 50
    for entry in entries:
        assert re.match(r"[\w.-]+(\[[\w,-]+\])?==[\w.+!]+ ", entry), entry[:80]
        assert "--hash=sha256:" in entry


@pytest.mark.parametrize("path", lock.ENVIRONMENTS, ids=lambda path: path.parent.name)
def test_conda_environments_follow_the_lock(path):
    assert path.read_text() == lock.environment(), "make lock"


def test_conda_environment_has_the_parts_that_conda_and_binder_read():
    environment = yaml.safe_load(lock.environment())
    python, _, pip = environment["dependencies"]
    assert environment["name"] == "gradlab"
    assert python == f"python={lock.CONDA_PYTHON}"
    names = {re.split("==", line)[0] for line in pip["pip"]}
    assert names == {requirement.name for requirement in lock.wanted(*lock.CONDA_EXTRAS)}
    assert all("==" in line for line in pip["pip"])


def test_binder_installs_the_package_after_its_environment():
    script = ROOT / "binder" / "postBuild"
    lines = script.read_text().splitlines()
    assert os.access(script, os.X_OK)
    assert lines[0].startswith("#!")
    assert lines.index("set -e") < lines.index("pip install --no-deps -e .")


def test_the_package_and_its_metadata_are_of_one_version():
    assert f'version = "{gradlab.__version__}"' in (ROOT / "pyproject.toml").read_text()


# Nothing that holds on one machine only.


def tracked():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


def test_no_tracked_file_holds_an_address_of_a_registry_or_a_path_of_a_machine():
    files = [path for path in tracked() if path.exists()]
    assert len(files) > 20
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in files
        for match in ELSEWHERE.finditer(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    ["see pypi." + "org/simple", "--extra-index-" + "url=x", "/ro" + "ot/.venv", "/ho" + "me/me/x"],
)
def test_an_address_or_a_path_would_be_found(text):
    assert ELSEWHERE.search(text)


def make(*words):
    command = ["make", "--dry-run", "--no-print-directory", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_make_lab_passes_arguments_on():
    last = make("lab", "ARGS=--no-browser --port 8899").splitlines()[-1]
    assert "jupyterlab" in last
    assert last.endswith("--ServerApp.root_dir=notebooks --no-browser --port 8899")


@pytest.mark.parametrize("device", LOCKS)
def test_make_installs_the_list_of_the_device(device):
    # As if nothing were installed yet: every file the stamp is made from is new.
    planned = make("setup", f"DEVICE={device}", "--what-if=pyproject.toml")
    assert f"--require-hashes -r requirements/{device}.txt" in planned
    assert planned.index("--require-hashes") < planned.index("--no-deps --no-build-isolation -e .")


def test_make_test_installs_what_the_browser_tests_run_in_a_page():
    stamp = "tests/browser/node_modules/.package-lock.json"
    planned = make("test", f"AXE={stamp}", "--what-if=tests/browser/package-lock.json")
    assert "npm ci --prefix tests/browser --ignore-scripts" in planned
    assert planned.index("npm ci") < planned.index(" pytest ")
    assert "npm" not in make("test", "AXE=", "--what-if=tests/browser/package-lock.json")


def test_what_npm_installs_is_locked_by_its_content_and_not_by_an_address():
    packages = json.loads((ROOT / "tests/browser/package-lock.json").read_text())["packages"]
    installed = {name: one for name, one in packages.items() if name}
    assert "node_modules/axe-core" in installed
    for package in installed.values():
        assert package["integrity"].startswith("sha512-")
        assert "resolved" not in package


def test_ci_requires_the_browser():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "export GRADLAB_REQUIRE_BROWSER=1\nmake test\n" in script.read_text()
    assert "packages+=(npm)" in script.read_text()


def test_nothing_is_sanitized():
    assert (ROOT / "tests" / "nbval_sanitize.cfg").read_bytes() == b""


# Import layers, which import-linter holds; what it can't say is said here.


def imported_roots(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.split(".")[0]


@pytest.mark.parametrize(
    "path", sorted(Path(ROOT, "gradlab/ops").glob("*.py")), ids=lambda p: p.stem
)
def test_ops_import_tensorflow_and_numpy_only(path):
    allowed = {"tensorflow", "numpy", "gradlab", *sys.stdlib_module_names}
    assert set(imported_roots(path)) <= allowed


# README.


def test_readme_lists_every_lesson():
    for source in notebooks.sources():
        assert f"(notebooks/{source.stem}.ipynb)" in README


def test_readme_names_what_is_public_and_nothing_else():
    rooms = gradlab._ROOMS.items()
    names = {name for room, names in rooms if room.startswith("gradlab.ops") for name in names}
    told = set(re.findall(r"`(\w+)", README))
    assert names <= told
    rows = set(re.findall(r"^\| `(\w+)", README, re.M))
    assert rows <= set(gradlab.__all__)


# Benchmarks.


def test_every_benchmark_is_run():
    files = {path.stem for path in (ROOT / "benchmarks").glob("[a-z]*.py")}
    assert files - {"timing", "by_hand", "kernels"} == set(benchmarks.ROOMS)


@pytest.mark.parametrize(("ratio", "word"), [(0.99, "yes"), (1.05, "yes"), (1.06, "NO")])
def test_a_ratio_over_what_is_wanted_is_told(ratio, word):
    assert benchmarks.row_of("ours / theirs", ratio, 1.05).split()[-1] == word
