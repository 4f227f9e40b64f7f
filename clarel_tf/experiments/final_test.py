"""Trains the last model on `trainval`, tests it once, and writes the files of the run."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clarel_tf.config import Config
from clarel_tf.data.split import Split
from clarel_tf.evaluation.all_measures import evaluate_fully
from clarel_tf.evaluation.records import ModelOrigin, Results, Selection, SizeOfTest, WordVectorUse
from clarel_tf.experiments.kept_vectors import kept_vectors
from clarel_tf.experiments.phases import Phase
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.experiments.training_phase import MakeTowers, train_phase
from clarel_tf.models.clarel import Clarel
from clarel_tf.models.embedder import Embedder
from clarel_tf.reporting.run_report import write_report
from clarel_tf.storage import checksums
from clarel_tf.training.distributed.distribution import Distribution


def train_and_test(
    folder: RunFolder,
    phase: Phase,
    splits: dict[str, Split],
    selection: Selection,
    class_names: Sequence[str],
    fingerprints: dict[str, Any],
    distribution: Distribution | None,
    make_towers: MakeTowers | None,
) -> Results:
    """Trains on `trainval`, measures on the test splits, and writes the results."""
    config = phase.config
    model = train_phase(
        config,
        phase.split,
        folder.path,
        phase.title,
        distribution,
        kept_vectors=kept_vectors(folder, config, splits),
        make_towers=make_towers,
        later_steps=phase.later_steps,
    )
    origin = ModelOrigin(
        seed=config.seed,
        steps=config.training.steps,
        word_vectors=_word_vector_use(config, model),
        fingerprints=fingerprints,
    )
    return measure_once(folder, config, splits, model, selection, class_names, origin)


def _word_vector_use(config: Config, model: Clarel) -> WordVectorUse:
    return WordVectorUse(
        file=Path(config.word_vectors).name or None,
        frozen=model.text_tower.frozen_words,
        words=len(model.text_tower.vocabulary),
        missing=model.words_without_vector,
    )


def measure_once(
    folder: RunFolder,
    config: Config,
    splits: dict[str, Split],
    model: Embedder,
    selection: Selection,
    class_names: Sequence[str],
    origin: ModelOrigin,
) -> Results:
    """Measures `model` on the test splits; writes evaluation, report and results.

    Args:
      selection: what `select` gave on validation data.
    """
    measures, classes = evaluate_fully(
        model, splits, selection, class_names, config.seed, config.alpha_transfer
    )
    classes.save(folder.classes_path)
    checksums.write_json(folder.evaluation_path, dataclasses.asdict(measures))
    rows = measures.prototypes
    by_captions = rows.get("captions_alone", rows["all"])
    scores = vars(measures.selected) | vars(rows["all"])  # both name the same alpha
    results = Results(
        dataset=config.dataset,
        dataset_config=config.dataset_config,
        protocol=config.protocol,
        **vars(origin),
        **scores,
        alpha_on_validation=selection.alpha,
        zsl_captions_alone=by_captions.zsl,
        gzsl_captions_alone=by_captions.gzsl,
        calibration=measures.calibration,
        strangers=measures.strangers,
        test_size=_test_size(splits),
        validation=selection.validation,
        alpha_curve=selection.alpha_curve,
    )
    write_report(folder.report_path, results, measures, folder.path, config, splits)
    # Last of all: a run with results is finished.
    checksums.write_json(folder.results_path, dataclasses.asdict(results))
    return results


def _test_size(splits: dict[str, Split]) -> SizeOfTest:
    seen, unseen = splits["test_seen"], splits["test_unseen"]
    classes = [len(np.unique(split.labels)) for split in (seen, unseen)]
    return SizeOfTest(len(seen) + len(unseen), *classes)
