"""The arguments and results of a checked function, named, and as one vector of real numbers.

A complex number counts as two real coordinates. In TensorFlow's convention the gradient of a
real loss L at z = x + iy is ∂L/∂x + i ∂L/∂y, so that its two coordinates are the two slopes.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Leaf:
    """Name, dtype and shape of one float or complex tensor inside a structure."""

    name: str
    dtype: tf.DType
    shape: tuple

    @property
    def width(self):
        """Real coordinates per element."""
        return 2 if self.dtype.is_complex else 1

    @property
    def coordinates(self):
        """Real coordinates of the whole tensor."""
        return self.width * int(np.prod(self.shape, dtype=np.int64))

    def with_dtype(self, real):
        """This leaf in another precision, complex if it was complex."""
        return dataclasses.replace(self, dtype=complex_of(real) if self.dtype.is_complex else real)

    def coordinate_name(self, coordinate):
        """For example ``args[0][3, 2]``, or ``args[1][0].imag``."""
        element, part = divmod(coordinate, self.width)
        index = ", ".join(str(i) for i in np.unravel_index(element, self.shape or (1,)))
        bracket = f"[{index}]" if self.shape else ""
        return self.name + bracket + ((".real", ".imag")[part] if self.width == 2 else "")


class Arguments:
    """The arguments of one call, their float and complex tensors picked out as leaves."""

    def __init__(self, args, caller):
        if not args:
            raise TypeError(f"{caller} got no arguments: give those that f takes, {caller}(f, x)")
        self.structure = tuple(_as_tensors(arg) for arg in args)
        self._flat = tf.nest.flatten(self.structure, expand_composites=True)
        names = [name for i, arg in enumerate(self.structure) for name in paths(arg, f"args[{i}]")]
        self._where = [i for i, leaf in enumerate(self._flat) if is_inexact(leaf)]
        self.leaves = tuple(leaf_of(names[i], self._flat[i]) for i in self._where)
        self._refuse_what_has_no_slope(caller)

    @property
    def tensors(self):
        """The float and complex tensors, in the order of ``leaves``."""
        return [self._flat[i] for i in self._where]

    def call(self, f, tensors):
        """Call f on these arguments, ``tensors`` in the place of the leaves."""
        flat = list(self._flat)
        for i, tensor in zip(self._where, tensors, strict=True):
            flat[i] = tensor
        packed = tf.nest.pack_sequence_as(self.structure, flat, expand_composites=True)
        return f(*packed)

    def _refuse_what_has_no_slope(self, caller):
        if not self.leaves:
            got = ", ".join(f"args[{i}] is {describe(arg)}" for i, arg in enumerate(self.structure))
            raise TypeError(
                f"{caller} needs a float or complex argument to differentiate: {got}. "
                "Cast one, for example with tf.cast(x, tf.float32)"
            )
        for leaf, tensor in zip(self.leaves, self.tensors, strict=True):
            if not np.all(np.isfinite(to_vector([tensor]))):
                raise ValueError(
                    f"{leaf.name} holds NaN or an infinity, where no slope can be measured: "
                    "choose finite values"
                )


def inexact(value):
    """The float and complex tensors in what f returned."""
    flat = tf.nest.flatten(value, expand_composites=True)
    tensors = [tf.convert_to_tensor(item) for item in flat if _may_be_inexact(item)]
    tensors = [tensor for tensor in tensors if is_inexact(tensor)]
    if not tensors:
        raise TypeError(
            f"f returned {describe(value)}: it must return at least one float or complex tensor"
        )
    return tensors


def result_leaves(value, name="output"):
    """The leaves of what f returned in eager mode."""
    flat = tf.nest.flatten(value, expand_composites=True)
    named = zip(paths(value, name), flat, strict=True)
    named = [(label, tf.convert_to_tensor(item)) for label, item in named if _may_be_inexact(item)]
    return tuple(leaf_of(label, tensor) for label, tensor in named if is_inexact(tensor))


def paths(structure, name):
    """A name for each leaf of ``structure``, in the order in which tf.nest flattens it."""
    if isinstance(structure, Mapping):
        return [p for key in sorted(structure) for p in paths(structure[key], f"{name}[{key!r}]")]
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return [
            p for key in structure._fields for p in paths(getattr(structure, key), f"{name}.{key}")
        ]
    if isinstance(structure, list | tuple):
        return [p for i, item in enumerate(structure) for p in paths(item, f"{name}[{i}]")]
    if isinstance(structure, tf.RaggedTensor):
        rest = len(tf.nest.flatten(structure, expand_composites=True)) - 1
        return [f"{name}.flat_values", *[f"{name}.row_splits"] * rest]
    return [name] * len(tf.nest.flatten(structure, expand_composites=True))


def describe(value):
    """What a value is, in a few words, for an error message."""
    if isinstance(value, tf.Tensor | np.ndarray):
        shape = tuple(value.shape)
        return f"a tensor of dtype {tf.as_dtype(value.dtype).name} and shape {shape}"
    return "None" if value is None else f"{type(value).__name__} {value!r}"[:80]


def is_inexact(value):
    """Whether ``value`` is a tensor of a float or complex dtype."""
    return isinstance(value, tf.Tensor) and (value.dtype.is_floating or value.dtype.is_complex)


def leaf_of(name, tensor):
    """The leaf that describes an eager tensor."""
    return Leaf(name, tensor.dtype, tuple(tensor.shape))


def complex_of(real):
    """The complex dtype whose parts are at least as precise as ``real``."""
    return tf.complex128 if real == tf.float64 else tf.complex64


def coordinate_name(leaves, coordinate):
    """The name of a coordinate of the vector that ``leaves`` make."""
    for leaf in leaves:
        if coordinate < leaf.coordinates:
            return leaf.coordinate_name(coordinate)
        coordinate -= leaf.coordinates
    raise IndexError(coordinate)


def count(leaves):
    """Real coordinates of all leaves together."""
    return sum(leaf.coordinates for leaf in leaves)


def to_vector(tensors):
    """Eager tensors as one NumPy vector of float64 coordinates."""
    parts = [_coordinates(np.asarray(tensor)) for tensor in tensors]
    return np.concatenate(parts) if parts else np.zeros(0)


def from_vector(vector, leaves):
    """A float64 coordinate vector as tensors of the dtypes and shapes of ``leaves``."""
    sizes = [leaf.coordinates for leaf in leaves]
    parts = tf.split(vector, sizes) if len(leaves) > 1 else [vector]
    return [_to_leaf(part, leaf) for part, leaf in zip(parts, leaves, strict=True)]


def pack(tensors):
    """Tensors as one float64 vector of coordinates, differentiable; the inverse of from_vector."""
    parts = [_from_leaf(tensor) for tensor in tensors]
    return parts[0] if len(parts) == 1 else tf.concat(parts, axis=0)


def _coordinates(array):
    if np.iscomplexobj(array):
        return np.ascontiguousarray(array.reshape(-1).astype(np.complex128)).view(np.float64)
    return array.reshape(-1).astype(np.float64)


def _to_leaf(part, leaf):
    if not leaf.dtype.is_complex:
        return tf.reshape(tf.cast(part, leaf.dtype), leaf.shape)
    pairs = tf.reshape(part, (*leaf.shape, 2))
    return tf.cast(tf.complex(pairs[..., 0], pairs[..., 1]), leaf.dtype)


def _from_leaf(tensor):
    if tensor.dtype.is_complex:
        tensor = tf.stack([tf.math.real(tensor), tf.math.imag(tensor)], axis=-1)
    return tf.reshape(tf.cast(tensor, tf.float64), [-1])


def _as_tensors(arg):
    if _is_list_of_numbers(arg):
        return tf.convert_to_tensor(arg)
    return tf.nest.map_structure(_as_tensor, arg)


def _is_list_of_numbers(arg):
    if not isinstance(arg, list | tuple) or hasattr(arg, "_fields"):
        return False
    flat = tf.nest.flatten(arg)
    return bool(flat) and all(isinstance(item, int | float | complex) for item in flat)


def _as_tensor(value):
    """Numbers with a point and arrays become tensors; integers, text and None stay."""
    if isinstance(value, tf.RaggedTensor | tf.SparseTensor | tf.Tensor):
        return value
    if isinstance(value, float | complex) or hasattr(value, "__array__"):
        return tf.convert_to_tensor(value)
    return value


def _may_be_inexact(value):
    return isinstance(value, tf.Tensor | float | complex) or hasattr(value, "__array__")
