"""Evaluates a finished run again from its files."""

import zipfile
from collections.abc import Sequence
from typing import Any

import keras

from clarel_tf import files
from clarel_tf.config import Config
from clarel_tf.dataset_loading import Split
from clarel_tf.errors import ClarelError
from clarel_tf.full_evaluation import evaluate_fully
from clarel_tf.model import Clarel
from clarel_tf.protocol import apply_protocol
from clarel_tf.report import write_report
from clarel_tf.run_folder import RunFolder


def load_run_model(folder: RunFolder) -> Clarel:
    """The final model of a run, read in Keras's safe mode."""
    path = folder.path / "model.keras"
    try:
        return keras.saving.load_model(path)
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        brief = " ".join(str(error).split())[:200]
        raise ClarelError(f"{path} is missing or damaged ({brief})") from error


def evaluate_run(
    folder: RunFolder,
    config: Config,
    splits: dict[str, Split],
    class_names: Sequence[str],
    seed: int,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Writes `evaluation.json` and `report.html` of a finished run anew; `results.json` stays.

    Returns:
      (results, evaluation).
    """
    splits = apply_protocol(splits, config.protocol)
    folder.check_data({name: split.fingerprints() for name, split in splits.items()})
    results = files.read_json(folder.results_path)
    calibration = files.read_json(folder.calibration_path)
    evaluation = evaluate_fully(load_run_model(folder), splits, calibration, class_names, seed)
    files.write_json(folder.evaluation_path, evaluation)
    write_report(folder.report_path, results, evaluation, folder.path)
    return results, evaluation
