"""Distances and losses against numbers worked out by hand and against plain loops."""

import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from clarel_tf.models import losses
from clarel_tf.models.distances import pairwise_distances, pairwise_distances_numpy

# Two images and two texts in three dimensions. Distances, image i against text j:
#   d(v0, t0) = |(0, 3, 4)| = 5      d(v0, t1) = |(1, 0, 0)| = 1
#   d(v1, t0) = |(-2, 3, 4)| = sqrt(29)   d(v1, t1) = |(-1, 0, 0)| = 1
IMAGES = np.array([[0, 0, 0], [2, 0, 0]], np.float32)
TEXTS = np.array([[0, 3, 4], [1, 0, 0]], np.float32)
DISTANCES = np.array([[5, 1], [math.sqrt(29), 1]], np.float32)


def test_distances_by_hand():
    np.testing.assert_allclose(pairwise_distances(IMAGES, TEXTS), DISTANCES, atol=1e-5)
    np.testing.assert_allclose(pairwise_distances_numpy(IMAGES, TEXTS), DISTANCES, atol=1e-5)


def test_retrieval_losses_by_hand():
    text_retrieval, image_retrieval = losses.retrieval_losses(tf.constant(DISTANCES))
    # Each image chooses among the texts (a row):
    #   image 0: 5 + log(e^-5 + e^-1)          = 5 - 0.98185 = 4.01815
    #   image 1: 1 + log(e^-5.38516 + e^-1)    = 1 - 0.98761 = 0.01239
    assert float(text_retrieval) == pytest.approx((4.01815 + 0.01239) / 2, abs=1e-4)
    # Each text chooses among the images (a column):
    #   text 0: 5 + log(e^-5 + e^-5.38516)     = 5 - 4.48109 = 0.51891
    #   text 1: 1 + log(e^-1 + e^-1)           = log 2       = 0.69315
    assert float(image_retrieval) == pytest.approx((0.51891 + 0.69315) / 2, abs=1e-4)


def test_retrieval_accuracies_by_hand():
    # Row minima are in column 1 twice: image 1 is right. Column minima: row 0 for text 0; text 1
    # has a tie, which goes to row 0: text 0 is right.
    text, image = losses.retrieval_accuracies(tf.constant(DISTANCES))
    assert (float(text), float(image)) == (0.5, 0.5)


def test_classification_loss_by_hand():
    logits = tf.constant([[0.0, math.log(3)], [math.log(4), 0.0]])
    # Softmax: (1/4, 3/4) and (4/5, 1/5); labels 1 and 1: -(log 3/4 + log 1/5) / 2.
    expected = -(math.log(3 / 4) + math.log(1 / 5)) / 2
    value = losses.classification_loss(logits, tf.constant([1, 1]))
    assert float(value) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("lambda_", "kappa", "expected"),
    [
        (0.5, 0.5, 0.5 * (0.5 * 1 + 0.5 * 2) + 0.25 * (4 + 8)),
        (1.0, 0.0, 1),  # text retrieval alone
        (0.0, 0.0, 2),  # image retrieval alone
        (0.3, 1.0, 6),  # classification alone: (4 + 8) / 2
        (0.25, 0.2, 0.8 * (0.25 * 1 + 0.75 * 2) + 0.1 * (4 + 8)),
    ],
)
def test_mix(lambda_, kappa, expected):
    assert float(losses.mix_losses(1.0, 2.0, 4.0, 8.0, lambda_, kappa)) == pytest.approx(expected)


def loop_losses(images, texts, labels, mask_same_class):
    """The algorithm of the paper, word for word."""

    def d(a, b):
        return math.sqrt(sum((float(x) - float(y)) ** 2 for x, y in zip(a, b, strict=True)))

    batch = range(len(images))
    text_retrieval = image_retrieval = 0.0
    for i in batch:
        allowed = [j for j in batch if j == i or not (mask_same_class and labels[i] == labels[j])]
        own = d(images[i], texts[i])
        text_retrieval += own + math.log(sum(math.exp(-d(images[i], texts[j])) for j in allowed))
        image_retrieval += own + math.log(sum(math.exp(-d(texts[i], images[j])) for j in allowed))
    return text_retrieval / len(images), image_retrieval / len(images)


