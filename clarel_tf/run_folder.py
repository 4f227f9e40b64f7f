"""The folder of a run: what is in it, and whether a command may go on with it."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clarel_tf import checksums, files
from clarel_tf.config import Config, settings
from clarel_tf.errors import ClarelError

# What can be done about a file that nothing else in the folder can replace, and about one that can.
BEGIN_ANEW = "put back a copy of it, or begin anew with --restart"
MAKE_AGAIN = "delete it, and results.json if that is there: the training command makes them again"


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

    @contextlib.contextmanager
    def opened(self, config: Config, restart: bool = False) -> Iterator[None]:
        """Makes the folder, or checks that the run in it is this one, and keeps others out of it.

        Args:
          restart: delete a run that is there instead of going on with it.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ClarelError(f"run_dir {self.path} is a file, not a folder")
        with files.writing_in(self.path, "run_dir"):
            self.path.mkdir(parents=True, exist_ok=True)
            with files.only_process(self.path, "run_dir"):
                self._claim(config, restart)
                yield

    def _claim(self, config: Config, restart: bool) -> None:
        if self.config_path.exists():
            # A run that failed before its first checkpoint has nothing to lose.
            has_work = self.results_path.exists() or any(self.path.rglob("step_*.npz"))
            if restart or not has_work:
                self._clear()
            else:
                _refuse_changes(self.config_path, config)
        elif any(not _is_of_a_killed_start(item.name) for item in self.path.iterdir()):
            raise ClarelError(
                f"run_dir {self.path} is not empty and holds no run; name a new folder"
            )
        if not self.config_path.exists():
            checksums.write_json(self.config_path, config.to_dict())
        self.validation.mkdir(exist_ok=True)
        for folder in (self.path, self.validation):
            files.remove_partial_files(folder)

    def _clear(self) -> None:
        """Deletes the run; config.json goes last, so that a broken deletion is still a run."""
        for item in self.path.iterdir():
            if item.name in (files.LOCK, self.config_path.name):
                continue
            shutil.rmtree(item) if item.is_dir() else item.unlink()
        self.config_path.unlink()

    def check_data(self, fingerprints: dict[str, Any]) -> None:
        """Refuses to go on with data that changed since the run began."""
        if not self._data_path.exists():
            checksums.write_json(self._data_path, fingerprints)
        elif checksums.read_json(self._data_path, BEGIN_ANEW) != fingerprints:
            raise ClarelError(
                f"the dataset or the word vectors are not those that the run in {self.path} began "
                "with; name a new run_dir, or restart it"
            )


def _is_of_a_killed_start(name: str) -> bool:
    """Whether a file can be in the folder of a run that was killed before it had a config."""
    return name in (files.LOCK, checksums.MANIFEST) or files.is_partial(name)


def _refuse_changes(config_path: Path, config: Config) -> None:
    old = Config.from_dict(checksums.read_json(config_path, BEGIN_ANEW))
    for section, field in settings():
        before, now = (
            getattr(getattr(c, section) if section else c, field.name) for c in (old, config)
        )
        if before != now:
            raise ClarelError(
                f"{config_path} was made with {field.name}={before}, now it is {now}; "
                "name a new --run_dir, or --restart to delete the old run"
            )
