"""Own data through the programs: a class without images, no test images, data that changes."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

from clarel_tf.storage.files import read_json
from tests.helpers.programs import SMALL_MODEL, call_program

TRAIN = ["--preset=tiny", *SMALL_MODEL, "--steps=6", "--batch_size=8", "--warmup_steps=1"]


def write_raw(folder: Path, last_caption: str = "a yellow bird") -> Path:
    """Three classes of four images, one without a caption; a fourth class has no images."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    rows = [["image_id", "class", "captions", "split"]]
    rows += [
        [f"{colour}_{k}", f"{colour} bird", "" if k == 3 else f"a {colour} bird", "train"]
        for colour in ("red", "blue", "green")
        for k in range(4)
    ]
    rows.append(["", "yellow bird", last_caption, ""])
    with open(folder / "table.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    ids = np.array([row[0] for row in rows[1:-1]])
    np.savez(folder / "features.npz", image_ids=ids, features=rng.normal(size=(12, 5)))
    return folder


def call(program: str, *flags: str, cwd: Path) -> str:
    done = call_program(program, *flags, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with raw data, a run on it in `run` and the built dataset `birds` in `data`."""
    folder = tmp_path_factory.mktemp("own")
    write_raw(folder / "raw")
    flags = ["--dataset=pairs", "--config=birds", "--manual_dir=raw", "--data_dir=data"]
    shown = call("train_main.py", *flags, *TRAIN, "--run_dir=run", cwd=folder)
    assert "ZSL, u and H: not measured, no test image is of an unseen class." in shown
    return folder


def test_a_run_finds_its_data_and_offers_the_class_without_images(place, tmp_path):
    # From another folder and without --data_dir.
    shown = call("evaluate_main.py", f"--run_dir={place / 'run'}", cwd=tmp_path)
    assert "s: not measured, no test image is of a seen class." in shown
    assert read_json(place / "run" / "data.json")["data_dir"] == str(place / "data")
    export = ["export_main.py", f"--run_dir={place / 'run'}"]
    told = call(*export, "--export_dir=export", cwd=tmp_path)
    assert "The run had no validation images: alpha is 0, probabilities are not calibrated" in told
    flags = ["--export_dir=export", "--dataset=pairs", "--config=birds", "--image_ids=red_0,red_3"]
    flags.append(f"--data_dir={place / 'data'}")
    done = call_program("classify_main.py", *flags, cwd=tmp_path)
    answer = done.stdout
    assert done.stderr.count("\n") == 1 and "every image is accepted, because there" in done.stderr
    assert answer.count("yellow bird") == 2 and answer.count("red bird") == 2
    flags = [f"--run_dir={place / 'run'}", "--export_dir=other", "--gallery_split=test_seen"]
    done = call_program("export_main.py", *flags, cwd=tmp_path)
    assert done.returncode == 1 and "has no image with captions" in done.stderr


def test_a_run_is_not_evaluated_on_data_that_was_built_again(place, tmp_path):
    shutil.copytree(place / "run", tmp_path / "run")
    raw = write_raw(tmp_path / "raw", "an orange bird")
    inspect = ["inspect_main.py", "--dataset=pairs", "--config=birds", f"--manual_dir={raw}"]
    done = call_program(*inspect, f"--data_dir={place / 'data'}")
    assert done.returncode == 1 and "holds other data (table.csv has other" in done.stderr
    shown = call(*inspect, "--data_dir=data", cwd=tmp_path)
    assert "Descriptions: 1 sentences of 1 classes, of which 1 have no images" in shown
    evaluate = ["evaluate_main.py", f"--run_dir={tmp_path / 'run'}"]
    done = call_program(*evaluate, f"--data_dir={tmp_path / 'data'}")
    assert done.returncode == 1
    assert "split 'test_unseen' of the dataset is not what" in done.stderr
    assert "built of the old files in another --data_dir" in done.stderr
    call(*evaluate, cwd=tmp_path)  # with the data of its training, which the run remembers


def test_the_data_of_a_run_may_be_gone(place, tmp_path):
    shutil.copytree(place / "run", tmp_path / "run")
    (place / "data").rename(place / "moved")
    try:
        done = call_program("evaluate_main.py", f"--run_dir={tmp_path / 'run'}")
    finally:
        (place / "moved").rename(place / "data")
    assert done.returncode == 1
    assert f"read its data from {place / 'data'}, which does not exist" in done.stderr
