"""gradlab: replace, modify, clip and check gradients in TensorFlow.

``import gradlab as gl`` is quick: each public name is loaded on first use, and with it
TensorFlow, matplotlib or ipywidgets, whichever that name needs.
"""

import importlib
import os

__version__ = "0.1.0"

# TensorFlow's C++ log lines are silenced only by both of these, set before it is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

_ROOMS = {
    "gradlab.ops.custom": ("custom_gradient",),
    "gradlab.ops.overriding": ("register_gradient", "override_gradient"),
    "gradlab.ops.python": ("numpy_op", "py_func"),
    "gradlab.ops.modifying": (
        "scale_gradient",
        "reverse_gradient",
        "mask_gradient",
        "zero_nonfinite_gradient",
        "record_gradient",
    ),
    "gradlab.ops.clipping": (
        "clip_gradient_by_value",
        "clip_gradient_by_norm",
        "clip_gradients_by_global_norm",
    ),
    "gradlab.ops.replacing": (
        "replace_gradient",
        "stop_gradient_trick",
        "straight_through",
        "clip_by_value_preserve_gradient",
    ),
    "gradlab.ops.surrogates": (
        "round_ste",
        "quantize_ste",
        "sign_ste",
        "approx_sign",
        "swish_sign",
        "heaviside_ste",
        "ternary_ste",
        "spike",
        "Surrogate",
        "Sigmoid",
        "FastSigmoid",
        "ATan",
        "Triangular",
        "PiecewiseExp",
        "Erf",
        "SoftSign",
        "Boxcar",
        "LeakyReLU",
        "NonzeroSignLogAbs",
        "S2NN",
        "QPseudoSpike",
        "LogTailedReLU",
        "SquarewaveFourierSeries",
        "TripleGaussian",
    ),
    "gradlab.ops.rectifiers": (
        "guided_relu",
        "deconv_relu",
        "redirected_relu",
        "guided_rule",
        "deconv_rule",
        "redirected_rule",
    ),
    "gradlab.swapping": ("swap_activations",),
    "gradlab.optimizing": (
        "clip_by_value",
        "clip_by_norm",
        "clip_by_global_norm",
        "adaptive_clip",
        "clip_by_block_rms",
        "per_example_clip",
        "transform_gradients",
    ),
    "gradlab.curves": ("curve", "Curve"),
    "gradlab.specs": ("OpSpec", "ParamSpec"),
    "gradlab.registry": ("SPECS",),
    "gradlab.plots": ("CurvePlot", "plot_check"),
    "gradlab.checks": ("check_gradient", "check_surrogate", "check_modes"),
    "gradlab.widgets.base": ("Explorer",),
    "gradlab.widgets.explorer": ("explore", "CurveExplorer"),
    "gradlab.widgets.clipping_explorer": ("explore_clipping", "ClippingExplorer"),
    "gradlab.widgets.descent_explorer": ("explore_descent", "DescentExplorer"),
    "gradlab.widgets.quantizer_explorer": ("explore_quantizer", "QuantizerExplorer"),
    "gradlab.widgets.override_explorer": ("explore_override", "OverrideExplorer"),
    "gradlab.widgets.check_explorer": ("explore_check", "CheckExplorer"),
    "gradlab.widgets.spike_explorer": ("explore_spike", "SpikeExplorer"),
    "gradlab.widgets.figure_view": ("FigureView",),
    "gradlab.widgets.starting": ("start",),
    "gradlab.exercises": ("predict", "check"),
}
# A room whose names keep it before them: gl.layers.Spike beside gl.spike.
_NAMESPACES = ("layers",)
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = sorted((*_ROOM_OF, *_NAMESPACES))


def __getattr__(name):
    if name in _NAMESPACES:
        return _room(f"gradlab.{name}", name)
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'gradlab' has no attribute {name!r}")
    value = getattr(_room(_ROOM_OF[name], name), name)
    globals()[name] = value
    return value


def _room(module, name):
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name != "tensorflow":
            raise
        raise ModuleNotFoundError(
            f"gradlab.{name} needs TensorFlow, which isn't installed: "
            "pip install 'gradlab[cpu]', or 'gradlab[gpu]' on a machine with an NVIDIA GPU",
            name="tensorflow",
        ) from None


def __dir__():
    return sorted({*globals(), *__all__})
