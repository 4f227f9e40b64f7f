"""Flipped bytes and cut files: noticed, named, and answered with the last good state."""

import dataclasses
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from clarel_tf.data.loading import get_builder, load_splits
from clarel_tf.decision.embedded_splits import embed_split
from clarel_tf.errors import ClarelError
from clarel_tf.experiments.experiment import run_experiment
from clarel_tf.models.saving import load_model
from clarel_tf.storage import checksums
from clarel_tf.training.checkpoints import CheckpointFolder
from tests.conftest import NAMES


@pytest.fixture
def run_dir(finished_run, tmp_path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(finished_run, tmp_path / "run"))


def flip(path: Path, position: int | None = None) -> None:
    """Changes one bit: in a text, one letter or digit into its neighbour."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if position is None else position] ^= 1
    path.write_bytes(data)


def flip_a_digit(path: Path) -> None:
    """The worst kind: what comes out is as valid as before."""
    data = path.read_bytes()
    flip(path, max(i for i, byte in enumerate(data) if chr(byte).isdigit()))


@pytest.mark.parametrize(
    "name",
    [
        *("config.json", "data.json", "vocabulary.txt", "history.csv"),
        *("validation/vocabulary.txt", "validation/selection.json"),
    ],
)
def test_a_digit_or_a_letter_that_changed_is_noticed_when_a_run_goes_on(
    run_dir, splits, small_config, name
):
    (run_dir / "results.json").unlink()
    if name == "validation/vocabulary.txt":
        (run_dir / "validation" / "selection.json").unlink()
    if name.endswith("vocabulary.txt"):
        flip(run_dir / name, (run_dir / name).read_bytes().index(b"bird"))
    else:
        flip_a_digit(run_dir / name)
    with pytest.raises(ClarelError, match="SHA-256") as caught:
        run_experiment(small_config, splits, run_dir, NAMES)
    assert str(run_dir / name) in str(caught.value)


@pytest.mark.slow  # a part of test_ownership.py::test_the_advice_of_the_messages_loses_no_model
def test_results_that_changed_are_noticed_and_made_again(
    run_dir, finished_run, splits, small_config
):
    flip_a_digit(run_dir / "results.json")
    with pytest.raises(ClarelError, match=r"results\.json is damaged .* delete it"):
        run_experiment(small_config, splits, run_dir, NAMES)
    # The message is good advice.
    (run_dir / "results.json").unlink()
    run_experiment(small_config, splits, run_dir, NAMES)
    assert (run_dir / "results.json").read_bytes() == (finished_run / "results.json").read_bytes()


def test_a_damaged_model_is_noticed_and_written_again(run_dir, splits, small_config, capsys):
    path = run_dir / "model.keras"
    expected = load_model(path).embed_texts(["a red bird"])
    flip(path)
    with pytest.raises(ClarelError, match=r"model\.keras is damaged .* delete results\.json"):
        load_model(path)
    (run_dir / "results.json").unlink()
    run_experiment(small_config, splits, run_dir, NAMES)
    assert (
        "model.keras is damaged; now model.keras.damaged, and written again"
        in capsys.readouterr().err
    )
    np.testing.assert_array_equal(load_model(path).embed_texts(["a red bird"]), expected)


def test_a_model_without_its_checksum_loads_as_it_was_or_not_at_all(finished_run, tmp_path):
    """As when somebody sends the file alone."""
    good = (finished_run / "model.keras").read_bytes()
    expected = load_model(finished_run / "model.keras").get_weights()
    path = tmp_path / "model.keras"
    for position in np.linspace(0, len(good) - 1, 25).astype(int):
        path.write_bytes(good)
        flip(path, position)
        try:
            found = load_model(path).get_weights()
        except ClarelError as error:
            assert str(path) in str(error)
        else:
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_array_equal(ours, theirs)
    path.write_bytes(good[: len(good) // 2])
    with pytest.raises(ClarelError, match="missing or damaged"):
        load_model(path)


def test_checksums_allow_what_a_kill_between_two_renames_leaves(tmp_path, monkeypatch):
    path = tmp_path / "history.csv"
    checksums.write_text(path, "first")

    def killed(*_):
        raise KeyboardInterrupt

    for text in ("second", "third"):  # killed twice: the list must not forget what is there
        with monkeypatch.context() as patch:
            real = checksums.files.os.replace
            patch.setattr(
                checksums.files.os,
                "replace",
                lambda a, b, real=real: killed() if Path(b) == path else real(a, b),
            )
            with pytest.raises(KeyboardInterrupt):
                checksums.write_text(path, text)
        assert path.read_text() == "first" and checksums.is_intact(path)
    checksums.write_text(path, "fourth")
    assert checksums.is_intact(path)
    path.write_text("fourfh")
    assert not checksums.is_intact(path)


def small_model() -> keras.Model:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile("sgd")
    model.optimizer.build(model.trainable_variables)
    return model


@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_every_byte_of_a_checkpoint(tmp_path, stride):
    """Whichever byte is flipped: the old values, or a complaint and the checkpoint before."""
    model, folder = small_model(), CheckpointFolder(tmp_path)
    folder.save(model, 1)
    model.set_weights([weight + 1 for weight in model.get_weights()])
    folder.save(model, 2)
    first = [weight - 1 for weight in model.get_weights()]
    newest = tmp_path / "step_000000002.npz"
    good, named = newest.read_bytes(), 0
    tried = range(0, len(good), stride)
    for position in tried:
        newest.write_bytes(good)
        flip(newest, position)
        step, complaints = folder.restore_latest(model)
        expected = [weight + step - 1 for weight in first]
        for ours, theirs in zip(model.get_weights(), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
        assert (step == 1) == (len(complaints) == 1)
        named += len(complaints)
    print(f"{len(tried)} bytes flipped, {named} noticed, the others without effect")
    assert named > 0.5 * len(tried)  # times of day, for one, carry no check


def test_without_any_good_checkpoint_training_begins_anew_and_says_so(tmp_path):
    model, folder = small_model(), CheckpointFolder(tmp_path)
    folder.save(model, 1)
    flip(tmp_path / "step_000000001.npz")
    step, complaints = folder.restore_latest(model)
    assert step == 0 and "is damaged" in complaints[0] and "starting at step 0" in complaints[1]


def test_weights_that_are_not_finite_are_never_saved(tmp_path):
    model, folder = small_model(), CheckpointFolder(tmp_path)
    folder.save(model, 1)
    model.set_weights([weight * np.nan for weight in model.get_weights()])
    with pytest.raises(ClarelError, match="became NaN or infinite at or before step 2"):
        folder.save(model, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["step_000000001.npz"]


@pytest.fixture
def data_dir(demo_data_dir, tmp_path) -> Path:
    return Path(shutil.copytree(demo_data_dir, tmp_path / "data"))


def cut_between_records(path: Path) -> None:
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records[:-1]:
            writer.write(record)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flip, "train.tfrecord-00000-of-00001 (DataLossError"),
        (lambda path: flip(path, 0), "train.tfrecord-00000-of-00001 (DataLossError"),
        (lambda path: path.write_bytes(path.read_bytes()[:-7]), "train.tfrecord"),
        (cut_between_records, "train.tfrecord"),
        (lambda path: path.write_bytes(b""), "train.tfrecord"),
        (lambda path: path.unlink(), "train.tfrecord"),
    ],
)
def test_a_damaged_record_file_is_named(data_dir, damage, message):
    [path] = data_dir.rglob("demo-train.tfrecord*")
    damage(path)
    with pytest.raises(ClarelError) as caught:
        load_splits(get_builder("demo", "small", data_dir=str(data_dir)))
    assert message in str(caught.value)


def test_a_cut_description_of_a_dataset_is_named(data_dir):
    [path] = data_dir.rglob("dataset_info.json")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ClarelError, match="cannot read the dataset 'demo'"):
        load_splits(get_builder("demo", "small", data_dir=str(data_dir)))


def test_images_too_large_for_the_model_are_refused_when_it_is_evaluated(finished_run, splits):
    features = splits["val_seen"].image_features.copy()
    features[3] = 1e25
    split = dataclasses.replace(splits["val_seen"], image_features=features)
    with pytest.raises(ClarelError, match=r"'val_seen': image 'image_0103' has no finite"):
        embed_split(load_model(finished_run / "model.keras"), split)
