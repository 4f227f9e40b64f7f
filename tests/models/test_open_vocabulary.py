"""Every word of a frozen vector file, after training."""

import numpy as np
import pytest

from clarel_tf.config_sections import ModelConfig
from clarel_tf.errors import ClarelError
from clarel_tf.models.clarel import Clarel
from clarel_tf.models.open_vocabulary import with_all_words
from clarel_tf.models.standard_towers import standard_towers
from clarel_tf.storage.word_vectors import load_word_vectors

SMALL = ModelConfig(embedding_size=6, word_size=3, filters=(4, 4), lstm_units=4, max_tokens=5)
VECTORS = "a 1 2 3\nbird 4 5 6\nNot 1 1 1\nwing-bar 2 2 2\npurple 7 8 9\npurple 0 0 1\n"


@pytest.fixture
def vector_file(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text(VECTORS)
    return str(path)


def make_model(vector_file, **changes) -> Clarel:
    words = ["a", "bird", "eyering"]  # the last one has no vector
    model = Clarel(*standard_towers(SMALL, words, feature_size=2, **changes), num_classes=2)
    model.text_tower.set_word_vectors(load_word_vectors(vector_file, words).matrix)
    return model


def test_trained_words_stay_and_others_come(vector_file):
    model = make_model(vector_file, frozen_words=True)
    wider = with_all_words(model, vector_file)
    assert wider.text_tower.vocabulary == ["a", "bird", "purple"]
    known = ["a bird", "an eyering", ""]
    np.testing.assert_allclose(wider.embed_texts(known), model.embed_texts(known), atol=1e-6)
    # To the trained model "purple" and "zzz" are both unknown; the wider one can tell them apart.
    same, other = (m.embed_texts(["a purple bird", "a zzz bird"]) for m in (model, wider))
    np.testing.assert_array_equal(same[0], same[1])
    assert np.abs(other[0] - other[1]).max() > 1e-4
    features = np.ones((1, 2))
    np.testing.assert_array_equal(wider.embed_images(features), model.embed_images(features))


def test_what_cannot_work_is_refused(vector_file, tmp_path):
    with pytest.raises(ClarelError, match="frozen word vectors"):
        with_all_words(make_model(vector_file), vector_file)
    (tmp_path / "wide.txt").write_text("a 1 2 3 4\n")
    with pytest.raises(ClarelError, match="4 wide, but the model was trained with 3"):
        with_all_words(make_model(vector_file, frozen_words=True), str(tmp_path / "wide.txt"))
