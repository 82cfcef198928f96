"""Sending f to a fresh process, and reading what its gradient is there."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
import tensorflow as tf

from gradlab.checks import child
from gradlab.checks.quiet import FunctionRaised, one_line, said
from gradlab.checks.subjects import NotTried, Run, cast_all

_PATIENCE, _PATIENCE_EACH = 300, 10  # seconds, for the process and for each of its tasks
_BY_PATH = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"


class FreshProcess:
    """One process for several functions, which it loads as they are saved.

    All SavedModels come first, whatever the order of the modes: they have to load before a
    ``.keras`` file makes the process import what its layers need.
    """

    def __init__(self, subjects, modes):
        self.subjects, self.modes = subjects, modes
        self.reasons, self.answers = {}, {}

    def __enter__(self):
        self._held = tempfile.TemporaryDirectory(prefix="gradlab-")
        self.child = _Child(pathlib.Path(self._held.name))
        for mode in _PREPARE:
            if mode in self.modes:
                for subject in self.subjects:
                    self._prepare(subject, mode)
        self.child.no_more()
        return self

    def __exit__(self, *_):
        self.child.stop()
        self._held.cleanup()

    def verdict(self, subject, mode):
        """What differs in the other process, or nothing; raises NotTried and FunctionRaised."""
        if (subject, mode) in self.reasons:
            raise self.reasons[subject, mode]
        compare = _compare_replicas if mode == "two replicas" else _compare
        if (subject, mode) not in self.answers:
            return compare(subject, replicas_here(subject))
        arrays = self.child.read(self.answers[subject, mode])
        return arrays if isinstance(arrays, str) else compare(subject, arrays)

    def _prepare(self, subject, mode):
        folder = self.child.folder / str(self.subjects.index(subject))
        folder.mkdir(exist_ok=True)
        try:
            task = _PREPARE[mode](subject, folder)
        except NotTried as why:
            self.reasons[subject, mode] = why
        except Exception as error:  # whatever saving f raises is that mode's reason
            self.reasons[subject, mode] = FunctionRaised(one_line(error))
        else:
            if task:
                self.answers[subject, mode] = self.child.send(task | _given(subject, folder))


class _Child:
    """A process that does tasks in the order in which they come, and writes down answers."""

    def __init__(self, folder):
        self.folder, self.sent, self.process = folder, 0, None

    def send(self, task):
        """Have a task done; gives where its answer will be."""
        if self.process is None:
            self._start()
        answer = self.folder / str(self.sent)
        self.sent += 1
        with contextlib.suppress(BrokenPipeError):  # it has ended: read says with what
            self.process.stdin.write(json.dumps(task | {"answer": str(answer)}) + "\n")
            self.process.stdin.flush()
        return answer

    def no_more(self):
        """Let the process end when it has done what was sent."""
        if self.process is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()

    def stop(self):
        """End the process, done or not."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def read(self, answer):
        """The arrays of a task, once all are done, or how it ended; raises FunctionRaised."""
        self._wait()
        if answer.with_suffix(".npz").exists():
            return dict(np.load(answer.with_suffix(".npz")))
        if answer.with_suffix(".error").exists():
            raise FunctionRaised(said(*json.loads(answer.with_suffix(".error").read_text())))
        last = (self.folder / "log").read_text().strip().splitlines()[-1:]
        code = self.process.returncode
        return f"the fresh process ended with code {code}: {' '.join(last)}"

    def _start(self):
        with open(self.folder / "log", "w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _BY_PATH, child.__file__],
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
            )

    def _wait(self):
        try:
            self.process.wait(_PATIENCE + _PATIENCE_EACH * self.sent)
        except subprocess.TimeoutExpired:
            self.stop()


def _given(subject, folder):
    """What every task says: where f's arguments and upstreams are, and of which dtypes."""
    path = folder / "given.npz"
    named = child.named(x=subject.tensors, u=subject.upstreams)
    np.savez(path, **named)
    lists = {"tensors": subject.tensors, "upstreams": subject.upstreams}
    return {"given": str(path)} | {k: [t.dtype.name for t in ts] for k, ts in lists.items()}


def replicas_here(subject):
    """Run on two devices of this process, of one kind."""
    return child.two_replicas(subject.apply, subject.tensors, subject.upstreams, _two_devices())


def _two_devices():
    """Two devices of one kind that this process has, or none."""
    for kind in ("GPU", "CPU"):
        devices = [device.name for device in tf.config.list_logical_devices(kind)]
        if len(devices) > 1:
            return devices[:2]
    return []


