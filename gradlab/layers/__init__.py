"""The ops as Keras layers: built into models, saved with them, and changed while they train.

Import ``gradlab.layers`` (or name ``gl.layers``) before loading a model that holds one of them:
that is when Keras learns of them, of the surrogates, and of the ops that can be an activation,
such as ``keras.layers.Activation(gl.sign_ste)``.

A number that a schedule may change, such as the scale of ``ReverseGradient``, is a variable:
``layer.scale.assign(0.3)``, or ``layer.scale = 0.3``, which checks the value. It changes what a
compiled model does, within ``fit`` too, and nothing is traced again. It counts as a weight that
isn't trained: saving a model saves where it stands, while ``get_config``, and a clone made by it,
have the value that the layer began with.
"""

from gradlab.layers import registering as _registering  # noqa: F401 - tells Keras of the ops
from gradlab.layers.clipping import ClipGradient
from gradlab.layers.python import NumpyOp
from gradlab.layers.scaling import ReverseGradient, ScaleGradient
from gradlab.layers.substituting import Spike, StraightThrough

__all__ = [
    "ClipGradient",
    "NumpyOp",
    "ReverseGradient",
    "ScaleGradient",
    "Spike",
    "StraightThrough",
]
