"""The models of several seeds as one more model: calibrated, tested once, and kept like a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clarel_tf.config import Config
from clarel_tf.data.split import Split
from clarel_tf.decision.rule import RuleSettings
from clarel_tf.errors import ClarelError
from clarel_tf.evaluation.selection import calibrate
from clarel_tf.experiments.experiment import default_class_names, opened_run
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
) -> dict[str, Any]:
    """Puts finished runs side by side, in `run_dir`, and returns its `results.json`.

    Alpha and what goes with it is chosen by the models that the members chose theirs with, on the
    same validation splits. There is no training here; what was interrupted begins anew, and an
    ensemble of other models is moved aside.

    Args:
      config: of the members, but for their seeds.
      members: folders of finished runs.
      class_names: by label, for the report; numbers if not given.
      restart: do it again, though it is finished.
    """
    folders = [RunFolder(member) for member in members]
    of_members = [checksums.read_json(folder.results_path, MAKE_AGAIN) for folder in folders]
    seeds = [results["seed"] for results in of_members]
    folder = RunFolder(run_dir)
    if folder.results_path.exists():
        before = checksums.read_json(folder.results_path, MAKE_AGAIN)
        if "seeds" not in before:
            raise ClarelError(f"{run_dir} holds a trained run, not an ensemble; name a new folder")
    made_of: dict[str, Any] = {"members": [_model_hashes(member) for member in folders]}
    if vectors := of_members[0]["fingerprints"].get("word_vectors"):
        made_of["word_vectors"] = vectors
    if folder.has_begun and folder.fingerprints().get("members") != made_of["members"]:
        restart = True  # of other models, or of some that were trained again
    opened = opened_run(run_dir, config, splits, restart, made_of=made_of)
    with opened as (folder, splits, fingerprints):
        if folder.results_path.exists():
            print(f"The ensemble in {folder.path} is finished already.")
            return checksums.read_json(folder.results_path, MAKE_AGAIN)
        print(f"The models of seeds {', '.join(map(str, seeds))} side by side")
        first = Ensemble([load_model(member.validation / "model.keras") for member in folders])
        looking_at = splits["val_seen"], splits["val_unseen"], [splits["train"]]
        calibration = calibrate(first, *looking_at, RuleSettings.of(vars(config)))
        checksums.write_json(folder.calibration_path, calibration)
        final = Ensemble([load_model(member.path / "model.keras") for member in folders])
        save_model(final, folder.path / "model.keras")
        about = {key: of_members[0][key] for key in ("seed", "steps", "word_vectors")}
        about |= {"seeds": seeds, "fingerprints": fingerprints}
        names = class_names or default_class_names(splits)
        return measure_once(folder, config, splits, final, calibration, names, about)


def _model_hashes(member: RunFolder) -> list[str]:
    """SHA-256 of the two models of a run."""
    paths = (member.validation / "model.keras", member.path / "model.keras")
    for path in paths:
        if not path.is_file():
            raise ClarelError(f"{path} is missing; {MAKE_AGAIN}")
    return [files.sha256(path) for path in paths]
