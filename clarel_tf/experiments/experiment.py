"""The whole experiment: train, choose alpha on validation, train on trainval, test once."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from clarel_tf.config import Config
from clarel_tf.data.protocols import apply_protocol
from clarel_tf.data.schema import SPLITS
from clarel_tf.data.split import Split
from clarel_tf.decision.selected import RuleSettings
from clarel_tf.errors import ClarelError
from clarel_tf.evaluation.records import ModelOrigin, Results, Selection, WordVectorUse
from clarel_tf.evaluation.selection import select
from clarel_tf.experiments.final_test import measure_once
from clarel_tf.experiments.kept_vectors import keep_vectors
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.experiments.training_phase import (
    MakeTowers,
    phase_config,
    towers_fingerprint,
    train_phase,
)
from clarel_tf.models.clarel import Clarel
from clarel_tf.storage import checksums, files
from clarel_tf.training.distributed.distribution import Distribution


def run_experiment(
    config: Config,
    splits: dict[str, Split],
    run_dir: str | Path,
    class_names: Sequence[str] | None = None,
    restart: bool = False,
    distribution: Distribution | None = None,
    make_towers: MakeTowers | None = None,
) -> Results:
    """Runs what is still to be done of the experiment in `run_dir` and returns its results.

    Args:
      class_names: by label, for the report; numbers if not given.
      restart: move a run that is there aside instead of continuing it.
      distribution: the devices to train on, seen from the chief; the default is one device.
      make_towers: a function of (config, training split, its vocabulary, its word vectors or None)
        that gives the image tower and the text tower of a fresh model, see `models.towers`. The
        default makes the towers of the paper by the settings of `config.model`.

    Example:

    >>> splits = clarel_tf.load_splits(clarel_tf.get_builder("demo"))
    >>> config = clarel_tf.preset("tiny").override({"steps": 300, "seed": 1})
    >>> results = clarel_tf.run_experiment(config, splits, "runs/short")  # doctest: +ELLIPSIS
    Word vectors: none given, ...
    >>> results.gzsl.h > 20
    True
    """
    _check_arguments(splits, class_names)
    run = opened_run(run_dir, config, splits, restart, distribution, make_towers=make_towers)
    with run as (folder, splits, fingerprints):
        is_done = folder.results_path.exists()
        if distribution:
            left = [not is_done and not folder.selection_path.exists(), not is_done]
            _agree_on_phases(config, splits, fingerprints, left, distribution)
        if is_done:
            print(f"The run in {folder.path} is finished already; --restart would run it again.")
            return folder.read_results()
        selection = _selection(folder, config, splits, distribution, make_towers)
        names = class_names or default_class_names(splits)
        return _test(
            folder, config, splits, selection, names, fingerprints, distribution, make_towers
        )


def _check_arguments(splits: dict[str, Split], class_names: Sequence[str] | None) -> None:
    """Refuses before the work what would fail after it."""
    if absent := [name for name in SPLITS if name not in splits]:
        raise ClarelError(f"splits lacks {', '.join(absent)}; it needs {', '.join(SPLITS)}")
    needed = 1 + max(int(split.labels.max()) for split in splits.values() if len(split))
    if class_names is not None and len(class_names) < needed:
        raise ClarelError(
            f"class_names has {len(class_names)} names, but the labels of the splits need {needed}"
        )


def run_validation(
    config: Config,
    splits: dict[str, Split],
    run_dir: str | Path,
    restart: bool = False,
    distribution: Distribution | None = None,
    make_towers: MakeTowers | None = None,
) -> Selection:
    """The first half of the experiment: settings can be compared and no test image is looked at.

    `run_experiment` with the same arguments continues from here.
    """
    run = opened_run(run_dir, config, splits, restart, distribution, make_towers=make_towers)
    with run as (folder, splits, fingerprints):
        if distribution:
            left = [not folder.selection_path.exists(), False]
            _agree_on_phases(config, splits, fingerprints, left, distribution)
        return _selection(folder, config, splits, distribution, make_towers)


def follow_experiment(
    config: Config,
    splits: dict[str, Split],
    distribution: Distribution,
    make_towers: MakeTowers | None = None,
) -> None:
    """The part of a worker that is not the chief: it trains along, and writes nothing."""
    distribution.check_batch_size(config.training.batch_size)
    splits = apply_protocol(splits, config.protocol, config.class_division)
    fingerprints = data_fingerprints(config, splits)
    fingerprints |= _of_towers(config, splits, make_towers)
    left = _agree_on_phases(config, splits, fingerprints, [False, False], distribution)
    for split, is_left in zip(("train", "trainval"), left, strict=True):
        if is_left:
            phase = phase_config(config, splits, split)
            train_phase(phase, splits[split], None, split, distribution, make_towers=make_towers)


def _agree_on_phases(
    config: Config,
    splits: dict[str, Split],
    fingerprints: dict[str, Any],
    left: list[bool],
    distribution: Distribution,
) -> list[bool]:
    """Which of the two phases the chief says are left, if all workers are ready for the same."""
    # Fingerprints know no order of the images, but the batches depend on it.
    order = [list(splits[name].image_ids) for name in ("train", "trainval")]
    distribution.check_same([config.to_dict(), fingerprints, order])
    return [bool(phase) for phase in distribution.from_chief([int(phase) for phase in left])]


@contextlib.contextmanager
def opened_run(
    run_dir: str | Path,
    config: Config,
    splits: dict[str, Split],
    restart: bool = False,
    distribution: Distribution | None = None,
    made_of: dict[str, Any] | None = None,
    make_towers: MakeTowers | None = None,
) -> Iterator[tuple[RunFolder, dict[str, Split], dict[str, Any]]]:
    """The folder of the run, held against others; its splits by protocol; their fingerprints.

    Args:
      made_of: fingerprints of the trained models that the run is made of, if it trains none.
    """
    folder = RunFolder(run_dir)
    if distribution:
        distribution.check_batch_size(config.training.batch_size)
    with folder.opened(config, restart):
        splits = apply_protocol(splits, config.protocol, config.class_division)
        if made_of is None:
            fingerprints = data_fingerprints(config, splits, folder)
            if folder.has_begun:  # before the towers, which may depend on the data
                folder.check_data(fingerprints)
            fingerprints |= _of_towers(config, splits, make_towers, folder)
        else:
            fingerprints = split_fingerprints(splits) | made_of
        folder.begin_with(fingerprints | _older_mark_of_towers(folder, make_towers))
        yield folder, splits, fingerprints


def _selection(
    folder: RunFolder,
    config: Config,
    splits: dict[str, Split],
    distribution: Distribution | None,
    make_towers: MakeTowers | None,
) -> Selection:
    """What is selected with a model of the training split; trains that first if need be."""
    if not folder.selection_path.exists():
        looking_at = splits["val_seen"], splits["val_unseen"], [splits["train"]]
        model = train_phase(
            config,
            splits["train"],
            folder.validation,
            "1/2 train",
            distribution,
            looking_at,
            _kept_vectors(folder, config, splits),
            make_towers,
        )
        selection = select(model, *looking_at, RuleSettings.of(config))
        checksums.write_json(folder.selection_path, dataclasses.asdict(selection))
    return folder.read_selection()


def _test(
    folder: RunFolder,
    config: Config,
    splits: dict[str, Split],
    selection: Selection,
    class_names: Sequence[str],
    fingerprints: dict[str, Any],
    distribution: Distribution | None,
    make_towers: MakeTowers | None,
) -> Results:
    """Trains on trainval, measures on the test splits, and writes what came out."""
    final = phase_config(config, splits, "trainval")
    model = train_phase(
        final,
        splits["trainval"],
        folder.path,
        "2/2 trainval",
        distribution,
        kept_vectors=_kept_vectors(folder, config, splits),
        make_towers=make_towers,
    )
    origin = ModelOrigin(
        seed=config.seed,
        steps=final.training.steps,
        word_vectors=_word_vector_use(config, model),
        fingerprints=fingerprints,
    )
    return measure_once(folder, config, splits, model, selection, class_names, origin)


def data_fingerprints(
    config: Config, splits: dict[str, Split], folder: RunFolder | None = None
) -> dict[str, Any]:
    """What a result depends on besides the config: the splits and the word vectors.

    Args:
      folder: of the run; once it has kept the vectors, their file may be gone.
    """
    fingerprints: dict[str, Any] = split_fingerprints(splits)
    if config.word_vectors:
        is_gone = not Path(config.word_vectors).exists()
        if is_gone and folder and folder.word_vectors_path.exists():
            fingerprints["word_vectors"] = folder.fingerprints()["word_vectors"]
        else:
            fingerprints["word_vectors"] = files.file_fingerprint(config.word_vectors)
    return fingerprints


def _of_towers(
    config: Config,
    splits: dict[str, Split],
    make_towers: MakeTowers | None,
    folder: RunFolder | None = None,
) -> dict[str, Any]:
    """The fingerprint of a run's own towers, those of the training split, if it has any."""
    if make_towers is None:
        return {}
    kept = folder.word_vectors_path if folder else None
    return {"towers": towers_fingerprint(config, splits["train"], make_towers, kept)}


