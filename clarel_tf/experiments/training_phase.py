"""One phase of an experiment: a fresh model for a split, trained, with its files in a folder."""

import dataclasses
import functools
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from clarel_tf.config import Config
from clarel_tf.data.split import Split
from clarel_tf.decision.selected import RuleSettings
from clarel_tf.errors import ClarelError, brief
from clarel_tf.evaluation.selection import validation_scores
from clarel_tf.experiments.kept_vectors import read_kept_vectors
from clarel_tf.models.clarel import Clarel
from clarel_tf.models.embedder import Embedder
from clarel_tf.models.saving import load_model
from clarel_tf.models.standard_towers import standard_towers
from clarel_tf.models.tower_trial import refuse_other_kinds
from clarel_tf.models.towers import ImageTower, TextTower
from clarel_tf.models.vocabulary import build_vocabulary, load_vocabulary, save_vocabulary
from clarel_tf.storage import checksums, files
from clarel_tf.storage.word_vectors import WordVectors, load_word_vectors
from clarel_tf.training.distributed.distribution import Distribution
from clarel_tf.training.loop import train

# (config, training split, its vocabulary, the vectors of that or None) -> the two towers.
MakeTowers = Callable[[Config, Split, list[str], WordVectors | None], tuple[ImageTower, TextTower]]


def train_phase(
    config: Config,
    split: Split,
    folder: Path | None,
    title: str,
    distribution: Distribution | None,
    looking_at: tuple[Split, Split, list[Split]] | None = None,
    kept_vectors: Path | None = None,
    make_towers: MakeTowers | None = None,
    later_steps: int = 0,
) -> Clarel:
    """Trains a new model on `split`, or continues the one in `folder`.

    Args:
      folder: None for a worker that is not the chief.
      looking_at: the splits for `validation_scores`, if the config asks for its curve.
      kept_vectors: the word vectors that the run has kept, if it uses any.
      make_towers: makes the towers of a fresh model; `towers_from_config` if not given.
      later_steps: of the phases after this one, for the remaining time.
    """
    keras.utils.set_random_seed(config.seed)
    classes = np.unique(split.labels)
    vocabulary = _phase_vocabulary(config, split, folder)
    vectors = _phase_vectors(config, vocabulary, kept_vectors)
    path = folder / "model.keras" if folder else None
    if path and path.exists() and checksums.is_intact(path):
        # It is written when the phase is over: no checkpoint is needed any more.
        print(f"{title}: {path} is trained already")
        model = load_model(path)
        model.words_without_vector = len(vectors.missing) if vectors else 0
        if distribution:
            distribution.from_chief([config.training.steps])
        return model
    model = build_model(config, vocabulary, split, len(classes), vectors, make_towers)
    evaluate = None
    if looking_at and config.training.evaluate_every and all(map(len, looking_at[:2])):
        evaluate = functools.partial(validation_scores, model, *looking_at, RuleSettings.of(config))
    train(
        model,
        split,
        classes,
        config.training,
        folder,
        seed=config.seed,
        title=title,
        evaluate=evaluate,
        distribution=distribution,
        later_steps=later_steps,
    )
    if path:
        save_model(model, path)
    return model


def save_model(model: Embedder, path: Path) -> None:
    """Writes the trained model unless it is there, as it was written."""
    if path.exists() and checksums.is_intact(path):
        return
    if path.exists():
        aside = files.free_name(path.with_name(f"{path.name}.damaged"))
        path.rename(aside)
        print(f"{path} is damaged; now {aside.name}, and written again", file=sys.stderr)
    with checksums.written_aside(path) as temporary:
        model.save(temporary)


def _phase_vocabulary(config: Config, split: Split, folder: Path | None) -> list[str]:
    """The words of the training split, saved with the run."""
    path = folder and folder / "vocabulary.txt"
    if not path or not path.exists():
        words = build_vocabulary(split.all_captions(), config.model.min_word_count)
        if not path:
            return words
        save_vocabulary(path, words)
    return load_vocabulary(path)


def _phase_vectors(config: Config, vocabulary: list[str], kept: Path | None) -> WordVectors | None:
    """The vectors of the vocabulary, from those that the run has kept if it has any."""
    if not config.word_vectors:
        return None
    if kept and kept.exists():
        return read_kept_vectors(kept, vocabulary)
    return load_word_vectors(config.word_vectors, vocabulary)


def build_model(
    config: Config,
    vocabulary: list[str],
    split: Split,
    num_classes: int,
    vectors: WordVectors | None = None,
    make_towers: MakeTowers | None = None,
) -> Clarel:
    """A fresh model for `split`, with the vectors of its words if there are any."""
    towers = _made_towers(make_towers or towers_from_config, config, split, vocabulary, vectors)
    model = Clarel(*towers, num_classes, config.loss)
    model.words_without_vector = len(vectors.missing) if vectors else 0
    return model


