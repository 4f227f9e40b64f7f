"""Retrieval, curves, draws and confidence against slow loops."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clarel_tf.decision.alpha import NearestClasses, nearest_classes
from clarel_tf.decision.embedded_splits import EmbeddedSplit
from clarel_tf.evaluation.caption_draws import CaptionDraws
from clarel_tf.evaluation.gzsl import area_under, gzsl_scores, per_class_accuracy, seen_unseen_curve
from clarel_tf.evaluation.retrieval import (
    NearestCaptions,
    RetrievalRecall,
    average_precision_at,
)
from clarel_tf.evaluation.zero_shot import queries_from
from tests.conftest import make_split


def grid_points(rng, *shape) -> np.ndarray:
    """Points with small whole coordinates: many distances are equal."""
    return rng.integers(0, 3, shape).astype(np.float32)


@given(st.integers(0, 10_000))
def test_per_class_accuracy_counts_every_class_that_occurs_the_same(seed):
    rng = np.random.default_rng(seed)
    labels, predicted = rng.integers(0, 4, (2, 12))
    shares = []
    for label in set(labels):
        hits = [
            found == label for found, true in zip(predicted, labels, strict=True) if true == label
        ]
        shares.append(sum(hits) / len(hits))
    assert per_class_accuracy(predicted, labels) == pytest.approx(100 * sum(shares) / len(shares))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 6))
def test_recall_equals_slow_loops_with_ties(seed, images, captions_each):
    rng = np.random.default_rng(seed)
    embedded = grid_points(rng, images, 2)
    captions = grid_points(rng, images * captions_each, 2)
    owner = np.repeat(np.arange(images), captions_each)
    recall = RetrievalRecall(embedded)
    for start in range(0, len(captions), 4):  # in a stream
        recall.add(captions[start : start + 4], owner[start : start + 4])
    result = recall.result()

    def d(a, b):
        return float(np.sqrt(max(((a - b) ** 2).sum(), 1e-12)))

    for k in (1, 5, 10):
        found = []
        for i in range(images):
            own = min(d(embedded[i], captions[j]) for j in range(len(captions)) if owner[j] == i)
            nearer = sum(
                d(embedded[i], captions[j]) <= own for j in range(len(captions)) if owner[j] != i
            )
            found.append(nearer < k)
        assert result["image_to_text"][f"recall@{k}"] == pytest.approx(100 * np.mean(found))
        found = []
        for j in range(len(captions)):
            own = d(captions[j], embedded[owner[j]])
            nearer = sum(d(captions[j], embedded[i]) <= own for i in range(images) if i != owner[j])
            found.append(nearer < k)
        assert result["text_to_image"][f"recall@{k}"] == pytest.approx(100 * np.mean(found))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 8))
def test_average_precision_equals_slow_loops_with_ties(seed, images, k):
    rng = np.random.default_rng(seed)
    embedded, prototypes = grid_points(rng, images, 2), grid_points(rng, 3, 2)
    labels, classes = rng.integers(0, 3, images), np.arange(3)
    shares = []
    for c in classes:
        distances = np.sqrt(np.maximum(((embedded - prototypes[c]) ** 2).sum(axis=1), 1e-12))
        # Own images behind others at the same distance.
        order = sorted(range(images), key=lambda i: (round(float(distances[i]), 5), labels[i] == c))
        nearest = order[: min(k, images)]
        shares.append(np.mean([labels[i] == c for i in nearest]))
    ours = average_precision_at(embedded, labels, prototypes, classes, k)
    assert ours == pytest.approx(100 * np.mean(shares))


def random_sides(seed, images=9):
    rng = np.random.default_rng(seed)
    classes, is_seen = np.arange(5), np.arange(5) < 3
    distances = rng.choice([0.5, 1.0, 1.2, 1.5, 2.0], (2, images, 5))  # ties are common
    seen, unseen = (nearest_classes(d, classes, is_seen) for d in distances)
    return seen, rng.integers(0, 3, images), unseen, rng.integers(3, 5, images)


@given(st.integers(0, 10_000))
def test_seen_unseen_curve_has_the_scores_of_every_alpha(seed):
    sides = random_sides(seed)
    u, s = seen_unseen_curve(*sides)
    assert (np.diff(u) >= -1e-9).all() and (np.diff(s) <= 1e-9).all()
    for alpha in (-0.9, -0.5, -0.1, 0.0, 0.1, 0.35, 0.7, 1.5, 5.0):
        scores = gzsl_scores(*sides, alpha)
        gap = np.abs(u - scores.u) + np.abs(s - scores.s)
        assert gap.min() < 1e-6
    # Trapezia between neighbours, one after the other.
    area = sum((u[i + 1] - u[i]) * (s[i + 1] + s[i]) / 2 for i in range(len(u) - 1))
    assert area_under(u, s) == pytest.approx(area / 100)


@pytest.mark.filterwarnings("error")
def test_images_without_any_unseen_class_turn_together_at_the_end():
    # A new image turns at alpha 0.5, a known one at 1, and two known ones, to which every new class
    # is infinitely far, never.
    known = NearestClasses(*np.array([[0, 0, 0], [1, 1, 1], [7, 7, 7], [2, np.inf, np.inf]]))
    new = NearestClasses(*np.array([[0.0], [1.0], [7.0], [1.5]]))
    u, s = seen_unseen_curve(known, np.zeros(3), new, np.array([7]))
    np.testing.assert_allclose(u, [0, 100, 100, 100])
    np.testing.assert_allclose(s, [100, 100, 200 / 3, 0], atol=1e-9)


def test_area_by_hand():
    # s = 80 up to u = 50, then 40 up to u = 60: (50 * 80 + 10 * 40) / 100.
    u, s = np.array([0.0, 50.0, 50.0, 60.0, 60.0]), np.array([80.0, 80.0, 40.0, 40.0, 0.0])
    assert area_under(u, s) == pytest.approx(44.0)


def test_draws_use_exactly_so_many_captions_and_each_once():
    labels = np.repeat([0, 0, 1], 4)  # class 0 has 8 captions, class 1 has 4
    vectors = np.eye(12, dtype=np.float32)  # a caption is recognised by its own dimension
    draws = CaptionDraws(labels, np.array([0, 1]), 12, draws=3, seed=5, counts=(2, 6, 100))
    for start in range(0, 12, 5):
        draws.add(vectors[start : start + 5], np.zeros(5))
    for draw in range(3):
        used = [draws.prototypes(draw, index) > 0 for index in range(3)]
        assert [u.sum(axis=1).tolist() for u in used] == [[2, 2], [6, 4], [8, 4]]
        for smaller, larger in itertools.pairwise(used):
            assert (larger | ~smaller).all()  # the fewer are among the more
        assert not used[2][0, 8:].any() and not used[2][1, :8].any()
        np.testing.assert_allclose(draws.prototypes(draw, 0).sum(axis=1), 1.0)
    assert (draws.prototypes(0, 0) != draws.prototypes(1, 0)).any()


def test_with_all_captions_the_draws_equal_the_prototypes():
    rng = np.random.default_rng(0)
    splits = [make_split("s", [0, 1] * 3, 0), make_split("u", [2] * 4, 50)]
    caption_labels = np.repeat(np.concatenate([split.labels for split in splits]), 3)
    draws = CaptionDraws(caption_labels, np.array([0, 1, 2]), 4, draws=2)
    embedded = []
    for split in splits:
        captions = rng.normal(size=(len(split), 3, 4)).astype(np.float32)
        draws.add(captions.reshape(-1, 4), np.repeat(np.arange(len(split)), 3))
        images = rng.normal(size=(len(split), 4)).astype(np.float32)
        counts = np.full(len(split), 3)
        embedded.append(EmbeddedSplit(split.labels, images, captions.sum(axis=1), counts))
    queries = queries_from(*embedded)
    np.testing.assert_allclose(draws.prototypes(1, 5), queries.prototypes.means(), atol=1e-6)
    last = draws.curve(queries, 0.1)[-1]
    assert last.h == pytest.approx(queries.evaluate().gzsl(0.1).h)
    assert last.h_std == pytest.approx(0.0, abs=1e-9)


def test_nearest_captions_in_a_stream_equal_a_sort():
    rng = np.random.default_rng(1)
    images, captions = rng.normal(size=(4, 3)), rng.normal(size=(23, 3))
    nearest = NearestCaptions(images.astype(np.float32), count=3)
    for start in range(0, 23, 6):
        nearest.add(captions[start : start + 6].astype(np.float32), np.zeros(6))
    expected = np.argsort(np.linalg.norm(images[:, None] - captions[None], axis=2), axis=1)[:, :3]
    np.testing.assert_array_equal(nearest.captions, expected)
