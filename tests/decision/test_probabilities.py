"""Probabilities by hand and against a slow loop."""

import math

import numpy as np
import pytest

from clarel_tf.decision.probabilities import exponential_sums, moved_sums, probabilities


def served(distances, is_seen, temperatures):
    """The probabilities of all classes, in the given order."""
    distances = np.array(distances)
    smallest = distances.min(axis=1, keepdims=True)
    side = np.array(is_seen)[distances.argmin(axis=1)][:, np.newaxis]
    sums = exponential_sums(distances, smallest, temperatures)
    return probabilities(distances, smallest, sums, side, temperatures).numpy()


def test_the_nearest_class_decides_which_temperature_counts():
    # Classes at 1 and 2. Seen and nearest, temperature 1: e^-1 / (e^-1 + e^-2) = 1 / (1 + e^-1).
    # Unseen and nearest, temperature 0.5: 1 / (1 + e^-2).
    found = served([[1.0, 2.0], [2.0, 1.0]], [True, False], (1.0, 0.5))
    np.testing.assert_allclose(found, [[0.731059, 0.268941], [0.119203, 0.880797]], atol=1e-6)


@pytest.mark.parametrize("temperatures", [(0.7, 0.7), (0.4, 1.3)])
def test_probabilities_are_a_softmax_that_sums_to_one(temperatures):
    rng = np.random.default_rng(0)
    distances, is_seen = rng.uniform(1, 4, (20, 6)), rng.random(6) > 0.5
    found = served(distances, is_seen, temperatures)
    for row, expected in zip(distances, found, strict=True):
        temperature = temperatures[0] if is_seen[row.argmin()] else temperatures[1]
        odds = [math.exp(-one / temperature) for one in row]
        np.testing.assert_allclose(expected, np.array(odds) / sum(odds), rtol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-6)


def test_sums_move_with_the_smallest_distance():
    temperatures, distances = (0.5, 2.0), np.array([[3.0, 4.0, 7.0]])
    before = exponential_sums(distances, np.array([[3.0]]), temperatures)
    moved = moved_sums(before, np.array([[3.0]]), np.array([[1.0]]), temperatures)
    direct = exponential_sums(distances, np.array([[1.0]]), temperatures)
    np.testing.assert_allclose(moved, direct, rtol=1e-6)
