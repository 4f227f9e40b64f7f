"""CUB and Flowers from raw files: archives or folders, every value back, every fault named."""

import functools
import hashlib
import http.server
import io
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import tensorflow_datasets as tfds

from clarel_tf.data.loading import class_names, get_builder, load_splits
from clarel_tf.errors import ClarelError
from tests.helpers.raw_files import CUB, FLOWERS, RawFiles

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = {"cub": CUB, "flowers": FLOWERS}


def assert_round_trip(raw: RawFiles, builder, splits) -> None:
    rows = {raw.image_id(row): row for row in range(len(raw.image_files))}
    expected = {
        "val_unseen": raw.locations["val_loc"],
        "trainval": raw.locations["trainval_loc"],
        "test_seen": raw.locations["test_seen_loc"],
        "test_unseen": raw.locations["test_unseen_loc"],
    }
    found = {name: [rows[i] for i in split.image_ids] for name, split in splits.items()}
    for name, index in expected.items():
        assert sorted(found[name]) == (np.sort(index, axis=None) - 1).tolist()
    # 80 % of the 12 images of train_loc, rounded down, and the rest.
    assert (len(found["train"]), len(found["val_seen"])) == (9, 3)
    assert sorted(found["train"] + found["val_seen"]) == list(range(12))
    for split in splits.values():
        for image_id, features, label, captions in zip(
            split.image_ids, split.image_features, split.labels, split.captions, strict=True
        ):
            row = rows[image_id]
            np.testing.assert_array_equal(features, raw.features[:, row].astype(np.float32))
            assert label == raw.labels[row] - 1
            assert captions == raw.captions[f"{image_id}.txt"].split(b"\n")[:-1]
    test_ids = set(splits["test_seen"].image_ids)
    for example in builder.as_dataset(split="train").as_numpy_iterator():
        assert example["in_test_seen"] == (example["image_id"].decode() in test_ids)


