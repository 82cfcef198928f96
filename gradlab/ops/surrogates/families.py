"""The families of surrogates for a spike.

Each is a derivative and its primitive. ``Sigmoid``, ``ATan``, ``Triangular``, ``PiecewiseExp``,
``Erf``, ``SoftSign``, ``QPseudoSpike`` and a ``Boxcar`` that doesn't leak enclose an area of 1:
their primitives rise from 0 to 1 as the spike does. All are right up to ±∞, with no overflow on
the way.
"""

import dataclasses
import math
from typing import Any

import tensorflow as tf

from gradlab.ops.arguments import unconverted
from gradlab.ops.surrogates.spiking import Surrogate, evaluated
from gradlab.ops.surrogates.stepping import (
    check_above_1,
    check_count,
    check_positive,
    clamped,
    downhill,
    either,
    exponent_limit,
    log1p_of_product,
    log_beyond,
    positive,
    product_or_zero,
)


@dataclasses.dataclass(frozen=True)
class Sigmoid(Surrogate):
    """The logistic function σ.

    ::

        derivative: α σ(αx) σ(−αx)
        primitive:  σ(αx)

    Args:
        alpha: number above 0, or tensor that broadcasts to x.

    Source: Wu, Deng, Li, Zhu and Shi, Spatio-Temporal Backpropagation for Training
    High-Performance Spiking Neural Networks, 2018.

    >>> import gradlab as gl, tensorflow as tf
    >>> print(gl.Sigmoid(alpha=4.0).derivative(tf.constant([0.0, 1.0])).numpy().round(3))
    [1.    0.071]
    """

    alpha: Any = 4.0

    @unconverted
    @evaluated
    def derivative(self, x):
        """Return α σ(αx) σ(−αx)."""
        u = self.alpha * x
        return self.alpha * tf.sigmoid(u) * tf.sigmoid(-u)

    @unconverted
    @evaluated
    def primitive(self, x):
        """Return σ(αx)."""
        return tf.sigmoid(self.alpha * x)


@dataclasses.dataclass(frozen=True)
class FastSigmoid(Surrogate):
    """The derivative of SuperSpike, which is 1 at 0 for any α.

    ::

        derivative: 1 / (1 + α|x|)²
        primitive:  x / (1 + α|x|)

    Args:
        alpha: number above 0, or tensor that broadcasts to x.

    Source: Zenke and Ganguli, SuperSpike: Supervised Learning in Multilayer Spiking Neural
    Networks, 2018.

    >>> import gradlab as gl, tensorflow as tf
    >>> print(gl.FastSigmoid(alpha=1.0).derivative(tf.constant([0.0, 1.0])).numpy())
    [1.   0.25]
    """

    alpha: Any = 25.0

    @unconverted
    @evaluated
    def derivative(self, x):
        """Return 1 / (1 + α|x|)²."""
        return tf.square(tf.math.reciprocal(1.0 + tf.abs(self.alpha * x)))

    @unconverted
    @evaluated
    def primitive(self, x):
        """Return x / (1 + α|x|)."""
        # Clamped where it has long been flat: kernels are wrong on reciprocals that are subnormal.
        u = clamped(self.alpha * x, math.sqrt(float(x.dtype.max)))
        return u * tf.math.reciprocal(1.0 + tf.abs(u)) / self.alpha


@dataclasses.dataclass(frozen=True)
class ATan(Surrogate):
    """The arc tangent.

    ::

        derivative: α/2 / (1 + (παx/2)²)
        primitive:  ½ + arctan(παx/2) / π

    Args:
        alpha: number above 0, or tensor that broadcasts to x.

    Source: Fang, Yu, Chen, Masquelier, Huang and Tian, Incorporating Learnable Membrane Time
    Constant to Enhance Learning of Spiking Neural Networks, 2021.

    >>> import gradlab as gl, tensorflow as tf
    >>> print(gl.ATan(alpha=2.0).derivative(tf.constant([0.0, 1.0])).numpy().round(3))
    [1.    0.092]
    """

    alpha: Any = 2.0

    @unconverted
    @evaluated
    def derivative(self, x):
        """Return α/2 / (1 + (παx/2)²)."""
        u = clamped(math.pi / 2 * self.alpha * x, math.sqrt(float(x.dtype.max)) / 2)
        return self.alpha / 2.0 * tf.math.reciprocal(1.0 + tf.square(u))

    @unconverted
    @evaluated
    def primitive(self, x):
        """Return ½ + arctan(παx/2) / π."""
        u = math.pi / 2 * self.alpha * x
        # As an angle from the negative axis, which keeps its digits where it is small. Far out it
        # is flat: TensorFlow's second derivative of it is NaN there.
        far = tf.abs(u) > math.sqrt(float(x.dtype.max)) / 2
        return tf.atan2(tf.ones_like(x), -tf.where(far, tf.stop_gradient(u), u)) / math.pi


