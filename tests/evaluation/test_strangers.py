"""Rejection: AUROC, scores, the fitted threshold and what is carried over, by hand and by loops."""

import dataclasses
import math

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarel_tf.decision.embedded_splits import EmbeddedSplit
from clarel_tf.decision.selected import NoneThreshold
from clarel_tf.decision.strangers import ImageDensity
from clarel_tf.evaluation.ranked import RankedImages, distance_scale
from clarel_tf.evaluation.strangers import (
    OWN_CLASS_AWAY,
    SEEN_CLASSES_ONLY,
    Trial,
    all_scores,
    auroc,
    far_features,
    fit_none_threshold,
    served_score,
    stranger_trials,
)
from clarel_tf.evaluation.transfer import carry_over, carry_over_probabilities
from clarel_tf.evaluation.trust_records import DistanceScale
from clarel_tf.evaluation.zero_shot import queries_from
from tests.decision.test_alpha import selected_on_validation


@given(st.lists(st.integers(0, 5), min_size=1), st.lists(st.integers(0, 5), min_size=1))
def test_auroc_is_the_share_of_pairs_in_the_right_order(known, strangers):
    won = sum((s > k) + 0.5 * (s == k) for s in strangers for k in known)
    found = auroc(np.array(known, float), np.array(strangers, float))
    assert found == pytest.approx(won / (len(known) * len(strangers)))


def test_scores_by_hand():
    # Distances 1, 2, 4, nearest unseen, temperature 0.5: the sum is e^-2 + e^-4 + e^-8 = 0.153986,
    # so the largest probability is 0.878873 and the energy -0.5 * ln 0.153986 = 0.935444.
    images = RankedImages(
        np.float32([[3, 4]]), np.float32([[2, 4, 1]]), np.array([0]), np.array([True, True, False])
    )
    none = NoneThreshold(9.0, 0.0, 0.0, lead=1.0, length=0.1)
    found = all_scores(images, none, None, (7.0, 0.5))
    expected = {
        "distance": 1.0,
        "largest probability": -0.878873,
        "energy": 0.935444,
        "lead over the second": -1.0,
        "distance less lead": 0.0,
        "served": -0.5,
    }
    assert {name: float(value[0]) for name, value in found.items()} == pytest.approx(
        expected, abs=1e-5
    )


class Doubling:
    """A model whose embedding of an image is twice its features."""

    def __init__(self):
        self.image_classifier = keras.layers.Dense(3)
        self.image_classifier.build((None, 3))
        weights = np.random.default_rng(8).normal(size=(3, 3))
        self.image_classifier.set_weights([weights, np.float32([0.1, 0.2, 0.3])])

    def embed_images(self, features):
        return 2.0 * features


def made_queries(seed=0):
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(5, 3)) * 2

    def split(labels):
        labels = np.array(labels)
        images = (places[labels] + rng.normal(size=(len(labels), 3))).astype(np.float32)
        sums = (places[labels] + 0.2 * rng.normal(size=images.shape)).astype(np.float32)
        return EmbeddedSplit(labels, images, sums, np.ones(len(labels), np.int64))

    seen, unseen, training = split([0, 2, 3] * 20), split([1, 4] * 30), split([0, 2, 3] * 40)
    return queries_from(seen, unseen, training), training


def test_strangers_of_each_kind_and_the_threshold_against_loops():
    queries, training = made_queries()
    alpha, density = 0.1, ImageDensity.fit(training.images)
    features = training.images / 2
    model = Doubling()
    trials = stranger_trials(model, queries, alpha, features)
    none, measured = fit_none_threshold(trials, density, (1.0, 1.0))
    means = queries.prototypes.means()
    scores: dict[str, list[float]] = {"known": [], OWN_CLASS_AWAY: [], SEEN_CLASSES_ONLY: []}
    mean = training.images.mean(axis=0)
    weights, bias = model.image_classifier.get_weights()

    def strange(image, offer):
        (first, nearest), (second, _) = sorted(
            (np.linalg.norm(image - means[c]) * (1 + alpha * queries.is_seen[c]), c) for c in offer
        )[:2]
        odds = np.exp(image @ weights + bias)
        doubt = 0.0
        if queries.is_seen[nearest]:
            doubt = -math.log(odds[[0, 2, 3].index(nearest)] / odds.sum())
        unlikely = np.linalg.norm((image - mean) @ density.whitener)
        return (
            first
            - none.lead * (second - first)
            - none.length * math.sqrt(image @ image)
            + none.unlikeliness * max(0.0, unlikely - none.usual)
            + none.doubt * doubt
        )

    for split in (queries.seen, queries.unseen):
        for image, label in zip(split.images, split.labels, strict=True):
            scores["known"].append(strange(image, range(5)))
            scores[OWN_CLASS_AWAY].append(strange(image, [c for c in range(5) if c != label]))
            if split is queries.unseen:
                scores[SEEN_CLASSES_ONLY].append(strange(image, [0, 2, 3]))
    accepted = np.mean(np.array(scores["known"]) <= none.distance + 1e-5)
    assert 100 * accepted == pytest.approx(measured.accepted) == pytest.approx(none.accepted)
    assert 0.95 <= accepted < 0.95 + 2 / 120
    for kind in (OWN_CLASS_AWAY, SEEN_CLASSES_ONLY):
        share = 100 * np.mean(np.array(scores[kind]) > none.distance + 1e-5)
        assert measured.rejected[kind] == pytest.approx(share)
    (point,) = (p for p in measured.scores if (p.score, p.kind) == ("served", OWN_CLASS_AWAY))
    pairs = [(k, s) for k in scores["known"] for s in scores[OWN_CLASS_AWAY]]
    expected = 100 * np.mean([s > k for k, s in pairs])
    assert point.auroc == pytest.approx(expected, abs=0.05)
    assert {p.kind for p in measured.scores} == {t.kind for t in trials}
    assert len({p.score for p in measured.scores}) >= 6


