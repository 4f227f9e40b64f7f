"""The one look at the test splits, and what it leaves in the folder of a run."""

from collections.abc import Sequence
from typing import Any

from clarel_tf.config import Config
from clarel_tf.data.split import Split
from clarel_tf.evaluation.all_measures import evaluate_fully
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.models.embedder import Embedder
from clarel_tf.reporting.run_report import write_report
from clarel_tf.storage import checksums


def measure_once(
    folder: RunFolder,
    config: Config,
    splits: dict[str, Split],
    model: Embedder,
    calibration: dict[str, Any],
    class_names: Sequence[str],
    about: dict[str, Any],
) -> dict[str, Any]:
    """Measures `model` on the test splits; writes evaluation, report and results.

    Args:
      calibration: what `calibrate` chose on validation data.
      about: what the results say of the model besides: `seed`, `steps`, `word_vectors`,
        `fingerprints`.

    Returns:
      `results.json`.
    """
    evaluation, classes = evaluate_fully(
        model, splits, calibration, class_names, config.seed, config.alpha_transfer
    )
    classes.save(folder.classes_path)
    checksums.write_json(folder.evaluation_path, evaluation)
    rows = evaluation["prototypes"]
    by_captions = rows.get("captions_alone", rows["all"])
    results = {
        "dataset": config.dataset,
        "dataset_config": config.dataset_config,
        "protocol": config.protocol,
        **about,
        **evaluation["chosen"],
        "alpha_on_validation": calibration["alpha"],
        **rows["all"],
        "zsl_captions_alone": by_captions["zsl"],
        "gzsl_captions_alone": by_captions["gzsl"],
        "validation": calibration["validation"],
        "alpha_curve": calibration["alpha_curve"],
    }
    write_report(folder.report_path, results, evaluation, folder.path)
    # Last of all: a run with results is finished.
    checksums.write_json(folder.results_path, results)
    return results
