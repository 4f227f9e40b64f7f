"""A tower that breaks the contract is refused before training, with a message that names it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from clarel_tf.errors import ClarelError
from clarel_tf.models.clarel import Clarel
from clarel_tf.models.ensemble import Ensemble
from clarel_tf.models.saving import load_model
from clarel_tf.models.towers import ImageTower, TextTower

registered = keras.saving.register_keras_serializable(package="tower_contract")


@registered
class Linear(ImageTower):
    def __init__(self, input_size=5, embedding_size=8, **kwargs):
        super().__init__(**kwargs)
        self.input_size, self.embedding_size = input_size, embedding_size
        self.head = keras.layers.Dense(embedding_size)

    def build(self, input_shape):
        self.head.build(input_shape)

    def call(self, image_features, training=False):
        return self.head(image_features)

    def get_config(self):
        sizes = {"input_size": self.input_size, "embedding_size": self.embedding_size}
        return {**super().get_config(), **sizes}


@registered
class Hashed(TextTower):
    """Has no vocabulary: what tells two of them apart is their config."""

    def __init__(self, embedding_size=8, max_tokens=6, buckets=1000, **kwargs):
        super().__init__(**kwargs)
        self.embedding_size, self.max_tokens, self.buckets = embedding_size, max_tokens, buckets
        self.vectors = keras.layers.Embedding(2 + buckets, embedding_size)

    def build(self, input_shape):
        self.vectors.build(input_shape)

    def tokenize(self, texts):
        ids = tf.strings.to_hash_bucket_fast(tf.strings.split(texts), self.buckets)
        ids = tf.cast(ids.to_tensor(-2, shape=[None, self.max_tokens]), tf.int32) + 2
        is_empty = ids[:, :1] == self.padding_id
        return tf.concat([tf.where(is_empty, self.unknown_id, ids[:, :1]), ids[:, 1:]], 1)

    def call(self, token_ids, training=False):
        is_word = tf.cast(token_ids != self.padding_id, tf.float32)[:, :, tf.newaxis]
        return tf.reduce_sum(self.vectors(token_ids) * is_word, axis=1)

    def get_config(self):
        names = ("embedding_size", "max_tokens", "buckets")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def changed(base, **members):
    """A subclass of a tower, with other members."""
    return type("Changed", (base,), members)


def with_attributes(tower, **values):
    for name, value in values.items():
        setattr(tower, name, value)
    return tower


def model(buckets=1000, **attributes) -> Clarel:
    return Clarel(Linear(), with_attributes(Hashed(buckets=buckets), **attributes), 2)


def tokens_as(change):
    return lambda: changed(Hashed, tokenize=lambda self, texts: change(self, texts))()


def plus_late_layer():
    """A layer that only training uses, and that `build` forgets."""

    def call(self, image_features, training=False):
        return self.head(self.extra(image_features) if training else image_features)

    return with_attributes(changed(Linear, call=call)(), extra=keras.layers.Dense(5, name="extra"))


IMAGE_BREACHES = {
    "a class": (lambda: Linear, r"is the class Linear; give an object of it, Linear\("),
    "another layer": (lambda: keras.layers.Dense(8), "clarel_tf.ImageTower, not Dense"),
    "swapped": (Hashed, "not Hashed; the image tower comes first"),
    "no size": (lambda: with_attributes(Linear(), embedding_size=None), "embedding_size must be"),
    "float size": (lambda: with_attributes(Linear(), input_size=5.0), "positive integer, not 5.0"),
    "width": (
        lambda: with_attributes(Linear(5, 7), embedding_size=8),
        r"image tower Linear: call must give float32 .*, here \[3, 8\], not float32 \[3, 7\]",
    ),
    "float16": (
        changed(Linear, call=lambda self, x, training=False: tf.cast(self.head(x), tf.float16)),
        "not float16",
    ),
    "tuple": (changed(Linear, call=lambda self, x, training=False: (x, x)), "not a tuple"),
    "not built": (changed(Linear, build=lambda self, shape: None), "Changed: after build"),
    "training only": (plus_late_layer, "layer 'extra' has no weights"),
}


@pytest.mark.parametrize("name", IMAGE_BREACHES)
def test_an_image_tower_that_breaks_the_contract(name):
    make, message = IMAGE_BREACHES[name]
    with pytest.raises(ClarelError, match=message):
        Clarel(make(), Hashed(), 2)


def mean_of_words(self, token_ids, training=False):
    is_word = tf.cast(token_ids != 0, tf.float32)[:, :, tf.newaxis]
    return tf.reduce_sum(self.vectors(token_ids) * is_word, 1) / tf.reduce_sum(is_word, 1)


TEXT_BREACHES = {
    "swapped": (Linear, "the text tower must be a clarel_tf.TextTower, not Linear"),
    "no max_tokens": (lambda: with_attributes(Hashed(), max_tokens=None), "max_tokens must be"),
    "no tokenize": (changed(Hashed, tokenize=TextTower.tokenize), "does not define tokenize"),
    "int64": (
        tokens_as(lambda self, texts: tf.cast(Hashed.tokenize(self, texts), tf.int64)),
        r"tokenize must give int32 \[N, max_tokens\], here \[3, 6\], not int64",
    ),
    "wide": (
        tokens_as(lambda self, texts: tf.pad(Hashed.tokenize(self, texts), [[0, 0], [0, 3]])),
        r"not int32 \[3, 9\]",
    ),
    "ragged": (
        tokens_as(lambda self, texts: tf.ones_like(tf.strings.split(texts), tf.int32)),
        "ragged tensor",
    ),
    "an error": (tokens_as(lambda self, texts: 1 / 0), "tokenize fails in a trial .ZeroDivision"),
    "NaN": (changed(Hashed, call=mean_of_words), "a row of padding has NaN"),
}


@pytest.mark.parametrize("name", TEXT_BREACHES)
def test_a_text_tower_that_breaks_the_contract(name):
    make, message = TEXT_BREACHES[name]
    with pytest.raises(ClarelError, match=message):
        Clarel(Linear(), make(), 2)


def test_a_replaced_layer_and_one_without_weights_are_fine():
    tower = with_attributes(Linear(), noise=keras.layers.GaussianNoise(0.1))
    Clarel(with_attributes(tower, head=keras.layers.Dense(8)), Hashed(), 2)


def test_the_trial_leaves_no_trace(tmp_path):
    def weights_and_next_number(make):
        keras.utils.set_random_seed(3)
        made = make()
        return [*made, keras.random.uniform([4]).numpy(), np.random.rand(), tf.random.uniform([2])]

    def by_hand():
        text, image = Hashed(), Linear()
        heads = [keras.layers.Dense(2), keras.layers.Dense(2)]
        for layer, width in ((text, 6), (image, 5), (heads[0], 8), (heads[1], 8)):
            layer.build((None, width))
        return text.get_weights() + image.get_weights()

    def in_a_model():
        text, image = Hashed(), Linear()
        Clarel(image, text, 2)
        return text.get_weights() + image.get_weights()

    found, expected = weights_and_next_number(in_a_model), weights_and_next_number(by_hand)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    saved = model()
    saved.save(tmp_path / "model.keras")
    again = load_model(tmp_path / "model.keras").embed_texts(["a bird", ""])
    np.testing.assert_array_equal(again, saved.embed_texts(["a bird", ""]))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"buckets": 500}, "token ids of the same sentences"),
        ({"buckets": 1001}, "token ids of the same sentences"),
        ({"unknown_id": 2}, "unknown_id"),
        ({"padding_id": 2}, "padding_id"),
    ],
)
def test_an_ensemble_needs_one_tokeniser(other, message):
    Ensemble([model(), model()])
    for members in ([model(), model(**other)], [model(**other), model()]):
        with pytest.raises(ClarelError, match=message):
            Ensemble(members)


def test_an_ensemble_takes_no_ensembles():
    inner = Ensemble([model()])
    for member in (inner, inner.get_config()):
        with pytest.raises(ClarelError, match="must be a Clarel model, not Ensemble; give the mem"):
            Ensemble([member])
