"""`RunFolder`: the files of a run, and whether a command may continue it."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clarel_tf.config import Config, settings
from clarel_tf.errors import ClarelError
from clarel_tf.evaluation.records import FinalModel, Results, Selection
from clarel_tf.experiments.run_data import BEGIN_ANEW, RunData
from clarel_tf.storage import checksums, files, ownership
from clarel_tf.storage.records import Record, from_json

# What can be done about a file that the training command can replace.
MAKE_AGAIN = "delete it, and results.json if that is there: the training command makes them again"

# Everything that a run writes, by its path in the folder.
_OWN_FILES = re.compile(
    r"config\.json|data\.json|evaluation\.json|results\.json|report\.html|classes\.npz|word_vectors\.npz|"
    r"validation/(selection|calibration)\.json|validation/|"
    r"final/((final\.json|report\.html|classes\.npz|word_vectors\.npz))?|"
    r"(validation/|final/)?("
    r"checksums\.json|vocabulary\.txt|history\.csv|validation_curve\.csv|"
    r"model\.keras(\.damaged(-\d+)?)?|"
    r"checkpoints/(step_\d{9}\.(npz|damaged(-\d+)?))?|tensorboard/(events\.out\.tfevents\.[^/]*)?)"
)
# What took time to make: a run that has one of these is never deleted.
_WORK = (
    *("results.json", "model.keras", "checkpoints/step_*.npz"),
    *("selection.json", "calibration.json"),  # the second was its name in 0.1
)


class RunFolder:
    """Paths and state of one run.

    The tested model, trained on trainval, lives in the folder itself: `vocabulary.txt`,
    `checkpoints/`, `history.csv`, `tensorboard/`, `model.keras`. The model that alpha was chosen
    with has the same files below `validation/`. `word_vectors.npz` has the vectors of all words
    that either of them knows. A model of all images, if there is one, is in `final/`.

    Example:

    >>> folder = clarel_tf.RunFolder("runs/demo")
    >>> folder.results_path.exists()
    True
    >>> 0 <= folder.read_results().gzsl.h <= 100
    True
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.validation = self.path / "validation"
        self.final = self.path / "final"
        self.config_path = self.path / "config.json"
        self.evaluation_path = self.path / "evaluation.json"
        self.report_path = self.path / "report.html"
        self.results_path = self.path / "results.json"
        self.classes_path = self.path / "classes.npz"
        self.word_vectors_path = self.path / "word_vectors.npz"
        self.final_path = self.final / "final.json"
        self.data = RunData(self.path)

    @property
    def selection_path(self) -> Path:
        """`validation/selection.json`; of a run of 0.1, the file by its name then."""
        path, older = self.validation / "selection.json", self.validation / "calibration.json"
        return older if older.exists() and not path.exists() else path

    def read_results(self) -> Results:
        """`results.json`, which a finished run has."""
        return self._read(Results, self.results_path)

    def read_selection(self) -> Selection:
        """`validation/selection.json`, which the first phase leaves."""
        return self._read(Selection, self.selection_path)

    def read_final(self) -> FinalModel:
        """`final/final.json`, which the last phase leaves if it was asked for."""
        return self._read(FinalModel, self.final_path)

    def _read(self, kind: type[Record], path: Path) -> Record:
        return from_json(kind, checksums.read_json(path, MAKE_AGAIN), path)

    @contextlib.contextmanager
    def opened(self, config: Config, restart: bool = False) -> Iterator[None]:
        """Makes the folder, or checks that the run in it is this one, and keeps others out of it.

        Args:
          restart: move a run that is there aside instead of continuing it.
        """
        with files.writing_in(self.path, "run_dir"):
            # Before anything is written, the lock included.
            ownership.check_claim(self.path, "run", "run_dir", is_older_run)
            self.path.mkdir(parents=True, exist_ok=True)
            if restart:
                self._move_aside()
            with files.only_process(self.path, "run_dir"):
                ownership.claim(self.path, "run", "run_dir", is_older_run)
                self._take_over(config)
                yield

    def _take_over(self, config: Config) -> None:
        """Continues the run in the folder, or begins one."""
        self._refuse_links()
        if self._has_work() or self._needs_its_vectors(config):
            _refuse_changes(self.config_path, config)
        else:  # a run that failed before its first checkpoint has nothing to lose
            self._tell_new_settings(config)
            ownership.delete_own(
                self.path, _OWN_FILES, "run_dir", keep=(files.LOCK, ownership.MARK)
            )
            checksums.write_json(self.config_path, config.to_dict())
        self.validation.mkdir(exist_ok=True)
        for folder in (self.path, self.validation, self.final):
            if folder.is_dir():
                files.remove_partial_files(folder)

    def _tell_new_settings(self, config: Config) -> None:
        """Says so if a run with other settings began here and left nothing to continue."""
        try:
            begun = Config.from_dict(checksums.read_json(self.config_path, BEGIN_ANEW))
        except ClarelError:  # there is none, or one that nobody needs
            return
        if changed := _changes(begun, config):
            listed = ", ".join(f"{name}={before}" for name, before, _ in changed)
            print(
                f"A run in {self.path} ended before its first checkpoint. Nothing of it is used: "
                f"this run begins anew, with the present settings (that one had {listed})."
            )

    def _has_work(self) -> bool:
        return any(
            next(folder.glob(name), None)
            for folder in (self.path, self.validation)
            for name in _WORK
        )

    def _needs_its_vectors(self, config: Config) -> bool:
        """True if the run stores word vectors whose source file no longer exists."""
        is_gone = bool(config.word_vectors) and not Path(config.word_vectors).exists()
        return is_gone and self.word_vectors_path.exists()

    def _refuse_links(self) -> None:
        """Raises ClarelError for a link in the folder, because it may lead into another run."""
        for folder in (self.path, self.validation, self.final):
            for name in ("validation", "final", "checkpoints", "tensorboard"):
                if (folder / name).is_symlink():
                    raise ClarelError(
                        f"{folder / name} is a link, and may lead into another run; put a folder "
                        "there, or make run_dir itself the link"
                    )

    def _move_aside(self) -> None:
        """Renames the folder of a run, and puts an empty one in its place."""
        with files.only_process(self.path, "run_dir"):
            if not self._has_work():
                return
            ownership.refuse_others(self.path, _OWN_FILES, "run_dir")
            aside = ownership.move_aside(self.path)
        print(f"The run that was in {self.path} is now in {aside}; delete that if you like.")