def _saved(subject, folder):
    path = folder / "saved_model"
    if not path.exists():
        module = tf.Module()
        if isinstance(subject.f, tf.Module) or hasattr(subject.f, "_trackable_children"):
            module.owner = subject.f
        specs = [tf.TensorSpec(leaf.shape, leaf.dtype) for leaf in subject.leaves]
        module.f = tf.function(_one_by_one(subject.apply), specs, autograph=False)
        tf.saved_model.save(module, str(path))
    return {"kind": "saved", "path": str(path)}


def _one_by_one(apply):
    def f(*tensors):
        return apply(tensors)

    return f


def _keras(subject, folder):
    import keras

    if not all(leaf.shape for leaf in subject.leaves):
        raise NotTried("a Keras model needs a batch axis, and an argument is a scalar")
    inputs = [keras.Input(batch_shape=leaf.shape, dtype=leaf.dtype.name) for leaf in subject.leaves]
    path = folder / "model.keras"
    keras.Model(inputs, _keras_outputs(subject, inputs)).save(path)
    return {"kind": "keras", "path": str(path), "modules": _modules_of(path)}


def _modules_of(path):
    """The modules that a program has to import before it loads a model: those that told Keras.

    What is defined in ``__main__`` is known to no other program.
    """
    import keras

    config = zipfile.ZipFile(path).read("config.json").decode()
    told = keras.saving.get_custom_objects().items()
    modules = {thing.__module__ for name, thing in told if json.dumps(name) in config}
    return sorted(modules - {"__main__"})


def _keras_outputs(subject, inputs):
    import keras

    if isinstance(subject.f, keras.layers.Layer):
        return tf.nest.flatten(subject.arguments.call(subject.f, inputs))
    if not (subject.takes_only_tensors and _can_be_imported(subject.f)):
        raise NotTried("f isn't a Keras layer, nor a function of tensors that imports by name")
    return child.calls_layer()(subject.f.__module__, subject.f.__qualname__)(inputs)


def _replicas(subject, folder):
    if _two_devices():
        return None
    if subject.takes_only_tensors and _can_be_imported(subject.f):
        return {"kind": "replicas", "module": subject.f.__module__, "name": subject.f.__qualname__}
    try:
        return _saved(subject, folder) | {"kind": "replicas"}
    except Exception as error:
        raise NotTried(
            "this process has one device, and f can't be taken to another: it can't be imported "
            f"by name, and saving it raises {one_line(error)}"
        ) from error


def _can_be_imported(f):
    module, name = getattr(f, "__module__", None), getattr(f, "__qualname__", "<")
    if module in (None, "__main__") or "<" in name:
        return False
    return child.imported(module, name) is f


def _environment():
    paths = [path for path in sys.path if path]
    quiet = {
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    return os.environ | quiet | {"PYTHONPATH": os.pathsep.join(paths)}


def _compare(subject, arrays, prefix="", expected=None):
    ys = [arrays[f"{prefix}y{i}"] for i in range(len(subject.outs))]
    gradients = [arrays[f"{prefix}g{i}"] for i in range(len(subject.leaves))]
    return subject.disagreement(Run(ys, gradients), expected)


def _compare_replicas(subject, arrays):
    expected = []
    for replica, scale in enumerate((1.0, child.SECOND)):
        tensors = [t * tf.cast(scale, t.dtype) for t in subject.tensors]
        expected.append((tensors, subject.expect(tensors, subject.upstreams)))
        found = _compare(subject, arrays, f"replica{replica}", expected[-1][1])
        if found:
            return f"on replica {replica}, {found}"
    return _compare_total(subject, arrays["total"], expected)


def _compare_total(subject, total, expected):
    """The gradient of the variable that multiplies the tensors, summed over the replicas."""
    terms = [
        np.real(np.conj(g) * t)
        for tensors, found in expected
        for g, t in zip(found.gradients, cast_all(tensors, tf.float64), strict=True)
    ]
    size, right = sum(np.abs(term).sum() for term in terms), sum(term.sum() for term in terms)
    if abs(total - right) <= subject.rtol_for(subject.eps) * size:
        return ""
    return (
        f"the gradient summed over the replicas is {total:.3g}, where eager mode gives {right:.3g}"
    )


_PREPARE = {"saved and loaded": _saved, ".keras": _keras, "two replicas": _replicas}
