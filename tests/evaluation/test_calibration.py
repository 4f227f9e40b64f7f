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


def of_many_classes(images: RankedImages) -> RankedImages:
    """The same images and answers, with 500 times as many classes, for what counts by class."""
    draws = 6 * np.random.default_rng(2).integers(0, 500, len(images.own))
    right = images.is_correct()
    return images._replace(own=np.where(right, images.own, images.own + draws + 6))


def test_perfect_answers_do_not_make_every_probability_0_or_1():
    images = made(400, (0.01, 0.01))
    images = images._replace(own=images.distances.argmin(axis=1))
    seen, unseen = fit_temperatures(images)
    assert seen == pytest.approx(unseen, rel=0.1)

    def loss(temperature) -> float:
        """Each answer counts as right with 401 / 402."""
        total = 0.0
        for row in images.distances:
            p = 1 / sum(math.exp((min(row) - d) / temperature) for d in row)
            total -= (401 * math.log(p) + math.log(max(1 - p, 1e-12))) / 402
        return total

    assert loss((seen * unseen) ** 0.5) < min(loss(0.8 * seen), loss(1.25 * seen), loss(0.001))


def test_one_temperature_is_found_where_there_is_one():
    images = made(4000)
    found = fit_temperatures(of_many_classes(images))
    assert found == pytest.approx((0.2, 0.2), rel=0.15)
    errors = calibration_errors(images, found)
    assert errors.calibration_error_after < 3 < errors.calibration_error_before


def test_two_temperatures_are_found_where_many_classes_speak_for_them():
    # As many classes as this, because the prior is as strong as some images of each class.
    seen, unseen = fit_temperatures(of_many_classes(made(6000, (0.15, 0.4))))
    assert (seen, unseen) == pytest.approx((0.15, 0.4), rel=0.2)


def test_the_prior_keeps_two_temperatures_together_where_there_are_few_classes():
    seen, unseen = fit_temperatures(made(60, (0.15, 0.4)))
    assert seen < unseen < 2.0 * seen


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
