"""swap_activations: a Keras model with other activations and the same weights."""

import functools
import re
from collections import Counter, namedtuple

import keras

from gradlab.layers.registering import RECTIFIERS, WithOptions

Swap = namedtuple("Swap", ["layer", "was", "now"])
Swap.__doc__ = "An activation that was swapped: its layer, and its name before and now."


def swap_activations(model, swaps):
    """Return a copy of a Keras model with some activations swapped, and the list of the swaps.

    ::

        forward:  that of the model, with the other activations
        gradient: likewise

    Activations are found where a layer has one as its ``activation`` or
    ``recurrent_activation``, in cells and wrappers too, where they are layers (``ReLU``,
    ``LeakyReLU``, ``Softmax``, …), and where they are functions called on Keras tensors; in
    functional and sequential models and in such models nested in them.

    Args:
        model: built functional or sequential Keras model; stays as it is.
        swaps: dict from activations to what takes their place. A key is a name ("relu", which a
            ``ReLU`` layer without options is too; "relu6"; "leaky_relu"), a function, a class of
            layers (``keras.layers.ReLU``), or a layer of the model. A value is a name that Keras
            knows, or a function of one tensor that keeps its shape, such as ``guided_relu``,
            which takes over the negative slope and the highest value of the rectifier whose
            place it takes. Where several keys name an activation, the first wins.

    Returns:
        (copy, swapped): a model with weights of its own, equal to those of ``model``, compiled
        alike where that one is; and a list of ``Swap(layer, was, now)``, layers by their names,
        those in nested models after a slash.

    Raises:
        TypeError: model isn't a functional or sequential model, or swaps isn't as described.
        ValueError: the model isn't built, a key names no activation of it, or one that is out of
            reach: a layer inside a layer that isn't a model, or one with weights, as ``PReLU``;
            or a rectifier of gradlab should take the place of a ``ReLU`` with a threshold.

    The copy saves as the model does. Where it is loaded, ``gl.layers`` must have been named
    before, which is when Keras learns of the ops of gradlab; a function of your own must be
    registered: ``@keras.saving.register_keras_serializable()``.

    >>> import gradlab as gl, keras
    >>> model = keras.Sequential(
    ...     [keras.Input([2]), keras.layers.Dense(3, "relu", name="hidden"), keras.layers.Dense(1)]
    ... )
    >>> guided, swapped = gl.swap_activations(model, {"relu": gl.guided_relu})
    >>> swapped
    [Swap(layer='hidden', was='relu', now='guided_relu')]
    """
    _check_model(model)
    swaps = _checked(swaps)
    found = list(_found_in(model))
    _check_keys(swaps, found)
    copy = keras.models.clone_model(model, clone_function=_Cloning(swaps), recursive=True)
    copy.set_weights(model.get_weights())
    return copy, [Swap(f.layer, f.was, _name_of(now)) for f, now in _chosen(swaps, found)]


# One activation of a model: where, its name, what a key may call it, and why it is out of reach.
_Found = namedtuple("_Found", ["layer", "was", "called", "owner", "attribute", "hindrance"])


def _check_model(model):
    if not isinstance(model, (keras.Sequential, keras.src.models.Functional)):
        raise TypeError(
            f"swap_activations: model must be a functional or sequential Keras model, got a "
            f"{type(model).__name__}. In a subclassed model, override_gradient reaches the ops."
        )
    if not model.built:
        raise ValueError(
            "swap_activations: model has no weights yet. Give it an Input, or call it once."
        )


def _checked(swaps):
    if not isinstance(swaps, dict) or not swaps:
        raise TypeError(
            f"swap_activations: swaps must be a dict of activation: activation, got {swaps!r}."
        )
    return {key: _activation(value) for key, value in swaps.items()}


def _activation(value):
    if isinstance(value, str):
        return keras.activations.get(value)
    if not callable(value) or isinstance(value, (type, keras.Operation)):
        raise TypeError(
            f"swap_activations: the new activation must be a name or a function, got {value!r}. "
            f"For a layer give its function: lambda x: keras.activations.leaky_relu(x, 0.1)."
        )
    return value


def _found_in(model, prefix=""):
    for operation in _operations(model):
        name = f"{prefix}{operation.name}"
        if isinstance(operation, (keras.Sequential, keras.src.models.Functional)):
            yield from _found_in(operation, f"{name}/")
        elif _is_activation(operation):
            yield _found_itself(name, operation, None)
        elif isinstance(operation, keras.Layer):
            yield from _found_inside(name, operation)


def _operations(model):
    return model.layers if isinstance(model, keras.Sequential) else model.operations


def _found_itself(name, activation, hindrance, owner=None, attribute=None):
    if getattr(activation, "weights", None):
        hindrance = "has weights, which would be lost"
    called = _called(activation)
    return _Found(name, called[0], called, owner, attribute, hindrance)


def _called(activation):
    if isinstance(activation, keras.Operation):
        return *_names_of_operation(activation), type(activation), activation
    return _name_of(activation), activation


