"""An explorer, with all that it draws besides: the slope, two tangents, the shade."""

from curves import HIGH, LOW, STEP, soft_clip

import gradlab as gl

gl.explore(soft_clip, alpha=(LOW, HIGH, STEP), x=(-3, 3), points=513)
