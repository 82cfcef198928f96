"""Which device evaluates a curve, what it is called, and what it can do."""

import functools
import os
import platform
import re
from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class Device:
    """A device that TensorFlow can place ops on.

    Attributes:
        name: what ``tf.device`` takes, such as "/GPU:0".
        model: what its maker calls it, such as "NVIDIA H200".
        abilities: what it can do that others can't, in words.
        grows: whether TensorFlow takes its memory as needed rather than all at once.

    """

    name: str
    model: str
    abilities: tuple[str, ...] = ()
    grows: bool = True

    def __str__(self):
        return f"{self.kind} ({self.model})"

    @property
    def kind(self):
        """Whether it's a CPU or a GPU."""
        return self.name.strip("/").partition(":")[0]


@functools.cache
def available():
    """All devices a curve can be evaluated on, the best first.

    >>> available()[-1].name
    '/CPU:0'
    """
    growing = grow_memory()
    gpus = [
        _gpu(index, gpu, growing) for index, gpu in enumerate(tf.config.list_logical_devices("GPU"))
    ]
    return (*gpus, _cpu())


def choose(device=None):
    """Give the device named, or the best there is.

    Args:
        device: None, a `Device`, or a name such as "cpu", "gpu" or "/GPU:1".

    Returns:
        A `Device`.

    Raises:
        ValueError: there is no such device here.

    >>> choose("cpu").name
    '/CPU:0'

    """
    if isinstance(device, Device):
        return device
    if device is None:
        return available()[0]
    wanted = _full_name(device)
    for candidate in available():
        if candidate.name == wanted:
            return candidate
    here = ", ".join(repr(candidate.name) for candidate in available())
    raise ValueError(f"device: there is no {device!r} here; there is {here}")


def grow_memory():
    """Let each GPU take memory as it's needed; says whether all of them now do.

    Without it the first notebook takes nearly all of a GPU, and the second fails.
    """
    try:
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
    except (
        RuntimeError,
        ValueError,
    ):  # the GPU is in use already, or the devices were split by hand
        return False
    return True


def _full_name(device):
    match = re.fullmatch(r"(?:/device:|/)?(cpu|gpu)(?::(\d+))?", str(device).lower())
    if match is None:
        raise ValueError(f"device: got {device!r}; give 'cpu', 'gpu' or a name such as '/GPU:1'")
    kind, index = match.groups()
    return f"/{kind.upper()}:{index or 0}"


def _gpu(index, logical, growing):
    physical = tf.config.list_physical_devices("GPU")
    details = tf.config.experimental.get_device_details(physical[min(index, len(physical) - 1)])
    return Device(
        name=f"/GPU:{index}",
        model=details.get("device_name", logical.name),
        abilities=_gpu_abilities(details.get("compute_capability", (0, 0))),
        grows=growing,
    )


def _gpu_abilities(capability):
    known = {(7, 0): "float16 tensor cores", (8, 0): "bfloat16 and TF32", (9, 0): "float8"}
    return ("XLA", *(words for least, words in known.items() if capability >= least))


def _cpu():
    return Device("/CPU:0", _cpu_model(), ("XLA", f"{_cores()} cores"))


def _cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _cpu_model():
    try:
        with open("/proc/cpuinfo") as file:
            return re.search(r"model name\s*: (.+)", file.read()).group(1).replace("(R)", "")
    except (OSError, AttributeError):
        return platform.processor() or platform.machine()