@dataclasses.dataclass(frozen=True)
class Triangular(Surrogate):
    """A triangle: what is left of 1 after the distance from the threshold.

    ::

        derivative: α max(0, 1 − α|x|)
        primitive:  ½ + u − u|u|/2, with u = αx clamped to −1 … 1

    Args:
        alpha: number above 0, or tensor that broadcasts to x.

    Source: Esser et al., Convolutional Networks for Fast, Energy-Efficient Neuromorphic
    Computing, 2016; Bellec, Salaj, Subramoney, Legenstein and Maass, Long Short-Term Memory and
    Learning-to-Learn in Networks of Spiking Neurons, 2018, who damp it by 0.3.

    >>> import gradlab as gl, tensorflow as tf
    >>> print(gl.Triangular(alpha=1.0).derivative(tf.constant([0.0, 0.75, 2.0])).numpy())
    [1.   0.25 0.  ]
    """

    alpha: Any = 1.0

    @unconverted
    @evaluated
    def derivative(self, x):
        """Return α max(0, 1 − α|x|)."""
        return self.alpha * tf.nn.relu(1.0 - tf.abs(self.alpha * x))

    @unconverted
    @evaluated
    def primitive(self, x):
        """Return ½ + u − u|u|/2, with u = αx clamped to −1 … 1."""
        u = clamped(self.alpha * x, 1.0)
        return 0.5 + u - u * tf.abs(u) / 2.0


@dataclasses.dataclass(frozen=True)
class PiecewiseExp(Surrogate):
    """An exponential on each side of the threshold.

    ::

        derivative: α/2 · exp(−α|x|)
        primitive:  ½ exp(αx) where x < 0, else 1 − ½ exp(−αx)

    Args:
        alpha: number above 0, or tensor that broadcasts to x.

    Source: Shrestha and Orchard, SLAYER: Spike Layer Error Reassignment in Time, 2018.

    >>> import gradlab as gl, tensorflow as tf
    >>> print(gl.PiecewiseExp(alpha=2.0).derivative(tf.constant([0.0, 1.0])).numpy().round(3))
    [1.    0.135]
    """

    alpha: Any = 1.0

    @unconverted
    @evaluated
    def derivative(self, x):
        """Return α/2 · exp(−α|x|)."""
        return self.alpha / 2.0 * tf.exp(downhill(self.alpha * x))

    @unconverted
    @evaluated
    def primitive(self, x):
        """Return ½ exp(αx) where x < 0, else 1 − ½ exp(−αx)."""
        tail = tf.exp(downhill(self.alpha * x)) / 2.0
        return tf.where(x < 0, tail, 1.0 - tail)


@dataclasses.dataclass(frozen=True)
class Erf(Surrogate):
    """A normal distribution, of standard deviation 1 / (√2 α), and its error function.

    ::

        derivative: α/√π · exp(−α²x²)
        primitive:  ½ erfc(−αx)

    Args:
        alpha: number above 0, or tensor that broadcasts to x.

    Source: Wu, Deng, Li, Zhu and Shi, Spatio-Temporal Backpropagation for Training
    High-Performance Spiking Neural Networks, 2018.

    >>> import gradlab as gl, tensorflow as tf
    >>> print(gl.Erf(alpha=2.0).derivative(tf.constant([0.0, 1.0])).numpy().round(3))
    [1.128 0.021]
    """

    alpha: Any = 2.0

    @unconverted
    @evaluated
    def derivative(self, x):
        """Return α/√π · exp(−α²x²)."""
        u = clamped(self.alpha * x, math.sqrt(exponent_limit(x.dtype)))
        return self.alpha / math.sqrt(math.pi) * tf.exp(-tf.square(u))

    @unconverted
    @evaluated
    def primitive(self, x):
        """Return ½ erfc(−αx)."""
        u = clamped(self.alpha * x, math.sqrt(exponent_limit(x.dtype)))
        return tf.math.erfc(-u) / 2.0


