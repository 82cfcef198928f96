"""Sending f to a fresh process, and reading what its gradient is there."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf

from gradlab.checks import child
from gradlab.checks.quiet import one_line, said
from gradlab.checks.subjects import NotTried, Run, cast_all

_PATIENCE = 300  # seconds
_BY_PATH = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"


class FreshProcess:
    """A process that loads f as soon as it is entered; ``verdict`` waits for it."""

    def __init__(self, subject, modes):
        self.subject, self.modes = subject, modes
        self.reasons, self.tasks, self.process = {}, {}, None

    def __enter__(self):
        self._held = tempfile.TemporaryDirectory(prefix="gradlab-")
        self.folder = pathlib.Path(self._held.name)
        for mode in self.modes:
            self._prepare(mode)
        if self.tasks:
            self._start()
        return self

    def __exit__(self, *_):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._held.cleanup()

    def verdict(self, mode):
        """What differs in the other process, or nothing; raises NotTried."""
        if mode in self.reasons:
            return self._reason(self.reasons[mode])
        if mode == "two replicas" and mode not in self.tasks:
            return _compare_replicas(self.subject, replicas_here(self.subject))
        self._wait()
        arrays = self._read(mode)
        if isinstance(arrays, str):
            return arrays
        compare = _compare_replicas if mode == "two replicas" else _compare
        return compare(self.subject, arrays)

    def _reason(self, reason):
        if isinstance(reason, NotTried):
            raise reason
        return reason

    def _prepare(self, mode):
        # Whatever saving f raises is that mode's reason.
        try:
            task = _PREPARE[mode](self.subject, self.folder)
        except NotTried as why:
            self.reasons[mode] = why
        except Exception as error:
            self.reasons[mode] = one_line(error)
        else:
            self.tasks |= {mode: task} if task else {}

    def _start(self):
        named = {f"x{i}": t.numpy() for i, t in enumerate(self.subject.tensors)}
        named |= {f"u{i}": t.numpy() for i, t in enumerate(self.subject.upstreams)}
        np.savez(self.folder / "arguments.npz", **named)
        job = {
            "tensors": len(self.subject.tensors),
            "upstreams": len(self.subject.upstreams),
            "tasks": {str(self.modes.index(mode)): task for mode, task in self.tasks.items()},
        }
        (self.folder / "job.json").write_text(json.dumps(job))
        with open(self.folder / "log", "w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _BY_PATH, child.__file__, str(self.folder)],
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _wait(self):
        try:
            self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _read(self, mode):
        stem = self.folder / str(self.modes.index(mode))
        if stem.with_suffix(".npz").exists():
            return dict(np.load(stem.with_suffix(".npz")))
        if stem.with_suffix(".error").exists():
            return said(*json.loads(stem.with_suffix(".error").read_text()))
        last = (self.folder / "log").read_text().strip().splitlines()[-1:]
        return f"the fresh process ended with code {self.process.returncode}: {' '.join(last)}"


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
    return lambda *tensors: apply(tensors)


def _keras(subject, folder):
    import keras

    if not all(leaf.shape for leaf in subject.leaves):
        raise NotTried("a Keras model needs a batch axis, and an argument is a scalar")
    inputs = [keras.Input(batch_shape=leaf.shape, dtype=leaf.dtype.name) for leaf in subject.leaves]
    path = folder / "model.keras"
    keras.Model(inputs, _keras_outputs(subject, inputs)).save(path)
    return {"kind": "keras", "path": str(path)}


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
