"""The nearest candidates block by block, against sorting all of them."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from clarel_tf.serving.nearest import add_candidates, nearest_in_blocks, no_candidates


@settings(max_examples=40, deadline=None)
@given(
    queries=st.integers(0, 3),
    candidates=st.integers(1, 25),
    block=st.integers(1, 30),
    k=st.integers(1, 8),
    seed=st.integers(0, 1000),
)
def test_blocks_find_what_sorting_everything_finds(queries, candidates, block, k, seed):
    # Few different values: equal distances must come in the order of their rows.
    distances = np.random.default_rng(seed).integers(0, 6, (queries, candidates)).astype("f4")
    found = nearest_in_blocks(
        tf.zeros([queries, 2]), candidates, block, lambda a, b: distances[:, a:b], k, (2.0, 0.5)
    )
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(found.rows, order)
    np.testing.assert_array_equal(found.distances, np.take_along_axis(distances, order, axis=1))
    smallest = distances.min(axis=1, keepdims=True)
    sums = [np.exp((smallest - distances) / t).sum(axis=1, keepdims=True) for t in (2.0, 0.5)]
    np.testing.assert_allclose(found.sums, np.concatenate(sums, axis=1), rtol=1e-5)


@settings(max_examples=20, deadline=None)
@given(
    candidates=st.integers(1, 25),
    block=st.integers(1, 30),
    watched=st.integers(0, 4),
    seed=st.integers(0, 1000),
)
def test_the_places_of_watched_distances_are_counted(candidates, block, watched, seed):
    rng = np.random.default_rng(seed)
    distances = rng.integers(0, 6, (2, candidates)).astype("f4")
    wanted = rng.integers(0, 6, (2, watched)).astype("f4")
    found = nearest_in_blocks(
        *(tf.zeros([2, 2]), tf.constant(candidates), block, lambda a, b: distances[:, a:b]),
        *(3, (2.0, 2.0), tf.constant(wanted)),
    )
    counted = [[sum(d <= value for d in distances[i]) for value in wanted[i]] for i in range(2)]
    np.testing.assert_array_equal(found.before, np.reshape(counted, (2, watched)))


def test_two_sources_of_candidates_are_one_list():
    found = no_candidates(tf.zeros([1, 2]))
    for first, distances in ((0, [[3.0, 1.0]]), (2, [[2.0, 9.0]])):
        found = add_candidates(found, tf.constant(distances), first, 3, (1.0, 2.0))
    np.testing.assert_array_equal(found.rows, [[1, 2, 0]])
    np.testing.assert_array_equal(found.distances, [[1.0, 2.0, 3.0]])
    # e^-2 + e^0 + e^-1 + e^-8 = 0.135335 + 1 + 0.367879 + 0.000335 = 1.503550
    # and with half the exponents 0.367879 + 1 + 0.606531 + 0.018316 = 1.992726.
    assert found.sums.numpy()[0] == pytest.approx([1.503550, 1.992726], abs=1e-6)


def test_huge_distances_that_are_equal_share_their_probability():
    found = no_candidates(tf.zeros([1, 2]))
    for first in (0, 2):
        found = add_candidates(found, tf.fill([1, 2], 1e17), first, 3, (1.0, 1.0))
    assert found.sums.numpy().tolist() == [[4.0, 4.0]]
