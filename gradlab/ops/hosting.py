"""Where Python can't be called from a graph: compiled by XLA, and in a SavedModel."""

from tensorflow.python.ops import control_flow_util


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
