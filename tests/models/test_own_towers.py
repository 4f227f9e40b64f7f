"""Towers from outside the package: trained, saved, loaded, exported and served."""

import dataclasses
import functools
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import clarel_tf
from clarel_tf.errors import ClarelError
from clarel_tf.experiments.experiment import run_experiment, run_validation
from clarel_tf.experiments.repeats import run_repeats
from clarel_tf.experiments.training_phase import build_model
from clarel_tf.models import clarel, towers
from clarel_tf.models.clarel import Clarel
from clarel_tf.models.ensemble import Ensemble
from clarel_tf.models.feature_tower import FeatureTower
from clarel_tf.models.open_vocabulary import with_all_words
from clarel_tf.models.saving import load_model
from clarel_tf.models.towers import TextTower
from clarel_tf.models.vocabulary import tokenize_captions
from clarel_tf.serving.client import connect
from clarel_tf.serving.export import export_run
from clarel_tf.storage import checksums
from clarel_tf.training.batches import training_batches
from tests.conftest import NAMES
from tests.helpers.model_server import serve

SENTENCES = ["a red bird", "", "unheard of", "a bird, a blue bird! " * 9]


@keras.saving.register_keras_serializable(package="own_towers")
class BagOfWords(TextTower):
    """The mean of the vectors of the words; its ids are not those of the standard tower."""

    padding_id, unknown_id = -1, 0

    def __init__(self, vocabulary, embedding_size, max_tokens, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary, self.max_tokens = list(vocabulary), max_tokens
        self.embedding_size = embedding_size
        ids = tf.range(1, len(vocabulary) + 1)
        words = tf.lookup.KeyValueTensorInitializer(tf.constant(self.vocabulary), ids)
        self.table = tf.lookup.StaticHashTable(words, self.unknown_id)
        self.vectors = self.add_weight((len(vocabulary) + 1, embedding_size), name="vectors")

    def tokenize(self, texts):
        texts = tf.strings.regex_replace(tf.strings.lower(texts), "[^a-z0-9]+", " ")
        ids = tf.ragged.map_flat_values(self.table.lookup, tf.strings.split(texts))
        ids = ids.to_tensor(self.padding_id, shape=[None, self.max_tokens])
        is_empty = ids[:, :1] == self.padding_id
        return tf.concat([tf.where(is_empty, self.unknown_id, ids[:, :1]), ids[:, 1:]], axis=1)

    def call(self, token_ids, training=False):
        is_word = tf.cast(token_ids != self.padding_id, tf.float32)[:, :, tf.newaxis]
        vectors = tf.gather(self.vectors, tf.maximum(token_ids, 0)) * is_word
        return tf.reduce_sum(vectors, axis=1) / tf.maximum(tf.reduce_sum(is_word, axis=1), 1.0)

    def export_resources(self):
        return [self.table]

    def get_config(self):
        names = ("vocabulary", "embedding_size", "max_tokens")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def make_towers(config, split, vocabulary, vectors):
    size = config.model.embedding_size
    image_tower = FeatureTower(split.image_features.shape[1], size, name="image_tower")
    return image_tower, BagOfWords(vocabulary, size, config.model.max_tokens, name="text_tower")


def make_towers_with(config, split, vocabulary, vectors, dropout):
    """Has no `__qualname__` of its own when given as a `functools.partial`."""
    width, size = split.image_features.shape[1], config.model.embedding_size
    return FeatureTower(width, size, dropout), make_towers(config, split, vocabulary, vectors)[1]


@pytest.fixture(scope="module")
def config(small_config):
    return small_config.override({"word_dropout": 0.2, "steps": 150, "learning_rate": 0.02})


@pytest.fixture(scope="module")
def run(made_once, config, splits):
    """(folder, results) of a run with towers of one's own."""
    folder = made_once("own_towers", lambda folder: None) / "run"
    return folder, run_experiment(config, splits, folder, NAMES, make_towers=make_towers)


def small_model(splits, config, vocabulary=("a", "red", "bird"), num_classes=6) -> Clarel:
    return build_model(
        config, list(vocabulary), splits["trainval"], num_classes, make_towers=make_towers
    )


def test_a_run_learns_with_them(run, config, splits):
    folder, results = run
    assert results.gzsl.s > 50  # of six classes
    model = load_model(folder / "model.keras")
    assert type(model.text_tower) is BagOfWords
    assert results.word_vectors.words == len(model.text_tower.vocabulary)
    assert run_experiment(config, splits, folder, NAMES, make_towers=make_towers) == results
    for other, message in (
        (None, r"the towers FeatureTower and BagOfWords \(.*\), now they are None"),
        (functools.partial(make_towers_with, dropout=0.5), "now they are FeatureTower and Bag"),
    ):
        with pytest.raises(ClarelError, match=message):
            run_experiment(config, splits, folder, NAMES, make_towers=other)
    same = functools.partial(make_towers_with, dropout=0.25)
    assert run_experiment(config, splits, folder, NAMES, make_towers=same) == results


def test_a_run_cannot_mix_two_kinds_of_towers(config, splits, tmp_path):
    few = config.override({"steps": 2, "warmup_steps": 1})
    first, other = (functools.partial(make_towers_with, dropout=rate) for rate in (0.1, 0.2))
    run_validation(few, splits, tmp_path / "run", make_towers=first)
    with pytest.raises(ClarelError, match="began with the towers FeatureTower and BagOfWords"):
        run_experiment(few, splits, tmp_path / "run", NAMES, make_towers=other)
    # Changed captions change the words of the tower too, but it is the data that is named.
    train = splits["train"]
    captions = [[b"all else", *own[1:]] for own in train.captions]
    fewer = dataclasses.replace(train, captions=captions)
    with pytest.raises(ClarelError, match="split 'train' of the dataset is not what"):
        run_experiment(few, splits | {"train": fewer}, tmp_path / "run", make_towers=first)
    # A run of the time before fingerprints noted the name of the function.
    data = tmp_path / "run" / "data.json"
    noted = {**checksums.read_json(data, ""), "towers": "partial"}
    checksums.write_json(data, noted)
    run_experiment(few, splits, tmp_path / "run", NAMES, make_towers=first)
    with pytest.raises(ClarelError, match="began with the towers partial, now they are Feature"):
        run_experiment(few, splits, tmp_path / "run", NAMES, make_towers=make_towers)


@pytest.mark.slow  # repeats hand the towers on to what the tests above show
def test_repeats_train_with_them(config, splits, tmp_path):
    few = config.override({"steps": 2, "warmup_steps": 1})
    run_repeats(few, splits, tmp_path, 2, NAMES, ensemble=True, make_towers=make_towers)
    for seed in (few.seed, few.seed + 1):
        model = load_model(tmp_path / f"seed_{seed}" / "model.keras")
        assert type(model.text_tower) is BagOfWords
    assert len(load_model(tmp_path / "ensemble" / "model.keras").members) == 2


def test_a_loaded_model_embeds_as_before(splits, config, tmp_path):
    model = small_model(splits, config)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.embed_texts(SENTENCES), model.embed_texts(SENTENCES))


