"""Run a function and its gradient in every mode TensorFlow has.

``MODES[name](f, xs, upstreams=None)`` returns ``(ys, gradients)``, two lists of NumPy arrays: what
``f(*xs)`` gives, and the gradient of its outputs to each of xs, None where there is none.
``f`` may return a tensor or a structure of them; upstreams default to ones.
"""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import tensorflow as tf


def flat(f):
    """f, returning a flat list of tensors."""
    return tf.autograph.experimental.do_not_convert(lambda *xs: tf.nest.flatten(f(*xs)))


def taped(f, xs, upstreams=None):
    """(ys, gradients) of f at xs: the tape is opened here."""
    with tf.GradientTape() as tape:
        tape.watch(xs)
        ys = flat(f)(*xs)
    return ys, tape.gradient(ys, xs, upstreams)


def to_numpy(tensors):
    return [None if t is None else tf.convert_to_tensor(t).numpy() for t in tensors]


def _compiled(f, **options):
    return tf.function(f, autograph=False, **options)


def eager(f, xs, upstreams=None):
    return tuple(map(to_numpy, taped(f, xs, upstreams)))


def _tape_in(f, xs, upstreams, **options):
    # None can't leave a tf.function compiled by XLA: only what is there comes out.
    present = []

    def step(xs, upstreams):
        ys, gradients = taped(f, xs, upstreams)
        present[:] = [g is not None for g in gradients]
        return ys, [g for g in gradients if g is not None]

    ys, gradients = _compiled(step, **options)(xs, upstreams)
    gradients = iter(gradients)
    return to_numpy(ys), to_numpy([next(gradients) if p else None for p in present])


def function_tape_in(f, xs, upstreams=None):
    return _tape_in(f, xs, upstreams)


def function_tape_out(f, xs, upstreams=None):
    return eager(_compiled(flat(f)), xs, upstreams)


def nested_function(f, xs, upstreams=None):
    return function_tape_in(_compiled(flat(f)), xs, upstreams)


def jit(f, xs, upstreams=None):
    return _tape_in(f, xs, upstreams, jit_compile=True)


def jit_tape_out(f, xs, upstreams=None):
    return eager(_compiled(flat(f), jit_compile=True), xs, upstreams)


def _in_cond(f):
    def branching(*xs):
        return tf.cond(_is_true(xs[0]), lambda: flat(f)(*xs), lambda: flat(f)(*xs))

    return branching


def _is_true(x):
    # Known when it runs, not while it is traced.
    return tf.equal(tf.size(x), tf.size(x))


def cond_tape_in(f, xs, upstreams=None):
    return function_tape_in(_in_cond(f), xs, upstreams)


def cond_tape_out(f, xs, upstreams=None):
    return function_tape_out(_in_cond(f), xs, upstreams)


def _in_while_loop(f):
    def looping(*xs):
        def body(step, _):
            return step + 1, flat(f)(*xs)

        start = [tf.zeros_like(y) for y in flat(f)(*xs)]
        shapes = (tf.TensorShape([]), [y.shape for y in start])
        loop = tf.while_loop(
            lambda step, _: step < 1, body, (0, start), shapes, maximum_iterations=1
        )
        return loop[1]

    return looping


def while_loop_tape_in(f, xs, upstreams=None):
    return function_tape_in(_in_while_loop(f), xs, upstreams)


def while_loop_tape_out(f, xs, upstreams=None):
    return function_tape_out(_in_while_loop(f), xs, upstreams)


def while_loop_jit(f, xs, upstreams=None):
    return jit(_in_while_loop(f), xs, upstreams)


def _of_spec(f, xs, upstreams, shape_of):
    compiled = _compiled(flat(f), input_signature=[tf.TensorSpec(shape_of(x), x.dtype) for x in xs])
    return eager(compiled, xs, upstreams)


def dynamic_shape(f, xs, upstreams=None):
    return _of_spec(f, xs, upstreams, lambda x: [None] * x.shape.rank)


def unknown_rank(f, xs, upstreams=None):
    return _of_spec(f, xs, upstreams, lambda x: None)


def _batched(f, xs):
    """f over a batch of three: xs, then xs with their elements in another order, then xs again."""
    others = [tf.reverse(x, range(x.shape.rank)) for x in xs]
    batch = [tf.stack([x, other, x]) for x, other in zip(xs, others, strict=True)]
    return lambda *xs: tf.vectorized_map(lambda row: flat(f)(*row), list(xs)), batch


