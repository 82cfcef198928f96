"""Gradients on their way into an optimizer: clip them, and hook what clips them into Keras.

The clips take a structure of gradients, as ``tape.gradient`` returns it, and give the same
structure back. ``transform_gradients`` puts one of them, or the caller's own, into an optimizer.
"""

from gradlab.optimizing.clips import (
    adaptive_clip,
    clip_by_block_rms,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    per_example_clip,
)
from gradlab.optimizing.transforms import (
    TransformedLossScaleOptimizer,
    TransformedOptimizer,
    transform_gradients,
)

__all__ = [
    "TransformedLossScaleOptimizer",
    "TransformedOptimizer",
    "adaptive_clip",
    "clip_by_block_rms",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "per_example_clip",
    "transform_gradients",
]