def test_an_export_is_served_and_takes_new_classes(run, splits, tmp_path):
    folder, results = run
    model = load_model(folder / "model.keras")
    export_run(model, splits, NAMES, results, tmp_path / "models", k=3, gallery_split="test_seen")
    features = splits["test_unseen"].image_features
    with serve(tmp_path / "models") as addresses:
        for address in addresses:  # REST and gRPC
            client = connect(address)
            found = client.embed_texts(SENTENCES)
            np.testing.assert_allclose(found, model.embed_texts(SENTENCES), atol=1e-5)
            sentences = ["a pink bird", "it is pink"]
            answer = client.classify(features, new_classes={"mine": sentences})
            assert set(answer["class_name"].ravel()) <= {*NAMES, "mine"}
            prototypes = client.predict(
                "prototype_classifier",
                {"sentences": sentences, "class_names": ["mine", "mine"]},
                "embed_prototypes",
            )
            expected = model.embed_texts(sentences).mean(axis=0)
            np.testing.assert_allclose(prototypes["prototype"][0], expected, atol=1e-5)


def test_batches_use_the_ids_of_the_tower(splits, config):
    tower = small_model(splits, config).text_tower
    split = splits["trainval"]
    split = type(split)(
        split.name,
        split.image_ids,
        split.image_features,
        split.labels,
        [own[: 1 + i % 3] for i, own in enumerate(split.captions)],
    )
    seen = training_batches(
        split,
        np.unique(split.labels),
        tower,
        batch_size=36,
        captions=0,
        seed=1,
        first_step=0,
        steps=2,
        word_dropout=0.5,
    )
    for batch in seen.as_numpy_iterator():
        ids = batch["token_ids"]
        is_caption = ids[:, :, 0] != -1
        assert sorted(is_caption.sum(axis=1)) == [1] * 12 + [2] * 12 + [3] * 12
        assert (ids[~is_caption] == -1).all() and (ids[is_caption] == 0).any()
        each = tower(ids.reshape(-1, 8)).numpy().reshape(36, 3, -1)
        expected = [each[i][is_caption[i]].mean(axis=0) for i in range(36)]
        np.testing.assert_allclose(tower.embed_means(tf.constant(ids)), expected, atol=1e-6)


