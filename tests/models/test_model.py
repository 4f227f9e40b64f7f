"""`Clarel` as a Keras model: fit, evaluate, callbacks, saving, embedding."""

import dataclasses
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from clarel_tf.config_sections import LossConfig, ModelConfig
from clarel_tf.errors import ClarelError
from clarel_tf.models.clarel import Clarel
from clarel_tf.models.losses import METRICS
from clarel_tf.models.saving import load_model
from clarel_tf.models.standard_towers import standard_towers

WORDS = [f"w{i}" for i in range(20)]
SMALL = ModelConfig(
    embedding_size=12, word_size=6, filters=(4, 8), lstm_units=4, max_tokens=7, l2=0.01
)


def make_model(loss=LossConfig(), settings=SMALL, frozen_words=False) -> Clarel:
    keras.utils.set_random_seed(1)
    towers = standard_towers(settings, WORDS, feature_size=5, frozen_words=frozen_words)
    return Clarel(*towers, num_classes=3, loss=loss)


def make_batch(size=6, captions=3, seed=0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 8, (size, captions, 1))
    ids = rng.integers(1, 22, (size, captions, 7))
    return {
        "image_features": rng.normal(size=(size, 5)).astype(np.float32),
        "token_ids": np.where(np.arange(7) < lengths, ids, 0).astype(np.int32),
        "label": rng.integers(0, 3, size).astype(np.int32),
    }


def dataset(batches: int = 4) -> tf.data.Dataset:
    made = [make_batch(seed=seed) for seed in range(batches)]
    generated = tf.data.Dataset.from_generator(
        lambda: iter(made),
        output_signature={
            "image_features": tf.TensorSpec([None, 5], tf.float32),
            "token_ids": tf.TensorSpec([None, 3, 7], tf.int32),
            "label": tf.TensorSpec([None], tf.int32),
        },
    )
    return generated.apply(tf.data.experimental.assert_cardinality(batches))


def test_fit_lowers_every_loss_and_calls_callbacks():
    model = make_model()
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    seen = []
    callback = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch))
    history = model.fit(
        dataset(), epochs=20, verbose=0, shuffle=False, callbacks=[callback]
    ).history
    assert seen == list(range(20))
    assert set(history) == set(METRICS)
    for name in METRICS[:5]:
        assert history[name][-1] < history[name][0], name


def test_loss_is_the_sum_that_the_paper_says():
    model = make_model(LossConfig(lambda_=0.3, kappa=0.2))
    model.compile()
    values = model.evaluate(dataset(1), verbose=0, return_dict=True)
    retrieval = 0.3 * values["text_retrieval"] + 0.7 * values["image_retrieval"]
    classification = values["text_classification"] + values["image_classification"]
    expected = 0.8 * retrieval + 0.1 * classification + values["l2"]
    assert values["loss"] == pytest.approx(expected, rel=1e-5)
    # L2: half of 0.01 * sum(w^2), over convolution kernels, gammas and betas and nothing else.
    penalised = [
        v
        for v in model.text_tower.trainable_variables
        if "block" in v.path and "lstm" not in v.path
    ]
    assert len(penalised) == 2 * (4 + 8)
    by_hand = 0.005 * sum(float(np.sum(np.square(v))) for v in penalised)
    assert values["l2"] == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize("name", ["prototype_share", "mixture_share"])