@dataclasses.dataclass(frozen=True)
class SoftSign(Surrogate):
    """The soft sign x / (1 + |x|), rising from 0 to 1: ``FastSigmoid`` with an area of 1.

    ::

        derivative: α/2 / (1 + α|x|)²
        primitive:  ½ + ½ αx / (1 + α|x|)

    Args:
        alpha: number above 0, or tensor that broadcasts to x.

    Source: Zenke and Ganguli, SuperSpike: Supervised Learning in Multilayer Spiking Neural
    Networks, 2018, for its shape; here it is normalised.

    >>> import gradlab as gl, tensorflow as tf
    >>> print(gl.SoftSign(alpha=2.0).derivative(tf.constant([0.0, 0.5])).numpy())
    [1.   0.25]
    """

    alpha: Any = 2.0

    @unconverted
    @evaluated
    def derivative(self, x):
        """Return α/2 / (1 + α|x|)²."""
        return self.alpha / 2.0 * tf.square(tf.math.reciprocal(1.0 - downhill(self.alpha * x)))

    @unconverted
    @evaluated
    def primitive(self, x):
        """Return ½ + ½ αx / (1 + α|x|)."""
        tail = tf.math.reciprocal(1.0 - downhill(self.alpha * x)) / 2.0
        return tf.where(x < 0, tail, 1.0 - tail)


@dataclasses.dataclass(frozen=True)
class Boxcar(Surrogate):
    """A window around the threshold, with a leak outside if wanted.

    ::

        derivative: α where α|x| ≤ ½, else leak
        primitive:  ½ + u + leak · (x − u/α), with u = αx clamped to −½ … ½

    Args:
        alpha: number above 0, or tensor that broadcasts to x; the window is 1/α wide.
        leak: number, or tensor that broadcasts to x.

    Source: Wu, Deng, Li, Zhu and Shi, Spatio-Temporal Backpropagation for Training
    High-Performance Spiking Neural Networks, 2018.

    >>> import gradlab as gl, tensorflow as tf
    >>> print(gl.Boxcar(alpha=2.0, leak=0.125).derivative(tf.constant([0.25, 1.0])).numpy())
    [2.    0.125]
    """

    alpha: Any = 1.0
    leak: Any = 0.0

    @unconverted
    @evaluated
    def derivative(self, x):
        """Return α where α|x| ≤ ½, else leak."""
        return either(tf.abs(self.alpha * x) <= 0.5, self.alpha, self.leak, x)

    @unconverted
    @evaluated
    def primitive(self, x):
        """Return ½ + u + leak · (x − u/α), with u = αx clamped to −½ … ½."""
        u = clamped(self.alpha * x, 0.5)
        return 0.5 + u + product_or_zero(x - u / self.alpha, self.leak)


@dataclasses.dataclass(frozen=True)
class LeakyReLU(Surrogate):
    """A leaky rectifier: one derivative from the threshold on, a smaller one below.

    ::

        derivative: leak where x < 0, else α
        primitive:  leak · x where x < 0, else αx

    Args:
        alpha: number above 0, or tensor that broadcasts to x.
        leak: number, or tensor that broadcasts to x.

    Source: Maas, Hannun and Ng, Rectifier Nonlinearities Improve Neural Network Acoustic Models,
    2013, for the rectifier.

    >>> import gradlab as gl, tensorflow as tf
    >>> print(gl.LeakyReLU(leak=0.125).derivative(tf.constant([-1.0, 0.0, 1.0])).numpy())
    [0.125 1.    1.   ]
    """

    alpha: Any = 1.0
    leak: Any = 0.1

    @unconverted
    @evaluated
    def derivative(self, x):
        """Return leak where x < 0, else α."""
        return either(x < 0, self.leak, self.alpha, x)

    @unconverted
    @evaluated
    def primitive(self, x):
        """Return leak · x where x < 0, else αx."""
        return product_or_zero(x, either(x < 0, self.leak, self.alpha, x))


