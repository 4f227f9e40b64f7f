"""The packed tower against the plain one, and its laws."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from clarel_tf.models.caption_tower import CaptionTower
from tests.helpers.plain_text_tower import PlainTextTower

LIMIT = 30
VOCABULARY = 40
WORDS = [f"w{i}" for i in range(VOCABULARY)]


def make_tower(**changes) -> CaptionTower:
    keras.utils.set_random_seed(3)
    sizes = {"word_size": 12, "filters": (8, 16), "lstm_units": 8, "embedding_size": 24}
    tower = CaptionTower(WORDS, LIMIT, **{**sizes, "dropout": 0.0, **changes})
    tower.build()
    rng = np.random.default_rng(5)
    for variable in tower.variables:  # away from 0 and 1, where a mistake could hide
        if "gamma" in variable.name or "variance" in variable.name:
            variable.assign(rng.uniform(0.5, 1.5, variable.shape))
        elif "beta" in variable.name or "mean" in variable.name or "bias" in variable.name:
            variable.assign(rng.normal(size=variable.shape) * 0.3)
    return tower


def captions_of_lengths(lengths, seed=0, limit=LIMIT) -> np.ndarray:
    rng = np.random.default_rng(seed)
    ids = rng.integers(1, VOCABULARY + 2, size=(len(lengths), limit))
    return np.where(np.arange(limit) < np.asarray(lengths)[:, None], ids, 0).astype(np.int32)


def value_and_gradients(tower, token_ids, training):
    weights = np.random.default_rng(9).normal(size=(len(token_ids), 24)).astype(np.float32)
    with tf.GradientTape() as tape:
        embedded = tower(tf.constant(token_ids), training=training)
        loss = tf.reduce_mean(embedded * weights)
    sources = [v.value for v in tower.trainable_variables]
    gradients = tape.gradient(loss, sources, unconnected_gradients="zero")
    gradients = [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]
    return embedded.numpy(), {
        id(v): g for v, g in zip(tower.trainable_variables, gradients, strict=True)
    }


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("order", "pooling"),
    [("rising", "mean"), ("falling", "mean"), ("mixed", "mean"), ("mixed", "mean_max")],
)
def test_equals_plain_keras_tower_for_every_length_in_any_order(training, order, pooling):
    lengths = np.arange(1, LIMIT + 1)
    lengths = {"rising": lengths, "falling": lengths[::-1]}.get(
        order, np.random.default_rng(1).permutation(lengths)
    )
    token_ids = captions_of_lengths(lengths)
    packed = make_tower(pooling=pooling)
    plain = PlainTextTower(packed)
    value, gradients = value_and_gradients(packed, token_ids, training)
    plain_value, plain_gradients = value_and_gradients(plain, token_ids, training)
    np.testing.assert_allclose(value, plain_value, atol=1e-5)

    partner = _by_variable_of_plain(plain, packed, gradients)
    assert len(partner) == len(plain.trainable_variables)
    for variable in plain.trainable_variables:
        np.testing.assert_allclose(
            partner[id(variable)],
            plain_gradients[id(variable)],
            atol=1e-5,
            err_msg=variable.path,
        )
    # In training both have also moved their statistics, by real tokens alone.
    for variable, value in plain.pairs(packed):
        np.testing.assert_allclose(np.reshape(value, variable.shape), variable.numpy(), atol=1e-5)


def _by_variable_of_plain(plain, packed, gradients):
    """Lays the gradients of the packed tower out as the plain one has them."""
    values = {v.path: v.numpy() for v in packed.trainable_variables}
    for variable in packed.trainable_variables:
        variable.assign(gradients[id(variable)])
    laid_out = {id(mine): np.reshape(theirs, mine.shape) for mine, theirs in plain.pairs(packed)}
    for variable in packed.trainable_variables:
        variable.assign(values[variable.path])
    return {key: laid_out[key] for key in (id(v) for v in plain.trainable_variables)}


@settings(max_examples=10, deadline=None)
@given(lengths=st.lists(st.integers(1, LIMIT), min_size=1, max_size=8), seed=st.integers(0, 10_000))
def test_a_caption_does_not_depend_on_its_batch(lengths, seed):
    token_ids = captions_of_lengths(lengths, seed)
    together = _TOWER(tf.constant(token_ids)).numpy()
    for row, alone in zip(token_ids, together, strict=True):
        np.testing.assert_allclose(_TOWER(tf.constant(row[None])).numpy()[0], alone, atol=1e-5)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 7, 8, 63])
def test_any_caption_limit(limit):
    tower = make_tower()
    token_ids = captions_of_lengths(list(range(1, limit + 1)), limit=limit)
    plain = PlainTextTower(tower)
    np.testing.assert_allclose(
        tower(tf.constant(token_ids)), plain(tf.constant(token_ids)), atol=1e-5
    )
    value, gradients = value_and_gradients(tower, token_ids, training=True)
    plain_value, plain_gradients = value_and_gradients(plain, token_ids, training=True)
    # A batch norm of few tokens divides by small deviations.
    np.testing.assert_allclose(value, plain_value, atol=1e-4)
    recurrent = gradients[id(tower.lstm.recurrent_kernel)]
    plain_recurrent = plain_gradients[id(plain.lstm.forward_layer.cell.recurrent_kernel)]
    np.testing.assert_allclose(recurrent[0], plain_recurrent, atol=1e-4)


def test_padding_does_not_change_batch_norm_in_training():
    short = captions_of_lengths([3, 9, 5], limit=10)
    wide = np.pad(short, [[0, 0], [0, 20]])
    tower = make_tower()
    np.testing.assert_allclose(
        tower(tf.constant(short), training=True), tower(tf.constant(wide), training=True), atol=1e-5
    )


@pytest.mark.parametrize("pooling", ["mean", "mean_max"])
def test_rows_without_a_caption_take_no_part(pooling):
    token_ids = captions_of_lengths([4, 0, 7, 0])
    tower = make_tower(pooling=pooling)
    with_gaps = tower(tf.constant(token_ids), training=True).numpy()
    without = tower(tf.constant(token_ids[[0, 2]]), training=True).numpy()
    np.testing.assert_allclose(with_gaps[[0, 2]], without, atol=1e-5)
    assert np.isfinite(with_gaps).all()


def test_an_empty_batch_has_an_empty_answer():
    assert _TOWER(tf.zeros([0, LIMIT], tf.int32)).shape == (0, 24)


def test_unknown_word_is_a_zero_vector():
    tower = make_tower(frozen_words=True)
    assert not tower.words.numpy()[:2].any()
    tower.set_word_vectors(np.ones((VOCABULARY, 12), np.float32))
    assert not tower.words.numpy()[:2].any()
    assert (tower.words.numpy()[2:] == 1).all()
    assert all(v.name != "words" for v in tower.trainable_variables)


def test_convolutions_start_with_the_variance_of_the_authors():
    keras.utils.set_random_seed(0)
    tower = CaptionTower([f"w{i}" for i in range(10)], word_size=300)
    tower.build()
    # 0.2 / (filters * width): 0.2 / (128 * 3) and 0.2 / (256 * 1).
    assert np.var(tower.blocks[0].kernels[0]) == pytest.approx(0.2 / 384, rel=0.03)
    assert np.var(tower.blocks[1].shortcut_kernel) == pytest.approx(0.2 / 256, rel=0.03)


_TOWER = make_tower()


@pytest.mark.parametrize("frozen", [False, True])
def test_words_are_known_by_their_id_and_frozen_ones_by_their_vector(frozen):
    tower = make_tower(frozen_words=frozen)
    vectors = np.ones((VOCABULARY, 12), np.float32)
    vectors[7] = 0.0  # the vector file had none for w7
    tower.set_word_vectors(vectors)
    token_ids = tower.tokenize(tf.constant(["w1 w7 zebra w7 w2", "", "zebra w3"]))
    known = [[True, not frozen, False, not frozen, True], [False], [False, True]]
    expected = [[*row, *[False] * (LIMIT - len(row))] for row in known]
    np.testing.assert_array_equal(tower.knows(token_ids), expected)
