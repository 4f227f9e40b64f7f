"""Settings for all tests, and a data set small enough to train on in a second."""

import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import pytest

from clarel_tf.config import Config
from clarel_tf.dataset_loading import Split, get_builder, prepare
from clarel_tf.presets import preset

# Files whose tests start programs: begun first, so that both processes end at about the same time.
_SLOW_FILES = (
    "test_train_main.py",
    "test_distribution.py",
    "test_export.py",
    "test_evaluate_and_repeat.py",
    "test_training.py",
    "test_sweep.py",
    "pairs_dataset_builder_test.py",
    "test_all_datasets.py",
    "test_model.py",
    "test_readme.py",
    "test_real_cub.py",
    "test_report.py",
    "test_serving_client.py",
)


def pytest_collection_modifyitems(items):
    def rank(item):
        name = item.path.name
        return _SLOW_FILES.index(name) if name in _SLOW_FILES else len(_SLOW_FILES)

    items.sort(key=rank)


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


@pytest.fixture(scope="session")
def demo_data_dir(tmp_path_factory) -> Path:
    """A folder with the demo dataset, built once."""
    folder = tmp_path_factory.mktemp("demo_data")
    prepare(get_builder("demo", data_dir=str(folder)))
    return folder


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
def finished_run(tmp_path_factory, splits, small_config) -> Path:
    """The folder of a finished run on `splits`; to be copied by those who change it."""
    from clarel_tf.experiment import run_experiment

    folder = tmp_path_factory.mktemp("finished") / "run"
    run_experiment(small_config, splits, folder, NAMES)
    return folder


@pytest.fixture(scope="session")
def exported_run(finished_run, splits) -> Path:
    """The export folder of that run; to be copied as well."""
    from clarel_tf.export import export_run
    from clarel_tf.files import read_json
    from clarel_tf.model_files import load_model

    model, results = load_model(finished_run / "model.keras"), finished_run / "results.json"
    export_run(model, splits, NAMES, read_json(results), finished_run.parent / "models", k=3)
    return finished_run.parent / "models"