@pytest.mark.parametrize("form", ["archives", "unpacked"])
@pytest.mark.parametrize("name", NAMES)
def test_archives_and_folders(tmp_path, name, form):
    raw = RawFiles(NAMES[name])
    manual_dir = getattr(raw, f"write_{form}")(tmp_path / "raw")
    builder = get_builder(name, data_dir=str(tmp_path / "data"))
    assert_round_trip(raw, builder, load_splits(builder, str(manual_dir)))
    # A second build does nothing: it does not even look for the files.
    before = sorted((p, p.stat().st_mtime_ns) for p in (tmp_path / "data").rglob("*"))
    load_splits(get_builder(name, data_dir=str(tmp_path / "data")))
    assert before == sorted((p, p.stat().st_mtime_ns) for p in (tmp_path / "data").rglob("*"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cub", "flowers"])
def test_the_tfds_command_builds_the_default_config(tmp_path, name):
    manual_dir = RawFiles(NAMES[name]).write_archives(tmp_path / "raw")
    command = [str(Path(sys.executable).with_name("tfds")), "build", str(ROOT / "datasets" / name)]
    command += [f"--manual_dir={manual_dir}", f"--data_dir={tmp_path / 'data'}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    built = tmp_path / "data" / name
    assert len(tfds.builder_from_directory(built / "res101" / "1.0.0").info.splits) == 6
    assert not (built / "custom").exists()  # it would need features that nobody gave


def test_class_names(tmp_path):
    for name, first in (("cub", "001.Bird_1"), ("flowers", "pink primrose")):
        manual_dir = RawFiles(NAMES[name]).write_archives(tmp_path / name)
        builder = get_builder(name, data_dir=str(tmp_path / "data"))
        load_splits(builder, str(manual_dir))
        # As another process would see them.
        again = get_builder(name, data_dir=str(tmp_path / "data"))
        assert class_names(again)[0] == first and len(class_names(again)) == 5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("suffix", ["mat", "npz"])
def test_custom_features_of_any_width_in_any_order(tmp_path, suffix, dtype):
    raw = RawFiles(CUB, width=7, dtype=dtype)
    manual_dir = raw.write_archives(tmp_path / "raw")
    if suffix == "mat":
        (manual_dir / "features.mat").write_bytes(raw.features_mat())
    else:
        np.savez(
            manual_dir / "features.npz",
            features=raw.features.T,
            image_files=np.array(raw.image_files),
            labels=raw.labels,
        )
    builder = get_builder("cub", "custom", str(tmp_path / "data"))
    assert_round_trip(raw, builder, load_splits(builder, str(manual_dir)))


def test_the_cut_of_train_loc_never_changes(tmp_path):
    raw = RawFiles(CUB)
    builder = get_builder("cub", data_dir=str(tmp_path / "data"))
    splits = load_splits(builder, str(raw.write_archives(tmp_path / "raw")))
    # Drawn by a hash of the image's name: the same on every machine and with every library.
    assert sorted(splits["val_seen"].image_ids) == [
        "001.Bird_1/image_00001",
        "001.Bird_1/image_00004",
        "003.Bird_3/image_00010",
    ]


def damage(raw: RawFiles, manual_dir, fault: str) -> None:
    """Writes the raw files with one thing wrong."""
    first = next(iter(raw.captions))
    loc = raw.locations
    if fault == "caption file missing":
        raw.captions = {k: v for k, v in raw.captions.items() if k != first}
    elif fault == "nine captions":
        raw.captions[first] = b"a bird.\n" * 9
    elif fault == "eleven captions":
        raw.captions[first] = b"a bird.\n" * 11
    elif fault == "empty caption":
        raw.captions[first] = b"a bird.\n" * 4 + b"  \n" + b"a bird.\n" * 5
    elif fault == "not utf-8":
        raw.captions[first] = b"a bird.\n" * 2 + b"caf\xe9\n" + b"a bird.\n" * 7
    elif fault == "image without features":
        raw.captions[f"{raw.image_id(0).split('/')[0]}/extra.txt"] = b"a bird.\n" * 10
    elif fault == "nan":
        raw.features[3, 6] = np.nan
    elif fault == "inf":
        raw.features[3, 6] = np.inf
    elif fault == "width":
        raw.features = raw.features[:100]
    elif fault == "fewer features":
        raw.features = raw.features[:, :-1]
    elif fault == "fewer labels":
        raw.labels = raw.labels[:-1]
    elif fault == "index zero":
        loc["val_loc"] = np.array([13, 0])
    elif fault == "index out of range":
        loc["test_unseen_loc"] = np.array([17, 18, 21])
    elif fault == "index not whole":
        loc["val_loc"] = np.array([13.5])
    elif fault == "index twice":
        loc["val_loc"] = np.array([13, 14, 13])
    elif fault == "train and test":
        loc["trainval_loc"] = np.append(loc["trainval_loc"], 1)
    elif fault == "train and val":
        loc["val_loc"] = np.append(loc["val_loc"], 2)
    elif fault == "class seen and unseen":
        loc["test_unseen_loc"] = np.array([17, 18, 19])
        loc["trainval_loc"] = np.append(loc["trainval_loc"], 20)
    elif fault == "no train_loc":
        del loc["train_loc"]
    elif fault == "empty split":
        loc["val_loc"] = np.zeros(0)
    elif fault == "class without images":
        raw.labels[raw.labels == 5] = 6
    elif fault == "labels do not match":
        raw.labels[0] = 2
    elif fault.startswith("label "):
        raw.labels[2] = float(fault.removeprefix("label "))
    elif fault.startswith("class folder "):
        name = fault.removeprefix("class folder ")
        raw.captions = {k.replace("002.Bird_2", name): v for k, v in raw.captions.items()}
    elif fault == "no class folder":
        raw.captions = {k.replace("001.Bird_1/", ""): v for k, v in raw.captions.items()}
    elif fault == "two folders of one name":
        raw.captions = {k.replace("002.Bird_2", "x/001.Bird_1"): v for k, v in raw.captions.items()}
    elif fault == "image name":
        raw.captions = {k.replace("_00002.", "_\n2."): v for k, v in raw.captions.items()}
    elif fault == "image twice":
        raw.image_files[1] = raw.image_files[0]
    raw.write_archives(manual_dir)
    captions, splits = manual_dir / CUB["captions"], manual_dir / CUB["splits"]
    if fault == "truncated tar":
        captions.write_bytes(captions.read_bytes()[:-300])
    elif fault == "truncated zip":
        splits.write_bytes(splits.read_bytes()[:-300])
    elif fault == "flipped byte in zip":
        data = bytearray(splits.read_bytes())
        data[300] ^= 0xFF
        splits.write_bytes(data)
    elif fault == "climbing tar":
        with tarfile.open(captions, "w:gz") as archive:
            info = tarfile.TarInfo("cvpr2016_cub/text_c10/../../../evil.txt")
            info.size = 4
            archive.addfile(info, io.BytesIO(b"evil"))
    elif fault == "climbing zip":
        with zipfile.ZipFile(splits, "a") as archive:
            archive.writestr("../evil.txt", "evil")
    elif fault == "truncated mat":
        splits.unlink()
        folder = manual_dir / CUB["splits_folder"]
        folder.mkdir(parents=True)
        (folder / "att_splits.mat").write_bytes(raw.splits_mat())
        (folder / "res101.mat").write_bytes(raw.features_mat()[:-200])
    elif fault == "no captions":
        captions.unlink()
    elif fault == "member missing":
        with zipfile.ZipFile(splits, "w") as archive:
            archive.writestr("readme.txt", "")
    elif fault == "no features":
        splits.unlink()
        folder = manual_dir / CUB["splits_folder"]
        folder.mkdir(parents=True)
        scipy.io.savemat(folder / "res101.mat", {"other": 1})
        (folder / "att_splits.mat").write_bytes(raw.splits_mat())


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("caption file missing", r"image number 1, '.*image_00001\.jpg', has no caption file"),
        ("nine captions", r"image_00001\.txt has 9 lines"),
        ("eleven captions", r"image_00001\.txt has 11 lines"),
        ("empty caption", r"image_00001\.txt, line 5 is empty"),
        ("not utf-8", r"image_00001\.txt, line 3 is not UTF-8"),
        ("image without features", r"no features for the image with captions .*extra\.txt"),
        ("nan", r"res101\.mat: the features of image number 7 "),
        ("inf", r"res101\.mat: the features of image number 7 "),
        ("width", r"features are 100 wide, not 2048"),
        ("fewer features", r"features of 19 images, but names of 20"),
        ("fewer labels", r"'labels' must be 20 numbers"),
        ("index zero", r"val_loc number 2 is 0, but there are images 1 to 20"),
        ("index out of range", r"test_unseen_loc number 3 is 21"),
        ("index not whole", r"val_loc must hold whole numbers"),
        ("index twice", r"val_loc has index 13 twice"),
        ("train and test", r"index 1 is both in trainval_loc and in test_seen_loc"),
        ("train and val", r"index 2 is both in train_loc and in val_loc"),
        ("class seen and unseen", r"class 5 is both in trainval_loc and in test_unseen_loc"),
        ("no train_loc", r"att_splits\.mat has no train_loc"),
        ("empty split", r"val_loc is empty"),
        ("class without images", r"class 5 has no image"),
        ("labels do not match", r"label 2, but its captions are in"),
        ("image twice", r"image numbers 1 and 2 are the same"),
        ("label 1.5", r"the label of image number 3 is 1\.5; labels must be whole numbers"),
        ("label nan", r"the label of image number 3 is nan"),
        ("label inf", r"the label of image number 3 is inf"),
        ("label 1e300", r"the label of image number 3 is 1e\+300"),
        ("label 0", r"the label of image number 3 is 0"),
        ("class folder a\nb", r"class 2, 'a\\nb', holds a line break"),
        ("class folder a\u2028b", r"class 2, 'a\\u2028b', holds a line break"),
        ("class folder  ", r"class 2, ' ', is empty or blank"),
        ("class folder a ", r"class 2, 'a ', begins or ends with a space"),
        ("class folder \udcff", r"class 2, '\\udcff', holds a character that is not Unicode"),
        ("no class folder", r"one folder a class: the name of class 1, '', is empty or blank"),
        ("two folders of one name", r"classes 1 and 2 have the same name '001\.Bird_1'"),
        ("image name", r"holds a line break"),
        ("truncated tar", r"cvpr2016_cub\.tar\.gz is cut off or damaged"),
        ("truncated zip", r"xlsa17\.zip is cut off or damaged"),
        ("flipped byte in zip", r"xlsa17\.zip is cut off or damaged"),
        ("climbing tar", r"has a path outside the archive"),
        ("climbing zip", r"has a path outside the archive"),
        ("truncated mat", r"res101\.mat is cut off or not a MATLAB file"),
        ("no captions", r"cvpr2016_cub\.tar\.gz is missing; get it from https"),
        ("member missing", r"xlsa17\.zip has no member xlsa17/data/CUB/res101\.mat"),
        ("no features", r"res101\.mat has no array 'features'"),
    ],
)
def test_faults_are_named_and_nothing_is_left_behind(tmp_path, fault, message):
    manual_dir = tmp_path / "raw"
    damage(RawFiles(CUB), manual_dir, fault)
    builder = get_builder("cub", data_dir=str(tmp_path / "data"))
    with pytest.raises(ClarelError, match=message):
        load_splits(builder, str(manual_dir))
    assert not list((tmp_path / "data").rglob("*.tfrecord*"))
    assert not list((tmp_path / "data").rglob("*incomplete*"))
    assert not list(tmp_path.rglob("evil*"))


def test_npz_with_pickled_objects_is_refused(tmp_path):
    manual_dir = RawFiles(CUB).write_archives(tmp_path / "raw")
    ragged = np.array([np.zeros(3), np.zeros(4)], object)
    np.savez(manual_dir / "features.npz", features=ragged, image_files=["a"], labels=[1])
    with pytest.raises(ClarelError, match="array of Python objects, which is not read"):
        load_splits(get_builder("cub", "custom", str(tmp_path / "data")), str(manual_dir))


def test_missing_manual_dir_and_features(tmp_path):
    builder = get_builder("cub", data_dir=str(tmp_path / "data"))
    with pytest.raises(ClarelError, match="folder with its raw files as --manual_dir"):
        load_splits(builder)
    with pytest.raises(ClarelError, match=r"manual_dir .*nothing does not exist\. Put cvpr2016"):
        load_splits(builder, str(tmp_path / "nothing"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ClarelError, match=r"manual_dir .*empty is empty\. Put cvpr2016_cub"):
        load_splits(builder, str(tmp_path / "empty"))
    (tmp_path / "file").touch()
    with pytest.raises(ClarelError, match="file is a file; name the folder that holds it"):
        load_splits(builder, str(tmp_path / "file"))
    manual_dir = RawFiles(CUB).write_archives(tmp_path / "raw")
    with pytest.raises(ClarelError, match=r"neither features\.mat nor features\.npz"):
        load_splits(get_builder("cub", "custom", str(tmp_path / "data")), str(manual_dir))


@pytest.fixture
def http_folder(tmp_path):
    """A real HTTP server on loopback; yields (folder, address)."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def fetching_builder(tmp_path, address: str):
    """A CUB builder whose archive of splits is at `address`, with only captions at hand."""
    raw = RawFiles(CUB)
    manual_dir = raw.write_archives(tmp_path / "raw")
    archive = (manual_dir / CUB["splits"]).read_bytes()
    (manual_dir / CUB["splits"]).unlink()
    builder = get_builder("cub", data_dir=str(tmp_path / "data"))
    builder.SPLITS_URL = f"{address}/xlsa17.zip"
    return raw, builder, str(manual_dir), archive


def test_the_archive_of_splits_is_fetched_if_it_is_not_there(tmp_path, http_folder):
    folder, address = http_folder
    raw, builder, manual_dir, archive = fetching_builder(tmp_path, address)
    (folder / "xlsa17.zip").write_bytes(archive)
    assert_round_trip(raw, builder, load_splits(builder, manual_dir))


def test_an_archive_that_changes_between_two_fetches_is_refused(tmp_path, http_folder):
    folder, address = http_folder
    _, builder, manual_dir, archive = fetching_builder(tmp_path, address)
    (folder / "xlsa17.zip").write_bytes(archive)
    load_splits(builder, manual_dir)
    (record,) = tmp_path.rglob("xlsa17.zip.sha256")
    assert record.read_text() == f"{hashlib.sha256(archive).hexdigest()}  xlsa17.zip\n"

    # As if both had been deleted to be made again, and the file behind the address were another.
    shutil.rmtree(builder.data_dir)
    for fetched in record.parent.glob("*.zip*"):
        if fetched != record:
            fetched.unlink()
    (folder / "xlsa17.zip").write_bytes(archive + b" ")
    with pytest.raises(ClarelError, match="is not what was fetched from there before"):
        load_splits(builder, manual_dir)
    assert not Path(builder.data_dir).exists()


def test_an_archive_that_cannot_be_fetched_is_named(tmp_path, http_folder):
    _, builder, manual_dir, _ = fetching_builder(tmp_path, http_folder[1])
    with pytest.raises(ClarelError, match=r"could not be fetched .*; fetch xlsa17\.zip from there"):
        load_splits(builder, manual_dir)


def test_a_fetched_archive_with_another_checksum_is_refused(tmp_path, http_folder):
    folder, address = http_folder
    _, builder, manual_dir, archive = fetching_builder(tmp_path, address)
    (folder / "xlsa17.zip").write_bytes(archive)
    expected = tfds.core.download.checksums.UrlInfo(
        size=len(archive), checksum="0" * 64, filename="xlsa17.zip"
    )
    type(builder).url_infos[builder.SPLITS_URL] = expected
    with pytest.raises(ClarelError, match="has a checksum other than"):
        load_splits(builder, manual_dir)


@pytest.mark.parametrize("names", ["one", "a\nb", "", "twice"])
def test_names_behind_the_mapping_are_checked_too(tmp_path, monkeypatch, names):
    manual_dir = RawFiles(CUB).write_archives(tmp_path / "raw")
    builder = get_builder("cub", data_dir=str(tmp_path / "data"))
    made = ["twice", "other", "third", "fourth", names]
    monkeypatch.setattr(type(builder), "class_names", lambda *_: made)
    if names == "one":
        load_splits(builder, str(manual_dir))
        assert class_names(get_builder("cub", data_dir=str(tmp_path / "data"))) == made
    else:
        with pytest.raises(ClarelError, match=r"class(es 1 and)? 5"):
            load_splits(builder, str(manual_dir))


@pytest.mark.parametrize("text", ["a\nb\nc\nd\n", "a\nb\nc\nd\ne\nf\n", None])
def test_a_built_dataset_with_other_names_than_classes_is_refused(tmp_path, text):
    manual_dir = RawFiles(CUB).write_archives(tmp_path / "raw")
    load_splits(get_builder("cub", data_dir=str(tmp_path / "data")), str(manual_dir))
    (path,) = (tmp_path / "data").rglob("label.labels.txt")
    if text is None:
        path.with_name("features.json").write_text("[" * 100_000)
    else:
        path.write_text(text)
    with pytest.raises(ClarelError, match=r"5 classes, but label\.labels\.txt has|cannot read"):
        class_names(get_builder("cub", data_dir=str(tmp_path / "data")))


@pytest.mark.parametrize("name", [CUB["captions"], CUB["splits"], "features.npz"])
def test_files_that_are_pipes_are_refused(tmp_path, name):
    manual_dir = RawFiles(CUB).write_archives(tmp_path / "raw")
    (manual_dir / name).unlink(missing_ok=True)
    os.mkfifo(manual_dir / name)
    config = "custom" if name == "features.npz" else ""
    with pytest.raises(ClarelError, match=f"{name} is a named pipe, not a file"):
        load_splits(get_builder("cub", config, str(tmp_path / "data")), str(manual_dir))
