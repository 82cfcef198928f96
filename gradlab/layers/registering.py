"""What Keras is told of gradlab, so that it finds again what a model was saved with."""

from gradlab.layers.sharing import serializable
from gradlab.ops import rectifiers, surrogates
from gradlab.ops.modifying import reverse_gradient, zero_nonfinite_gradient
from gradlab.serialising import config_of_function, function_of_config

SURROGATES = (
    surrogates.ATan,
    surrogates.Boxcar,
    surrogates.Erf,
    surrogates.FastSigmoid,
    surrogates.LeakyReLU,
    surrogates.LogTailedReLU,
    surrogates.NonzeroSignLogAbs,
    surrogates.QPseudoSpike,
    surrogates.S2NN,
    surrogates.SquarewaveFourierSeries,
    surrogates.TripleGaussian,
    surrogates.PiecewiseExp,
    surrogates.Sigmoid,
    surrogates.SoftSign,
    surrogates.Triangular,
)

RECTIFIERS = (
    rectifiers.deconv_relu,
    rectifiers.guided_relu,
    rectifiers.redirected_relu,
)

# The ops that need nothing but x.
ACTIVATIONS = (
    *RECTIFIERS,
    reverse_gradient,
    surrogates.approx_sign,
    surrogates.heaviside_ste,
    surrogates.quantize_ste,
    surrogates.round_ste,
    surrogates.sign_ste,
    surrogates.swish_sign,
    surrogates.ternary_ste,
    zero_nonfinite_gradient,
)

for found_again in (*SURROGATES, *ACTIVATIONS):
    serializable(found_again)


@serializable
class WithOptions:
    """An activation with options, as Keras can save it: of a functools.partial it can't."""

    def __init__(self, op, options):
        self.op = op
        self.options = options
        self.__name__ = op.__name__

    def __call__(self, x):
        """Return what the op makes of x with these options."""
        return self.op(x, **self.options)

    def get_config(self):
        """Return what ``from_config`` needs."""
        return {"op": config_of_function("activation", "op", self.op), "options": self.options}

    @classmethod
    def from_config(cls, config):
        """Make the activation that ``get_config`` described."""
        return cls(function_of_config(config["op"]), config["options"])
