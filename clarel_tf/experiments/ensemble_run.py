"""An ensemble of the models of several seeds: selection, one test, files like those of a run."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clarel_tf.config import Config
from clarel_tf.data.split import Split
from clarel_tf.decision.selected import RuleSettings
from clarel_tf.errors import ClarelError
from clarel_tf.evaluation.records import ModelOrigin, Results
from clarel_tf.evaluation.selection import nothing_selected, select
from clarel_tf.experiments.experiment import default_class_names, has_validation, opened_run
from clarel_tf.experiments.final_test import measure_once
from clarel_tf.experiments.run_folder import MAKE_AGAIN, RunFolder
from clarel_tf.experiments.training_phase import save_model
from clarel_tf.models.ensemble import Ensemble
from clarel_tf.models.saving import load_model
from clarel_tf.storage import checksums, files


def run_ensemble(
    config: Config,
    splits: dict[str, Split],
    run_dir: str | Path,
    members: Sequence[str | Path],
    class_names: Sequence[str] | None = None,
    restart: bool = False,
) -> Results:
    """Makes an ensemble of finished runs in `run_dir` and returns its results.

    Alpha, temperature and threshold are selected with the models of the members' first phase, on
    the same validation splits. Nothing is trained here. An interrupted ensemble starts again. An
    ensemble of other models is moved aside.

    Args:
      config: of the members, but for their seeds.
      members: folders of finished runs.
      class_names: by label, for the report; numbers if not given.
      restart: do it again, though it is finished.
    """
    folders = [RunFolder(member) for member in members]
    of_members = [folder.read_results() for folder in folders]
    seeds = [results.seed for results in of_members]
    folder = RunFolder(run_dir)
    if folder.results_path.exists() and folder.read_results().seeds is None:
        raise ClarelError(f"{run_dir} holds a trained run, not an ensemble; name a new folder")
    made_of: dict[str, Any] = {
        "members": [_model_hashes(member, has_validation(splits)) for member in folders]
    }
    if vectors := of_members[0].fingerprints.get("word_vectors"):
        made_of["word_vectors"] = vectors
    if folder.data.has_begun and folder.data.fingerprints().get("members") != made_of["members"]:
        restart = True  # of other models, or of some that were trained again
    opened = opened_run(run_dir, config, splits, restart, made_of=made_of)
    with opened as (folder, splits, fingerprints):
        if folder.results_path.exists():
            print(f"The ensemble in {folder.path} is finished already.")
            return folder.read_results()
        print(f"Ensemble of seeds {', '.join(map(str, seeds))}")
        if has_validation(splits):
            first = Ensemble([load_model(member.validation / "model.keras") for member in folders])
            looking_at = splits["val_seen"], splits["val_unseen"], [splits["train"]]
            selection = select(first, *looking_at, RuleSettings.of(config))
        else:
            selection = nothing_selected(RuleSettings.of(config))
        checksums.write_json(folder.selection_path, dataclasses.asdict(selection))
        final = Ensemble([load_model(member.path / "model.keras") for member in folders])
        save_model(final, folder.path / "model.keras")
        origin = ModelOrigin(
            seed=of_members[0].seed,
            steps=of_members[0].steps,
            word_vectors=of_members[0].word_vectors,
            fingerprints=fingerprints,
            seeds=seeds,
        )
        names = class_names or default_class_names(splits)
        return measure_once(folder, config, splits, final, selection, names, origin)


def _model_hashes(member: RunFolder, has_validation: bool) -> list[str]:
    """SHA-256 of the two models of a run, or of the only one without validation."""
    paths = (member.validation / "model.keras", member.path / "model.keras")[not has_validation :]
    for path in paths:
        if not path.is_file():
            raise ClarelError(f"{path} is missing; {MAKE_AGAIN}")
    return [files.sha256(path) for path in paths]