def test_far_features_are_no_images():
    rng = np.random.default_rng(3)
    features = (rng.normal(size=(300, 4)) * [1, 2, 3, 4] + [0, 10, 20, 30]).astype(np.float32)
    far = far_features(features, 200)
    np.testing.assert_allclose(far["noise"].mean(axis=0), features.mean(axis=0), atol=0.9)
    np.testing.assert_allclose(far["noise"].std(axis=0), [1, 2, 3, 4], rtol=0.2)
    rows = {tuple(sorted(row)) for row in features.tolist()}
    assert all(tuple(sorted(row)) in rows for row in far["permuted"].tolist())
    for column in range(4):  # every value is of its own feature
        assert np.isin(far["mixed"][:, column], features[:, column]).all()
    assert not any(row in features.tolist() for row in far["mixed"].tolist())


def test_of_one_class_on_offer_the_distance_counts():
    images = RankedImages(
        np.zeros((2, 2), np.float32),
        np.float32([[3], [5]]),
        np.array([0, 0]),
        np.array([True]),
    )
    none = NoneThreshold(4.0, 0.0, 0.0, lead=1.0)
    assert served_score(none, None, images).tolist() == [3.0, 5.0]
    assert all_scores(images, none, None, (1.0, 1.0))["distance less lead"].tolist() == [3.0, 5.0]
    assert Trial("kind", images, images).known is images


def test_the_scale_of_distances_against_a_loop():
    queries, training = made_queries(4)
    means, alpha = queries.prototypes.means(), 0.2
    own, rivals, gaps, lengths = [], [], [], []
    for image, label in zip(training.images, training.labels, strict=True):
        distances = {
            c: np.linalg.norm(image - means[c]) * (1 + alpha * queries.is_seen[c]) for c in range(5)
        }
        own.append(distances.pop(label))
        first, second, *_ = sorted(distances.values())
        rivals.append(first)
        gaps.append(second - first)
        lengths.append(np.linalg.norm(image))
    found = distance_scale(queries, training, alpha)
    expected = [np.mean(own), np.mean(rivals), np.mean(gaps), np.mean(lengths), 3]
    assert list(vars(found).values()) == pytest.approx(expected, rel=1e-4)


def test_temperatures_and_threshold_are_carried_over_by_hand():
    none = NoneThreshold(12.0, 95.0, 20.0, lead=1.0, length=0.5)
    before = DistanceScale(own=15.0, rival=20.0, gap=2.0, length=10.0, classes=50)
    selection = dataclasses.replace(
        selected_on_validation(),
        temperature_unseen=0.4,
        none_of_these=none,
        distance_scale=before,
    )
    carried = carry_over(selection, 30.0, "value")
    # Gaps are a quarter, classes the same: temperatures are multiplied by sqrt(1 / 4). The own
    # class is 5 and the nearest rival 3 farther, images are 4 longer: 12 + (5 + 3) / 2 - 0.5 * 4.
    found = carry_over_probabilities(carried, selection, DistanceScale(20.0, 23.0, 0.5, 14.0, 50))
    assert found.temperatures == pytest.approx((0.25, 0.2))
    assert found.none_of_these == dataclasses.replace(none, distance=14.0)
    assert found.alpha == carried.alpha
    # Eight times the classes, gaps the same: they are multiplied by sqrt(1 / 2).
    found = carry_over_probabilities(carried, selection, dataclasses.replace(before, classes=400))
    assert found.temperatures == pytest.approx((0.5 / math.sqrt(2), 0.4 / math.sqrt(2)))
    assert found.none_of_these == none
    # A run of an older version has no scale: nothing changes.
    older = selected_on_validation()
    carried = carry_over(older, 30.0, "offset")
    assert carry_over_probabilities(carried, older, before) == carried