def _found_inside(name, layer):
    parts = layer._flatten_layers()
    attributes = [(part, *each) for part in parts for each in _attributes(part)]
    held = {id(activation) for *_, activation in attributes}
    for part in parts:
        if part is not layer and _is_activation(part) and id(part) not in held:
            yield _found_itself(name, part, f"is inside a {type(layer).__name__}")
    for part, attribute, activation in attributes:
        yield _found_itself(name, activation, None, part, attribute)


def _attributes(layer):
    for attribute in ("activation", "recurrent_activation"):
        # Recurrent layers show the activations of their cells as properties.
        activation = vars(layer).get(attribute)
        if callable(activation):
            yield attribute, activation


def _is_activation(operation):
    if isinstance(operation, keras.layers.Activation):
        return False
    return bool(_RECTIFIERS & {type(operation).__name__}) or callable(
        getattr(keras.activations, _snake(type(operation).__name__), None)
    )


_RECTIFIERS = {"ReLU", "LeakyReLU", "PReLU", "ELU"}


def _names_of_operation(operation):
    kind = type(operation).__name__
    if kind == "ReLU":
        return (*_names_of_relu(operation), kind)
    return {"LeakyReLU": "leaky_relu", "ELU": "elu"}.get(kind, _snake(kind)), kind


def _names_of_relu(operation):
    options = (operation.negative_slope, operation.max_value, operation.threshold)
    if options == (0, None, 0):
        return ("relu",)
    if options == (0, 6, 0):
        return ("relu6",)
    return ("leaky_relu",) if options[1:] == (None, 0) else ()


def _snake(name):
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _name_of(function):
    if isinstance(function, functools.partial):
        return _name_of(function.func)
    return getattr(function, "__name__", type(function).__name__)


def _chosen(swaps, found):
    pairs = ((each, _replacement(swaps, each.called)) for each in found)
    return [(each, now) for each, now in pairs if now is not None]


def _replacement(swaps, called):
    return next((now for key, now in swaps.items() if _matches(key, called)), None)


def _matches(key, called):
    return any(key is name or (isinstance(key, str) and key == name) for name in called)


def _check_keys(swaps, found):
    for key in swaps:
        hits = [each for each in found if _matches(key, each.called)]
        if not hits:
            raise ValueError(
                f"swap_activations: model has no activation {_said(key)}. {_counted(found)}"
            )
        for each in hits:
            if each.hindrance:
                raise ValueError(
                    f"swap_activations: {each.was} in {each.layer} {each.hindrance}, out of "
                    f"reach. Override its gradient instead: override_gradient."
                )


def _said(key):
    return repr(key) if isinstance(key, str) else getattr(key, "__name__", repr(key))


def _counted(found):
    counts = Counter(each.was for each in found)
    return f"It has: {', '.join(f'{was} ({n})' for was, n in sorted(counts.items())) or 'none'}."


class _Cloning:
    """Clones layers as Keras does, with the new activations in."""

    def __init__(self, swaps):
        self.swaps = swaps

    def __call__(self, layer):
        if _is_activation(layer):
            return self._activation_or_clone(layer)
        clone = _clone(layer)
        if isinstance(layer, keras.Layer):
            self._swap_inside(layer, clone)
        return clone

    def _activation_or_clone(self, layer):
        now = _replacement(self.swaps, _called(layer))
        return _clone(layer) if now is None else _as_layer(_fitted(now, layer), layer)

    def _swap_inside(self, layer, clone):
        pairs = zip(_found_inside("", layer), _found_inside("", clone), strict=True)
        for original, copy in list(pairs):
            now = copy.attribute and _replacement(self.swaps, original.called)
            if now:
                was = getattr(copy.owner, copy.attribute)
                setattr(copy.owner, copy.attribute, _fitted(now, was))
                copy.owner._tracker.untrack(was)


def _fitted(now, was):
    """The new activation: if a rectifier of gradlab, then with the options of the old one."""
    options = _options_of(was) if now in RECTIFIERS else {}
    if "threshold" in options:
        raise ValueError(
            f"swap_activations: a ReLU has threshold={options['threshold']}, which {now.__name__} "
            f"hasn't. Give a function: lambda x: {now.__name__}(…)."
        )
    return WithOptions(now, options) if options else now


def _options_of(activation):
    """The options of a rectifier that aren't as ``guided_relu`` has them by default."""
    functions = {"leaky_relu": {"negative_slope": 0.2}, "relu6": {"max_value": 6.0}}
    options = functions.get(_called(activation)[0], {})
    own = {name: getattr(activation, name, None) for name in _OPTIONS}
    return options | {name: value for name, value in own.items() if value}


_OPTIONS = ("negative_slope", "max_value", "threshold")


def _as_layer(function, operation):
    policy = getattr(operation, "dtype_policy", None)
    return keras.layers.Activation(function, name=operation.name, dtype=policy)


def _clone(layer):
    if isinstance(layer, keras.layers.Lambda):
        return layer  # Keras won't rebuild its function, and there are no weights to keep apart.
    return layer.__class__.from_config(layer.get_config())
