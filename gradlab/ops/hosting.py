"""Calling Python from a graph: where XLA can't, and how long what is called lives."""

from tensorflow.python.framework import ops
from tensorflow.python.framework.func_graph import FuncGraph
from tensorflow.python.ops import control_flow_util

from gradlab.ops.substituting import keep


def refuse_xla(what, graph, instead):
    """Raise where XLA compiles the graph; ``instead`` says what to write in its place."""
    if control_flow_util.GraphOrParentsInXlaContext(graph):
        raise NotImplementedError(
            f"{what} runs Python, which XLA can't compile: call it without jit_compile=True (a "
            f"Keras model has compile(jit_compile=False)), or {instead}"
        )


def node_name(what):
    """A name for the op that calls Python: XLA's own error shows it where ours comes too late."""
    return f"{what}_is_Python_which_XLA_can_not_compile"


def hold_with_graphs(graph):
    """Let the Python function last called in ``graph`` go when the graphs around it go.

    TensorFlow gives it to the outermost graph, and that of eager mode lasts for ever.
    """
    outermost = graph
    while isinstance(outermost, FuncGraph):
        outermost = outermost.outer_graph
    if outermost is not graph and ops.executing_eagerly_outside_functions():
        keep(graph, outermost._py_funcs_used_in_graph.pop())
