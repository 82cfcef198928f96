"""transform_gradients: a function of gradients in any Keras optimizer, after the all-reduce."""

import contextlib
import inspect

import keras
import tensorflow as tf

from gradlab.ops.arguments import converted, flag, unconverted
from gradlab.serialising import config_of_function, function_of_config


def transform_gradients(optimizer, fn, *, with_variables=False, name=None):
    """Return an optimizer that hands its gradients through ``fn`` and takes the step with them.

    ::

        w ← w − step(fn(Σ g))          (Σ: over the replicas of a strategy)

    ``fn`` gets what the step would have used: unscaled where the loss was scaled, averaged where
    gradients accumulate, summed over the replicas of MirroredStrategy or
    MultiWorkerMirroredStrategy, and after the optimizer's own ``clipnorm``, which Keras applies
    before that sum. Weight decay that is decoupled (AdamW) stays outside.

    The result wraps ``optimizer`` and shares its state: learning rate, slots, iterations. It
    works in ``compile`` and ``fit``, and in a loop of one's own with ``apply`` and
    ``apply_gradients``. ``optimizer`` itself is left as it was: called directly, it transforms
    nothing. A ``LossScaleOptimizer`` may be inside or outside. Transforms nest: the outermost
    ``fn`` is the first to see the gradients. Accumulation under a strategy of several replicas
    fails, as it does in Keras without a transform.

    Saved as ``.keras`` the transform is kept, if ``fn`` is a clip of gradlab, a function or an
    object registered with ``keras.saving.register_keras_serializable``, or a
    ``functools.partial`` of one with arguments that Keras can save. ``import gradlab.optimizing``
    before loading.

    Args:
        optimizer: any Keras optimizer but MultiOptimizer, built or not.
        fn: ``fn(gradients)``, from a list of tensors and IndexedSlices to one of the same length,
            shapes and dtypes. It has no None: Keras leaves out variables without a gradient. A
            pair (list, norm), as ``clip_by_global_norm`` gives, counts as its list. It runs
            inside ``tf.function``, under XLA too where ``fit`` compiles.
        with_variables: whether to call ``fn(gradients, variables)``, as ``adaptive_clip`` needs.
        name: of the new optimizer.

    Returns:
        A Keras optimizer.

    Raises:
        TypeError: optimizer is no Keras optimizer, or a MultiOptimizer; fn isn't callable, or
            takes other arguments. When a step is taken: fn returned no list of tensors.
        ValueError: when a step is taken: fn returned another number of gradients, another shape
            or dtype. When saved: fn isn't one that can be saved.

    >>> import functools
    >>> import gradlab as gl, keras, tensorflow as tf
    >>> clip = functools.partial(gl.clip_by_global_norm, clip_norm=1.0)
    >>> optimizer = gl.transform_gradients(keras.optimizers.SGD(1.0), clip)
    >>> w = tf.Variable([0.0, 0.0])
    >>> optimizer.apply([tf.constant([3.0, 4.0])], [w])
    >>> print(w.numpy().round(2))
    [-0.6 -0.8]
    """
    _check_optimizer(optimizer)
    _check_fn(fn, flag("transform_gradients", "with_variables", with_variables))
    scales = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    kind = TransformedLossScaleOptimizer if scales else TransformedOptimizer
    return kind(optimizer, fn, with_variables=with_variables, name=name)


def _check_optimizer(optimizer):
    if not isinstance(optimizer, keras.Optimizer):
        raise TypeError(
            f"transform_gradients: optimizer must be a Keras optimizer, got {optimizer!r}. By "
            f"name: keras.optimizers.get('adam')."
        )
    if _is_multi(_innermost(optimizer)):
        raise TypeError(
            "transform_gradients: optimizer must take its step in one go, got a MultiOptimizer, "
            "whose optimizers never see all gradients together. Transform each of them."
        )


def _is_multi(optimizer):
    return isinstance(optimizer, getattr(keras.optimizers, "MultiOptimizer", ()))


def _check_fn(fn, with_variables):
    if not callable(fn):
        raise TypeError(f"transform_gradients: fn must be callable, got {fn!r}.")
    given = "fn(gradients, variables)" if with_variables else "fn(gradients)"
    other = "with_variables=False" if with_variables else "with_variables=True"
    if not _takes(fn, 2 if with_variables else 1):
        raise TypeError(
            f"transform_gradients: fn must take what {given} gives it, got {fn!r}. Bind the rest "
            f"with functools.partial, or pass {other}."
        )


def _takes(fn, count):
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # some callables written in C have none
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _innermost(optimizer):
    while hasattr(optimizer, "inner_optimizer"):
        optimizer = optimizer.inner_optimizer
    return optimizer