@dataclasses.dataclass(frozen=True)
class NonzeroSignLogAbs(Surrogate):
    """A logarithm on each side of the threshold: its derivative falls as 1/|x|, and never ends.

    ::

        derivative: α / (1 + α|x|)
        primitive:  −ln(1 − αx) where x < 0, else ln(1 + αx)

    The primitive has no bound.

    Args:
        alpha: number above 0, or tensor that broadcasts to x.

    Source: Fang et al., SpikingJelly: An Open-Source Machine Learning Infrastructure Platform for
    Spike-Based Intelligence, 2023, whose library has it; no paper is known to propose it.

    >>> import gradlab as gl, tensorflow as tf
    >>> print(gl.NonzeroSignLogAbs(alpha=1.0).derivative(tf.constant([0.0, 3.0])).numpy())
    [1.   0.25]
    """

    alpha: Any = 1.0

    @unconverted
    @evaluated
    def derivative(self, x):
        """Return α / (1 + α|x|)."""
        return tf.math.reciprocal(1.0 / self.alpha - downhill(x))

    @unconverted
    @evaluated
    def primitive(self, x):
        """Return −ln(1 − αx) where x < 0, else ln(1 + αx)."""
        size = log1p_of_product(self.alpha, -downhill(x))
        return tf.where(x < 0, -size, size)


@dataclasses.dataclass(frozen=True)
class S2NN(Surrogate):
    """The logistic function below the threshold and a logarithm above: a neuron goes on learning.

    ::

        derivative: α σ(αx) σ(−αx) where x < 0, else β / (1 + x)
        primitive:  σ(αx) where x < 0, else ½ + β ln(1 + x)

    The primitive has no upper bound. The derivative jumps at 0, from α/4 to β.

    Args:
        alpha: number above 0, or tensor that broadcasts to x.
        beta: number above 0, or tensor that broadcasts to x.

    Source: Suetake, Ikegawa, Saiin and Sawada, S²NN: Time Step Reduction of Spiking Surrogate
    Gradients for Training Energy Efficient Single-Step Neural Networks, 2023.

    >>> import gradlab as gl, tensorflow as tf
    >>> print(gl.S2NN().derivative(tf.constant([-1.0, 0.0, 1.0])).numpy().round(3))
    [0.071 1.    0.5  ]
    """

    alpha: Any = 4.0
    beta: Any = 1.0
    _checks = {**Surrogate._checks, "beta": check_positive}

    @unconverted
    @evaluated
    def derivative(self, x):
        """Return α σ(αx) σ(−αx) where x < 0, else β / (1 + x)."""
        u = self.alpha * x
        below = self.alpha * tf.sigmoid(u) * tf.sigmoid(-u)
        return tf.where(x < 0, below, self.beta * tf.math.reciprocal(1.0 + tf.maximum(x, 0.0)))

    @unconverted
    @evaluated
    def primitive(self, x):
        """Return σ(αx) where x < 0, else ½ + β ln(1 + x)."""
        above = 0.5 + self.beta * tf.math.log1p(tf.maximum(x, 0.0))
        return tf.where(x < 0, tf.sigmoid(self.alpha * x), above)


