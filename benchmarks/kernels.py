"""How many kernels XLA makes of a function and its gradient."""

import re

import tensorflow as tf

from benchmarks.by_hand import gradient

# What takes no kernel: names for tensors that are there already.
_FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast"}
_OPERATION = re.compile(r"^ *(?:ROOT )?%[^ ]+ = (?:\([^)]*\)|[^ ]+) ([\w\-]+)\(", re.MULTILINE)


def kernels(f, x, upstream):
    """The number of kernels that f and its gradient take when compiled by XLA."""
    return len([name for name in operations(f, x, upstream) if name not in _FREE])


def operations(f, x, upstream):
    """What the optimised program is made of: a fusion is one."""
    compiled = tf.function(lambda x, u: gradient(f, x, u), autograph=False, jit_compile=True)
    program = compiled.experimental_get_compiler_ir(x, upstream)(stage="optimized_hlo")
    return _OPERATION.findall(program[program.index("\nENTRY ") :])
