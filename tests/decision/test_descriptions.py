"""How far described classes are trusted: by hand, and against slow loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarel_tf.decision.descriptions import (
    DescriptionModel,
    Offer,
    ReferenceRivals,
    description_energies,
)
from clarel_tf.decision.prototypes import Prototypes
from clarel_tf.decision.rule import DecisionRule


def model_of(references, rivals, center=(0.0, 0.0), typical=4.0, scatter=2.0, share=0.1):
    nearest = np.array(rivals, np.float32)
    return DescriptionModel(
        np.array(center, np.float32),
        np.array(references, np.float32),
        ReferenceRivals(nearest, nearest + 1.0, np.arange(len(nearest), dtype=np.int32)),
        typical,
        scatter,
        share,
        np.full(len(nearest), -1, np.int32),
    )


def test_specificity_by_hand():
    model = model_of([[0, 0]], [1.0])
    means = np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]], np.float32)
    # 0, 5 and 25 over 4 + 2 / 2 = 5, and at most 1.
    found = model.specificity(means, np.array([2.0, 2.0, 2.0], np.float32))
    np.testing.assert_allclose(found, [0.0, 1.0, 1.0])
    # One sentence: 5 / (4 + 2).
    found = model.specificity(means[1:2], np.array([1.0], np.float32))
    np.testing.assert_allclose(found, [5 / 6])


def test_rivals_leave_out_the_own_class():
    distances = np.array([[1.0, 3.0, 2.0], [5.0, 4.0, 6.0]], np.float32)
    found = ReferenceRivals.none(2).among_more(distances, np.arange(3), np.array([0, 1]))
    assert found.nearest.numpy().tolist() == [2.0, 5.0]
    assert found.second.numpy().tolist() == [3.0, 6.0]
    assert found.columns.numpy().tolist() == [2, 0]


@given(st.integers(0, 10_000))
def test_rivals_that_are_added_in_parts_equal_a_loop_over_the_classes(seed):
    rng = np.random.default_rng(seed)
    images, classes = int(rng.integers(1, 9)), int(rng.integers(0, 8))
    distances = rng.uniform(0, 2, (images, classes)).astype(np.float32)
    numbers = rng.permutation(20)[:classes]  # the others are not on offer
    own = rng.integers(0, 20, images)
    found, cut = ReferenceRivals.none(images), int(rng.integers(0, classes + 1))
    for part in (slice(0, cut), slice(cut, classes)):
        found = found.among_more(distances[:, part], numbers[part], own)
    for row in range(images):
        others = sorted(
            (float(distances[row, column]), int(number))
            for column, number in enumerate(numbers)
            if number != own[row]
        )
        others += [(np.inf, -1), (np.inf, -1)]
        assert float(found.nearest[row]) == others[0][0]
        assert float(found.second[row]) == others[1][0]
        assert int(found.columns[row]) == others[0][1]


def test_energies_are_without_the_noise_of_the_means():
    # Seen means (0, 0) and (4, 0): center (2, 0). The unseen mean (2, 3) of 3 captions: 9 - 6 / 3.
    sums = np.array([[0.0, 0.0], [8.0, 0.0], [6.0, 9.0]])
    prototypes = Prototypes(np.arange(3), sums, np.array([1, 2, 3]))
    found = description_energies(prototypes, np.array([True, True, False]), 6.0)
    np.testing.assert_allclose(found, [4 - 6, 4 - 3, 9 - 2])


@given(st.integers(0, 10_000), st.floats(0.01, 0.1), st.booleans())
def test_offsets_equal_a_sorted_loop_and_bound_what_is_taken(seed, share, replaces):
    rng = np.random.default_rng(seed)
    images, classes = int(rng.integers(1, 60)), 4
    rivals = rng.uniform(0, 2, images)
    model = model_of(np.zeros((images, 2)), rivals, share=share)
    distances = rng.uniform(0, 2, (images, classes)).astype(np.float32)
    v = rng.uniform(0, 1, classes).astype(np.float32)
    gone = rng.integers(0, images, classes).astype(np.int32) if replaces else None
    offsets = model.offsets(distances, v, gone).numpy()
    for column in range(classes):
        gains = []
        for row in range(images):
            rival = np.float32(rivals[row])
            if replaces and gone[column] == row:  # the rival of image `row` is class `row` here
                rival = rival + np.float32(1.0)
            gains.append(float(rival - distances[row, column]))
        gains.sort(reverse=True)
        place = min(max(v[column] ** 2 * share * images - 0.5, 0.0), images - 1)
        low = int(place)
        high = min(low + 1, images - 1)
        expected = gains[low] + (place - low) * (gains[high] - gains[low])
        assert offsets[column] == pytest.approx(max(0.0, expected), abs=1e-5)
        taken = sum(gain > offsets[column] + 1e-5 for gain in gains)
        assert taken <= max(1.0, v[column] ** 2 * share * images + 0.5)


def test_reference_images_without_a_rival_do_not_count():
    # Of four images two have a rival, at distance 1. The class is at 0.5 and 0.8 from these.
    model = model_of(np.zeros((4, 2)), [np.inf, 1.0, np.inf, 1.0], share=0.1)
    distances = np.array([[0.0], [0.5], [0.0], [0.8]], np.float32)
    assert model.offsets(distances, np.ones(1, "f4")).numpy() == pytest.approx([0.5])
    nobody = model.rivals._replace(nearest=np.full(4, np.inf, "f4"))
    assert model.offsets(
        distances, np.ones(1, "f4"), offer=Offer(nobody, 0.0)
    ).numpy().tolist() == [0.0]


def test_a_class_that_says_enough_may_take_more_where_few_are_on_offer():
    # Gains of 0 to 99: with share 0.02 one of v = 1 takes 2 of 100 images, so 1.5 places down.
    model = model_of(np.zeros((100, 2)), np.arange(100.0), share=0.02)
    distances = np.zeros((100, 2), np.float32)
    v = np.array([1.0, 0.5], np.float32)
    found = model.offsets(distances, v).numpy()
    assert found == pytest.approx([99 - 1.5, 99.0], abs=1e-4)  # v = 0.5: half an image
    # 19 of 99 on offer: 5 times the share. v = 0.5: 0.25 * 2 + 0.5 ** 8 * 8 = 0.53 images.
    found = model.offsets(distances, v, offer=model.offer(model.rivals, 19, 99)).numpy()
    assert found == pytest.approx([99 - 9.5, 99 - 0.03125], abs=1e-4)
    assert float(model.offer(model.rivals, 99, 99).extra) == pytest.approx(0.0)
    assert float(model.offer(model.rivals, 1, 999).extra) == pytest.approx(1 - 0.02)


def test_a_class_that_would_take_every_reference_is_put_back_and_a_specific_one_is_not():
    references = [[float(i), 0.0] for i in range(20)]
    model = model_of(references, [1.0] * 20, center=(10.0, 0.0), scatter=0.0)
    rule = DecisionRule(descriptions=model)
    vague, specific = [[10.0, 0.5]], [[10.0, 30.0]]
    near = rule.describe_new(np.array(vague, np.float32), [1])
    # |p - q|^2 = 0.25, v = 0.0625: not even the nearest image, at distance 0.5, may be taken.
    assert near.offset.numpy() == pytest.approx([0.5])
    far = rule.describe_new(np.array(specific, np.float32), [1])
    assert far.offset.numpy() == pytest.approx([0.0])
    image = np.array([[10.0, 29.0]], np.float32)
    assert rule.distances(rule.look_at(image), far).numpy() == pytest.approx(1.0, abs=1e-3)


def test_a_vague_class_takes_no_reference_image_either_where_one_far_class_is_on_offer():
    # With all classes on offer each image has a rival at 1; with the far class alone, at 81 to 100.
    references = [[float(i), 0.0] for i in range(20)]
    model = model_of(references, [1.0] * 20, center=(10.0, 0.0), scatter=0.0)
    rule, vague = DecisionRule(descriptions=model), np.array([[10.0, 0.5]], np.float32)
    images = rule.look_at(np.array(references, np.float32))
    far = rule.describe(np.array([[100.0, 0.0]], np.float32))
    rivals = rule.with_rivals(ReferenceRivals.none(20), far, [7], 0.0)
    np.testing.assert_allclose(rivals.nearest, 100.0 - np.arange(20), rtol=1e-5)
    offer = model.offer(rivals, 1, 3)
    described = rule.describe_new(vague, [1], offer=offer)
    assert (
        not (rule.distances(images, described) < rule.distances(images, far) - 1e-3).numpy().any()
    )
    as_before = rule.describe_new(vague, [1])
    assert (rule.distances(images, as_before) < rule.distances(images, far)).numpy().all()


def test_without_a_model_a_described_class_is_taken_as_it_is():
    classes = DecisionRule().describe_new(np.array([[3.0, 4.0]], np.float32), [1])
    assert classes.offset is None and classes.excess is None