def _first_of_batch(mode, f, xs, upstreams):
    mapped, batch = _batched(f, xs)
    if upstreams is None:
        upstreams = [tf.ones_like(y) for y in flat(f)(*xs)]
    # Upstreams that differ: a rule that mixes the elements of a batch gives itself away.
    batch_upstreams = [tf.stack([u, u * 5, u]) for u in upstreams]
    ys, gradients = mode(mapped, batch, batch_upstreams)
    for rows in [*ys, *gradients]:
        # Not bit for bit: the CPU rounds the last few elements of a tensor by other instructions.
        assert rows is None or np.allclose(rows[0], rows[2], rtol=1e-5, atol=0, equal_nan=True)
    return [y[0] for y in ys], [None if g is None else g[0] for g in gradients]


def vectorized_tape_in(f, xs, upstreams=None):
    """The tape is inside of what is vectorized."""

    def per_row(row):
        ys, gradients = taped(f, *row)
        present[:] = [g is not None for g in gradients]
        return ys, [g for g in gradients if g is not None]

    present = []
    if upstreams is None:
        upstreams = [tf.ones_like(y) for y in flat(f)(*xs)]
    rows = [[tf.stack([t, t]) for t in ts] for ts in (xs, upstreams)]
    ys, gradients = tf.vectorized_map(per_row, rows)
    gradients = iter(gradients)
    firsts = [next(gradients)[0] if p else None for p in present]
    return to_numpy([y[0] for y in ys]), to_numpy(firsts)


def vectorized_tape_out(f, xs, upstreams=None):
    return _first_of_batch(eager, f, xs, upstreams)


def vectorized_in_function(f, xs, upstreams=None):
    return _first_of_batch(function_tape_in, f, xs, upstreams)


def vectorized_in_function_tape_out(f, xs, upstreams=None):
    return _first_of_batch(function_tape_out, f, xs, upstreams)


def vectorized_jit(f, xs, upstreams=None):
    return _first_of_batch(jit, f, xs, upstreams)


def vectorized_nested_function(f, xs, upstreams=None):
    return _first_of_batch(eager, _compiled(flat(f)), xs, upstreams)


MODES = {
    mode.__name__: mode
    for mode in (
        eager,
        function_tape_in,
        function_tape_out,
        nested_function,
        jit,
        jit_tape_out,
        cond_tape_in,
        cond_tape_out,
        while_loop_tape_in,
        while_loop_tape_out,
        while_loop_jit,
        dynamic_shape,
        unknown_rank,
        vectorized_tape_in,
        vectorized_tape_out,
        vectorized_in_function,
        vectorized_in_function_tape_out,
        vectorized_jit,
        vectorized_nested_function,
    )
}


def second_order(f, x, weights=None):
    """The gradient to x of Σ weights · (the gradient to x of Σ f(x)³), as a NumPy array."""
    return _second_order(f, x, weights).numpy()


def _second_order(f, x, weights=None):
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            loss = tf.add_n([tf.reduce_sum(y**3) for y in flat(f)(x)])
        gradient = inner.gradient(loss, x)
        weighted = gradient if weights is None else gradient * weights
        total = tf.reduce_sum(weighted)
    return outer.gradient(total, x)


def second_order_in_function(f, x, weights=None):
    """As ``second_order``, inside a tf.function."""
    return _compiled(lambda x: _second_order(f, x, weights))(x).numpy()


def second_order_of_function(f, x, weights=None):
    """As ``second_order``, of f as a tf.function."""
    return _second_order(_compiled(flat(f)), x, weights).numpy()


SECOND_ORDER = {
    "eager": second_order,
    "in_function": second_order_in_function,
    "of_function": second_order_of_function,
}


def forward_mode(f, x, tangent):
    """The tangent of f(x) along ``tangent``, as a NumPy array."""
    return _forward(f, x, tangent).numpy()


def _forward(f, x, tangent):
    with tf.autodiff.ForwardAccumulator(x, tangent) as accumulator:
        (y,) = flat(f)(x)
    return accumulator.jvp(y, unconnected_gradients=tf.UnconnectedGradients.ZERO)


def forward_mode_in_function(f, x, tangent):
    return _compiled(lambda x, tangent: _forward(f, x, tangent))(x, tangent).numpy()


def forward_mode_of_function(f, x, tangent):
    return _forward(_compiled(flat(f)), x, tangent).numpy()


def forward_mode_of_cond(f, x, tangent):
    return _forward(_compiled(_in_cond(f)), x, tangent).numpy()


FORWARD = {
    "eager": forward_mode,
    "in_function": forward_mode_in_function,
    "of_function": forward_mode_of_function,
    "of_cond": forward_mode_of_cond,
}


