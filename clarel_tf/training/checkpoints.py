"""Checkpoints: all variables of a model and its optimiser, in one `.npz` file per saved step.

A zip archive has a checksum for each array, so damage is detected on reading. The file is renamed
into place, so it is complete or absent. No pickled object is read or written.
"""

import re
from pathlib import Path

import keras
import numpy as np

from clarel_tf.errors import ClarelError
from clarel_tf.storage import files

_NAME = re.compile(r"step_(\d{9})\.npz")
NOT_FINITE_ADVICE = (
    "nothing was saved after that, and earlier checkpoints are kept. Look at the features for huge "
    "values, or try a lower learning_rate in a new run_dir"
)


class CheckpointFolder:
    """The checkpoints of one training phase; only the newest `keep` are kept."""

    def __init__(self, folder: Path, keep: int = 2):
        self.folder, self.keep = Path(folder), keep
        self.folder.mkdir(parents=True, exist_ok=True)
        files.remove_partial_files(self.folder)

    def save(self, model: keras.Model, step: int) -> None:
        """Writes the state after `step` steps; ClarelError if a value is not finite."""
        values = {name: v.numpy() for name, v in _variables(model).items()}
        for name, value in values.items():
            # The gradient of a finite loss can be NaN, which only the next loss would show.
            if value.dtype.kind == "f" and not np.isfinite(value).all():
                raise ClarelError(
                    f"{name} became NaN or infinite at or before step {step}; {NOT_FINITE_ADVICE}"
                )
        with files.written_aside(self._path(step)) as temporary:
            np.savez(temporary, **values)
        for old_step in self.steps()[: -self.keep]:
            self._path(old_step).unlink()

    def restore_latest(self, model: keras.Model) -> tuple[int, list[str]]:
        """Restores the model from the newest readable checkpoint.

        Returns:
          (its step, or 0 without a checkpoint; a message for each damaged checkpoint).
        """
        complaints: list[str] = []
        for step in reversed(self.steps()):
            try:
                _restore(model, self._path(step))
                return step, complaints
            except PermissionError as error:
                raise ClarelError(f"cannot read {self._path(step)}: {error.strerror}") from error
            except Exception as error:  # zipfile and NumPy raise many kinds of exceptions on damage
                complaints.append(f"checkpoint {self._path(step)} is damaged ({error}); skipped")
                # Renamed, so that it does not count as the newest when old ones are deleted.
                aside = files.free_name(self._path(step).with_suffix(".damaged"))
                self._path(step).rename(aside)
        if complaints:
            complaints.append(f"{self.folder} has no other checkpoint: starting at step 0")
        return 0, complaints

    def steps(self) -> list[int]:
        """The saved steps, oldest first."""
        matches = (_NAME.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def _path(self, step: int) -> Path:
        return self.folder / f"step_{step:09d}.npz"


def _variables(model: keras.Model) -> dict[str, keras.Variable]:
    """Weights, moving statistics, dropout seeds and optimiser state, by stable names.

    Keras names of layers and seed generators depend on what else was created in the process; the
    position in the list does not.
    """
    variables = {}
    for owner, of_owner in (("model", model.variables), ("optimizer", model.optimizer.variables)):
        for position, variable in enumerate(of_owner):
            variables[f"{owner}.{position:03d}.{variable.name}"] = variable
    return variables


def _restore(model: keras.Model, path: Path) -> None:
    variables = _variables(model)
    with np.load(path, allow_pickle=False) as archive:
        if set(archive.files) != set(variables):
            raise ValueError("it holds other variables than this model")
        values = {name: archive[name] for name in variables}
    for name, variable in variables.items():
        if values[name].shape != tuple(variable.shape):
            raise ValueError(f"{name} has shape {values[name].shape}, expected {variable.shape}")
    for name, variable in variables.items():
        variable.assign(values[name])
