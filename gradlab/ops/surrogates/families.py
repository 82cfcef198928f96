"""The families of surrogates for a spike.

Each is a derivative and its primitive. All are steepest at 0 and, but for ``FastSigmoid``,
``LeakyReLU`` and a leaking ``Boxcar``, enclose an area of 1: their primitives rise from 0 to 1 as
the spike does. Both are right up to ±∞, with no overflow on the way.
"""

import dataclasses
import math
from typing import Any

import tensorflow as tf

from gradlab.ops.arguments import unconverted
from gradlab.ops.surrogates.spiking import Surrogate, evaluated
from gradlab.ops.surrogates.stepping import (
    clamped,
    downhill,
    either,
    exponent_limit,
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
