"""Linear discriminants of seen classes, and of classes that read like them."""

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from clarel_tf.decision.discriminants import Discriminants, class_statistics
from clarel_tf.decision.rule import DecisionRule
from tests.helpers.independent_check import ledoit_wolf


def made(strength: float = 1.0, classes: int = 4) -> tuple[Discriminants, np.ndarray, np.ndarray]:
    """Fitted to images [60, 5] of a few classes: (discriminants, images, labels)."""
    rng = np.random.default_rng(3)
    labels = np.arange(60) % classes
    places = 3.0 * rng.normal(size=(classes, 5))
    images = (places[labels] + rng.normal(size=(60, 5))).astype(np.float32)
    prototypes = (places + 0.1 * rng.normal(size=places.shape)).astype(np.float32)
    return Discriminants.fit(images, labels, prototypes, strength), images, labels


def evidence(discriminants: Discriminants, images, mixtures) -> np.ndarray:
    """What the rule takes off distances for classes that are these mixtures, [N, C]."""
    rule, images = DecisionRule(discriminants=discriminants), np.asarray(images, np.float32)
    far = np.full((len(mixtures), images.shape[1]), 1e3, np.float32)  # nothing is cut off at 0
    plain = DecisionRule().describe(far)
    classes = rule.describe(far)._replace(
        mixtures=mixtures, halves=discriminants.halves(tf.constant(mixtures))
    )
    looked_at = rule.look_at(images)
    return (DecisionRule().distances(looked_at, plain) - rule.distances(looked_at, classes)).numpy()


def test_covariance_is_that_of_ledoit_and_wolf():
    _, images, labels = made()
    means, covariance = class_statistics(images, labels)
    np.testing.assert_allclose(means[2], images[labels == 2].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(covariance, ledoit_wolf(images - means[labels]), rtol=1e-5)


def test_ledoit_and_wolf_by_hand():
    # Rows (2, 0) and (0, 1): sample covariance diag(2, 0.5), level 1.25, distance 2 * 0.75^2.
    # Each product is off by (2, -0.5) on the diagonal: noise 2 * 4.25 / 2^2 = 2.125 is more than
    # the distance of 1.125, so nothing but the level is left.
    np.testing.assert_allclose(ledoit_wolf(np.diag([2.0, 1.0])), 1.25 * np.eye(2))
    # Four rows of +-3 along one axis and one of +-1 along the other: sample diag(36, 2) / 6, level
    # 19/6, distance 2 * (17/6)^2 = 16.0556. Products off by (3, -1/3) four times and by (-6, 2/3)
    # twice: noise (4 * 9.1111 + 2 * 36.4444) / 6^2 = 3.0370, a share of 0.189158.
    rows = np.array([[3.0, 0], [-3, 0], [3, 0], [-3, 0], [0, 1], [0, -1]])
    expected = 0.189158 * 19 / 6 * np.eye(2) + 0.810842 * np.diag([6.0, 1 / 3])
    np.testing.assert_allclose(ledoit_wolf(rows), expected, rtol=1e-5)


def test_seen_classes_are_told_apart_as_by_linear_discriminant_analysis():
    discriminants, images, labels = made()
    # A class that is itself, and no mixture: the unit vectors.
    scores = evidence(discriminants, images, np.eye(4, dtype=np.float32))
    # The same as the densities of normal distributions around the class means, up to what an image
    # has in common for all classes.
    means, covariance = class_statistics(images, labels)
    densities = np.stack(
        [scipy.stats.multivariate_normal.logpdf(images, mean, covariance) for mean in means], axis=1
    )
    relative = densities - densities.mean(axis=1, keepdims=True)
    scores = scores / discriminants.weight
    np.testing.assert_allclose(
        scores - scores.mean(axis=1, keepdims=True), relative, rtol=1e-3, atol=1e-2
    )
    assert (scores.argmax(axis=1) == labels).mean() > 0.9


def test_one_dimension_by_hand():
    # Means -2 and 2, squared deviations all 1, so the covariance is 1 (drawn towards itself).
    images = np.array([[-3.0], [-1.0], [1.0], [3.0]], np.float32)
    found = Discriminants.fit(images, np.array([0, 0, 1, 1]), np.float32([[0.0], [2.0]]), 1.0)
    found = found._replace(weight=1.0)
    # Prototypes are 2 apart: width 0.5 * 4, kernel [[1, e], [e, 1]] with e = exp(-2) = 0.13534,
    # ridge 0.03. A class half-way, at 1, has exp(-0.5) = 0.60653 of both and so
    # 0.60653 / (1.03 + 0.13534) = 0.52048 of each in its mixture.
    half_way = found.mixtures(np.array([[1.0]], np.float32))
    np.testing.assert_allclose(half_way, [[0.52048, 0.52048]], atol=1e-4)
    # Its mean image is 0.52048 * (-2 + 2) = 0, so nothing speaks for it or against it.
    np.testing.assert_allclose(evidence(found, images, half_way), np.zeros((4, 1)), atol=1e-5)
    # The second class alone, mean image 2: score(z) = 2 z - 2^2 / 2.
    second = np.array([[0.0, 1.0]], np.float32)
    np.testing.assert_allclose(evidence(found, images, second)[:, 0], [-8, -4, 0, 4], atol=1e-4)


def test_strength_is_a_share_of_how_distances_vary():
    discriminants, images, _ = made(strength=0.35)
    prototypes = discriminants.prototypes
    scores = evidence(discriminants, images, discriminants.mixtures(prototypes))
    distances = np.linalg.norm(images[:, np.newaxis] - prototypes, axis=2)
    assert scores.std(axis=1).mean() == pytest.approx(0.35 * distances.std(axis=1).mean(), rel=1e-4)


def test_what_few_captions_have_too_much_is_taken_off():
    discriminants, _, _ = made()
    known = discriminants.prototypes * np.float32([1, 1, 1, 1, 0])
    discriminants = discriminants._replace(prototypes=known)
    # Away from all of them in the last direction: each squared distance grows by 4.
    away = known[:1] + np.float32([0, 0, 0, 0, 2])
    exact = discriminants.mixtures(known[:1])
    np.testing.assert_allclose(discriminants.mixtures(away, np.float32([4.0])), exact, atol=1e-5)
    assert discriminants.mixtures(away)[0, 0] < exact[0, 0] - 0.02


@pytest.mark.parametrize("count", [1, 3])
def test_degenerate_data_gives_finite_scores(count):
    # One image of each class, or the same prototype for all of them: nothing to learn from.
    images = np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)
    same = np.ones((count, 4), np.float32)
    found = Discriminants.fit(images, np.arange(count), same, 0.35)
    scores = evidence(found, images, found.mixtures(same))
    assert np.isfinite(scores).all()


def test_who_is_about_to_use_much_memory_is_told(monkeypatch, capsys):
    # Five matrices of 4 x 4 numbers of 8 bytes: 640.
    monkeypatch.setattr("clarel_tf.decision.discriminants._MUCH_MEMORY", 640)
    made()
    assert not capsys.readouterr().err
    monkeypatch.setattr("clarel_tf.decision.discriminants._MUCH_MEMORY", 639)
    made()
    assert "discriminants of 4 seen classes need about" in capsys.readouterr().err
