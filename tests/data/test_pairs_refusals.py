"""A folder with a mistake is refused by the builder, and nothing is written or lost."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds

from clarel_tf.data.loading import get_builder
from clarel_tf.data.pairs.splits import SplitShares
from clarel_tf.errors import ClarelError
from tests.helpers.pairs_data import (
    assert_same_as,
    build,
    made_splits,
    make_data,
    write_features,
    write_folder,
)


def replace(name: str, old: str, new: str):
    def change(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    return change


def change_features(**changes):
    def change(folder: Path) -> None:
        with np.load(folder / "features.npz") as archive:
            arrays = {name: archive[name] for name in archive.files}
        for name, function in changes.items():
            arrays[name] = function(arrays[name])
        np.savez(folder / "features.npz", **arrays)

    return change


def given_splits(*splits: str):
    def change(folder: Path) -> None:
        lines = (folder / "table.csv").read_text(encoding="utf-8").splitlines()
        rows = [f"{line},{split}" for line, split in zip(lines, ("split", *splits), strict=True)]
        (folder / "table.csv").write_text("\n".join(rows), encoding="utf-8")

    return change


SPLIT_OF_12 = ["train", "val_seen", "test_seen"] * 2 + ["val_unseen"] * 3 + ["test_unseen"] * 3
BAD_FOLDERS = {
    "has no table.csv or table.jsonl": lambda folder: (folder / "table.csv").unlink(),
    "has both table.csv and table.jsonl": lambda folder: (folder / "table.jsonl").write_text("{}"),
    "has no features.npz": lambda folder: (folder / "features.npz").unlink(),
    "table.csv has no rows": lambda folder: (folder / "table.csv").write_text(
        "image_id,class,captions\n"
    ),
    "table.csv, line 1: unknown column 'text'": replace("table.csv", "captions", "text"),
    "table.csv, line 1: column 'class' is missing": replace("table.csv", "class,", ""),
    "table.csv, line 3: 4 fields": replace("table.csv", "bild_0_1.jpg", "bild_0_1.jpg,"),
    "table.csv, line 4: image 'bild_0_0.jpg' occurs already": replace(
        "table.csv", "bild_0_2.jpg", "bild_0_0.jpg"
    ),
    "table.csv, line 2: 'class' is empty": replace("table.csv", "Vögel 000", ""),
    "table.csv, line 2: byte 15 of the line is not UTF-8": lambda folder: (
        folder / "table.csv"
    ).write_bytes((folder / "table.csv").read_text(encoding="utf-8").encode("latin-1")),
    "table.csv, line 13: the image has no features": change_features(
        image_ids=lambda ids: ids[1:], features=lambda features: features[1:]
    ),
    "features.npz, image number 1 (counted from 1): 'x' has features, but": change_features(
        image_ids=lambda ids: np.array(["x", *ids[1:]])
    ),
    "features of image number 1 (counted from 1) are NaN": change_features(
        features=lambda features: np.full_like(features, np.nan)
    ),
    "features.npz holds an array of Python objects": change_features(
        image_ids=lambda ids: ids.astype(object)
    ),
    "features.npz is cut off": lambda folder: os.truncate(folder / "features.npz", 300),
    "table.csv, line 13: unknown split 'dev'": given_splits(*SPLIT_OF_12[:-1], "dev"),
    "table.csv, line 13: no split, but other rows": given_splits(*SPLIT_OF_12[:-1], ""),
    "class 'Vögel 003' is in test_unseen, but also in train": given_splits(
        *SPLIT_OF_12[:-1], "train"
    ),
    "splits.json: unknown key 'share'": lambda folder: (folder / "splits.json").write_text(
        '{"share": 0.5}'
    ),
    "too few classes": lambda folder: (folder / "splits.json").write_text(
        '{"unseen_classes": 0.9}'
    ),
}


@pytest.mark.parametrize("config", ["plain", "beam"])
@pytest.mark.parametrize("message", BAD_FOLDERS)
def test_a_bad_folder_is_refused_and_nothing_is_written(tmp_path, message, config):
    folder = write_folder(tmp_path / "mine", make_data(4, 3, range(1, 3), width=2))
    BAD_FOLDERS[message](folder)
    data = tmp_path / "data"
    data.mkdir()
    with pytest.raises(ClarelError, match=re.escape(message)):
        build(folder, data, config)
    assert not list(data.iterdir())


def test_a_bad_folder_in_the_usual_place(tmp_path):
    folder = tmp_path / "data" / "downloads" / "manual"
    folder.parent.mkdir(parents=True)
    write_folder(folder, make_data(2, 3, range(1, 3), width=2))
    with pytest.raises(ClarelError, match="too few classes"):
        get_builder("pairs", data_dir=str(tmp_path / "data")).download_and_prepare()
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["downloads"]


def test_features_of_different_width_in_two_parts(tmp_path):
    rows = make_data(4, 3, range(1, 3), width=2)
    folder = write_folder(tmp_path / "mine", rows)
    (folder / "features.npz").unlink()
    write_features(folder / "features-0.npz", rows[:6])
    write_features(folder / "features-1.npz", [{**row, "features": np.ones(3)} for row in rows[6:]])
    with pytest.raises(ClarelError, match=r"features-1.npz has features of width 3, but .*width 2"):
        build(folder, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_bad_folder_does_not_cost_the_dataset_that_is_there(tmp_path):
    rows = make_data(4, 3, range(1, 3), width=2)
    folder = write_folder(tmp_path / "mine", rows)
    build(folder, tmp_path / "data")
    overwrite = tfds.GenerateMode.REUSE_CACHE_IF_EXISTS
    good = (folder / "table.csv").read_text(encoding="utf-8")
    for old, new, message in [
        (",Vögel 000,", ",,", "'class' is empty"),
        ("Vögel 000", "crow", "has other classes than the dataset in"),
    ]:
        (folder / "table.csv").write_text(good.replace(old, new), encoding="utf-8")
        with pytest.raises(ClarelError, match=message):
            build(folder, tmp_path / "data", download_mode=overwrite)
        builder = get_builder("pairs", data_dir=str(tmp_path / "data"))
        assert_same_as(rows, made_splits(rows, SplitShares()), builder)
    (folder / "table.csv").write_text(good, encoding="utf-8")
    build(folder, tmp_path / "data", download_mode=overwrite)