@dataclasses.dataclass(frozen=True)
class QPseudoSpike(Surrogate):
    """A power of the distance from the threshold, whose exponent says how heavy its tails are.

    ::

        derivative: α / (1 + 2α|x| / (q − 1))^q
        primitive:  t where x < 0, else 1 − t, with t = ½ (1 + 2α|x| / (q − 1))^(1 − q)

    Args:
        alpha: number above 0, or tensor that broadcasts to x; the derivative at 0.
        q: number above 1, or tensor that broadcasts to x: 2 makes a ``SoftSign``, and the higher
            it is, the closer is a ``PiecewiseExp``.

    Source: Herranz-Celotti and Rouat, Stabilizing Spiking Neuron Training, 2022, for α = 1.

    >>> import gradlab as gl, tensorflow as tf
    >>> print(gl.QPseudoSpike(q=3.0).derivative(tf.constant([0.0, 1.0])).numpy())
    [1.    0.125]
    """

    alpha: Any = 1.0
    q: Any = 2.0
    _checks = {**Surrogate._checks, "q": check_above_1}

    @unconverted
    @evaluated
    def derivative(self, x):
        """Return α / (1 + 2α|x| / (q − 1))^q."""
        # Not tf.pow, which loses the digits of what is added to 1.
        return self.alpha * tf.exp(-self.q * tf.math.log1p(self._steepness() * -downhill(x)))

    @unconverted
    @evaluated
    def primitive(self, x):
        """Return t where x < 0, else 1 − t, with t = ½ (1 + 2α|x| / (q − 1))^(1 − q)."""
        logarithm = log1p_of_product(self._steepness(), -downhill(x))
        tail = tf.exp((1.0 - self.q) * logarithm) / 2.0
        return tf.where(x < 0, tail, 1.0 - tail)

    def _steepness(self):
        return 2.0 / (self.q - 1.0) * self.alpha


@dataclasses.dataclass(frozen=True)
class LogTailedReLU(Surrogate):
    """A rectifier with a logarithm for a tail, so that what is far above learns slowly.

    ::

        derivative: leak where x < 0, α where αx ≤ 1, else 1/x
        primitive:  leak · x where x < 0, αx where αx ≤ 1, else 1 + ln(αx)

    The primitive has no upper bound.

    Args:
        alpha: number above 0, or tensor that broadcasts to x.
        leak: number, or tensor that broadcasts to x.

    Source: Cai, He, Sun and Vasconcelos, Deep Learning with Low Precision by Half-Wave Gaussian
    Quantization, 2017, for α = 1 and no leak.

    >>> import gradlab as gl, tensorflow as tf
    >>> print(gl.LogTailedReLU().derivative(tf.constant([-1.0, 0.5, 4.0])).numpy())
    [0.   1.   0.25]
    """

    alpha: Any = 1.0
    leak: Any = 0.0

    @unconverted
    @evaluated
    def derivative(self, x):
        """Return leak where x < 0, α where αx ≤ 1, else 1/x."""
        above = tf.math.reciprocal(tf.maximum(x, 1.0 / self.alpha))
        return either(x < 0, self.leak, above, x)

    @unconverted
    @evaluated
    def primitive(self, x):
        """Return leak · x where x < 0, αx where αx ≤ 1, else 1 + ln(αx)."""
        above = tf.minimum(self.alpha * x, 1.0) + log_beyond(x, 1.0 / self.alpha)
        return tf.where(x < 0, product_or_zero(x, self.leak), above)


