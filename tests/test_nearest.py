"""The nearest candidates block by block, against sorting all of them."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from clarel_tf.nearest import add_candidates, nearest_in_blocks, no_candidates


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
        tf.zeros([queries, 2]), candidates, block, lambda a, b: distances[:, a:b], k, 2.0
    )
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(found.rows, order)
    np.testing.assert_array_equal(found.distances, np.take_along_axis(distances, order, axis=1))
    total = np.log(np.exp(-distances / 2.0).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found.log_total, total, atol=1e-5)


def test_two_sources_of_candidates_are_one_list():
    found = add_candidates(no_candidates(tf.zeros([1, 2])), tf.constant([[3.0, 1.0]]), 0, 3, 1.0)
    found = add_candidates(found, tf.constant([[2.0, 9.0]]), 2, 3, 1.0)
    np.testing.assert_array_equal(found.rows, [[1, 2, 0]])
    np.testing.assert_array_equal(found.distances, [[1.0, 2.0, 3.0]])
    # e^-3 + e^-1 + e^-2 + e^-9 = 0.049787 + 0.367879 + 0.135335 + 0.000123 = 0.553125
    assert float(np.exp(found.log_total)[0, 0]) == pytest.approx(0.553125, abs=1e-6)
