"""Evaluates a finished run again from its files."""

import dataclasses
from collections.abc import Sequence

from clarel_tf.config import Config
from clarel_tf.data.protocols import apply_protocol
from clarel_tf.data.split import Split
from clarel_tf.decision.class_store import ClassStore
from clarel_tf.evaluation.all_measures import evaluate_fully
from clarel_tf.evaluation.measures import Measures
from clarel_tf.evaluation.records import Results
from clarel_tf.experiments.fingerprints import split_fingerprints
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.models.saving import load_model
from clarel_tf.reporting.run_report import write_report
from clarel_tf.storage import checksums, files


def evaluate_run(
    folder: RunFolder,
    config: Config,
    splits: dict[str, Split],
    class_names: Sequence[str],
    seed: int,
) -> tuple[Results, Measures]:
    """Writes `evaluation.json` and `report.html` of a finished run anew; `results.json` stays.

    Prototypes and LDA are those that the run kept. Captions are embedded again, because recall,
    caption draws and left-out captions need each of them.
    """
    splits = apply_protocol(splits, config.protocol, config.class_division)
    folder.data.check(split_fingerprints(splits))
    results, selection = folder.read_results(), folder.read_selection()
    with (
        files.writing_in(folder.path, "run_dir"),
        files.only_process(folder.path, "run_dir"),
    ):
        stored = ClassStore.load(folder.classes_path) if folder.classes_path.exists() else None
        measures, classes = evaluate_fully(
            load_model(folder.path / "model.keras"),
            splits,
            selection,
            class_names,
            seed,
            config.alpha_transfer,
            stored,
        )
        if (
            stored is None or stored.descriptions is None or stored.density is None
        ):  # of a run of an older version
            classes.save(folder.classes_path)
        checksums.write_json(folder.evaluation_path, dataclasses.asdict(measures))
        write_report(folder.report_path, results, measures, folder.path, config, splits)
    return results, measures
