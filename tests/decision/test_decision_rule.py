"""The decision rule by hand, on blocks, and made by the settings of a run."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from clarel_tf.decision.alpha import NearestClasses
from clarel_tf.decision.blocks import BlockRule, OwnDistances
from clarel_tf.decision.discriminants import Discriminants
from clarel_tf.decision.rule import DecisionRule, rescaled
from clarel_tf.decision.selected import RuleSettings
from clarel_tf.errors import ClarelError
from clarel_tf.models.distances import EPSILON


def head_of(kernel) -> keras.layers.Dense:
    kernel = np.array(kernel, np.float32)
    head = keras.layers.Dense(kernel.shape[1])
    head.build((None, kernel.shape[0]))
    head.set_weights([kernel, np.zeros(kernel.shape[1], np.float32)])
    return head


def ask(rule: DecisionRule, images, prototypes, is_seen=None, excess=None) -> np.ndarray:
    looked_at = rule.look_at(np.array(images, np.float32))
    classes = rule.describe(np.array(prototypes, np.float32), is_seen, excess)
    return rule.distances(looked_at, classes).numpy()


def test_the_rule_of_the_paper_is_the_distance():
    distances = ask(DecisionRule(), [[0, 0], [3, 0]], [[3, 4], [0, 0]])
    np.testing.assert_allclose(distances, [[5, 0], [4, 3]], atol=1e-6)


def test_the_head_moves_seen_classes_by_its_doubts():
    # Logits ln 3 and 0 make probabilities 3/4 and 1/4; half of -ln(3/4) = 0.2877 and of
    # -ln(1/4) = 1.3863 is added. The unseen class, in the middle, stays where it is.
    rule = DecisionRule(head_of([[np.log(3.0), 0.0]]), 0.5)
    is_seen = np.array([True, False, True])
    distances = ask(rule, [[1.0]], [[3.0], [2.5], [2.5]], is_seen)
    np.testing.assert_allclose(distances, [[2.1438, 1.5, 2.1931]], atol=1e-4)


def test_few_sentences_are_corrected_for_and_nothing_falls_below_zero():
    # 5^2 - 9 = 4^2; 3^2 - 9 = 0.
    distances = ask(DecisionRule(), [[0, 0]], [[3, 4], [3, 0]], excess=tf.constant([9.0, 9.0]))
    np.testing.assert_allclose(distances, [[4, np.sqrt(EPSILON)]], atol=1e-5)
    # A head that is sure of a class cannot make a distance negative, where alpha would turn round.
    rule = DecisionRule(head_of([[-9.0, 9.0]]), -1.0)
    assert ask(rule, [[1.0]], [[1.5], [9.0]], np.array([True, True])).min() == pytest.approx(
        EPSILON
    )


def test_alpha_counts_for_seen_classes():
    distances = np.array([[2.0, 3.0]], np.float32)
    np.testing.assert_allclose(rescaled(distances, np.array([1.0, 0.0]), 0.5), [[3, 3]])


def made_rule(classes: int = 4) -> tuple[DecisionRule, np.ndarray, np.ndarray]:
    """A rule that asks everything: (rule, images [60, 5], prototypes of the seen classes)."""
    rng = np.random.default_rng(3)
    labels = np.arange(60) % classes
    places = 3.0 * rng.normal(size=(classes, 5))
    images = (places[labels] + rng.normal(size=(60, 5))).astype(np.float32)
    prototypes = (places + 0.1 * rng.normal(size=places.shape)).astype(np.float32)
    discriminants = Discriminants.fit(images, labels, prototypes, 0.35)
    return (
        DecisionRule(head_of(rng.normal(size=(5, classes))), 0.5, discriminants),
        images,
        prototypes,
    )


def test_pairs_are_the_diagonal_of_all():
    rule, images, prototypes = made_rule()
    is_seen = np.ones(4, bool)
    whole = ask(rule, images[:4], prototypes, is_seen)
    pairs = BlockRule(rule).of_pairs(images[:4], prototypes, np.arange(4))
    np.testing.assert_allclose(pairs, np.diag(whole), rtol=1e-4)


@pytest.mark.parametrize("most", [1, 7, 1 << 20])
def test_blocks_of_any_size_give_the_same(most):
    rule, images, prototypes = made_rule()
    is_seen = np.array([True, True, True, True])
    whole = ask(rule, images, prototypes, is_seen)
    asked, classes = BlockRule(rule, most), rule.describe(prototypes, is_seen)
    blocks = list(asked.distances(images, classes))
    assert [start for start, _ in blocks][:2] == ([0, 1] if most < 60 * 4 else [0])
    np.testing.assert_allclose(np.concatenate([b for _, b in blocks]), whole, rtol=1e-4, atol=1e-5)
    best, distance = asked.nearest(images, classes)
    np.testing.assert_array_equal(best, whole.argmin(axis=1))
    np.testing.assert_allclose(distance, whole.min(axis=1), rtol=1e-4, atol=1e-5)
    # Distances to the own class that are replaced: by 0 they win, by infinity never.
    own = OwnDistances(np.arange(60) % 5 - 1, np.full(60, 0.0, np.float32))
    found, _ = asked.nearest(images, classes, own)
    expected = np.where(own.columns >= 0, own.columns, best)
    np.testing.assert_array_equal(found, expected)
    found, _ = asked.nearest(images, classes, own._replace(distances=np.full(60, np.inf, "f4")))
    assert not (found == own.columns).any()


def test_of_equally_near_classes_the_seen_one_counts_then_the_lower_label():
    classes = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    rule = DecisionRule()
    best, _ = BlockRule(rule).nearest(np.zeros((1, 2), np.float32), rule.describe(classes))
    assert best.tolist() == [0]
    near = NearestClasses(np.array([7]), np.array([1.0]), np.array([3]), np.array([1.0]))
    assert near.predict(0.0).tolist() == [7]


def test_the_rule_of_a_run_refuses_parts_that_do_not_fit():
    head, is_seen = head_of(np.zeros((5, 4))), np.array([True, True, True, True, False])
    discriminants = made_rule()[0].discriminants
    settings = RuleSettings(0.5, 0.35)
    rule = DecisionRule.of_run(settings, head, discriminants, is_seen)
    assert rule.asks_head and rule.discriminants is not None
    with pytest.raises(ClarelError, match="head has 4 classes, but 5"):
        DecisionRule.of_run(settings, head, discriminants, np.ones(5, bool))
    with pytest.raises(ClarelError, match="there are none"):
        DecisionRule.of_run(settings, head, None, is_seen)
    with pytest.raises(ClarelError, match="discriminants have 4 classes, but 3"):
        DecisionRule.of_run(RuleSettings(0.0, 0.35), None, discriminants, is_seen[1:])
    # What the settings leave out is not used, though it is there.
    assert DecisionRule.of_run(RuleSettings(), head, discriminants, is_seen).is_of_the_paper


@given(st.floats(0, 1e-6), st.floats(0.1, 10))
def test_alpha_decides_in_evaluation_as_in_the_graph(alpha, distance):
    """In single precision a tiny alpha does not turn a tie round."""
    near = NearestClasses(np.array([7]), np.array([distance]), np.array([3]), np.array([distance]))
    seen, unseen = (np.float32(distance) for _ in range(2))
    in_graph = rescaled(tf.constant(seen), tf.constant(1.0), tf.constant(alpha, tf.float32))
    assert (near.predict(alpha)[0] == 7) == bool(in_graph <= unseen)
