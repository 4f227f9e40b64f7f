"""The paper's configuration for benchmarks: model, batches, and a training step as a function."""

import dataclasses
from collections.abc import Callable, Iterator

import harness  # noqa: F401 - puts the package on the path
import keras
import numpy as np
import tensorflow as tf
from captions import Corpus
from plain_clarel import plain_optimizer

from clarel_tf.config_sections import ModelConfig, TrainingConfig
from clarel_tf.models.clarel import Clarel
from clarel_tf.models.standard_towers import standard_towers
from clarel_tf.models.vocabulary import Tokenizer
from clarel_tf.training.optimizers import make_optimizer

FEATURE_SIZE = 2048
CLASSES = 150
INSTANCES = 32
CAPTIONS = 10


def make_model(words: list[str], **changes) -> Clarel:
    """A new model of the paper's sizes with frozen word vectors; `changes` override settings."""
    keras.utils.set_random_seed(0)
    settings = dataclasses.replace(ModelConfig(), **changes)
    return Clarel(*standard_towers(settings, words, FEATURE_SIZE, frozen_words=True), CLASSES)


def make_batches(
    corpus: Corpus,
    count: int,
    instances: int = INSTANCES,
    captions: int = CAPTIONS,
    limit: int = 30,
    stretch: int = 1,
) -> dict[str, np.ndarray]:
    """`count` batches, stacked: random features and labels, captions of the corpus.

    Args:
      limit: tokens of a padded caption.
      stretch: repeats every caption this many times, for longer captions.
    """
    rng = np.random.default_rng(0)
    wanted = count * instances * captions
    sentences = [corpus.sentences[i % len(corpus.sentences)] for i in range(wanted)]
    sentences = [" ".join([sentence] * stretch) for sentence in sentences]
    ids = Tokenizer(corpus.words, limit)(tf.constant(sentences)).numpy()
    features = rng.gamma(0.5, 1.0, (count, instances, FEATURE_SIZE))
    return {
        "image_features": features.astype(np.float32),
        "token_ids": ids.reshape(count, instances, captions, limit),
        "label": rng.integers(0, CLASSES, (count, instances)).astype(np.int32),
    }


def compile_as_training_does(model: keras.Model, jit_compile: bool = False) -> None:
    """Compiles our model with our optimiser, a plain model with that of Keras."""
    is_ours = isinstance(model, Clarel)
    optimizer = make_optimizer(TrainingConfig()) if is_ours else plain_optimizer()
    model.compile(optimizer=optimizer, jit_compile=jit_compile)
    model.optimizer.build(model.trainable_variables)


def keras_step(
    model: keras.Model, batches: dict[str, np.ndarray], jit_compile: bool = False
) -> Callable[[], float]:
    """A function that takes one training step and returns the mean loss so far.

    It calls the same function as `fit`, on an endless iterator over the batches, but without the
    callbacks of `fit`.
    """
    compile_as_training_does(model, jit_compile)
    dataset = tf.data.Dataset.from_tensor_slices(batches).repeat().prefetch(2)
    return step_on(model, iter(dataset))


def step_on(model: keras.Model, iterator: Iterator) -> Callable[[], float]:
    """Like `keras_step`, on any iterator of batches; the model must be compiled."""
    model.make_train_function()
    # Reading the loss waits for the end of the step.
    return lambda: float(model.train_function(iterator)["loss"])
