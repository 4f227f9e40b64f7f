"""The whole experiment: train, choose alpha on validation, train on trainval, test once."""

import dataclasses
import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from clarel_tf import checksums, files
from clarel_tf.config import Config
from clarel_tf.dataset_loading import Split
from clarel_tf.distribution import Distribution
from clarel_tf.full_evaluation import evaluate_fully
from clarel_tf.model import Clarel
from clarel_tf.protocol import apply_protocol
from clarel_tf.report import write_report
from clarel_tf.run_folder import MAKE_AGAIN, RunFolder
from clarel_tf.training import train
from clarel_tf.validation import calibrate, validation_scores
from clarel_tf.vocabulary import build_vocabulary, load_vocabulary, save_vocabulary
from clarel_tf.word_vectors import load_word_vectors


def run_experiment(
    config: Config,
    splits: dict[str, Split],
    run_dir: str | Path,
    class_names: Sequence[str] | None = None,
    restart: bool = False,
    distribution: Distribution | None = None,
) -> dict[str, Any]:
    """Runs what is still to be done of the experiment in `run_dir` and returns `results.json`.

    Args:
      class_names: by label, for the report; numbers if not given.
      restart: delete a run that is there instead of going on with it.
      distribution: the devices to train on, seen from the chief; the default is one device.
    """
    folder = RunFolder(run_dir)
    names = class_names or default_class_names(splits)
    if distribution:
        distribution.check_batch_size(config.training.batch_size)
    with folder.opened(config, restart):
        splits = apply_protocol(splits, config.protocol)
        return _run_in(folder, config, splits, names, distribution)


def follow_experiment(config: Config, splits: dict[str, Split], distribution: Distribution) -> None:
    """The part of a worker that is not the chief: it trains along, and writes nothing."""
    distribution.check_batch_size(config.training.batch_size)
    splits = apply_protocol(splits, config.protocol)
    phases = _agreed_phases(config, splits, data_fingerprints(config, splits), 0, distribution)
    for split in ("train", "trainval")[2 - phases :]:
        _train_phase(phase_config(config, splits, split), splits[split], None, split, distribution)


def _agreed_phases(
    config: Config,
    splits: dict[str, Split],
    fingerprints: dict[str, Any],
    phases: int,
    distribution: Distribution,
) -> int:
    """How many phases the chief says are left to train, if all workers are ready for the same."""
    # Fingerprints know no order of the images, but the batches depend on it.
    order = [list(splits[name].image_ids) for name in ("train", "trainval")]
    distribution.check_same([config.to_dict(), fingerprints, order])
    return int(distribution.from_chief([phases])[0])


def _run_in(
    folder: RunFolder,
    config: Config,
    splits: dict[str, Split],
    class_names: Sequence[str],
    distribution: Distribution | None,
) -> dict[str, Any]:
    fingerprints = data_fingerprints(config, splits)
    folder.check_data(fingerprints)
    if distribution:
        is_calibrated, is_done = folder.calibration_path.exists(), folder.results_path.exists()
        phases = 0 if is_done else 1 if is_calibrated else 2
        _agreed_phases(config, splits, fingerprints, phases, distribution)
    if folder.results_path.exists():
        print(f"The run in {folder.path} is finished already; --restart would run it again.")
        return checksums.read_json(folder.results_path, MAKE_AGAIN)

    if not folder.calibration_path.exists():
        validation = splits["val_seen"], splits["val_unseen"], [splits["train"]]
        model = _train_phase(
            config,
            splits["train"],
            folder.validation,
            "1/2 train",
            distribution,
            looking_at=validation,
        )
        chosen = calibrate(model, *validation)
        checksums.write_json(folder.calibration_path, chosen)
    calibration = checksums.read_json(folder.calibration_path, MAKE_AGAIN)

    final = phase_config(config, splits, "trainval")
    model = _train_phase(final, splits["trainval"], folder.path, "2/2 trainval", distribution)
    evaluation = evaluate_fully(model, splits, calibration, class_names, config.seed)
    checksums.write_json(folder.evaluation_path, evaluation)
    results = {
        "dataset": config.dataset,
        "dataset_config": config.dataset_config,
        "protocol": config.protocol,
        "seed": config.seed,
        "steps": final.training.steps,
        **{key: calibration[key] for key in ("alpha", "temperature", "none_of_these")},
        **evaluation["prototypes"]["all"],
        "validation": calibration["validation"],
        "alpha_curve": calibration["alpha_curve"],
        "word_vectors": _word_vector_report(config, model),
        "fingerprints": fingerprints,
    }
    write_report(folder.report_path, results, evaluation, folder.path)
    # Last of all: a run with results is finished.
    checksums.write_json(folder.results_path, results)
    return results


