"""The one look at the test splits, and what it leaves in the folder of a run."""

import dataclasses
from collections.abc import Sequence

from clarel_tf.config import Config
from clarel_tf.data.split import Split
from clarel_tf.evaluation.all_measures import evaluate_fully
from clarel_tf.evaluation.records import ModelOrigin, Results, Selection
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.models.embedder import Embedder
from clarel_tf.reporting.run_report import write_report
from clarel_tf.storage import checksums


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
        validation=selection.validation,
        alpha_curve=selection.alpha_curve,
    )
    write_report(folder.report_path, results, measures, folder.path, config, splits)
    # Last of all: a run with results is finished.
    checksums.write_json(folder.results_path, dataclasses.asdict(results))
    return results
