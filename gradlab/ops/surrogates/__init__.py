"""Steps with a derivative that isn't theirs: signs, roundings, spikes."""

from gradlab.ops.surrogates.families import S2NN as S2NN
from gradlab.ops.surrogates.families import ATan as ATan
from gradlab.ops.surrogates.families import Boxcar as Boxcar
from gradlab.ops.surrogates.families import Erf as Erf
from gradlab.ops.surrogates.families import FastSigmoid as FastSigmoid
from gradlab.ops.surrogates.families import LeakyReLU as LeakyReLU
from gradlab.ops.surrogates.families import LogTailedReLU as LogTailedReLU
from gradlab.ops.surrogates.families import NonzeroSignLogAbs as NonzeroSignLogAbs
from gradlab.ops.surrogates.families import PiecewiseExp as PiecewiseExp
from gradlab.ops.surrogates.families import QPseudoSpike as QPseudoSpike
from gradlab.ops.surrogates.families import Sigmoid as Sigmoid
from gradlab.ops.surrogates.families import SoftSign as SoftSign
from gradlab.ops.surrogates.families import SquarewaveFourierSeries as SquarewaveFourierSeries
from gradlab.ops.surrogates.families import Triangular as Triangular
from gradlab.ops.surrogates.families import TripleGaussian as TripleGaussian
from gradlab.ops.surrogates.quantizing import quantize_ste as quantize_ste
from gradlab.ops.surrogates.quantizing import round_ste as round_ste
from gradlab.ops.surrogates.spiking import Surrogate as Surrogate
from gradlab.ops.surrogates.spiking import spike as spike
from gradlab.ops.surrogates.steps import approx_sign as approx_sign
from gradlab.ops.surrogates.steps import heaviside_ste as heaviside_ste
from gradlab.ops.surrogates.steps import sign_ste as sign_ste
from gradlab.ops.surrogates.steps import swish_sign as swish_sign
from gradlab.ops.surrogates.steps import ternary_ste as ternary_ste
