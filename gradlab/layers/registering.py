"""What Keras is told of gradlab, so that it finds again what a model was saved with."""

from gradlab.layers.sharing import serializable
from gradlab.ops import rectifiers, surrogates
from gradlab.ops.modifying import reverse_gradient, zero_nonfinite_gradient

SURROGATES = (
    surrogates.ATan,
    surrogates.Boxcar,
    surrogates.Erf,
    surrogates.FastSigmoid,
    surrogates.LeakyReLU,
    surrogates.PiecewiseExp,
    surrogates.Sigmoid,
    surrogates.SoftSign,
    surrogates.Triangular,
)

# The ops that need nothing but x.
ACTIVATIONS = (
    rectifiers.deconv_relu,
    rectifiers.guided_relu,
    rectifiers.redirected_relu,
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
