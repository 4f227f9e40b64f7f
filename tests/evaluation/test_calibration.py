"""Temperatures, reliability and the calibration error against loops and known truth."""

import math

import numpy as np
import pytest

from clarel_tf.evaluation.calibration import (
    answer_probabilities,
    calibration_errors,
    fit_temperatures,
    reliability,
)
from clarel_tf.evaluation.ranked import RankedImages


def made(images=400, temperatures=(0.2, 0.2), classes=6, seed=0) -> RankedImages:
    """Images whose true probabilities are the softmax, by the side of their nearest class."""
    rng = np.random.default_rng(seed)
    distances = rng.uniform(1, 2, (images, classes))
    is_seen = np.arange(classes) < classes // 2
    side = is_seen[distances.argmin(axis=1)]
    odds = np.exp(-distances / np.where(side, *temperatures)[:, np.newaxis])
    own = np.array([rng.choice(classes, p=row / row.sum()) for row in odds])
    return RankedImages(np.zeros((images, 2), np.float32), distances, own, is_seen)


def mean_probability(images: RankedImages, temperatures, chosen) -> float:
    """Of the answers to the chosen images, by a loop."""
    total = 0.0
    for row in images.distances[chosen]:
        temperature = temperatures[0 if images.is_seen[row.argmin()] else 1]
        total += 1 / sum(math.exp((min(row) - d) / temperature) for d in row)
    return total / np.count_nonzero(chosen)


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_probabilities_are_right_on_average_for_seen_and_for_unseen_images(share):
    images = made(3000, (0.15, 0.4))
    kept = ~images.is_seen[images.own]
    kept[: round(share * len(kept))] = True  # with all or few of the seen images
    images = images._replace(
        embeddings=images.embeddings[kept], distances=images.distances[kept], own=images.own[kept]
    )
    temperatures = fit_temperatures(images)
    right = images.distances.argmin(axis=1) == images.own
    of_seen = images.is_seen[images.own]
    for kind in (of_seen, ~of_seen):
        given = mean_probability(images, temperatures, kind)
        assert given == pytest.approx(right[kind].mean(), abs=0.01 if share == 1 else 0.03)


def test_one_temperature_is_found_where_there_is_one():
    images = made(4000)
    found = fit_temperatures(images)
    assert found == pytest.approx((0.2, 0.2), rel=0.15)
    errors = calibration_errors(images, found)
    assert errors.calibration_error_after < 3 < errors.calibration_error_before


def test_images_of_one_kind_give_both_temperatures():
    images = made(1000)
    few = images.is_seen[images.own]
    images = images._replace(
        embeddings=images.embeddings[few], distances=images.distances[few], own=images.own[few]
    )
    found = fit_temperatures(images)
    right = (images.distances.argmin(axis=1) == images.own).mean()
    assert mean_probability(images, found, few[few]) == pytest.approx(right, abs=0.01)


def test_perfect_answers_do_not_make_every_probability_0_or_1():
    images = made(400, (0.01, 0.01))
    images = images._replace(own=images.distances.argmin(axis=1))
    temperatures = fit_temperatures(images)
    of_seen = images.is_seen[images.own]
    for kind in (of_seen, ~of_seen):
        n = np.count_nonzero(kind)
        given = mean_probability(images, temperatures, kind)
        assert given == pytest.approx((n + 1) / (n + 2), abs=0.002)


def test_the_prior_keeps_two_temperatures_together_where_there_are_few_images():
    ratio = {}
    for images in (20, 2000):
        seen, unseen = fit_temperatures(made(images, (0.15, 0.4)))
        ratio[images] = unseen / seen
    assert 0.5 < ratio[20] < ratio[2000] > 1.5


def test_probabilities_of_answers_are_those_of_a_softmax():
    images, temperatures = made(30), (0.3, 0.7)
    found = answer_probabilities(images, temperatures)
    for row, value in zip(images.distances, found, strict=True):
        temperature = temperatures[0 if images.is_seen[row.argmin()] else 1]
        odds = [math.exp(-distance / temperature) for distance in row]
        assert value == pytest.approx(max(odds) / sum(odds))


def test_calibration_error_equals_a_loop():
    images, temperatures = made(80), (0.5, 0.3)
    given = answer_probabilities(images, temperatures)
    right = images.distances.argmin(axis=1) == images.own
    of_seen = images.is_seen[images.own]
    diagrams = reliability(images, temperatures)
    for name, group in {"all": range(80), "seen": np.flatnonzero(of_seen)}.items():
        error = 0.0
        for b in range(15):
            inside = [i for i in group if b / 15 <= given[i] < (b + 1) / 15]
            if inside:
                error += abs(given[inside].sum() - right[inside].sum()) / len(group)
        assert diagrams[name].error == pytest.approx(100 * error)
        assert sum(one.images for one in diagrams[name].bins) == len(group)
    errors = calibration_errors(images, temperatures)
    assert errors.calibration_error_after == diagrams["all"].error
    assert errors.calibration_error_unseen == diagrams["unseen"].error
