"""Declarative test of the builder; folders that are written, built and read back."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds
from tensorflow_datasets.scripts.cli import main as cli

from clarel_tf.data.loading import class_names, get_builder, load_splits
from clarel_tf.data.pairs.splits import SplitShares
from clarel_tf.data.schema import SPLITS
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.storage.files import read_json
from tests.helpers.pairs_data import (
    assert_same_as,
    build,
    made_splits,
    make_data,
    write_features,
    write_folder,
    write_table,
)
from tests.helpers.programs import call_program

from . import pairs_dataset_builder

HERE = Path(__file__).resolve().parent


class PairsTest(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = pairs_dataset_builder.Builder
    SPLITS = {
        "train": 2,
        "val_seen": 2,
        "val_unseen": 2,
        "trainval": 6,
        "test_seen": 3,
        "test_unseen": 3,
    }
    OVERLAPPING_SPLITS = ["trainval"]  # made of the first three


def test_round_trip_with_made_splits(tmp_path):
    rows = make_data(6, 4, range(2, 41), width=5)
    rows += make_data(7, 1, range(2, 3), width=5)[6:]  # a class of one image
    builder = build(write_folder(tmp_path / "mine", rows), tmp_path / "data")
    assert builder.builder_config.name == "plain"
    assert_same_as(rows, made_splits(rows, SplitShares()), builder)


def test_round_trip_of_parts_with_shares_from_a_file(tmp_path):
    rows = make_data(5, 4, range(1, 4), width=3)
    folder = tmp_path / "mine"
    folder.mkdir()
    for part, (table, features) in enumerate(
        [(slice(7), slice(12)), (slice(7, 99), slice(12, 99))]
    ):
        write_table(folder / f"table-{part}.jsonl", rows[table])
        write_features(folder / f"features-{part}.npz", rows[features])
    (folder / "splits.json").write_text('{"seed": 4, "unseen_classes": 0.4}')
    builder = build(folder, tmp_path / "data")
    assert_same_as(rows, made_splits(rows, SplitShares(seed=4, unseen_classes=0.4)), builder)


@pytest.mark.parametrize(
    "config",
    # The example of the README is built by Beam as well.
    ["plain", pytest.param("beam", marks=pytest.mark.slow)],
)
def test_round_trip_with_splits_of_the_table(tmp_path, config):
    rows = make_data(3, 3, range(1, 3), width=2)
    splits = ["train", "val_seen", "test_seen", "val_unseen", "test_seen", "val_unseen"]
    splits += ["test_unseen"] * 3
    for row, split in zip(rows, splits, strict=True):
        row["split"] = split
    builder = build(write_folder(tmp_path / "mine", rows), tmp_path / "data", config)
    assert_same_as(rows, splits, builder)


def test_a_second_build_does_nothing_and_another_builder_knows_the_names(tmp_path):
    rows = make_data(4, 3, range(1, 3), width=2)
    folder = write_folder(tmp_path / "mine", rows)
    data = tmp_path / "data"
    build(folder, data)
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    build(folder, data)
    assert {path: path.stat().st_mtime_ns for path in data.rglob("*")} == before
    names = class_names(get_builder("pairs", data_dir=str(data)))
    assert names == [f"Vögel {label:03d}" for label in range(4)]


@pytest.mark.slow
def test_beam_gives_what_plain_gives(tmp_path):
    rows = make_data(40, 100, range(1, 5), width=16)
    folder = tmp_path / "mine"
    folder.mkdir()
    order = np.random.default_rng(1).permutation(len(rows))
    for part in range(5):
        write_table(folder / f"table-{part}.csv", rows[part::5])
    for part in range(3):
        write_features(folder / f"features-{part}.npz", [rows[i] for i in order[part::3]])
    plain = build(folder, tmp_path / "data", "plain")
    beam = build(folder, tmp_path / "data", "beam", beam_runner="DirectRunner")
    assert class_names(plain) == class_names(beam)
    for name in SPLITS:
        both = []
        for builder in (plain, beam):
            examples = list(builder.as_dataset(split=name).as_numpy_iterator())
            both.append(sorted(examples, key=lambda example: example["image_id"]))
        assert len(both[0]) == len(both[1]) > 0
        for ours, theirs in zip(*both, strict=True):
            assert ours.keys() == theirs.keys()
            for key in ours:
                np.testing.assert_array_equal(ours[key], theirs[key])
    assert_same_as(rows, made_splits(rows, SplitShares()), beam)


def write_example(folder: Path) -> str:
    """Runs the code of the README in `folder`; returns the text of the README."""
    text = (HERE / "README.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    return text


def test_example_of_the_readme_builds_by_command(tmp_path, monkeypatch):
    text = write_example(tmp_path)
    monkeypatch.chdir(tmp_path)
    table = (tmp_path / "my_birds" / "table.csv").read_text().splitlines()
    assert "\n".join(table[:2]) in text
    command = ["tfds", "build", str(HERE)]
    command += ["--config=beam-birds", "--manual_dir=my_birds", f"--data_dir={tmp_path / 'data'}"]
    command += ["--beam_pipeline_options=runner=DirectRunner"]
    # In this process; tests/data/test_zero_shot_builders.py starts the command in its own.
    cli.main(cli._parse_flags(command))
    [note] = (tmp_path / "data").rglob("raw_files.json")
    assert read_json(note)["files"].keys() == {"table.csv", "features.npz"}
    builder = get_builder("pairs", "beam-birds", str(tmp_path / "data"))  # of another process
    splits = load_splits(builder)
    assert sorted(class_names(builder)) == sorted({row.split(",")[1] for row in table[1:]})
    with np.load(tmp_path / "my_birds" / "features.npz", allow_pickle=False) as file:
        rows = dict(zip(file["image_ids"].tolist(), file["features"].astype("f4"), strict=True))
    for split in splits.values():
        expected = [rows[image_id] for image_id in split.image_ids]
        np.testing.assert_array_equal(split.image_features, expected)
    assert {name: len(split) for name, split in splits.items()} == {
        "train": 26 * 13,
        "val_seen": 26 * 3,
        "val_unseen": 6 * 16,
        "trainval": 32 * 16,
        "test_seen": 32 * 4,
        "test_unseen": 8 * 20,
    }
    assert list(splits["test_unseen"].descriptions.values()) == [
        [caption.strip().encode() for caption in table[-1].split(",")[2].split("|")]
    ]


@pytest.mark.slow  # tests/commands/test_own_data.py trains on own data with few steps
def test_zero_shot_works_with_the_example_of_the_readme(tmp_path):
    text = write_example(tmp_path)
    [flags] = re.findall(r"python (train_main.py --dataset=pairs .*)", text)
    flags = [*flags.split(), "--data_dir=data", "--run_dir=run"]
    done = call_program(*flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    results = RunFolder(tmp_path / "run").read_results()
    # By chance it would be 12.5 and about 3.
    assert results.zsl.top1 > 80 and results.gzsl.h > 80


if __name__ == "__main__":
    tfds.testing.test_main()