class _Transforming:
    """What both wrappers are: everything but the hook is the inner optimizer's."""

    def __init__(self, inner_optimizer, fn, with_variables=False, name=None):
        # Not super(): of a LossScaleOptimizer only the type is wanted, so that Keras sees one.
        keras.Optimizer.__init__(self, learning_rate=0.0, name=name)
        self.inner_optimizer = inner_optimizer
        self.fn = fn
        self.with_variables = with_variables
        self._depth = 0

    @unconverted
    def apply(self, grads, trainable_variables=None):
        """Take a step with the transformed gradients."""
        with self._hooked():
            self.inner_optimizer.apply(grads, trainable_variables)

    @unconverted
    def apply_gradients(self, grads_and_vars):
        """Take a step with the transformed gradients; return the iterations."""
        with self._hooked():
            return self.inner_optimizer.apply_gradients(grads_and_vars)

    @contextlib.contextmanager
    def _hooked(self):
        # The replicas of a strategy enter in turn, and leave when all are through the all-reduce.
        if self._depth == 0:
            self._hook()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._unhook()

    def _hook(self):
        attributes = vars(_innermost(self))
        self._replaced = attributes.get(_REDUCE)
        reduce = getattr(_innermost(self), _REDUCE)
        attributes[_REDUCE] = lambda pairs: self._transformed(reduce(list(pairs)))

    def _unhook(self):
        attributes = vars(_innermost(self))
        del attributes[_REDUCE]
        if self._replaced is not None:
            attributes[_REDUCE] = self._replaced

    def _transformed(self, grads_and_vars):
        gradients, variables = (list(column) for column in zip(*grads_and_vars, strict=True))
        arguments = (gradients, variables) if self.with_variables else (gradients,)
        returned = _returned(converted(self.fn)(*arguments))
        _check_returned(gradients, returned)
        return list(zip(returned, variables, strict=True))

    def build(self, variables):
        """Make the inner optimizer's variables."""
        self.inner_optimizer.build(variables)

    @property
    def built(self):
        """Whether the inner optimizer has its variables."""
        return self._inner("built", False)

    @built.setter
    def built(self, value):
        pass  # the inner optimizer knows

    @property
    def variables(self):
        """The inner optimizer's variables."""
        return self._inner("variables", [])

    @property
    def iterations(self):
        """The number of steps the inner optimizer took."""
        return self.inner_optimizer.iterations

    @property
    def learning_rate(self):
        """The inner optimizer's learning rate."""
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value):
        self.inner_optimizer.learning_rate = value

    @property
    def loss_scale_factor(self):
        """The inner optimizer's fixed loss scale."""
        return self._inner("loss_scale_factor")

    @loss_scale_factor.setter
    def loss_scale_factor(self, value):
        if "inner_optimizer" in vars(self):  # Keras sets it before there is one
            self.inner_optimizer.loss_scale_factor = value

    def _inner(self, name, default=None):
        return getattr(vars(self).get("inner_optimizer"), name, default)

    def __getattr__(self, name):
        """Give what else the inner optimizer has, such as momentum."""
        if name.startswith("_") or "inner_optimizer" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.inner_optimizer, name)

    def scale_loss(self, loss):
        """Scale the loss as the inner optimizer does."""
        return self.inner_optimizer.scale_loss(loss)

    def set_weights(self, weights):
        """Set the inner optimizer's variables."""
        self.inner_optimizer.set_weights(weights)

    def exclude_from_weight_decay(self, var_list=None, var_names=None):
        """Exclude variables from the inner optimizer's weight decay."""
        self.inner_optimizer.exclude_from_weight_decay(var_list, var_names)

    def finalize_variable_values(self, var_list):
        """Do what the inner optimizer does at the end of training."""
        self.inner_optimizer.finalize_variable_values(var_list)

    def get_config(self):
        """Return what ``from_config`` needs; raise ValueError where fn can't be saved."""
        return {
            "name": self.name,
            "inner_optimizer": keras.saving.serialize_keras_object(self.inner_optimizer),
            "fn": config_of_function("transform_gradients", "fn", self.fn),
            "with_variables": self.with_variables,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Make the optimizer that ``get_config`` described."""
        with keras.saving.custom_object_scope(custom_objects or {}):
            inner = keras.saving.deserialize_keras_object(config["inner_optimizer"])
            fn = function_of_config(config["fn"])
        return cls(inner, fn, with_variables=config["with_variables"], name=config["name"])


_REDUCE = "_all_reduce_sum_gradients"  # where Keras, on TensorFlow, sums over the replicas


def _returned(result):
    """The list of gradients in what a transform returned: that, or a pair of it and a norm."""
    is_pair = isinstance(result, tuple) and len(result) == 2
    if is_pair and isinstance(result[0], (list, tuple)):
        return list(result[0])
    if isinstance(result, (list, tuple)):
        return list(result)
    raise TypeError(
        f"transform_gradients: fn must return a list of gradients, got {_described(result)}."
    )


def _check_returned(gradients, returned):
    if len(returned) != len(gradients):
        raise ValueError(
            f"transform_gradients: fn must return one gradient for each of {len(gradients)}, got "
            f"{len(returned)}. To hold a variable still, return zeros."
        )
    for index, (gradient, given) in enumerate(zip(gradients, returned, strict=True)):
        _check_alike(index, gradient, given)


def _check_alike(index, gradient, given):
    if not isinstance(given, (tf.Tensor, tf.IndexedSlices)):
        raise TypeError(
            f"transform_gradients: fn must return tensors or IndexedSlices, got "
            f"{_described(given)} at {index}. To hold a variable still, return zeros."
        )
    if given.dtype != gradient.dtype or not given.shape.is_compatible_with(gradient.shape):
        raise ValueError(
            f"transform_gradients: fn must keep shape and dtype, got {_described(given)} at "
            f"{index} for {_described(gradient)}."
        )


def _described(value):
    if isinstance(value, (tf.Tensor, tf.IndexedSlices)):
        return f"{value.dtype.name} of shape {value.shape}"
    return repr(value)


@keras.saving.register_keras_serializable("gradlab")
class TransformedOptimizer(_Transforming, keras.Optimizer):
    """What ``transform_gradients`` makes of an optimizer."""


@keras.saving.register_keras_serializable("gradlab")
class TransformedLossScaleOptimizer(_Transforming, keras.optimizers.LossScaleOptimizer):
    """What ``transform_gradients`` makes of a LossScaleOptimizer, so that Keras adds no second."""