def _older_mark_of_towers(folder: RunFolder, make_towers: MakeTowers | None) -> dict[str, Any]:
    """What a run noted of its towers before there were fingerprints: the name of the function."""
    if make_towers is None or not folder.has_begun:
        return {}
    name = getattr(make_towers, "__qualname__", type(make_towers).__qualname__)
    return {"towers": name} if folder.fingerprints().get("towers") == name else {}


def split_fingerprints(splits: dict[str, Split]) -> dict[str, Any]:
    """The fingerprints of each split, by its name."""
    return {name: split.fingerprints() for name, split in splits.items()}


def _kept_vectors(folder: RunFolder, config: Config, splits: dict[str, Split]) -> Path | None:
    """The word vectors of both phases, put into the run's folder before the first."""
    if not config.word_vectors:
        return None
    path = folder.word_vectors_path
    keep_vectors(path, config.word_vectors, (splits["train"], splits["trainval"]))
    return path


def default_class_names(splits: dict[str, Split]) -> list[str]:
    """`class 0`, `class 1`, ... for data whose classes have no names."""
    most = max(int(split.labels.max()) for split in splits.values())
    return [f"class {label}" for label in range(most + 1)]


def _word_vector_use(config: Config, model: Clarel) -> WordVectorUse:
    return WordVectorUse(
        file=Path(config.word_vectors).name or None,
        frozen=model.text_tower.frozen_words,
        words=len(model.text_tower.vocabulary),
        missing=model.words_without_vector,
    )
