"""What flows through a function's ops, against derivatives written out by hand."""

import numpy as np
import pytest
import tensorflow as tf

import gradlab as gl
from gradlab.flows import MOST, Flows


def sin_of_square(x):
    return tf.sin(tf.square(tf.nn.relu(x)))


def times_ten(op, upstream):
    return 10.0 * upstream


def double(op, upstream):
    return 2.0 * upstream


def types(flow):
    return [op.type for op in flow.ops]


@pytest.fixture(scope="module")
def flows():
    return Flows(sin_of_square)


@pytest.mark.parametrize("x", [-1.0, 0.5, 1.5, 2.5])
def test_values_and_gradients_of_a_chain(flows, x):
    flow = flows(x)
    on = max(x, 0.0)
    at_sin = np.cos(on**2)
    at_square = 2 * on * at_sin
    assert types(flow) == ["Relu", "Square", "Sin"]
    assert [op.sources for op in flow.ops] == [(-1,), (0,), (1,)]
    np.testing.assert_allclose(flow.values, [on, on**2, np.sin(on**2)], rtol=1e-5)
    expected = [[at_square * (x > 0)], [at_square], [at_sin]]
    np.testing.assert_allclose(flow.gradients, expected, rtol=1e-5)
    assert flow.gradient == flow.gradients[0][0]


def test_a_rule_is_given_what_arrives_and_changes_what_leaves(flows):
    at_sin = np.cos(2.25)
    flow = flows(1.5, {"Relu": gl.guided_rule})
    assert [op.overridden for op in flow.ops] == [("Relu",), (), ()]
    assert at_sin < 0
    np.testing.assert_allclose(flow.gradients, [[0.0], [3 * at_sin], [at_sin]], rtol=1e-5)
    flow = flows(1.5, {"Square": times_ten, "Sin": double})
    np.testing.assert_allclose(np.ravel(flow.gradients), [20.0, 20.0, 2.0])


def test_rules_are_as_the_whole_function_has_them(flows):
    rules = {"Relu": gl.deconv_rule, "Square": double}
    x = tf.constant(-2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = flows.under(rules)(x)
    assert tape.gradient(y, x) == flows(-2.0, rules).gradient


def test_the_order_of_rules_is_no_other_trace(flows):
    assert flows(1.0, {}).gradient == flows(1.0).gradient
    first = flows(1.0, {"Relu": double, "Sin": double}).gradient
    assert flows(1.0, {"Sin": double, "Relu": double}).gradient == first


def test_where_x_goes_two_ways_what_leaves_is_told_apart():
    flow = Flows(lambda x: x * tf.sin(x))(2.0)
    assert types(flow) == ["Sin", "Mul"]
    assert flow.ops[1].sources == (-1, 0)
    np.testing.assert_allclose(flow.gradients[1], [np.sin(2.0), 2.0], rtol=1e-6)
    np.testing.assert_allclose(flow.gradients[0], [2 * np.cos(2.0)], rtol=1e-6)
    np.testing.assert_allclose(flow.gradient, np.sin(2.0) + 2 * np.cos(2.0), rtol=1e-6)


def test_an_input_taken_twice_is_one_edge():
    flow = Flows(lambda x: x * x)(3.0)
    assert flow.ops[0].sources == (-1,)
    assert flow.gradient == 6.0


def test_vectors_on_the_way():
    flow = Flows(lambda x: tf.reduce_sum(tf.nn.relu(x * tf.constant([1.0, -2.0, 3.0]))))(1.5)
    assert types(flow) == ["Mul", "Relu", "Sum"]
    np.testing.assert_allclose(flow.values[0], [1.5, -3.0, 4.5])
    np.testing.assert_allclose(flow.gradients[1][0], [1.0, 0.0, 1.0])
    assert flow.gradient == 4.0


def test_a_tf_function_is_opened_and_one_inside_is_a_box():
    inner = tf.function(sin_of_square)
    assert types(Flows(inner)(1.0)) == ["Relu", "Square", "Sin"]
    flow = Flows(lambda x: 2.0 * inner(x))(1.5, {"Relu": gl.guided_rule})
    assert types(flow)[1:] == ["Mul"]
    assert flow.ops[0].overridden == ("Relu",)
    assert flow.gradient == 0.0


def test_branches_run_and_their_ops_are_overridden():
    def branching(x):
        y = tf.nn.relu(x) if x > 0 else -x
        return 3.0 * y

    flows = Flows(branching)
    flow = flows(2.0, {"Relu": times_ten})
    assert flow.gradient == 30.0
    assert flow.ops[0].overridden == ("Relu",)
    assert flows(-2.0, {"Relu": times_ten}).gradient == -3.0


def test_an_op_without_a_gradient_passes_none():
    flow = Flows(lambda x: x + tf.floor(x))(1.5)
    floor = types(flow).index("Floor")
    assert flow.gradients[floor] == (None,)
    assert flow.gradient == 1.0


def test_rules_leave_alone_what_only_a_gradient_is_made_with(flows):
    with pytest.raises(ValueError, match=r"rules: .*'Cos'.*It has: Relu, Sin, Square$"):
        flows.check({"Cos": double})
    with pytest.raises(ValueError, match=r"'Cos'.*It has: Relu, Sin, Square$"):
        flows(1.0, {"Cos": double})


def long_one(x):
    for _ in range(MOST + 1):
        x = tf.sin(x)
    return x


@pytest.mark.parametrize(
    ("f", "kind", "words"),
    [
        (3, TypeError, "f: got 3"),
        (lambda x: None, TypeError, "f: <lambda> returned None"),
        (lambda x: tf.stack([x, x]), ValueError, r"f: <lambda> returned shape \(2,\)"),
        (lambda x: tf.cast(x, tf.int32), ValueError, "f: <lambda> returned int32"),
        (lambda x: x, ValueError, "f: nothing leads from x"),
        (lambda x: tf.constant(1.0), ValueError, "f: nothing leads from x"),
        (long_one, ValueError, f"f: {MOST + 1} ops lead from x"),
    ],
    ids=["number", "none", "two", "int", "x", "constant", "long"],
)
def test_errors_name_f(f, kind, words):
    with pytest.raises(kind, match=words):
        Flows(f)


@pytest.mark.parametrize(
    ("rules", "kind", "words"),
    [
        ({"relu": double}, ValueError, "rules: .*Did you mean 'Relu'"),
        ({"Relu": 3}, TypeError, "rules: .*the rule for Relu"),
        ({3: double}, TypeError, "rules: .*op type"),
    ],
    ids=["misspelt", "no-rule", "no-type"],
)
def test_errors_name_rules(flows, rules, kind, words):
    with pytest.raises(kind, match=words):
        flows.check(rules)
