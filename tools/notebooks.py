"""Build the lessons from their sources: ``python -m tools.notebooks [NN …] [--check]``.

A lesson is written in notebooks/source/NN_name.md and read in notebooks/NN_name.ipynb.
Building executes it in a fresh kernel and freezes it: what is stored shows without a kernel,
and is the same, byte for byte, when it is built again.
"""

import argparse
import base64
import hashlib
import json
import re
import struct
import sys
import time
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
WIDGET = "application/vnd.jupyter.widget-view+json"
KERNEL_MEGABYTES = 900  # mybinder gives 1 GB
CELL_SECONDS = 120
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
# The chunks of a PNG that draw. The others name the program that wrote it, and when.
DRAWING_CHUNKS = {b"IHDR", b"PLTE", b"tRNS", b"pHYs", b"IDAT", b"IEND"}
# What can't be the same on the next machine: paths and memory addresses.
ELSEWHERE = re.compile(
    r"(?<![\w.])/(?:home|root|tmp|Users|work|usr|opt)/|[A-Z]:\\|\b0x[0-9a-f]{8,}"
)

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def sources(folder=NOTEBOOKS, numbers=()):
    """List the sources in ``folder``, those whose names start with one of ``numbers`` if any."""
    found = sorted((folder / "source").glob("[0-9][0-9]_*.md"))
    chosen = [path for path in found if not numbers or path.name.startswith(tuple(numbers))]
    if not chosen:
        wanted = ", ".join(numbers) or "NN_name.md"
        raise SystemExit(f"no lesson {wanted} in {folder / 'source'}")
    return chosen


def lesson_path(source):
    """Say where the lesson built from ``source`` lies."""
    return source.parent.parent / f"{source.stem}.ipynb"


def read_source(source):
    """Read a source as a notebook without outputs, with ids that depend on its text alone."""
    notebook = jupytext.read(source, fmt="md:myst")
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen = {}
    for cell in notebook.cells:
        copy = seen[cell.source] = seen.get(cell.source, -1) + 1
        cell.id = hashlib.sha1(f"{copy}\n{cell.source}".encode()).hexdigest()[:8]
    return notebook


def execute(notebook, folder):
    """Run every cell in a fresh kernel in ``folder``; return its peak memory in MB, None off Linux.

    A cell that raises, or that asks for input, ends the run with an error.
    """
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name=KERNEL["name"],
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
    )
    with client.setup_kernel():
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)
        return _peak_megabytes(client.km)


def _peak_megabytes(kernel_manager):
    status = Path(f"/proc/{kernel_manager.provisioner.pid}/status")
    if not status.exists():
        return None
    return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) // 1024


def freeze(notebook):
    """Leave in an executed notebook only what shows without a kernel and never changes."""
    code_cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code_cells, start=1):
        cell.execution_count = number
        cell.metadata.pop("execution", None)
        cell.outputs = [_frozen(output, number) for output in cell.outputs if _shows(output)]
    return notebook


def _shows(output):
    return "data" not in output or set(output["data"]) != {WIDGET}


def _frozen(output, number):
    if "execution_count" in output:
        output["execution_count"] = number
    data = output.get("data", {})
    data.pop(WIDGET, None)
    if "image/png" in data:
        data["image/png"] = _plain_png(data["image/png"])
    return output


def _plain_png(text):
    """Drop from a base64 PNG the chunks that don't draw."""
    png = base64.b64decode(text)
    kept, at = [png[:8]], 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        end = at + 12 + length
        if png[at + 4 : at + 8] in DRAWING_CHUNKS:
            kept.append(png[at:end])
        at = end
    return base64.b64encode(b"".join(kept)).decode()


def build(source):
    """Execute and freeze one lesson; return the kernel's peak memory in MB."""
    notebook = read_source(source)
    memory = execute(notebook, source.parent.parent)
    text = nbformat.writes(freeze(notebook))
    lesson_path(source).write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    return memory


def faults(source):
    """List what keeps a stored lesson from being its source, executed and frozen."""
    path = lesson_path(source)
    if not path.exists():
        return ["it was never built"]
    lesson = nbformat.read(path, as_version=4)
    wanted = read_source(source)
    found = [] if _skeleton(lesson) == _skeleton(wanted) else ["its cells are not its source's"]
    if lesson.metadata != wanted.metadata:
        found.append("its metadata are not those of a frozen lesson")
    code_cells = [cell for cell in lesson.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code_cells, start=1):
        found += [f"code cell {number}: {fault}" for fault in _cell_faults(cell, number)]
    return found


def _skeleton(notebook):
    return [
        (cell.id, cell.cell_type, cell.source, cell.metadata.get("tags")) for cell in notebook.cells
    ]


def _cell_faults(cell, number):
    if cell.execution_count != number:
        yield f"its execution count is {cell.execution_count}, not {number}"
    for output in cell.outputs:
        if output.output_type == "error":
            yield f"it ends in {output.ename}"
        if output.get("name") == "stderr":
            yield "it writes to stderr, where log lines come and go"
        if WIDGET in output.get("data", {}):
            yield "it holds a widget, which needs a kernel to show"
        if trace := ELSEWHERE.search(_text_of(output)):
            yield f"it shows {trace[0]!r}, which is different elsewhere"


def _text_of(output):
    texts = {kind: text for kind, text in output.get("data", {}).items() if "image" not in kind}
    return output.get("text", "") + json.dumps(texts, ensure_ascii=False)


def strays(folder=NOTEBOOKS):
    """List the lessons in ``folder`` that have no source."""
    known = {lesson_path(source) for source in (folder / "source").glob("*.md")}
    return sorted(set(folder.glob("*.ipynb")) - known)


def _build_all(chosen):
    for source in chosen:
        start = time.perf_counter()
        try:
            memory = build(source)
        except CellExecutionError as error:
            sys.exit(
                f"{source.stem} is left as it was, for it fails:\n{COLOUR.sub('', str(error))}"
            )
        seconds = time.perf_counter() - start
        print(f"{source.stem}: {seconds:.1f} s, {memory} MB at most", flush=True)


def _check_all(chosen, folder):
    complaints = [f"{source.stem}: {fault}" for source in chosen for fault in faults(source)]
    complaints += [f"{path.name}: it has no source" for path in strays(folder)]
    if complaints:
        sys.exit("\n".join([*complaints, "Build the lessons again: make notebooks"]))
    print(f"{len(chosen)} lessons are their sources, executed and frozen")


def main(arguments=None):
    """Build or check the lessons whose numbers are given, or all."""
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks", description=main.__doc__)
    parser.add_argument("numbers", nargs="*", metavar="NN", help="the first digits of a lesson")
    parser.add_argument(
        "--check", action="store_true", help="compare with the sources, run nothing"
    )
    parser.add_argument("--folder", type=Path, default=NOTEBOOKS, help="where the lessons lie")
    given = parser.parse_args(arguments)
    chosen = sources(given.folder, given.numbers)
    if given.check:
        _check_all(chosen, given.folder)
    else:
        _build_all(chosen)


if __name__ == "__main__":
    main()
