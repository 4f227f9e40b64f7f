"""The folder of a run: what is in it, and whether a command may go on with it."""

import shutil
from pathlib import Path
from typing import Any

from clarel_tf import files
from clarel_tf.config import Config, settings
from clarel_tf.errors import ClarelError


class RunFolder:
    """Paths and state of one run.

    The final model, trained on trainval, lives in the folder itself: `vocabulary.txt`,
    `checkpoints/`, `history.csv`, `tensorboard/`, `model.keras`. The model that alpha was chosen
    with has the same files below `validation/`.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.validation = self.path / "validation"
        self.config_path = self.path / "config.json"
        self.calibration_path = self.validation / "calibration.json"
        self.evaluation_path = self.path / "evaluation.json"
        self.report_path = self.path / "report.html"
        self.results_path = self.path / "results.json"
        self._data_path = self.path / "data.json"

    def open(self, config: Config, restart: bool = False) -> None:
        """Makes the folder, or checks that the run in it is this one.

        Args:
          restart: delete a run that is there instead of going on with it.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ClarelError(f"run_dir {self.path} is a file, not a folder")
        if restart and self.config_path.exists():
            shutil.rmtree(self.path)
        if self.config_path.exists():
            _refuse_changes(self.config_path, config)
            return
        if self.path.exists() and any(self.path.iterdir()):
            raise ClarelError(
                f"run_dir {self.path} is not empty and holds no run; name a new folder"
            )
        try:
            self.validation.mkdir(parents=True, exist_ok=True)
            files.write_json(self.config_path, config.to_dict())
        except OSError as error:
            raise ClarelError(f"cannot write to run_dir {self.path}: {error.strerror}") from error

    def check_data(self, fingerprints: dict[str, Any]) -> None:
        """Refuses to go on with data that changed since the run began."""
        if not self._data_path.exists():
            files.write_json(self._data_path, fingerprints)
        elif files.read_json(self._data_path) != fingerprints:
            raise ClarelError(
                f"the dataset is not the one that the run in {self.path} began with; "
                "name a new --run_dir, or --restart"
            )


def _refuse_changes(config_path: Path, config: Config) -> None:
    old = Config.from_dict(files.read_json(config_path))
    for section, field in settings():
        before, now = (
            getattr(getattr(c, section) if section else c, field.name) for c in (old, config)
        )
        if before != now:
            raise ClarelError(
                f"{config_path} was made with {field.name}={before}, now it is {now}; "
                "name a new --run_dir, or --restart to delete the old run"
            )
