"""Ensembles: meaning of the concatenated embeddings, saving and loading."""

import keras
import numpy as np
import pytest

from clarel_tf.errors import ClarelError
from clarel_tf.experiments.ensemble_run import run_ensemble
from clarel_tf.experiments.training_phase import build_model
from clarel_tf.models.ensemble import Ensemble
from clarel_tf.models.saving import load_model
from clarel_tf.models.vocabulary import build_vocabulary

SENTENCES = ["a red bird", "a tiny blue bird with a long bill", "", "words unheard of"]


@pytest.fixture(scope="module")
def members(splits, small_config):
    support = splits["trainval"]
    words = build_vocabulary(c for captions in support.captions for c in captions)
    models = []
    for seed in (1, 2, 3):
        keras.utils.set_random_seed(seed)
        models.append(build_model(small_config, words, support, num_classes=6))
    return models


def test_distances_are_quadratic_means_and_logits_are_means(members, splits):
    together = Ensemble(members)
    features = splits["test_seen"].image_features[:5]

    def squares(model):
        images, texts = model.embed_images(features), model.embed_texts(SENTENCES)
        return np.square(images[:, np.newaxis] - texts).sum(axis=2)

    expected = np.mean([squares(member) for member in members], axis=0)
    np.testing.assert_allclose(squares(together), expected, rtol=1e-4)
    logits = [m.image_classifier(m.embed_images(features)).numpy() for m in members]
    found = together.image_classifier(together.embed_images(features)).numpy()
    np.testing.assert_allclose(found, np.mean(logits, axis=0), atol=1e-5)


def test_one_alone_is_itself(members, splits):
    alone = Ensemble(members[:1])
    features = splits["test_seen"].image_features[:5]
    np.testing.assert_array_equal(alone.embed_images(features), members[0].embed_images(features))
    np.testing.assert_array_equal(alone.embed_texts(SENTENCES), members[0].embed_texts(SENTENCES))


def test_a_saved_ensemble_embeds_as_before(members, splits, tmp_path):
    together = Ensemble(members)
    together.save(tmp_path / "model.keras")
    loaded = load_model(tmp_path / "model.keras")
    features = splits["test_seen"].image_features[:5]
    np.testing.assert_array_equal(loaded.embed_texts(SENTENCES), together.embed_texts(SENTENCES))
    np.testing.assert_array_equal(loaded.embed_images(features), together.embed_images(features))
    for found, expected in zip(
        [loaded, *loaded.members], [together, *together.members], strict=True
    ):
        for weights in zip(found.get_weights(), expected.get_weights(), strict=True):
            np.testing.assert_array_equal(*weights)


def test_a_trained_run_is_not_replaced_by_an_ensemble(finished_run, splits, small_config):
    before = (finished_run / "results.json").read_bytes()
    with pytest.raises(ClarelError, match="holds a trained run"):
        run_ensemble(small_config, splits, finished_run, [finished_run])
    assert (finished_run / "results.json").read_bytes() == before


def test_models_of_other_words_or_classes_are_refused(members, splits, small_config):
    support, words = splits["trainval"], members[0].text_tower.vocabulary
    for other, what in (
        (build_model(small_config, words[:-1], support, num_classes=6), "words"),
        (build_model(small_config, words, support, num_classes=5), "number of classes"),
    ):
        with pytest.raises(ClarelError, match=f"differ in their {what}"):
            Ensemble([members[0], other])
    with pytest.raises(ClarelError, match="at least"):
        Ensemble([])