def phase_config(config: Config, splits: dict[str, Split], split: str) -> Config:
    """The config for training on `split`: the second phase may need more steps.

    Alpha is chosen with the model of the first phase, and serves that of the second. It fits both
    if both have seen their images equally often.
    """
    if not config.training.equal_passes:
        return config
    steps = round(config.training.steps * len(splits[split]) / len(splits["train"]))
    return config.override({"steps": max(steps, config.training.warmup_steps + 1)})


def data_fingerprints(config: Config, splits: dict[str, Split]) -> dict[str, Any]:
    """What a result depends on besides the config: the splits and the word vectors."""
    fingerprints: dict[str, Any] = {name: split.fingerprints() for name, split in splits.items()}
    if config.word_vectors:
        fingerprints["word_vectors"] = files.file_fingerprint(config.word_vectors)
    return fingerprints


def default_class_names(splits: dict[str, Split]) -> list[str]:
    """`class 0`, `class 1`, ... for data whose classes have no names."""
    most = max(int(split.labels.max()) for split in splits.values())
    return [f"class {label}" for label in range(most + 1)]


def _train_phase(
    config: Config,
    split: Split,
    folder: Path | None,
    title: str,
    distribution: Distribution | None,
    looking_at: tuple | None = None,
) -> Clarel:
    """Trains a new model on `split`, or goes on with the one in `folder`.

    Args:
      folder: None for a worker that is not the chief.
      looking_at: the splits for `validation_scores`, if the config asks for its curve.
    """
    keras.utils.set_random_seed(config.seed)
    classes = np.unique(split.labels)
    model = build_model(config, _phase_vocabulary(config, split, folder), split, len(classes))
    evaluate = None
    if looking_at and config.training.evaluate_every:
        evaluate = functools.partial(validation_scores, model, *looking_at)
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
    )
    if folder:
        _save_model(model, folder / "model.keras")
    return model


def _save_model(model: Clarel, path: Path) -> None:
    """Writes the trained model unless it is there, as it was written."""
    if path.exists() and checksums.is_intact(path):
        return
    if path.exists():
        print(f"{path} is damaged; written again from the last checkpoint", file=sys.stderr)
    with checksums.written_aside(path) as temporary:
        model.save(temporary)


def _phase_vocabulary(config: Config, split: Split, folder: Path | None) -> list[str]:
    """The words of the training split, saved with the run."""
    path = folder and folder / "vocabulary.txt"
    if not path or not path.exists():
        captions = [caption for captions in split.captions for caption in captions]
        words = build_vocabulary(captions, config.model.min_word_count)
        if not path:
            return words
        save_vocabulary(path, words)
    return load_vocabulary(path)


def build_model(config: Config, vocabulary: list[str], split: Split, num_classes: int) -> Clarel:
    """A fresh model for `split`, with the word vectors of the config."""
    settings, vectors = config.model, None
    if config.word_vectors:
        vectors = load_word_vectors(config.word_vectors, vocabulary)
        settings = dataclasses.replace(settings, word_size=vectors.matrix.shape[1])
        print(
            f"Word vectors: {len(vocabulary) - len(vectors.missing)} of {len(vocabulary)} words "
            f"found in {config.word_vectors}"
            + (f"; missing words: {', '.join(vectors.missing[:8])}, ..." if vectors.missing else "")
        )
    else:
        print(f"Word vectors: none given, {len(vocabulary)} word embeddings are learned")
    model = Clarel(
        vocabulary,
        feature_size=split.image_features.shape[1],
        num_classes=num_classes,
        model=settings,
        loss=config.loss,
        frozen_words=vectors is not None and not settings.tune_word_vectors,
    )
    if vectors is not None:
        model.text_tower.set_word_vectors(vectors.matrix)
    model.words_without_vector = len(vectors.missing) if vectors else 0
    return model


def _word_vector_report(config: Config, model: Clarel) -> dict[str, Any]:
    return {
        "file": Path(config.word_vectors).name or None,
        "frozen": model.frozen_words,
        "words": len(model.vocabulary),
        "missing": model.words_without_vector,
    }
