"""Real disks that are full, and folders that may not be written: one message, nothing lost."""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clarel_tf.data.loading import get_builder, load_splits
from clarel_tf.errors import ClarelError
from clarel_tf.experiments.experiment import run_experiment
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.models.saving import load_model
from clarel_tf.serving.export import export_run
from clarel_tf.serving.versions import MODELS, versions_of
from clarel_tf.storage.files import is_partial
from clarel_tf.training.checkpoints import CheckpointFolder
from tests.conftest import NAMES
from tests.helpers.programs import ROOT

_CAPABILITIES = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: what makes root stand above modes
_PR_CAPBSET_DROP = 24


class SmallDisk:
    """A file system in memory of a given size."""

    def __init__(self, path: Path):
        self.path = path
        path.mkdir()
        self._mount("size=64k")

    def resize(self, size: str) -> None:
        self._mount(f"remount,size={size}")

    def _mount(self, options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.path)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")

    def remove(self) -> None:
        subprocess.run(["umount", str(self.path)], check=True)


@pytest.fixture
def disk(tmp_path):
    small = SmallDisk(tmp_path / "disk")
    yield small
    small.remove()


def partial_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if is_partial(path.name)]


@pytest.mark.slow
def test_a_run_on_a_full_disk_goes_on_when_there_is_room(disk, finished_run, splits, small_config):
    run_dir = disk.path / "run"
    checkpoints = run_dir / "validation" / "checkpoints"
    one = (finished_run / "validation" / "checkpoints" / "step_000000008.npz").stat().st_size
    # No room for a checkpoint, then for two: the third would be the last of the phase.
    for room, steps in ((0.5, []), (2.7, [4, 8])):
        disk.resize(str(int(one * room)))
        with pytest.raises(ClarelError, match="No space left on device") as caught:
            run_experiment(small_config, splits, run_dir, NAMES)
        assert f"cannot write to run_dir {run_dir}" in str(caught.value)
        assert not partial_files(disk.path)
        assert CheckpointFolder(checkpoints).steps() == steps
    disk.resize("64m")
    run_experiment(small_config, splits, run_dir, NAMES)
    for name in ("results.json", "evaluation.json", "report.html"):
        assert (run_dir / name).read_bytes() == (finished_run / name).read_bytes()


@pytest.mark.slow
def test_an_export_to_a_full_disk_leaves_the_versions_that_were_there(disk, finished_run, splits):
    exports = disk.path / "models"
    model = load_model(finished_run / "model.keras")
    results = RunFolder(finished_run).read_results()
    disk.resize("64m")
    assert export_run(model, splits, NAMES, results, exports) == 1
    used = sum(path.stat().st_size for path in exports.rglob("*"))
    disk.resize(str(int(used * 1.3)))
    with pytest.raises(ClarelError, match=r"cannot write to export_dir .*No space left"):
        export_run(model, splits, NAMES, results, exports)
    assert all(versions_of(exports, name) == {1} for name in MODELS)
    assert not (exports / ".staging").exists()


@pytest.mark.slow
def test_a_dataset_that_does_not_fit_is_built_when_there_is_room(disk):
    disk.resize("1m")
    with pytest.raises(ClarelError, match=r"cannot write to the dataset's folder .*No space left"):
        load_splits(get_builder("demo", "small", data_dir=str(disk.path)))
    assert not list(disk.path.rglob("incomplete.*"))
    disk.resize("64m")
    assert len(load_splits(get_builder("demo", "small", data_dir=str(disk.path)))) == 6


def as_anybody() -> None:
    """Takes from root what puts it above permissions; called in the child, before it starts."""
    libc = ctypes.CDLL(None)
    for capability in _CAPABILITIES:
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


CHILD = """
import json, sys
from pathlib import Path
import keras
from clarel_tf.serving.local import read_image_features
from clarel_tf.config import Config
from clarel_tf.data.loading import get_builder, load_splits
from clarel_tf.errors import ClarelError
from clarel_tf.serving.export import export_run
from clarel_tf.training.checkpoints import CheckpointFolder
from clarel_tf.models.saving import load_model
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.models.vocabulary import load_vocabulary
from clarel_tf.storage.word_vectors import load_word_vectors

folder, messages = Path(sys.argv[1]), {}

def attempt(name, action):
    try:
        action()
        messages[name] = "done"
    except ClarelError as error:
        messages[name] = str(error)

def open_run(path):
    with RunFolder(path).opened(Config()):
        pass

attempt("read-only run", lambda: open_run(folder / "closed"))
attempt("run below", lambda: open_run(folder / "closed" / "below"))
attempt("a file", lambda: open_run(folder / "file"))
attempt("below a file", lambda: open_run(folder / "file" / "below"))
attempt("export", lambda: export_run(None, {}, [], {}, folder / "closed" / "models"))
attempt("export to a file", lambda: export_run(None, {}, [], {}, folder / "file"))
attempt("data", lambda: load_splits(get_builder("demo", "small", data_dir=str(folder / "closed"))))
attempt("vectors", lambda: load_word_vectors(folder / "secret", ["a"]))
attempt("vocabulary", lambda: load_vocabulary(folder / "secret"))
attempt("features", lambda: read_image_features(str(folder / "secret")))
attempt("model", lambda: load_model(folder / "secret"))
(folder / "checkpoints").mkdir()
(folder / "checkpoints" / "step_000000003.npz").write_bytes(b"x")
(folder / "checkpoints" / "step_000000003.npz").chmod(0)
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
model.compile("sgd")
attempt("checkpoint", lambda: CheckpointFolder(folder / "checkpoints").restore_latest(model))
print(json.dumps(messages))
"""


def test_missing_permissions_are_named(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o555)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "secret").write_text("a 1 2 3\n")
    (tmp_path / "secret").chmod(0)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        preexec_fn=as_anybody,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    messages = json.loads(done.stdout.splitlines()[-1])
    if messages["read-only run"] == "done":
        pytest.skip("this user stands above permissions, and cannot step down")
    denied = "Permission denied"
    expected = {
        "read-only run": ("cannot write to run_dir", denied),
        "run below": ("cannot write to run_dir", denied),
        "a file": ("is a file, not a folder",),
        "below a file": ("cannot write to run_dir", "Not a directory"),
        "export": ("cannot write to export_dir", denied),
        "export to a file": ("is a file, not a folder",),
        "data": ("cannot write to the dataset's folder", denied),
        "vectors": ("cannot read the word vectors", denied),
        "vocabulary": ("cannot read the vocabulary", denied),
        "features": ("secret", denied),
        "model": ("secret",),
        "checkpoint": ("cannot read", "step_000000003.npz", denied),
    }
    assert messages.keys() == expected.keys()
    for name, words in expected.items():
        assert all(word in messages[name] for word in words), (name, messages[name])
    # What may not be read is not damaged, and stays where it is.
    assert (tmp_path / "checkpoints" / "step_000000003.npz").exists()
    assert (tmp_path / "file").read_text() == "mine"
