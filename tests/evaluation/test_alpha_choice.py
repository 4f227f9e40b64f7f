"""The choice of alpha: by hand, and on other classes better than the best of the curve."""

import numpy as np
import pytest

from clarel_tf.decision.alpha import NearestClasses
from clarel_tf.evaluation.alpha_choice import choose_alpha
from clarel_tf.evaluation.gzsl import alpha_curve, best_alpha, gzsl_scores

SEEN, UNSEEN = 0, 100  # the first label of each kind


def images(turning: list[float], seen: np.ndarray, unseen: np.ndarray) -> NearestClasses:
    """Images with these turning points: a distance of 1 to the seen class."""
    turning = np.asarray(turning, float)
    return NearestClasses(seen, np.ones_like(turning), unseen, 1.0 + turning)


def test_one_class_of_each_kind_by_hand():
    # Unseen images are right above 0.1, seen ones up to 0.3: whatever the weights, H is 100 in
    # between and lower elsewhere.
    labels = np.full(4, SEEN), np.full(5, UNSEEN)
    seen = images([0.3] * 4, labels[0], np.full(4, UNSEEN))
    unseen = images([0.1] * 5, np.full(5, SEEN), labels[1])
    alpha, (low, high) = choose_alpha(seen, labels[0], unseen, labels[1])
    assert 0.1 < alpha <= 0.3
    assert low == pytest.approx(alpha)
    assert high == pytest.approx(0.3)  # each alpha up to there is as good


def test_validation_images_that_are_all_right_leave_alpha_open():
    # No alpha up to 0.4 changes an answer of the two classes of each kind: no certainty about 0.
    labels = np.repeat([SEEN, SEEN + 1], 3), np.repeat([UNSEEN, UNSEEN + 1], 3)
    seen = images([0.4, 0.5, 0.6] * 2, labels[0], np.full(6, UNSEEN))
    unseen = images([-0.2] * 6, np.full(6, SEEN), labels[1])
    alpha, (low, high) = choose_alpha(seen, labels[0], unseen, labels[1])
    assert (alpha, low) == (0.0, 0.0)
    assert high == pytest.approx(0.4, abs=0.003)


def test_the_interval_is_wide_if_the_best_alpha_differs_from_class_to_class():
    # Two unseen classes: the images of one turn at 0.1, of the other at 0.2. The seen images turn
    # evenly from 0 to 1. A resampling without the second class has its best alpha just above 0.1.
    seen_labels, unseen_labels = np.full(100, SEEN), np.repeat([UNSEEN, UNSEEN + 1], 20)
    seen = images(np.linspace(0.005, 0.995, 100), seen_labels, np.full(100, UNSEEN))
    unseen = images(np.repeat([0.1, 0.2], 20), np.full(40, SEEN), unseen_labels)
    alpha, (low, high) = choose_alpha(seen, seen_labels, unseen, unseen_labels)
    assert low == pytest.approx(0.1, abs=0.03)
    assert high == pytest.approx(0.2, abs=0.03)
    assert low < alpha < high
    assert choose_alpha(seen, seen_labels, unseen, unseen_labels).alpha == alpha  # no chance


def test_alpha_is_zero_if_a_positive_one_only_lowers_h():
    # Unseen images are right whatever alpha; each seen image is lost at some alpha.
    labels = np.full(30, SEEN), np.full(30, UNSEEN)
    seen = images(np.linspace(0.01, 0.3, 30), labels[0], np.full(30, UNSEEN))
    unseen = images([-0.1] * 30, np.full(30, SEEN), labels[1])
    assert choose_alpha(seen, labels[0], unseen, labels[1]).alpha == 0.0


def population(rng: np.random.Generator, classes: int, kind: int):
    """Images of classes that differ in their typical turning point, as real classes do."""
    labels = kind + np.repeat(np.arange(classes), 30)
    of_class = rng.normal(0.25 if kind == SEEN else 0.1, 0.1, classes)
    turning = np.repeat(of_class, 30) + rng.normal(0, 0.1, len(labels))
    own, other = labels, np.full(len(labels), SEEN + UNSEEN - kind)
    return images(turning, *((own, other) if kind == SEEN else (other, own))), labels


def test_it_loses_less_h_on_other_classes_than_the_best_of_the_curve():
    losses = []
    many = (*population(np.random.default_rng(0), 400, SEEN),)
    others = (*population(np.random.default_rng(1), 400, UNSEEN),)
    best = max(point.h for point in alpha_curve(*many, *others))
    for seed in range(40):
        rng = np.random.default_rng(100 + seed)
        few = (*population(rng, 10, SEEN), *population(rng, 5, UNSEEN))
        chosen = choose_alpha(*few).alpha, best_alpha(alpha_curve(*few))
        losses.append([best - gzsl_scores(*many, *others, alpha).h for alpha in chosen])
    ours, plain = np.array(losses).T
    assert ours.mean() < 0.9 * plain.mean()
    assert ours.max() < plain.max()
