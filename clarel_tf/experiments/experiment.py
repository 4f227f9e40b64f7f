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
from clarel_tf.evaluation.records import Results, Selection
from clarel_tf.evaluation.selection import nothing_selected, select
from clarel_tf.experiments.final_model import train_final
from clarel_tf.experiments.final_test import train_and_test
from clarel_tf.experiments.fingerprints import (
    data_fingerprints,
    fingerprint_of_towers,
    older_mark_of_towers,
    split_fingerprints,
)
from clarel_tf.experiments.kept_vectors import kept_vectors
from clarel_tf.experiments.phases import FINAL_CHOICES, Phase, phases_of
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.experiments.training_phase import MakeTowers, train_phase
from clarel_tf.storage import checksums
from clarel_tf.training.distributed.distribution import Distribution


def run_experiment(
    config: Config,
    splits: dict[str, Split],
    run_dir: str | Path,
    class_names: Sequence[str] | None = None,
    restart: bool = False,
    distribution: Distribution | None = None,
    make_towers: MakeTowers | None = None,
    final: str = "none",
) -> Results:
    """Runs what is still to be done of the experiment in `run_dir` and returns its results.

    Args:
      class_names: by label, for the report; numbers if not given.
      restart: move a run that is there aside instead of continuing it.
      distribution: the devices to train on, seen from the chief; the default is one device.
      make_towers: a function of (config, training split, its vocabulary, its word vectors or None)
        that gives the image tower and the text tower of a fresh model, see `models.towers`. The
        default makes the towers of the paper by the settings of `config.model`.
      final: "all" trains once more after the test, on all images, for the export (`final_model`).

    Example:

    >>> splits = clarel_tf.load_splits(clarel_tf.get_builder("demo"))
    >>> config = clarel_tf.preset("tiny").override({"steps": 300, "seed": 1})
    >>> results = clarel_tf.run_experiment(config, splits, "runs/short")  # doctest: +ELLIPSIS
    Word vectors: none given, ...
    >>> results.gzsl.h > 20
    True
    """
    _check_arguments(splits, class_names, final)
    run = opened_run(run_dir, config, splits, restart, distribution, make_towers=make_towers)
    with run as (folder, splits, fingerprints):
        is_done = folder.results_path.exists()
        if not is_done:  # what is selected now would not be what the final model has
            folder.final_path.unlink(missing_ok=True)
        trains_final = final == "all" and not folder.final_path.exists()
        phases = phases_of(config, splits, final)
        if distribution:
            is_selected = folder.selection_path.exists() or not has_validation(splits)
            left = [not is_done and not is_selected, not is_done, trains_final]
            _agree_on_phases(config, phases, fingerprints, left, distribution)
        names = class_names or default_class_names(splits)
        if is_done:
            print(f"The run in {folder.path} is finished already; --restart would run it again.")
            results = folder.read_results()
        else:
            selection = _selection(folder, phases[0], splits, distribution, make_towers)
            results = train_and_test(
                folder,
                phases[1],
                splits,
                selection,
                names,
                fingerprints,
                distribution,
                make_towers,
            )
        if trains_final:
            train_final(folder, phases[2], names, distribution, make_towers)
        return results


def _check_arguments(
    splits: dict[str, Split], class_names: Sequence[str] | None, final: str
) -> None:
    """Raises ClarelError for arguments that would otherwise fail after the training."""
    if final not in FINAL_CHOICES:
        raise ClarelError(f"final is {final!r}; it must be one of: {', '.join(FINAL_CHOICES)}")
    if absent := [name for name in SPLITS if name not in splits]:
        raise ClarelError(f"splits lacks {', '.join(absent)}; it needs {', '.join(SPLITS)}")
    needed = 1 + max(int(split.classes().max(initial=0)) for split in splits.values())
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
    """The first half of the experiment, which uses no test image; for the comparison of settings.

    `run_experiment` with the same arguments continues from here.
    """
    run = opened_run(run_dir, config, splits, restart, distribution, make_towers=make_towers)
    with run as (folder, splits, fingerprints):
        phases = phases_of(config, splits)
        if distribution:
            left = [not folder.selection_path.exists() and has_validation(splits), False, False]
            _agree_on_phases(config, phases, fingerprints, left, distribution)
        return _selection(
            folder, phases[0]._replace(later_steps=0), splits, distribution, make_towers
        )


def follow_experiment(
    config: Config,
    splits: dict[str, Split],
    distribution: Distribution,
    make_towers: MakeTowers | None = None,
    final: str = "none",
) -> None:
    """Runs the experiment on a worker that is not the chief; it trains, but writes nothing."""
    distribution.check_batch_size(config.training.batch_size)
    splits = apply_protocol(splits, config.protocol, config.class_division)
    fingerprints = data_fingerprints(config, splits)
    fingerprints |= fingerprint_of_towers(config, splits, make_towers)
    phases = phases_of(config, splits, final)
    left = _agree_on_phases(config, phases, fingerprints, [False] * 3, distribution)
    for phase, is_left in zip(phases, left, strict=False):  # two phases without a final model
        if is_left:
            train_phase(
                phase.config, phase.split, None, phase.title, distribution, make_towers=make_towers
            )


def _agree_on_phases(
    config: Config,
    phases: Sequence[Phase],
    fingerprints: dict[str, Any],
    left: list[bool],
    distribution: Distribution,
) -> list[bool]:
    """True for each phase that is left, as the chief says; all workers must have the same data."""
    # Fingerprints know no order of the images, but the batches depend on it.
    order = [list(phase.split.image_ids) for phase in phases]
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
    """Opens and locks the folder of a run; yields it, its splits by protocol, and fingerprints.

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
            if folder.data.has_begun:  # before the towers, which may depend on the data
                folder.data.check(fingerprints)
            fingerprints |= fingerprint_of_towers(config, splits, make_towers, folder)
        else:
            fingerprints = split_fingerprints(splits) | made_of
        folder.data.begin(
            fingerprints | older_mark_of_towers(folder, make_towers), splits["trainval"].data_dir
        )
        yield folder, splits, fingerprints


def _selection(
    folder: RunFolder,
    phase: Phase,
    splits: dict[str, Split],
    distribution: Distribution | None,
    make_towers: MakeTowers | None,
) -> Selection:
    """The values selected with the model of the first phase; trains it first if necessary."""
    if not folder.selection_path.exists() and not has_validation(splits):
        print("Validation splits: empty, so alpha stays 0, and there is one phase of training")
        nothing = nothing_selected(RuleSettings.of(phase.config))
        checksums.write_json(folder.selection_path, dataclasses.asdict(nothing))
    elif not folder.selection_path.exists():
        looking_at = splits["val_seen"], splits["val_unseen"], [splits["train"]]
        model = train_phase(
            phase.config,
            phase.split,
            folder.validation,
            phase.title,
            distribution,
            looking_at,
            kept_vectors(folder, phase.config, splits),
            make_towers,
            phase.later_steps,
        )
        selection = select(model, *looking_at, RuleSettings.of(phase.config))
        checksums.write_json(folder.selection_path, dataclasses.asdict(selection))
    return folder.read_selection()


def has_validation(splits: dict[str, Split]) -> bool:
    """True if there are validation images; without, `train` and `trainval` are the same."""
    return bool(len(splits["val_seen"]) or len(splits["val_unseen"]))


def default_class_names(splits: dict[str, Split]) -> list[str]:
    """`class 0`, `class 1`, ... for data whose classes have no names."""
    most = max(int(split.classes().max(initial=0)) for split in splits.values())
    return [f"class {label}" for label in range(most + 1)]
