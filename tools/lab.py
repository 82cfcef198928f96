"""A JupyterLab of its own and a Chromium to look at it with: for the browser tests and pictures."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import nbformat
from playwright.sync_api import sync_playwright

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
    return lesson?.context?.isReady && lesson.isVisible && lesson.content?.widgets?.length > 1
        && lesson.sessionContext.session?.kernel?.status === 'idle';
}"""


@dataclass(frozen=True)
class Lab:
    """Where a running JupyterLab answers, and its token."""

    url: str
    token: str

    def page_of(self, lesson):
        """Say the address of a lesson, in a workspace that no other lesson is open in."""
        workspace = lesson.split("_")[0]
        return f"{self.url}lab/workspaces/{workspace}/tree/{lesson}.ipynb?token={self.token}"

    def ask(self, path, method="GET"):
        """Ask the server's REST interface; return what it answers."""
        headers = {"Authorization": f"token {self.token}"}
        request = urllib.request.Request(f"{self.url}{path}", headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.loads(reply.read() or "null")

    def stop_kernels(self):
        """Shut down every kernel, so that the next lesson has the memory to itself."""
        for session in self.ask("api/sessions"):
            self.ask(f"api/sessions/{session['id']}", "DELETE")


@contextlib.contextmanager
def serving(notebooks):
    """Serve a copy of the folder ``notebooks`` with settings and data of its own, then end it."""
    with tempfile.TemporaryDirectory(prefix="gradlab-") as home:
        home = Path(home)
        shutil.copytree(notebooks, home / "notebooks")
        _write_settings(home / "settings")
        log = home / "log"
        with log.open("w") as output:
            server = subprocess.Popen(
                _command(home), env=_environment(home), stdout=output, stderr=output
            )
        try:
            lab = _when_started(server, home, log)
            yield lab
            lab.stop_kernels()
        finally:
            _end(server)


def _command(home):
    options = {
        "ServerApp.root_dir": home / "notebooks",
        "ServerApp.port": 0,
        "ServerApp.open_browser": False,
        "ServerApp.allow_root": True,
        "LabApp.expose_app_in_browser": True,
        "LabApp.extension_manager": "readonly",
    }
    return [
        *(sys.executable, "-m", "jupyterlab"),
        *(f"--{name}={value}" for name, value in options.items()),
    ]


def _environment(home):
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    return os.environ | {name: str(home / folder) for name, folder in folders.items()}


def _write_settings(folder):
    for plugin, values in SETTINGS.items():
        path = folder / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))


def _when_started(server, home, log):
    """Wait until the server has written where it answers, and answers there."""
    information = home / "runtime" / f"jpserver-{server.pid}.json"
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up and server.poll() is None:
        with contextlib.suppress(OSError, ValueError):
            told = json.loads(information.read_text())
            lab = Lab(told["url"], told["token"])
            lab.ask("api/status")
            return lab
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()}")


def _end(server):
    server.terminate()
    try:
        server.wait(15)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


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
    page.evaluate(
        """() => {
            window.allRan = null;
            window.jupyterapp.commands.execute('notebook:run-all-cells').then(
                well => { window.allRan = well === true; },
                error => { window.allRan = false; });
        }"""
    )
    page.wait_for_function("window.allRan !== null", timeout=RUN_SECONDS * 1000)
    page.wait_for_function(READY)
    return page.evaluate("window.allRan")


def notebook_of(page):
    """Read the open notebook, with the outputs it has now."""
    model = "window.jupyterapp.shell.currentWidget.content.model.toJSON()"
    return nbformat.from_dict(page.evaluate(model))
