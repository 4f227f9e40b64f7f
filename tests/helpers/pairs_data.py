"""Writes folders of a user's own data, builds them, and compares what comes out."""

import csv
import json
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from clarel_tf.data.loading import class_names, get_builder, load_splits
from clarel_tf.data.pairs.splits import SplitShares, make_splits
from clarel_tf.data.pairs.table import TRAINVAL_SPLITS


def make_data(classes: int, images: int, captions: range, width: int) -> list[dict]:
    """Rows of a table, each with its features; the number of captions differs between images."""
    rng = np.random.default_rng(0)
    return [
        {
            "image_id": f"bild_{label}_{number}.jpg",
            "class": f"Vögel {label:03d}",
            "captions": [f"a bird, '{k}' of {number}" for k in range(rng.choice(captions))],
            "features": rng.normal(size=width).astype(np.float32),
        }
        for label in range(classes)
        for number in range(images)
    ]


def write_table(path: Path, rows: list[dict]) -> None:
    columns = [key for key in rows[0] if key != "features"]
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            for row in rows:
                record = {key: row[key] for key in columns}
                writer.writerow({**record, "captions": " | ".join(row["captions"])})
        else:
            for row in rows:
                file.write(json.dumps({key: row[key] for key in columns}) + "\n")


def write_features(path: Path, rows: list[dict]) -> None:
    ids = np.array([row["image_id"] for row in rows])
    np.savez(path, image_ids=ids, features=np.stack([row["features"] for row in rows]))


def write_folder(folder: Path, rows: list[dict]) -> Path:
    folder.mkdir()
    write_table(folder / "table.csv", rows)
    write_features(folder / "features.npz", rows[::-1])
    return folder


def build(folder: Path, data_dir: Path, config: str = "", **options):
    builder = get_builder("pairs", config, str(data_dir))
    download_config = tfds.download.DownloadConfig(manual_dir=str(folder), **options)
    builder.download_and_prepare(download_config=download_config)
    return get_builder("pairs", config, str(data_dir))  # as another process would


def assert_same_as(rows: list[dict], row_splits: list[str], builder) -> None:
    """Every value of the built dataset is that of the rows."""
    names = sorted({row["class"] for row in rows})
    assert class_names(builder) == names
    for name, split in load_splits(builder).items():
        wanted = TRAINVAL_SPLITS if name == "trainval" else (name,)
        expected = {
            row["image_id"]: row
            for row, row_split in zip(rows, row_splits, strict=True)
            if row_split in wanted
        }
        assert sorted(split.image_ids) == sorted(expected)
        for i, image_id in enumerate(split.image_ids):
            row = expected[image_id]
            np.testing.assert_array_equal(split.image_features[i], row["features"])
            assert names[split.labels[i]] == row["class"]
            assert [caption.decode() for caption in split.captions[i]] == row["captions"]
        marks = [example["in_test_seen"] for example in builder.as_dataset(split=name)]
        assert all(mark.numpy() == (name == "test_seen") for mark in marks)


def made_splits(rows: list[dict], shares: SplitShares) -> list[str]:
    return make_splits([row["image_id"] for row in rows], [row["class"] for row in rows], shares)
