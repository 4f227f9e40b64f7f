"""The batch sampler: draws compared with a hand-made case and with counts."""

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from clarel_tf.training.batch_sampler import class_balanced_keys, class_similarities, prefer_similar


def test_class_balanced_keys_by_hand():
    keys = tf.constant([0.9, 0.2, 0.5, 0.1, 0.7, 0.3])
    labels = tf.constant([0, 0, 0, 1, 1, 1])
    ours = class_balanced_keys(keys, labels, tf.constant([0.4, 0.6]), per_class=2)
    # Class 0 gives 0.9 and 0.5 at its first turn and 0.2 at its second; class 1 gives 0.7 and 0.3,
    # then 0.1. A turn costs 1, the class key is added: class 1 is before class 0 in each turn.
    np.testing.assert_allclose(ours, [0.4, -0.6, 0.4, -0.4, 0.6, 0.6], atol=1e-6)


def test_similarities_by_hand():
    # Roots are (1, 0), (3, 0), (2, 2) with means (1, 0), (3, 0), (2, 2); the class of two instances
    # counts once. Centred by (2, 2/3): (-1, -2/3), (1, -2/3), (0, 4/3), lengths 1.2019 and 4/3.
    features = np.array([[1, 0], [9, 0], [4, 4], [4, 4]], np.float32)
    found = class_similarities(features, np.array([7, 8, 9, 9]))
    # Cosines: (-1 + 4/9) / 1.4444 = -0.3846 of the first two, (-8/9) / (1.2019 * 4/3) = -0.5547 of
    # each with the third.
    cosines = np.array([[1, -0.3846, -0.5547], [-0.3846, 1, -0.5547], [-0.5547, -0.5547, 1]])
    np.testing.assert_allclose(found, (cosines - cosines.mean()) / cosines.std(), atol=1e-3)


def test_signs_of_features_count():
    found = class_similarities(np.array([[4.0], [-4.0], [4.0]], np.float32), np.array([0, 1, 2]))
    assert found[0, 2] > found[0, 1]


def test_classes_that_are_all_alike_prefer_nobody():
    assert not class_similarities(np.ones((4, 3), np.float32), np.array([0, 0, 1, 2])).any()
    assert not class_similarities(np.ones((1, 3), np.float32), np.array([5])).any()


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 999), min_size=1, max_size=30, unique=True))
def test_without_preferences_the_order_stays(thousandths):
    keys = np.array(thousandths, np.float32) / 1000
    found = prefer_similar(tf.constant(keys), tf.zeros([len(keys)] * 2)).numpy()
    np.testing.assert_array_equal(np.argsort(found), np.argsort(keys, kind="stable"))
    assert found.min() >= 0 and found.max() < 1


def test_draws_follow_the_preferences():
    """Of three classes the first prefers the second to the third by odds of 4 to 1."""
    preferences = tf.math.log([[1.0, 4.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    uniform = np.random.default_rng(0).random((6000, 3)).astype(np.float32)
    draw = tf.function(lambda keys: prefer_similar(keys, preferences))
    orders = np.array([np.argsort(-draw(tf.constant(keys)).numpy()) for keys in uniform])
    firsts = np.bincount(orders[:, 0])
    assert (abs(firsts - 2000) < 200).all()  # standard deviation: 37
    seconds = np.bincount(orders[orders[:, 0] == 1, 1], minlength=3)
    assert abs(seconds[0] - seconds[2]) < 220  # no preference: standard deviation 45
    seconds = np.bincount(orders[orders[:, 0] == 0, 1], minlength=3)
    assert abs(seconds[1] / seconds.sum() - 0.8) < 0.04  # standard deviation: 0.009