@dataclasses.dataclass(frozen=True)
class SquarewaveFourierSeries(Surrogate):
    """The first terms of the Fourier series of a square wave, which is the step, again and again.

    ::

        derivative: α Σ cos((2i − 1) παx/2), with i = 1 … terms
        primitive:  ½ + 2/π Σ sin((2i − 1) παx/2) / (2i − 1)

    The wave has a period of 4/α. Its derivative is negative on the way down, from |αx| = 1 on.
    Where there is no phase, at ±∞ or where αx/4 overflows, the derivative is 0 and the primitive ½.

    Args:
        alpha: number above 0, or tensor that broadcasts to x; the derivative at 0 is alpha times
            terms.
        terms: whole number, 1 or more: how many.

    Source: Fang et al., SpikingJelly: An Open-Source Machine Learning Infrastructure Platform for
    Spike-Based Intelligence, 2023, whose library has it; no paper is known to propose it.

    >>> import gradlab as gl, tensorflow as tf
    >>> print(gl.SquarewaveFourierSeries(0.5).derivative(tf.constant([0.0, 4.0])).numpy())
    [ 1. -1.]
    """

    alpha: Any = 0.5
    terms: int = 2

    def __post_init__(self):
        super().__post_init__()
        check_count("SquarewaveFourierSeries", "terms", self.terms)

    def fitted(self, op, x):
        """Return the parameters by name: alpha as a number or a tensor that fits x."""
        return {"alpha": positive(op, "alpha", self.alpha, x), "terms": self.terms}

    @unconverted
    @evaluated
    def derivative(self, x):
        """Return α Σ cos((2i − 1) παx/2), with i = 1 … terms."""
        angle, is_lost = self._angle(x)
        total = sum((tf.cos(odd * angle) for odd in self._odd()), tf.cos(angle))
        return either(is_lost, 0.0, self.alpha * total, x)

    @unconverted
    @evaluated
    def primitive(self, x):
        """Return ½ + 2/π Σ sin((2i − 1) παx/2) / (2i − 1), with i = 1 … terms."""
        angle, _ = self._angle(x)
        total = sum((tf.sin(odd * angle) / odd for odd in self._odd()), tf.sin(angle))
        return 0.5 + 2.0 / math.pi * total

    def _odd(self):
        """The odd numbers after 1, one a term."""
        return [2.0 * i + 1.0 for i in range(1, self.terms)]

    def _angle(self, x):
        """παx/2 between −π and π, and whether it is lost, where it is 0."""
        periods = self.alpha / 4.0 * x
        finite = clamped(periods, x.dtype.max)
        # The difference is exact, and to round has no gradient.
        return 2.0 * math.pi * (finite - tf.round(finite)), tf.math.is_inf(periods)


@dataclasses.dataclass(frozen=True)
class TripleGaussian(Surrogate):
    """A normal distribution less two wide ones beside it: somewhat off, the derivative is negative.

    ::

        derivative: (1 + h) N(x; 0, σ) − h N(x; σ, sσ) − h N(x; −σ, sσ)
        primitive:  (1 + h) Φ(αx) − h Φ((αx − 1) / s) − h Φ((αx + 1) / s)

    with σ = 1/α, h the height, s the spread, N(x; μ, σ) the normal density of mean μ and standard
    deviation σ, and Φ the standard normal distribution function. The primitive rises to 1 − h.

    Args:
        alpha: number above 0, or tensor that broadcasts to x.
        height: number, or tensor that broadcasts to x.
        spread: number above 0, or tensor that broadcasts to x.

    Source: Yin, Corradi and Bohté, Accurate and Efficient Time-Domain Classification with Adaptive
    Spiking Recurrent Neural Networks, 2021, who call it multi-Gaussian.

    >>> import gradlab as gl, tensorflow as tf
    >>> print(gl.TripleGaussian().derivative(tf.constant([0.0, 2.0])).numpy().round(3))
    [ 0.878 -0.031]
    """

    alpha: Any = 2.0
    height: Any = 0.15
    spread: Any = 6.0
    _checks = {**Surrogate._checks, "spread": check_positive}

    @unconverted
    @evaluated
    def derivative(self, x):
        """Return (1 + h) N(x; 0, σ) − h N(x; σ, sσ) − h N(x; −σ, sσ)."""
        middle, left, right = (_density(v) for v in self._distances(x))
        wide = self.height / self.spread * (left + right)
        return self.alpha * ((1.0 + self.height) * middle - wide)

    @unconverted
    @evaluated
    def primitive(self, x):
        """Return (1 + h) Φ(αx) − h Φ((αx − 1) / s) − h Φ((αx + 1) / s)."""
        middle, left, right = (_distribution(v) for v in self._distances(x))
        return (1.0 + self.height) * middle - self.height * (left + right)

    def _distances(self, x):
        """How far x is from each mean, in standard deviations."""
        # Clamped far out, where all densities are 0: a slope of 0 times infinity is NaN.
        u = clamped(self.alpha * x, math.sqrt(float(x.dtype.max)))
        return u, (u + 1.0) / self.spread, (u - 1.0) / self.spread


def _density(v):
    return tf.exp(-tf.square(v) / 2.0) / math.sqrt(2.0 * math.pi)


def _distribution(v):
    return tf.math.erfc(-v / math.sqrt(2.0)) / 2.0