@settings(max_examples=40, deadline=None)
@given(
    size=st.integers(1, 7),
    seed=st.integers(0, 1000),
    scale=st.floats(0.1, 5.0),
    mask=st.booleans(),
)
def test_losses_equal_plain_loops(size, seed, scale, mask):
    rng = np.random.default_rng(seed)
    images, texts = (rng.normal(size=(size, 4)).astype(np.float32) * scale for _ in range(2))
    labels = rng.integers(0, 3, size)
    distances = pairwise_distances(images, texts)
    ours = losses.retrieval_losses(distances, tf.constant(labels) if mask else None)
    np.testing.assert_allclose(ours, loop_losses(images, texts, labels, mask), atol=1e-4)


def test_mixture_losses_by_hand():
    # Three instances on a line; shares 0.2, 0.5 and 0.8; each is mixed with the row before it.
    #   images 0.2*0 + 0.8*5 = 4, 0.5*2 + 0.5*0 = 1, 0.8*5 + 0.2*2 = 4.4
    #   texts  0.2*1 + 0.8*6 = 5, 0.5*3 + 0.5*1 = 2, 0.8*6 + 0.2*3 = 5.4
    images, texts = tf.constant([[0.0], [2.0], [5.0]]), tf.constant([[1.0], [3.0], [6.0]])
    text, image = losses.mixture_losses(images, texts, scale=2.0)
    # Distances (1, 2, 1.4), (4, 1, 4.4), (0.6, 2.4, 1), twice: among the texts
    #   2 + log(e^-2 + e^-4 + e^-2.8)     = log(1 + e^-2 + e^-0.8)     = 0.46037
    #   2 + log(e^-8 + e^-2 + e^-8.8)     = log(1 + e^-6 + e^-6.8)     = 0.00359
    #   2 + log(e^-1.2 + e^-4.8 + e^-2)   = log(1 + e^0.8 + e^-2.8)    = 1.18978
    assert float(text) == pytest.approx((0.46037 + 0.00359 + 1.18978) / 3, abs=1e-4)
    # Among the images: columns (1, 4, 0.6), (2, 1, 2.4), (1.4, 4.4, 1)
    #   log(1 + e^-6 + e^0.8) = 1.17187, log(1 + e^-2 + e^-2.8) = 0.17910,
    #   log(1 + e^-0.8 + e^-6.8) = 0.37187
    assert float(image) == pytest.approx((1.17187 + 0.17910 + 0.37187) / 3, abs=1e-4)


@pytest.mark.parametrize("size", [1, 2])
def test_a_batch_too_small_to_mix_has_its_own_losses(size):
    images, texts = tf.constant([[0.0], [2.0]])[:size], tf.constant([[1.0], [5.0]])[:size]
    plain = losses.retrieval_losses(pairwise_distances(images, texts))
    np.testing.assert_allclose(losses.mixture_losses(images, texts), plain, atol=1e-5)


def test_prototype_losses_by_hand():
    # Instances 0 and 1 are of class 7, instance 2 is of class 4; all lie on a line.
    images, texts = tf.constant([[0.0], [2.0], [5.0]]), tf.constant([[1.0], [3.0], [6.0]])
    text, image = losses.prototype_losses(images, texts, tf.constant([7, 7, 4]))
    # Text means: (1 + 3) / 2 = 2 and 6. Distances of the images: (2, 6), (0, 4), (3, 1).
    #   image 0: 2 + log(e^-2 + e^-6) = log(1 + e^-4) = 0.01815, image 1: the same,
    #   image 2: 1 + log(e^-3 + e^-1) = log(1 + e^-2) = 0.12693
    assert float(text) == pytest.approx((0.01815 + 0.01815 + 0.12693) / 3, abs=1e-4)
    # Image means: (0 + 2) / 2 = 1 and 5. Distances of the texts: (0, 4), (2, 2), (5, 1).
    #   text 0: log(1 + e^-4) = 0.01815, text 1: log 2 = 0.69315, text 2: log(1 + e^-4)
    assert float(image) == pytest.approx((0.01815 + 0.69315 + 0.01815) / 3, abs=1e-4)


