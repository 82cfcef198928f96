"""Functions inside what Keras saves: written as the name under which they are found again."""

import functools

import keras
import numpy as np
import tensorflow as tf

# Libraries whose functions only compute, so that a name from a file can't do harm.
_LIBRARIES = {"tf.math": tf.math, "keras.ops": keras.ops, "numpy": np}


def config_of_function(owner, argument, function):
    """Return what a Keras config holds of ``function``, or say how to make it one that is found.

    It is found where it is registered with Keras, as are the clips of gradlab and those of its ops
    that can be activations; in tf.math and keras.ops; among the ufuncs of NumPy; and as a
    functools.partial of such.
    """
    if isinstance(function, functools.partial):
        return {
            "partial": config_of_function(owner, argument, function.func),
            "args": keras.saving.serialize_keras_object(list(function.args)),
            "keywords": keras.saving.serialize_keras_object(function.keywords),
        }
    config = _in_libraries(function) or _registered(function)
    if config is None:
        raise ValueError(
            f"{owner}: {argument} must be registered to be saved, got {function!r}. "
            f"Write @keras.saving.register_keras_serializable() before a named function; bind "
            f"arguments with functools.partial; or save weights only."
        )
    return config


def function_of_config(config):
    """Return the function that ``config_of_function`` described."""
    if "partial" in config:
        args = keras.saving.deserialize_keras_object(config["args"])
        keywords = keras.saving.deserialize_keras_object(config["keywords"])
        return functools.partial(function_of_config(config["partial"]), *args, **keywords)
    if "library" in config:
        return _from_library(config["library"], config["name"])
    if "registered" in config:
        return _from_registry(config["registered"])
    return keras.saving.deserialize_keras_object(config["object"])


def _in_libraries(function):
    name = getattr(function, "__name__", "")
    for library in _LIBRARIES:
        if _found(library, name) is function:
            return {"library": library, "name": name}
    return None


def _found(library, name):
    found = getattr(_LIBRARIES.get(library), name, None)
    # NumPy also reads and writes files.
    return found if library != "numpy" or isinstance(found, np.ufunc) else None


def _from_library(library, name):
    found = _found(library, name)
    if found is None:
        raise ValueError(f"gradlab: {library} has no function {name!r} here. Update the library.")
    return found


def _registered(function):
    if not hasattr(function, "__name__"):
        is_known = is_registered(type(function))
        return {"object": keras.saving.serialize_keras_object(function)} if is_known else None
    if not is_registered(function):
        return None
    return {"registered": keras.saving.get_registered_name(function)}


def is_registered(thing):
    """Tell whether a function or class is found by Keras under the name that it would save."""
    name = keras.saving.get_registered_name(thing)
    return keras.saving.get_registered_object(name) is thing


def _from_registry(name):
    found = keras.saving.get_registered_object(name)
    if found is None:
        raise ValueError(
            f"gradlab: no function is registered as {name!r}. Import the module that registers it "
            f"before loading, or pass custom_objects={{{name!r}: …}}."
        )
    return found
