"""One phase of training: history, checkpoints, resume, schedules, determinism."""

import dataclasses
import re
import shutil

import keras
import numpy as np
import pytest

from clarel_tf.config import Config
from clarel_tf.config_sections import TrainingConfig
from clarel_tf.errors import ClarelError
from clarel_tf.experiments.phases import phase_config
from clarel_tf.experiments.training_phase import build_model
from clarel_tf.models.caption_tower import CaptionTower
from clarel_tf.models.vocabulary import build_vocabulary
from clarel_tf.training import loop
from clarel_tf.training.batches import training_batches
from clarel_tf.training.checkpoints import CheckpointFolder
from clarel_tf.training.history import HISTORY_COLUMNS, read_history
from clarel_tf.training.loop import StepRecorder, duration, train
from clarel_tf.training.optimizers import make_optimizer, make_schedule


def train_in(folder, splits, config: Config, recorder_class=StepRecorder):
    split = splits["train"]
    keras.utils.set_random_seed(config.seed)
    words = build_vocabulary(c for captions in split.captions for c in captions)
    model = build_model(config, words, split, num_classes=4)
    train(model, split, np.arange(4), config.training, folder, seed=config.seed, later_steps=10**6)
    return {f"{i} {v.name}": v.numpy() for i, v in enumerate(model.variables)}


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory, splits, small_config):
    folder = tmp_path_factory.mktemp("unbroken")
    return folder, train_in(folder, splits, small_config)


def assert_same_weights(first, second):
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


def test_history_has_a_row_for_every_interval(unbroken):
    rows = read_history(unbroken[0] / "history.csv")
    # Every 3 steps, and at each checkpoint, every 4.
    assert [row["step"] for row in rows] == [3, 4, 6, 8, 9, 12]
    assert tuple(rows[0]) == HISTORY_COLUMNS
    assert all(np.isfinite(list(row.values())).all() for row in rows)
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert list((unbroken[0] / "tensorboard").glob("events.out.tfevents.*"))


@pytest.mark.slow  # so it is in the tests of damaged checkpoints, which begin anew
def test_the_same_seed_gives_the_same_weights(unbroken, tmp_path, splits, small_config):
    assert_same_weights(unbroken[1], train_in(tmp_path, splits, small_config))


@pytest.mark.parametrize("stop_at", [pytest.param(2, marks=pytest.mark.slow), 10])
def test_resuming_equals_no_interruption(
    unbroken, tmp_path, splits, small_config, monkeypatch, stop_at
):
    original = StepRecorder.on_train_batch_end

    def stop(self, batch, logs=None):
        original(self, batch, logs)
        if self._step == stop_at:
            raise Killed

    monkeypatch.setattr(StepRecorder, "on_train_batch_end", stop)
    with pytest.raises(Killed):
        train_in(tmp_path, splits, small_config)
    monkeypatch.undo()
    assert_same_weights(unbroken[1], train_in(tmp_path, splits, small_config))
    steps = [row["step"] for row in read_history(tmp_path / "history.csv")]
    assert steps == [3, 4, 6, 8, 9, 12]


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(
    unbroken, tmp_path, splits, small_config, capsys
):
    folder = tmp_path / "run"
    shutil.copytree(unbroken[0], folder)
    newest = folder / "checkpoints" / "step_000000012.npz"
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 0xFF
    newest.write_bytes(data)
    weights = train_in(folder, splits, small_config)
    assert f"{newest} is damaged" in capsys.readouterr().err
    assert_same_weights(unbroken[1], weights)


def test_new_checkpoints_survive_damaged_ones(unbroken, tmp_path, splits, small_config):
    folder = tmp_path / "run"
    shutil.copytree(unbroken[0], folder)
    for path in (folder / "checkpoints").iterdir():
        path.write_bytes(path.read_bytes()[:100])
    assert_same_weights(unbroken[1], train_in(folder, splits, small_config))
    assert CheckpointFolder(folder / "checkpoints").steps() == [8, 12]


def test_only_the_newest_checkpoints_are_kept(unbroken):
    assert CheckpointFolder(unbroken[0] / "checkpoints").steps() == [8, 12]