def test_shares_take_their_part_of_the_retrieval_terms(name):
    batch = {k: tf.constant(v) for k, v in make_batch().items()}
    terms = ("text_retrieval", "image_retrieval")
    values = {}
    for share in (0.0, 0.25, 1.0):
        keras.utils.set_random_seed(0)
        made = make_model(LossConfig(**{name: share})).compute_losses(batch, training=False)
        values[share] = np.array([float(made[term]) for term in terms])
    assert (abs(values[0.0] - values[1.0]) > 5e-5).all()
    mixed = 0.75 * values[0.0] + 0.25 * values[1.0]
    np.testing.assert_allclose(values[0.25], mixed, rtol=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_a_scale_on_the_distance_is_a_scale_on_both_embeddings(share):
    # d(3a, 3b) = 3 d(a, b), so three times the heads' weights at scale 1 is the model at scale 3.
    batch = {k: tf.constant(v) for k, v in make_batch().items()}
    values = []
    for scale, factor in ((3.0, 1.0), (1.0, 3.0)):
        loss = LossConfig(distance_scale=scale, prototype_share=share, mixture_share=share)
        model = make_model(loss)
        for tower in (model.image_tower, model.text_tower):
            for weight in tower.head.weights:
                weight.assign(weight * factor)
        made = model.compute_losses(batch, training=False)
        values.append([float(made[k]) for k in ("text_retrieval", "image_retrieval")])
    np.testing.assert_allclose(values[0], values[1], rtol=1e-4)


def test_feature_power_takes_roots_and_keeps_signs(tmp_path):
    plain = make_model()
    model = make_model(settings=dataclasses.replace(SMALL, feature_power=0.5))
    model.image_tower.set_weights(plain.image_tower.get_weights())
    features = np.array([[4.0, -9.0, 0.0, 1.0, 0.25]])
    roots = np.array([[2.0, -3.0, 0.0, 1.0, 0.5]])
    expected = plain.embed_images(roots)
    np.testing.assert_allclose(model.embed_images(features), expected, rtol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.embed_images(features), expected, rtol=1e-5)


def test_captions_are_averaged_after_the_head():
    model = make_model()
    batch = make_batch()
    batch["token_ids"][0, 1:] = 0  # this instance has one caption only
    _, texts = model({k: tf.constant(v) for k, v in batch.items()})
    each = model.embed_token_ids(batch["token_ids"].reshape(-1, 7)).reshape(6, 3, -1)
    np.testing.assert_allclose(texts[0], each[0, 0], atol=1e-5)
    np.testing.assert_allclose(texts[1:], each[1:].mean(axis=1), atol=1e-5)


@pytest.mark.parametrize(
    ("loss", "idle"),
    [
        (LossConfig(kappa=0.0), "classifier"),
        (LossConfig(lambda_=1.0), None),
        pytest.param(LossConfig(lambda_=0.0), None, marks=pytest.mark.slow),  # as with 1
        (LossConfig(kappa=1.0), None),
        pytest.param(LossConfig(mask_same_class=True), None, marks=pytest.mark.slow),
        (LossConfig(prototype_share=0.5, mixture_share=0.5), None),
    ],
)
def test_every_mix_trains_with_finite_weights(loss, idle):
    model = make_model(loss)
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9, clipnorm=1.0)
    model.compile(optimizer, run_eagerly=True)  # eight steps are not worth a graph
    before = {v.path: v.numpy() for v in model.trainable_variables}
    model.fit(dataset(), epochs=2, verbose=0, shuffle=False)
    for variable in model.trainable_variables:
        assert np.isfinite(variable.numpy()).all()
        if idle and idle in variable.path:
            np.testing.assert_array_equal(variable.numpy(), before[variable.path])


def test_frozen_words_stay_as_they_are():
    model = make_model(frozen_words=True)
    vectors = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    model.text_tower.set_word_vectors(vectors)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    model.fit(dataset(), verbose=0, shuffle=False)
    np.testing.assert_array_equal(model.text_tower.words.numpy()[2:], vectors)


def test_keras_file_round_trip(tmp_path):
    model = make_model(frozen_words=True)
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    model.optimizer.build(model.trainable_variables)
    # As after training: nothing is what a new model begins with, batch-norm statistics neither.
    for variable in [*model.text_tower.weights, *model.image_tower.weights]:
        variable.assign(variable + 0.1 * np.random.default_rng(0).random(variable.shape))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")  # in safe mode
    sentences = ["w1 w2, W3!", "", "never seen", "w4 " * 50]
    np.testing.assert_array_equal(model.embed_texts(sentences), loaded.embed_texts(sentences))
    features = np.ones((2, 5), np.float32)
    np.testing.assert_array_equal(model.embed_images(features), loaded.embed_images(features))
    assert loaded.text_tower.get_config() == model.text_tower.get_config()
    assert loaded.loss_settings == model.loss_settings
    # And it goes on training.
    loaded.run_eagerly = True  # four steps are not worth a graph
    loaded.fit(dataset(), verbose=0, shuffle=False)


def test_embedding_in_blocks_equals_embedding_at_once():
    model = make_model()
    sentences = [f"w{i} w{i + 1} unknown" for i in range(11)]
    np.testing.assert_allclose(
        model.embed_texts(sentences, batch_size=4), model.embed_texts(sentences), atol=1e-6
    )
    assert model.embed_texts([]).shape == (0, 12)
    assert model.embed_images(np.zeros((0, 5))).shape == (0, 12)


def test_what_cannot_be_embedded_is_refused():
    model = make_model()
    with pytest.raises(ClarelError, match=r"shape \[N, 5\], not \[2, 10\]"):
        model.embed_images(np.zeros((2, 10)))
    with pytest.raises(ClarelError, match="a list of sentences"):
        model.embed_texts("w1 w2")
    np.testing.assert_array_equal(model.embed_texts([b"w1"]), model.embed_texts(["w1"]))


@pytest.mark.slow
def test_a_saved_model_loads_in_a_new_process(tmp_path):
    model = make_model()
    model.save(tmp_path / "model.keras")
    code = f"import clarel_tf; m = clarel_tf.load_model({str(tmp_path / 'model.keras')!r}); "
    code += "print(m.embed_texts(['w1 w2']).sum())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert float(done.stdout) == pytest.approx(float(model.embed_texts(["w1 w2"]).sum()), abs=1e-5)
    (tmp_path / "bad.keras").write_bytes(b"nothing")
    with pytest.raises(ClarelError, match=r"bad\.keras is missing or damaged"):
        load_model(tmp_path / "bad.keras")


def test_either_tower_can_be_called_alone():
    model = make_model()
    assert model.image_tower(tf.zeros([2, 5])).shape == (2, 12)
    assert model.text_tower(tf.constant([[2, 3, 0, 0, 0, 0, 0]])).shape == (1, 12)
