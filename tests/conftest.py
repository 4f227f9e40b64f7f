"""Settings for all tests, a data set small enough to train on in a second, and runs to look at."""

import contextlib
import fcntl
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import hypothesis
import numpy as np
import pytest

from clarel_tf.config import Config
from clarel_tf.data.split import Split
from clarel_tf.presets import preset
from tests.helpers.programs import SMALL_MODEL, call_program, run_program

# How long a drawn example takes depends on what else the machine does.
hypothesis.settings.register_profile("no_deadline", deadline=None)
hypothesis.settings.load_profile("no_deadline")

# Files whose tests start programs: begun first, so that both processes end at about the same time.
# Two that need the same fixture are not neighbours: one process would wait for the other.
_SLOW_FILES = (
    "test_export.py",
    "test_distribution.py",
    "test_self_contained_runs.py",
    "test_expansion.py",
    "test_zero_shot_builders.py",
    "test_model.py",
    "test_ownership.py",
    "pairs_dataset_builder_test.py",
    "test_examples.py",
    "test_training.py",
    "test_commands.py",
    "test_sweep.py",
    "test_drift.py",
    "test_evaluate_and_repeat.py",
    "test_serving_client.py",
    "test_own_towers.py",
    "test_registration.py",
    "test_text_tower.py",
)


def pytest_configure(config):
    """No test reads or writes the datasets of the user: TFDS has a default folder of its own."""
    assert "tensorflow_datasets" not in sys.modules, "it reads the variable when it is imported"
    if not hasattr(config, "workerinput"):  # the processes of pytest-xdist get the variable
        folder = tempfile.mkdtemp(prefix="clarel_tf_datasets_")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        os.environ["TFDS_DATA_DIR"] = folder


def pytest_collection_modifyitems(items):
    def rank(item):
        name = item.path.name
        return _SLOW_FILES.index(name) if name in _SLOW_FILES else len(_SLOW_FILES)

    items.sort(key=rank)


def pytest_collection_finish():
    """Three things that cost more than they bring where everything is small and runs once.

    Imported modules are no garbage: to look through them again and again takes some percent.
    TensorFlow's graph optimiser takes a quarter of a small run. The programs that tests start as
    processes have it, and so has the loader of exports. The wrappers that shorten tracebacks stand
    around every operation; without them a small run takes a twelfth less.
    """
    import keras
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    tf.debugging.disable_traceback_filtering()
    keras.config.disable_traceback_filtering()
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000)


_COLOURS = ("red", "blue", "green", "white", "black", "brown", "grey", "pink")


def make_split(
    name: str, labels: list[int], first_id: int = 0, captions: int = 3, width: int = 12
) -> Split:
    """Instances whose class shows in their features and in the words of their captions."""
    rng = np.random.default_rng(first_id)
    labels = np.asarray(labels)
    features = np.eye(width, dtype=np.float32)[labels] * 2
    features += rng.normal(size=features.shape).astype(np.float32) * 0.3
    texts = [
        [
            f"a {_COLOURS[label % 8]} bird number {rng.integers(9)}.".encode()
            for _ in range(captions)
        ]
        for label in labels
    ]
    ids = np.array([f"image_{first_id + i:04d}" for i in range(len(labels))])
    return Split(name, ids, features, labels, texts)


MadeOnce = Callable[[str, Callable[[Path], None]], Path]