def test_ensembles_take_towers_that_fit(splits, config, tmp_path):
    members = [small_model(splits, config) for _ in range(2)]
    together = Ensemble(members)
    together.save(tmp_path / "model.keras")
    loaded = load_model(tmp_path / "model.keras")
    assert loaded.embed_texts(SENTENCES).shape == (4, 32)
    np.testing.assert_array_equal(loaded.embed_texts(SENTENCES), together.embed_texts(SENTENCES))
    standard = build_model(config, ["a", "red", "bird"], splits["trainval"], 6)
    with pytest.raises(ClarelError, match="kind of text tower"):
        Ensemble([members[0], standard])
    with pytest.raises(ClarelError, match="frozen word vectors"):
        with_all_words(together, "none.txt")


def test_what_cannot_work_is_refused_before_training(splits, config):
    class Unregistered(BagOfWords):
        pass

    def other(kind, size):
        return lambda *_: (FeatureTower(12, 16), kind(["a"], size, 8))

    for make, message in (
        (other(Unregistered, 16), "register_keras_serializable"),
        (other(BagOfWords, 5), "16 dimensions, the text tower in 5"),
        (lambda *_: FeatureTower(12, 16), "returned a FeatureTower; it must return a pair"),
        (lambda *_: (FeatureTower(12, 16),), "returned a tuple of 1; it must return a pair"),
        (lambda *_: other(BagOfWords, 16)()[::-1], "the image tower comes first"),
        (lambda *_: (FeatureTower(9, 16), BagOfWords(["a"], 16, 8)), "input_size=9, but the image"),
    ):
        with pytest.raises(ClarelError, match=message):
            build_model(config, ["a"], splits["trainval"], 6, make_towers=make)


def test_a_tokenizer_of_another_width_is_named(splits, config):
    tower = small_model(splits, config).text_tower
    tower.max_tokens = 9
    tower.tokenize = lambda texts: tf.zeros([len(texts), 4], tf.int32)
    with pytest.raises(ClarelError, match=r"must give 9 ids \(max_tokens\) a sentence, not \[4\]"):
        tokenize_captions(splits["trainval"].captions, tower)


def test_a_file_of_unknown_towers_says_what_to_import(splits, config, tmp_path, monkeypatch):
    small_model(splits, config).save(tmp_path / "model.keras")
    monkeypatch.delitem(keras.saving.get_custom_objects(), "own_towers>BagOfWords")
    with pytest.raises(ClarelError, match="'BagOfWords', which is not known here; import"):
        load_model(tmp_path / "model.keras")


@pytest.mark.parametrize("owner", [clarel.Clarel, towers.ImageTower, towers.TextTower])
def test_examples_run(owner):
    (code,) = re.findall(r"```python\n(.*?)```", owner.__doc__, flags=re.DOTALL)
    names = {name: getattr(clarel_tf, name) for name in clarel_tf.__all__}
    names |= {"keras": keras, "tf": tf}
    exec(re.sub(r"^    ", "", code, flags=re.MULTILINE), names)
    if "LinearTower" in names:
        assert names["LinearTower"](3, 4)(tf.zeros([2, 3])).shape == (2, 4)
    if "HashTower" in names:
        tower = names["HashTower"].from_config(names["HashTower"](4, 5).get_config())
        ids = tower.tokenize(tf.constant(["a red bird", "", "a b c d e f"]))
        assert ids.shape == (3, 5) and ids[1].numpy().tolist() == [1, 0, 0, 0, 0]
        assert (ids.numpy() != 0).sum(axis=1).tolist() == [3, 1, 5]
        assert tower.embed_means(ids[tf.newaxis]).shape == (1, 4)