def _made_towers(
    make_towers: MakeTowers,
    config: Config,
    split: Split,
    vocabulary: list[str],
    vectors: WordVectors | None,
) -> tuple[ImageTower, TextTower]:
    """The two towers of `make_towers`; ClarelError if they do not fit the split."""
    made = make_towers(config, split, vocabulary, vectors)
    if not isinstance(made, tuple | list) or len(made) != 2:
        count = f" of {len(made)}" if isinstance(made, tuple | list) else ""
        raise ClarelError(
            f"make_towers returned a {type(made).__name__}{count}; it must return a pair, "
            "(image tower, text tower)"
        )
    image_tower, text_tower = made
    refuse_other_kinds(image_tower, text_tower)
    for tower in made:
        _refuse_unregistered(tower)
    width = split.image_features.shape[1]
    if image_tower.input_size != width:
        raise ClarelError(
            f"make_towers returned a {type(image_tower).__name__} with "
            f"input_size={image_tower.input_size}, but the image features of the data have "
            f"{width} values; give it split.image_features.shape[1]"
        )
    return image_tower, text_tower


def towers_fingerprint(
    config: Config, split: Split, make_towers: MakeTowers, kept_vectors: Path | None
) -> str:
    """The classes of the towers that `make_towers` gives, and a hash of all their settings."""
    # As a phase calls it, so that it gives what the phase will train.
    keras.utils.set_random_seed(config.seed)
    vocabulary = _phase_vocabulary(config, split, None)
    vectors = _phase_vectors(config, vocabulary, kept_vectors)
    towers = _made_towers(make_towers, config, split, vocabulary, vectors)
    settings = []
    for tower in towers:
        try:
            settings.append(_without_names(keras.saving.serialize_keras_object(tower)))
        except Exception as error:  # of the tower's own code, so it can be of any kind
            raise ClarelError(
                f"get_config of the tower {type(tower).__name__} fails ({brief(error)}), so a "
                "saved model could not be loaded; return all arguments of __init__"
            ) from error
    text = json.dumps(settings, sort_keys=True, default=str)
    names = " and ".join(type(tower).__name__ for tower in towers)
    return f"{names} ({hashlib.sha256(text.encode()).hexdigest()[:16]})"


def _without_names(saved: Any) -> Any:
    """A layer as Keras describes it, without what may change from process to process."""
    if isinstance(saved, list | tuple):
        return [_without_names(item) for item in saved]
    if not isinstance(saved, dict):
        return saved
    left = {name: _without_names(value) for name, value in saved.items()}
    if "class_name" in left and isinstance(left.get("config"), dict):
        for name in ("module", "build_config", "shared_object_id"):
            left.pop(name, None)
        if "trainable" in left["config"]:  # a layer; Keras numbers those without a name
            left["config"].pop("name", None)
    return left


def towers_from_config(
    config: Config, split: Split, vocabulary: list[str], vectors: WordVectors | None
) -> tuple[ImageTower, TextTower]:
    """The standard towers for the features and the words of `split`, as the config asks for them.

    Args:
      vocabulary: the words that the text tower knows.
      vectors: of these words; None lets the model learn its own.
    """
    settings = config.model
    if vectors is not None:
        settings = dataclasses.replace(settings, word_size=vectors.matrix.shape[1])
        print(
            f"Word vectors: {len(vocabulary) - len(vectors.missing)} of {len(vocabulary)} words "
            f"found in {config.word_vectors}"
            + (f"; missing words: {', '.join(vectors.missing[:8])}, ..." if vectors.missing else "")
        )
    else:
        print(f"Word vectors: none given, {len(vocabulary)} word embeddings are learned")
    image_tower, text_tower = standard_towers(
        settings,
        vocabulary,
        split.image_features.shape[1],
        frozen_words=vectors is not None and not settings.tune_word_vectors,
    )
    if vectors is not None:
        text_tower.set_word_vectors(vectors.matrix)
    return image_tower, text_tower


def _refuse_unregistered(tower: keras.layers.Layer) -> None:
    """Raises ClarelError for a class that Keras could not find when it loads the model."""
    kind = type(tower)
    if keras.saving.get_registered_object(keras.saving.get_registered_name(kind)) is not kind:
        raise ClarelError(
            f"Keras does not know the tower class {kind.__name__}, so a saved model could not be "
            "loaded; put @keras.saving.register_keras_serializable() above the class"
        )