@pytest.fixture(scope="session")
def made_once(tmp_path_factory) -> MadeOnce:
    """`made_once(name, make)`: a folder that `make` fills once for all processes of a test run."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent

    def folder(name: str, make: Callable[[Path], None]) -> Path:
        path, is_made = root / name, root / f"{name}.made"
        with open(root / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # who comes second waits
            if not is_made.exists():
                shutil.rmtree(path, ignore_errors=True)
                path.mkdir()
                make(path)
                is_made.touch()
        return path

    return folder


@pytest.fixture(scope="session")
def demo_data_dir(made_once) -> Path:
    """A folder with the config `small` of the demo dataset, built once, by a program.

    It is in the default folder of TFDS as well.
    """

    def make(folder: Path) -> None:
        done = call_program("inspect_main.py", "--config=small", f"--data_dir={folder}")
        assert done.returncode == 0, done.stderr
        assert "Dataset demo/small/2.0.0" in done.stdout
        Path(os.environ["TFDS_DATA_DIR"], "demo").symlink_to(folder / "demo")

    return made_once("demo_data", make)


@pytest.fixture(scope="session")
def demo_run(made_once, demo_data_dir) -> tuple[Path, list[str]]:
    """A folder where `train_main.py` has trained on the demo, as a process, and its flags.

    It has `runs/demo` and `stdout.txt`; to be copied by those who change it.
    """
    flags = [
        *SMALL_MODEL,
        *("--steps=60", "--batch_size=32", "--captions=2", "--warmup_steps=2"),
        *("--log_every=10", "--checkpoint_every=20", "--evaluate_every=30"),
        *("--head_evidence=0.5", "--discriminant_evidence=0.35", "--feature_power=0.5"),
        "--config=small",
        f"--data_dir={demo_data_dir}",
    ]

    def make(folder: Path) -> None:
        done = run_program("train_main.py", *flags, cwd=folder)
        assert done.returncode == 0, done.stderr
        (folder / "stdout.txt").write_text(done.stdout)

    return made_once("demo_run", make), flags


def make_splits() -> dict[str, Split]:
    """Six splits: classes 0-3 train, 4-5 validation, 6-7 unseen; no image is in two of them."""
    return {
        "train": make_split("train", [0, 1, 2, 3] * 6, 0),
        "val_seen": make_split("val_seen", [0, 1, 2, 3] * 2, 100),
        "val_unseen": make_split("val_unseen", [4, 5] * 4, 200),
        "trainval": make_split("trainval", [0, 1, 2, 3, 4, 5] * 6, 300),
        "test_seen": make_split("test_seen", [0, 1, 2, 3, 4, 5] * 2, 400),
        "test_unseen": make_split("test_unseen", [6, 7] * 4, 500),
    }


@pytest.fixture(scope="session")
def splits() -> dict[str, Split]:
    return make_splits()


@pytest.fixture(scope="session")
def small_config() -> Config:
    """A model of a few thousand weights, trained for 12 steps."""
    return preset("tiny").override(
        {
            "embedding_size": 16,
            "word_size": 8,
            "filters": (8, 8),
            "lstm_units": 8,
            "max_tokens": 8,
            "steps": 12,
            "batch_size": 8,
            "captions": 2,
            "warmup_steps": 2,
            "log_every": 3,
            "checkpoint_every": 4,
        }
    )


NAMES = [f"kind {label}" for label in range(8)]


@pytest.fixture(scope="session")
def finished_run(made_once, splits, small_config) -> Path:
    """The folder of a finished run on `splits`; to be copied by those who change it."""
    from clarel_tf.experiments.experiment import run_experiment

    def make(folder: Path) -> None:
        run_experiment(small_config, splits, folder / "run", NAMES)

    return made_once("finished", make) / "run"


WORDS_WITH_VECTORS = ("a", *_COLOURS, "purple")  # not "bird"


def write_vectors(path: Path, seed: int = 0) -> Path:
    """A word-vector file for `make_split`; purple is in no caption."""
    rows = np.random.default_rng(seed).normal(size=(len(WORDS_WITH_VECTORS), 5)).round(3)
    pairs = zip(WORDS_WITH_VECTORS, rows, strict=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(" ".join([word, *map(str, row)]) + "\n" for word, row in pairs))
    return path


@pytest.fixture(scope="session")
def run_with_vectors(made_once, splits, small_config) -> tuple[Config, Path, Path]:
    """(settings, folder of a run with word vectors, where their file is now).

    Beside the run, `half` is a copy of it after the first phase.
    """
    from clarel_tf.experiments.experiment import run_experiment, run_validation

    def settings(folder: Path) -> Config:
        return small_config.override({"word_vectors": str(folder / "files" / "vectors.txt")})

    def make(folder: Path) -> None:
        source, config = write_vectors(folder / "files" / "vectors.txt"), settings(folder)
        run_validation(config, splits, folder / "run")
        shutil.copytree(folder / "run", folder / "half")
        run_experiment(config, splits, folder / "run", NAMES)
        source.rename(folder / "moved.txt")

    folder = made_once("with_vectors", make)
    return settings(folder), folder / "run", folder / "moved.txt"


@pytest.fixture(scope="session")
def repeated_run(made_once, finished_run, splits, small_config) -> Path:
    """What `train_main.py` leaves of two seeds on `splits` and their ensemble; to be copied too.

    The folder has `run` and `stdout.txt`. The first seed was trained before.
    """
    from clarel_tf.storage.files import write_json

    def make(folder: Path) -> None:
        shutil.copytree(finished_run, folder / "run" / "seed_0")
        write_json(folder / "config.json", small_config.to_dict())
        flags = [f"--config_file={folder / 'config.json'}", f"--run_dir={folder / 'run'}"]
        with dataset_of_programs(splits):
            done = call_program("train_main.py", *flags, "--repeats=2", "--ensemble")
        assert done.returncode == 0, done.stderr
        (folder / "stdout.txt").write_text(done.stdout)

    return made_once("repeated", make)


@contextlib.contextmanager
def dataset_of_programs(splits: dict[str, Split]) -> Iterator[None]:
    """Programs that run in this process read `splits`, whatever dataset they are asked for."""
    with (
        mock.patch("clarel_tf.commands.cli.load_dataset", lambda *_: (None, splits)),
        mock.patch("clarel_tf.data.loading.class_names", lambda _: NAMES),
    ):
        yield


@pytest.fixture(scope="session")
def exported_run(made_once, finished_run, splits) -> Path:
    """The export folder of that run; to be copied as well.

    It takes pictures, by a backbone of a few weights.
    """
    from clarel_tf.experiments.run_folder import RunFolder
    from clarel_tf.models.saving import load_model
    from clarel_tf.serving.export import export_run
    from tests.helpers.tiny_backbone import tiny_backbone

    def make(folder: Path) -> None:
        model, results = (
            load_model(finished_run / "model.keras"),
            RunFolder(finished_run).read_results(),
        )
        export_run(model, splits, NAMES, results, folder, k=3, backbone=tiny_backbone())

    return made_once("models", make)