def test_scaled_prototype_losses_by_hand():
    images, texts = tf.constant([[0.0], [5.0]]), tf.constant([[1.0], [6.0]])
    text, image = losses.prototype_losses(images, texts, tf.constant([0, 1]), scale=0.5)
    # Distances of the images (1, 6) and (4, 1), halved: log(1 + e^-2.5) and log(1 + e^-1.5).
    assert float(text) == pytest.approx((0.07889 + 0.20141) / 2, abs=1e-4)
    # Of the texts (1, 4) and (6, 1), halved: log(1 + e^-1.5) and log(1 + e^-2.5).
    assert float(image) == pytest.approx((0.20141 + 0.07889) / 2, abs=1e-4)


def loop_prototype_loss(queries, members, labels):
    """Each query among the mean members of the classes, one at a time."""
    means = {c: np.mean(members[labels == c], axis=0) for c in set(labels)}
    total = 0.0
    for query, label in zip(queries, labels, strict=True):
        weights = {c: math.exp(-np.linalg.norm(query - mean)) for c, mean in means.items()}
        total -= math.log(weights[label] / sum(weights.values()))
    return total / len(queries)


@settings(max_examples=20, deadline=None)
@given(size=st.integers(1, 9), seed=st.integers(0, 1000))
def test_prototype_losses_equal_plain_loops(size, seed):
    rng = np.random.default_rng(seed)
    images, texts = (rng.normal(size=(size, 4)).astype(np.float32) for _ in range(2))
    labels = rng.integers(0, 4, size)
    ours = losses.prototype_losses(images, texts, tf.constant(labels))
    by_loops = [loop_prototype_loss(*pair, labels) for pair in ((images, texts), (texts, images))]
    np.testing.assert_allclose(ours, by_loops, atol=1e-4)


def test_prototypes_of_one_instance_each_are_plain_retrieval():
    alone = losses.prototype_losses(tf.constant(IMAGES), tf.constant(TEXTS), tf.constant([0, 1]))
    plain = losses.retrieval_losses(tf.constant(DISTANCES))
    np.testing.assert_allclose(alone, plain, atol=1e-5)


def test_only_one_class_and_masking_leaves_no_negatives():
    text, image = losses.retrieval_losses(tf.constant(DISTANCES), tf.constant([4, 4]))
    assert (float(text), float(image)) == (0.0, 0.0)


@settings(max_examples=40, deadline=None)
@given(
    hnp.arrays(np.float32, (4, 3), elements=st.floats(-100, 100, width=32)),
    st.sampled_from(["same", "repeated", "zero", "different"]),
)
def test_gradients_are_finite_everywhere(images, kind):
    texts = {
        "same": images,
        "repeated": np.repeat(images[:1], 4, axis=0),
        "zero": np.zeros_like(images),
        "different": images[::-1] + 1,
    }[kind]
    images, texts = tf.constant(images), tf.constant(texts)
    with tf.GradientTape() as tape:
        tape.watch([images, texts])
        distances = pairwise_distances(images, texts)
        labels = tf.constant([0, 0, 1, 2])
        total = tf.add_n(losses.retrieval_losses(distances, labels))
        total += tf.add_n(losses.prototype_losses(images, texts, labels))
    for gradient in tape.gradient(total, [images, texts]):
        assert np.isfinite(gradient.numpy()).all()
    assert np.isfinite(distances.numpy()).all()
