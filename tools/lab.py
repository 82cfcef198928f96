"""JupyterLab, Notebook 7 or Voilà, and a Chromium to look at them with: for tests and pictures."""

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import nbformat
from playwright.sync_api import sync_playwright

from tools.notebooks import KERNEL

START_SECONDS = 60
RUN_SECONDS = 180
NO_CHROMIUM = (
    "no Chromium here, which the browser tests need: apt install chromium, or "
    ".venv/bin/playwright install chromium, or name one in GRADLAB_CHROMIUM"
)
CHROMIUM_OPTIONS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# All cells are drawn, wherever the page is scrolled to, and nothing is asked of the network.
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none", "scrollPastEnd": False},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": False},
}
NOTEBOOK = ".jp-NotebookPanel:not(.lm-mod-hidden)"
# The notebook in front is read and drawn, and its kernel waits for something to do.
READY = """() => {
    const lesson = window.jupyterapp?.shell.currentWidget;
    return lesson?.context?.isReady && lesson.isVisible
        && lesson.content?.widgets?.length === lesson.content?.model?.cells.length
        && lesson.sessionContext.session?.kernel?.status === 'idle';
}"""


@dataclass(frozen=True)
class Place:
    """Where a notebook opens: what serves it, with which options, and the page of a notebook."""

    module: str
    options: dict
    page: str


JUPYTER = {
    "ServerApp.ip": "localhost",
    "ServerApp.port_retries": 0,
    "ServerApp.open_browser": False,
    "ServerApp.allow_root": True,
    "LabApp.extension_manager": "readonly",
}
PLACES = {
    "lab": Place(
        "jupyterlab",
        {**JUPYTER, "LabApp.expose_app_in_browser": True},
        "lab/workspaces/{name}/tree/{name}.ipynb",
    ),
    "notebook": Place(
        "notebook",
        {**JUPYTER, "JupyterNotebookApp.expose_app_in_browser": True},
        "notebooks/{name}.ipynb",
    ),
    "voila": Place("voila", {"Voila.open_browser": False}, "voila/render/{name}.ipynb"),
}


@dataclass(frozen=True)
class Server:
    """A running server: the place it makes, its folder, where it answers, and its token."""

    place: Place
    folder: Path
    url: str
    token: str

    def page_of(self, name):
        """Say the address of a notebook; in JupyterLab in a workspace where no other is open."""
        return f"{self.url}{self.place.page.format(name=name)}?token={self.token}"

    def write(self, name, *cells):
        """Put a notebook of these code cells into the folder; return its name."""
        notebook = nbformat.v4.new_notebook(
            metadata={"kernelspec": KERNEL}, cells=list(map(nbformat.v4.new_code_cell, cells))
        )
        nbformat.write(notebook, self.folder / f"{name}.ipynb")
        return name

    def ask(self, path, method="GET"):
        """Ask the server's REST interface; return what it answers."""
        headers = {"Authorization": f"token {self.token}"}
        request = urllib.request.Request(f"{self.url}{path}", headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.loads(reply.read() or "null")

    def stop_kernels(self):
        """Shut down every kernel, so that the next lesson has the memory to itself.

        Voilà has no sessions to ask for: it ends a kernel with its page.
        """
        if self.place is not PLACES["voila"]:
            for session in self.ask("api/sessions"):
                self.ask(f"api/sessions/{session['id']}", "DELETE")


@contextlib.contextmanager
def serving(notebooks, place="lab"):
    """Serve a copy of the folder ``notebooks`` with settings and data of its own, then end it."""
    with tempfile.TemporaryDirectory(prefix="gradlab-") as home:
        home = Path(home)
        shutil.copytree(notebooks, home / "notebooks")
        _write_settings(home / "settings")
        log = home / "log"
        port, token = _free_port(), secrets.token_hex(16)
        server = Server(PLACES[place], home / "notebooks", f"http://localhost:{port}/", token)
        with log.open("w") as output:
            process = subprocess.Popen(
                _command(server.place, server.folder, port),
                env=_environment(home, token),
                stdout=output,
                stderr=output,
            )
        try:
            _wait_until_started(server, process, log)
            yield server
            server.stop_kernels()
        finally:
            _end(process)


def _free_port():
    with socket.create_server(("localhost", 0)) as unused:
        return unused.getsockname()[1]


def _command(place, folder, port):
    app = "Voila" if place.module == "voila" else "ServerApp"
    options = {**place.options, f"{app}.root_dir": folder, f"{app}.port": port}
    return [
        *(sys.executable, "-m", place.module),
        *(f"--{name}={value}" for name, value in options.items()),
    ]


def _environment(home, token):
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    own = {name: str(home / folder) for name, folder in folders.items()}
    return {**os.environ, **own, "JUPYTER_TOKEN": token}


def _write_settings(folder):
    for plugin, values in SETTINGS.items():
        path = folder / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))


def _wait_until_started(server, process, log):
    """Wait until the server answers."""
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up and process.poll() is None:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{server.url}?token={server.token}", timeout=30).close()
            return
        time.sleep(0.1)
    raise RuntimeError(f"{server.place.module} did not start:\n{log.read_text()}")


def _end(process):
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def chromium_path(playwright):
    """Find a Chromium: the one named, the system's, or Playwright's; None if there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = os.environ.get("GRADLAB_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    own = playwright.chromium.executable_path
    return found or (own if Path(own).exists() else None)


@contextlib.contextmanager
def chromium():
    """Start a headless Chromium; raise LookupError, which says how to get one, if there is none."""
    with sync_playwright() as playwright:
        path = chromium_path(playwright)
        if path is None:
            raise LookupError(NO_CHROMIUM)
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_OPTIONS)
        yield browser
        browser.close()


def open_lesson(page, lab, lesson):
    """Open a lesson and wait until its kernel is ready."""
    page.goto(lab.page_of(lesson))
    page.wait_for_function(READY, timeout=START_SECONDS * 1000)


def run_all(page):
    """Run all cells, as the menu's Run All does; return whether every cell ended well."""
    _begin(page, "notebook:run-all-cells")
    return _ended_well(page)


def restart_and_run_all(page):
    """Restart the kernel and run all cells, and say yes when JupyterLab asks; return as run_all."""
    _begin(page, "notebook:restart-run-all")
    page.locator(".jp-Dialog .jp-mod-accept").click()
    return _ended_well(page)


def _begin(page, command):
    page.evaluate(
        """command => {
            window.allRan = null;
            window.jupyterapp.commands.execute(command).then(
                well => { window.allRan = well === true; },
                error => { window.allRan = false; });
        }""",
        command,
    )


def _ended_well(page):
    page.wait_for_function("window.allRan !== null", timeout=RUN_SECONDS * 1000)
    page.wait_for_function(READY)
    return page.evaluate("window.allRan")


def use_theme(page, theme):
    """Show JupyterLab or Notebook 7 ``light`` or ``dark``."""
    page.evaluate(
        "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})",
        f"JupyterLab {theme.title()}",
    )
    page.wait_for_function(
        "light => document.body.dataset.jpThemeLight === `${light}`", arg=theme == "light"
    )


def notebook_of(page):
    """Read the open notebook, with the outputs it has now."""
    model = "window.jupyterapp.shell.currentWidget.content.model.toJSON()"
    return nbformat.from_dict(page.evaluate(model))
