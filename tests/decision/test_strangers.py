"""The strangeness of an image by hand, and its density against SciPy."""

import numpy as np
import pytest
import tensorflow as tf

from clarel_tf.decision.discriminants import class_statistics
from clarel_tf.decision.selected import NoneThreshold
from clarel_tf.decision.strangers import (
    ImageDensity,
    at_selected_alpha,
    doubt_in,
    doubts,
    strangeness,
)


def density_of_unit_circle(scale: float) -> ImageDensity:
    return ImageDensity(tf.zeros([2]), tf.eye(2) * scale)


def test_strangeness_by_hand():
    # |z| = 5; u(z) = 0.4 * 5 = 2, which is 0.5 beyond the usual 1.5. The second class leads by 3.
    # 7 - 2 * 3 - 0.1 * 5 + 10 * 0.5 = 5.5; the other image, at its mean, is 4 - 2 * 1.
    none = NoneThreshold(0.0, 0.0, 0.0, lead=2.0, length=0.1, unlikeliness=10.0, usual=1.5)
    images, nearest = np.float32([[3, 4], [0, 0]]), np.float32([[7, 10, 11], [4, 5, 9]])
    found = strangeness(none, density_of_unit_circle(0.4), images, nearest)
    np.testing.assert_allclose(found, [[5.5], [2.0]], atol=1e-5)
    # Without a density there is no last term, and a single class on offer has no lead.
    found = strangeness(none, None, images, nearest[:, :1])
    np.testing.assert_allclose(found, [[6.5], [4.0]], atol=1e-5)


def test_the_heads_doubt_counts_where_the_nearest_class_is_a_seen_one():
    # Logits of the two seen classes: log 1 and log 3, so P is 1/4 and 3/4.
    found = doubts(lambda images: tf.math.log(images), np.float32([[1, 3]] * 4))
    np.testing.assert_allclose(found, [[np.log(4), np.log(4 / 3)]] * 4, rtol=1e-6)
    asked = doubt_in(found, np.array([0, 1, 2, 7]))  # the last two are no seen classes
    np.testing.assert_allclose(asked, [[np.log(4)], [np.log(4 / 3)], [0], [0]], rtol=1e-6)
    none = NoneThreshold(0.0, 0.0, 0.0, doubt=2.0)
    value = strangeness(none, None, tf.zeros([4, 2]), tf.fill([4, 2], 5.0), asked)
    np.testing.assert_allclose(value[:, 0], [5 + 2 * np.log(4), 5 + 2 * np.log(4 / 3), 5, 5])


def test_a_threshold_of_an_older_run_is_one_of_the_distance():
    images, nearest = np.float32([[3, 4]]), np.float32([[7, 10]])
    none = NoneThreshold(8.0, 95.0, 20.0)
    assert strangeness(none, density_of_unit_circle(9.0), images, nearest).numpy() == [[7.0]]


def test_no_class_on_offer_is_no_error():
    none = NoneThreshold(8.0, 95.0, 20.0, lead=1.0, length=0.1)
    assert strangeness(none, None, tf.zeros([3, 2]), tf.zeros([3, 0])).shape == (3, 0)


def test_density_is_the_mahalanobis_distance_of_the_shrunk_covariance():
    rng = np.random.default_rng(1)
    images = (rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4)) + 3).astype(np.float32)
    _, covariance = class_statistics(images, np.zeros(200, int))
    found = ImageDensity.fit(images).unlikeliness(images[:5]).numpy()[:, 0]
    for image, value in zip(images[:5], found, strict=True):
        away = image - images.mean(axis=0)
        assert value == pytest.approx(np.sqrt(away @ np.linalg.solve(covariance, away)), rel=1e-3)


def test_the_alpha_of_a_request_makes_nothing_stranger():
    plain, is_seen = np.float32([[2.0, 3.0]]), np.float32([[1.0, 0.0]])
    asked = plain * (1 + 0.5 * is_seen)
    found = at_selected_alpha(asked, is_seen, np.float32([[0.5]]), 0.1)
    np.testing.assert_allclose(found, [[2.2, 3.0]], rtol=1e-6)
