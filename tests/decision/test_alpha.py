"""alpha: the two laws, the decision rule against a loop, and the choice on a hand-made case."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clarel_tf.decision.alpha import alpha_grid, nearest_classes
from clarel_tf.decision.embedded_splits import EmbeddedSplit
from clarel_tf.decision.prototypes import Prototypes, own_class_distance
from clarel_tf.decision.selected import NoneThreshold, Selected
from clarel_tf.evaluation.gzsl import (
    alpha_curve,
    best_alpha,
    gzsl_scores,
    harmonic_mean,
    per_class_accuracy,
)
from clarel_tf.evaluation.records import (
    AlphaPoint,
    GzslScores,
    Selection,
    ValidationScores,
    ZslScores,
)
from clarel_tf.evaluation.transfer import carry_over
from clarel_tf.evaluation.trust_records import DistanceScale

CLASSES = np.array([2, 5, 7, 9])
IS_SEEN = np.array([True, False, True, False])

distance_matrices = st.integers(1, 12).flatmap(
    lambda rows: st.lists(
        # Few different values, so that ties are common.
        st.lists(st.sampled_from([0.5, 1.0, 1.1, 1.5, 2.0]), min_size=4, max_size=4),
        min_size=rows,
        max_size=rows,
    ).map(np.array)
)


@given(distance_matrices, st.lists(st.floats(0, 3), min_size=2, max_size=6))
def test_the_two_monotonicity_laws(distances, alphas):
    images = nearest_classes(distances, CLASSES, IS_SEEN)
    seen_labels = CLASSES[IS_SEEN]
    goes_to_seen = [np.isin(images.predict(a), seen_labels) for a in sorted(alphas)]
    for before, after in itertools.pairwise(goes_to_seen):
        # An image that left the seen classes never comes back: P(-> seen) cannot rise and
        # P(-> unseen) cannot fall, whatever the images are.
        assert not (after & ~before).any()


@given(distance_matrices, st.floats(0, 2))
def test_predictions_equal_the_decision_rule_in_a_loop(distances, alpha):
    predicted = nearest_classes(distances, CLASSES, IS_SEEN).predict(alpha)
    for row, label in zip(distances, predicted, strict=True):
        factor = np.float32(1) + np.float32(alpha)  # in single precision, as it is served
        single = row.astype(np.float32)
        rescaled = [d * factor if seen else d for d, seen in zip(single, IS_SEEN, strict=True)]
        assert rescaled[CLASSES.tolist().index(label)] == min(rescaled)


def test_scores_and_choice_by_hand():
    classes, is_seen = np.array([0, 1]), np.array([True, False])
    # Unseen images (class 1): d_unseen / d_seen = 1.1, 1.2 and 0.9: right once alpha passes 0.1,
    # 0.2 and always. Seen images (class 0): 1.15 and 1.5: right up to alpha 0.15 and 0.5.
    unseen = nearest_classes(np.array([[1.0, 1.1], [1.0, 1.2], [1.0, 0.9]]), classes, is_seen)
    seen = nearest_classes(np.array([[1.0, 1.15], [1.0, 1.5]]), classes, is_seen)
    labels = np.array([0, 0]), np.array([1, 1, 1])

    def scores(alpha):
        return gzsl_scores(seen, labels[0], unseen, labels[1], alpha)

    assert (scores(0.0).u, scores(0.0).s) == pytest.approx((100 / 3, 100))
    assert (scores(0.12).u, scores(0.12).s) == pytest.approx((200 / 3, 100))
    assert (scores(0.3).u, scores(0.3).s) == pytest.approx((100, 50))
    assert scores(0.12).h == pytest.approx(80)  # 2 * 2/3 * 1 / (5/3) = 0.8
    curve = alpha_curve(seen, labels[0], unseen, labels[1])
    assert curve[0] == AlphaPoint(0.0, **vars(scores(0.0)))
    assert 0.1 < best_alpha(curve) <= 0.15
    assert max(point.h for point in curve) == pytest.approx(80)
    assert curve[-1].s == 50 or curve[-1].s == 0


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.floats(1e-3, 1e3))
def test_the_grid_finds_the_best_h_at_any_scale_of_the_distances(seed, scale):
    rng = np.random.default_rng(seed)
    classes, is_seen = np.arange(6), np.arange(6) < 4
    labels = rng.integers(0, 4, 30), rng.integers(4, 6, 30)
    sides = [
        nearest_classes(scale * rng.uniform(1.0, 1.2, (30, 6)), classes, is_seen) for _ in labels
    ]
    curve = alpha_curve(sides[0], labels[0], sides[1], labels[1])
    found = max(point.h for point in curve)
    # Brute force: just above and at every turning point.
    turning = np.concatenate([[0.0], *(side.turning_points() for side in sides)])
    every = np.concatenate([turning, turning * (1 + 1e-9) + 1e-12])
    best = max(gzsl_scores(sides[0], labels[0], sides[1], labels[1], a).h for a in every if a >= 0)
    assert found >= best - 2.0
    assert len(alpha_grid(*sides)) <= 201


def test_no_image_changes_sides_and_the_grid_is_zero_alone():
    near_unseen = nearest_classes(np.array([[2.0, 1.0]]), np.array([0, 1]), np.array([True, False]))
    assert alpha_grid(near_unseen).tolist() == [0.0]


def test_accuracy_is_averaged_over_classes_not_images():
    # Class 0: 3 of 4 right; class 7: 0 of 1. Mean of 75 % and 0 %, not 3 of 5.
    labels = np.array([0, 0, 0, 0, 7])
    assert per_class_accuracy(np.array([0, 0, 0, 7, 0]), labels) == pytest.approx(37.5)


@pytest.mark.parametrize(("u", "s", "h"), [(50, 50, 50), (0, 0, 0), (0, 80, 0), (38.3, 65.3, 48.3)])
def test_harmonic_mean(u, s, h):
    assert harmonic_mean(u, s) == pytest.approx(h, abs=0.05)


def selected_on_validation(**more: float) -> Selection:
    """A selection whose scores do not matter, with a distance level of 10."""
    scores = GzslScores(1.0, 1.0, 1.0)
    validation = ValidationScores(
        zsl=ZslScores(1.0),
        gzsl=scores,
        gzsl_alpha0=scores,
        ausuc=1.0,
        calibration_error_before=1.0,
        calibration_error_after=1.0,
    )
    return Selection(
        alpha=0.06,
        temperature=0.5,
        none_of_these=NoneThreshold(12.0, 80.0, 70.0),
        distance_level=10.0,
        validation=validation,
        alpha_curve=[],
        alpha_interval=[0.03, 0.09],
        **more,
    )


def test_what_was_chosen_is_carried_over_by_hand():
    selection = selected_on_validation(
        head_evidence=0.5, discriminant_evidence=0.3, alpha_captions_alone=0.03
    )
    as_selected = Selected(
        alpha=0.06,
        alpha_interval=[0.03, 0.09],
        temperature=0.5,
        none_of_these=NoneThreshold(12.0, 80.0, 70.0),
        head_evidence=0.5,
        discriminant_evidence=0.3,
        alpha_captions_alone=0.03,
    )
    assert carry_over(selection, 30.0, "value") == as_selected
    # A head start of 0.06 * 10 is 0.02 * 30, and the threshold lies 2 above the level of 30.
    carried = carry_over(selection, 30.0, "offset")
    assert carried.alpha == pytest.approx(0.02)
    assert carried.alpha_interval == pytest.approx([0.01, 0.03])
    assert carried.alpha_captions_alone == pytest.approx(0.01)
    assert carried.none_of_these == NoneThreshold(32.0, 80.0, 70.0)
    assert carried.temperature == 0.5
    assert carry_over(selection, 10.0, "offset") == as_selected
    # Eight times the classes halve the head start; the paper's way keeps alpha all the same.
    scale = DistanceScale(own=10.0, rival=12.0, gap=1.0, length=5.0, classes=25)
    selection = dataclasses.replace(selection, distance_scale=scale)
    carried = carry_over(selection, 30.0, "offset", classes=200)
    assert carried.alpha == pytest.approx(0.01)
    assert carried.alpha_interval == pytest.approx([0.005, 0.015])
    assert carried.alpha_captions_alone == pytest.approx(0.005)
    assert carry_over(selection, 30.0, "offset", classes=25).alpha == pytest.approx(0.02)
    assert carry_over(selection, 30.0, "value", classes=200) == as_selected


def test_what_a_run_chose_that_knew_captions_alone_is_carried_over():
    selection = selected_on_validation()
    carried = carry_over(selection, 30.0, "offset")
    assert carried.rule.is_of_the_paper
    assert carried.alpha_captions_alone == carried.alpha


def test_distance_from_the_own_class_by_hand():
    prototypes = Prototypes(np.array([3, 7]), np.array([[0.0, 0.0], [6.0, 8.0]]), np.array([1, 2]))
    # Class 3 is at (0, 0), class 7 at (3, 4): distances 5, 0 and 10.
    images = np.array([[3.0, 4.0], [3.0, 4.0], [-3.0, -4.0]], np.float32)
    split = EmbeddedSplit(np.array([3, 7, 7]), images, images, np.ones(3, int))
    assert own_class_distance([split], prototypes) == pytest.approx(5.0)
    assert own_class_distance([split, split], prototypes) == pytest.approx(5.0)