def first_steps(split, settings, seed: int) -> np.ndarray:
    """The step, from 1, at which each instance is first in a batch; 0 if it never is."""
    batches = training_batches(
        split,
        np.unique(split.labels),
        CaptionTower(["a"], 8),
        batch_size=settings.batch_size,
        captions=settings.captions,
        seed=seed,
        first_step=0,
        steps=settings.steps,
    )
    first = np.zeros(len(split), int)
    for step, batch in enumerate(batches.as_numpy_iterator(), start=1):
        for row in batch["image_features"]:
            instance = int(np.flatnonzero((split.image_features == row).all(axis=1))[0])
            first[instance] = first[instance] or step
    return first


def test_a_loss_that_is_not_finite_stops_the_run_at_its_step(tmp_path, splits, small_config):
    """In the batches of a seed an image first comes up at a step that can be told."""
    config = small_config.override({"batch_size": 2, "checkpoint_every": 2, "log_every": 50})
    split = splits["train"]
    first = first_steps(split, config.training, config.seed)
    victim = int(np.flatnonzero((first > 4) & (first % 2 == 0))[0])
    features = split.image_features.copy()
    features[victim] = 1e30
    broken = {"train": dataclasses.replace(split, image_features=features)}
    with pytest.raises(ClarelError, match=rf"the loss became nan at step {first[victim]};"):
        train_in(tmp_path, broken, config)
    # A checkpoint was due at that very step, and was not written.
    folder = CheckpointFolder(tmp_path / "checkpoints")
    assert folder.steps()[-1] == first[victim] - 2
    for path in folder.folder.iterdir():
        with np.load(path) as archive:
            assert all(np.isfinite(archive[name]).all() for name in archive.files)


def test_staircase_of_the_paper():
    schedule = make_schedule(TrainingConfig())
    steps = [0, 49_999, 50_000, 99_999, 100_000, 149_999]
    expected = [0.1, 0.1, 0.01, 0.01, 0.001, 0.001]
    np.testing.assert_allclose([float(schedule(s)) for s in steps], expected, rtol=1e-5)


def test_cosine_with_warm_up():
    settings = TrainingConfig(steps=110, warmup_steps=10, learning_rate=2.0, schedule="cosine")
    schedule = make_schedule(settings)
    # Half-way up, at the top, half-way down (cos 90 degrees), at the end.
    np.testing.assert_allclose(
        [float(schedule(s)) for s in (5, 10, 60, 110)], [1, 2, 1, 0], atol=1e-5
    )


def test_each_gradient_is_clipped_by_itself():
    optimizer = make_optimizer(TrainingConfig(learning_rate=1.0, momentum=0.0, schedule="constant"))
    large, small = keras.Variable([0.0, 0.0]), keras.Variable([0.0])
    optimizer.apply([np.array([30.0, 40.0], "f4"), np.array([0.5], "f4")], [large, small])
    # |(30, 40)| = 50 is scaled to length 1; 0.5 is left alone.
    np.testing.assert_allclose(large.numpy(), [-0.6, -0.8], atol=1e-5)
    np.testing.assert_allclose(small.numpy(), [-0.5], atol=1e-6)


def test_equal_passes_give_the_larger_split_more_steps(splits, small_config):
    assert phase_config(small_config, splits, "trainval") == small_config
    equal = small_config.override({"equal_passes": True})
    assert phase_config(equal, splits, "train") == equal
    # 24 images in train, 36 in trainval: 12 steps become 18.
    assert phase_config(equal, splits, "trainval") == equal.override({"steps": 18})


def test_the_remaining_time_is_told_after_the_first_steps(
    tmp_path, splits, small_config, monkeypatch, capsys
):
    monkeypatch.setattr(loop, "_FIRST_LOOK_SECONDS", 0.0)
    train_in(tmp_path, splits, small_config)
    told = [line for line in capsys.readouterr().out.splitlines() if "left" in line]
    assert len(told) == 1
    # 12 steps end at once; the million of later phases, at a millisecond each, would not.
    found = re.fullmatch(r"training: about (\d+) s left, (\d+) (min|h) for all .*", told[0])
    assert found and int(found[1]) < 10


def test_a_time_in_words():
    assert [duration(s) for s in (0, 89, 90, 3600, 7199, 7200, 90_000)] == [
        *("0 s", "89 s", "2 min", "60 min", "120 min", "2 h", "25 h")
    ]
