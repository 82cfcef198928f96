"""Under XLA no op takes more kernels than what one would write by hand, for every member."""

import modes  # noqa: F401 - makes devices, which must be done before there is a tensor
import pytest
import tensorflow as tf

import gradlab as gl
from benchmarks.by_hand import PAIRS, check_same, example, gradient
from benchmarks.kernels import kernels, operations
from gradlab import layers
from gradlab.layers.registering import SURROGATES
from gradlab.registry import SPECS

ROWS = 8
compilable = pytest.mark.parametrize(
    "pair", [pair for pair in PAIRS if not pair.not_in_xla], ids=lambda pair: pair.name
)


def test_no_member_is_left_out():
    families = {family.__name__ for family in SURROGATES}
    assert {pair.member for pair in PAIRS} == {*SPECS, *families, *layers.__all__}
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_peer_has_the_same_rule(pair):
    check_same(pair, *example(ROWS))


def test_a_peer_with_another_rule_is_found():
    pair = PAIRS[0]._replace(peer=tf.identity)
    with pytest.raises(AssertionError, match=pair.name):
        check_same(pair, *example(ROWS))


@compilable
def test_no_more_kernels_than_by_hand(pair):
    ours, peer = (kernels(f, *example(ROWS)) for f in (pair.ours, pair.peer))
    assert 0 < ours <= peer


@pytest.mark.parametrize("pair", [p for p in PAIRS if p.not_in_xla], ids=lambda pair: pair.name)
def test_what_xla_cannot_compile_says_so(pair):
    compiled = tf.function(
        lambda x, u: gradient(pair.ours, x, u), autograph=False, jit_compile=True
    )
    with pytest.raises((NotImplementedError, tf.errors.InvalidArgumentError)) as raised:
        compiled(*example(ROWS))
    assert pair.not_in_xla in str(raised.value)


def test_kernels_are_counted():
    def twice_summed(x):
        return tf.reduce_sum(gl.scale_gradient(x, 0.5)) + tf.reduce_max(x, 0)

    x, upstream = example(ROWS)
    assert kernels(lambda x: tf.sin(x) * 2.0, x, upstream) == 2  # forward, gradient
    assert "fusion" in operations(lambda x: tf.sin(x) * 2.0, x, upstream)
    assert kernels(twice_summed, x, upstream[0]) > 2