def is_older_run(folder: Path) -> bool:
    """True for a run made before there were marks: its checksums vouch for its config."""
    config = folder / "config.json"
    try:
        return config.is_file() and checksums.is_noted(config) and checksums.is_intact(config)
    except ClarelError:
        return False


def _refuse_changes(config_path: Path, config: Config) -> None:
    if not config_path.exists():
        raise ClarelError(f"{config_path} is missing, but there is a run beside it; {BEGIN_ANEW}")
    old = Config.from_dict(checksums.read_json(config_path, BEGIN_ANEW))
    for name, before, now in _changes(old, config):
        if name == "word_vectors" and before and now:
            continue  # a file may move; what counts is its fingerprint
        raise ClarelError(
            f"{config_path} was made with {name}={_shown(before)}, now it is {_shown(now)}; "
            "name a new --run_dir, or --restart to move the old run aside"
        )


def _shown(value: Any) -> str:
    return "(none)" if value == "" else f"{value}"


def _changes(old: Config, new: Config) -> list[tuple[str, Any, Any]]:
    """(name, old value, new value) of each setting that differs."""
    found = []
    for section, field in settings():
        before, now = (
            getattr(getattr(one, section) if section else one, field.name) for one in (old, new)
        )
        if before != now:
            found.append((field.name, before, now))
    return found


def holds_older_runs(folder: Path, own: re.Pattern[str]) -> bool:
    """True for a folder of runs made before there were marks, with nothing else in it.

    Args:
      own: matches the names of the other things that belong there.
    """
    items = list(folder.iterdir())
    runs = [item for item in items if is_older_run(item) or ownership.kind_of(item) == "run"]
    return bool(runs) and all(item in runs or own.fullmatch(item.name) for item in items)