def jacobian(f, x):
    """The jacobian of f at x, of shape y.shape + x.shape, as a NumPy array."""
    return _jacobian(f, x).numpy()


def _jacobian(f, x, **options):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        (y,) = flat(f)(x)
    return tape.jacobian(y, x, **options)


def jacobian_without_pfor(f, x):
    return _jacobian(f, x, experimental_use_pfor=False).numpy()


def jacobian_in_function(f, x):
    return _compiled(lambda x: _jacobian(f, x))(x).numpy()


def jacobian_of_function(f, x):
    return _jacobian(_compiled(flat(f)), x).numpy()


JACOBIAN = {
    "eager": jacobian,
    "without_pfor": jacobian_without_pfor,
    "in_function": jacobian_in_function,
    "of_function": jacobian_of_function,
}


_LOADER = """
    import json, sys
    import numpy as np
    import tensorflow as tf

    folder, names = sys.argv[1], json.loads(sys.argv[2])
    loaded, given, got = tf.saved_model.load(folder), np.load(folder + "/given.npz"), {}
    for name, dtypes in names.items():
        xs = [tf.cast(given[f"{name}.x{i}"], dtype) for i, dtype in enumerate(dtypes)]
        with tf.GradientTape() as tape:
            tape.watch(xs)
            ys = getattr(loaded, name)(*xs)
        for kind, tensors in (("y", ys), ("g", tape.gradient(ys, xs))):
            for i, tensor in enumerate(tensors):
                if tensor is not None:
                    got[f"{name}.{kind}{i}"] = tf.cast(tensor, tf.float64).numpy()
    assert not any(name.startswith("gradlab") for name in sys.modules)
    np.savez(folder + "/got.npz", **got)
"""


def save_and_load_all_in_fresh_process(functions, folder):
    """{name: (ys, gradients)} of {name: (f, xs)}, saved here and run where gradlab is unknown.

    All in one process: starting TensorFlow takes seconds. Real dtypes only; what comes back is
    float64. Pass pytest's ``tmp_path`` as folder.
    """
    module, given = tf.Module(), {}
    for name, (f, xs) in functions.items():
        specs = [tf.TensorSpec(x.shape, x.dtype) for x in xs]
        setattr(module, name, _compiled(flat(f), input_signature=specs))
        given |= {f"{name}.x{i}": tf.cast(x, tf.float64).numpy() for i, x in enumerate(xs)}
    tf.saved_model.save(module, str(folder))
    np.savez(Path(folder) / "given.npz", **given)
    dtypes = {name: [x.dtype.name for x in xs] for name, (_, xs) in functions.items()}
    command = [sys.executable, "-c", textwrap.dedent(_LOADER), str(folder), json.dumps(dtypes)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    got = np.load(Path(folder) / "got.npz")
    return {name: _loaded(got, name, len(xs)) for name, (_, xs) in functions.items()}


def _loaded(got, name, n_inputs):
    n_outputs = sum(key.startswith(f"{name}.y") for key in got)
    ys = [got[f"{name}.y{i}"] for i in range(n_outputs)]
    keys = [f"{name}.g{i}" for i in range(n_inputs)]
    return ys, [got.get(key) for key in keys]


def save_and_load_in_fresh_process(f, x, folder):
    """(y, gradient) of f at x, saved here and run in a process that doesn't know gradlab."""
    (y,), (gradient,) = save_and_load_all_in_fresh_process({"f": (f, [x])}, folder)["f"]
    return y, gradient


# Only possible before TensorFlow runs its first op, and pytest imports before it runs.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)


def on_two_replicas(f, xs, upstreams=None):
    """As a mode: under a MirroredStrategy of two logical CPUs, where both replicas must agree."""
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    present = []

    def step():
        ys, gradients = taped(f, xs, upstreams)
        present[:] = [g is not None for g in gradients]
        # An upstream handed on as it is would be one tensor for both replicas.
        return ys, [tf.identity(g) for g in gradients if g is not None]

    ys, gradients = _compiled(lambda: strategy.run(step))()
    by_replica = [
        [
            to_numpy([strategy.experimental_local_results(t)[r] for t in ts])
            for ts in (ys, gradients)
        ]
        for r in range(strategy.num_replicas_in_sync)
    ]
    assert len(by_replica) == 2
    for one, other in zip(*by_replica, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
    ys, gradients = by_replica[0][0], iter(by_replica[0][1])
    return ys, [next(gradients) if p else None for p in present]
