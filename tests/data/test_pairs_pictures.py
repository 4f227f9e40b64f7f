"""Own photographs: named by a table or in class folders; every mistake has one clear message."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from clarel_tf.data.loading import class_names, load_splits
from clarel_tf.data.pairs.pictures import check_pictures
from clarel_tf.errors import ClarelError
from clarel_tf.images.extraction import extract_folder
from clarel_tf.images.extractor import Extractor
from clarel_tf.images.loading import load_backbone
from tests.helpers import pictures
from tests.helpers.pairs_data import build, write_table
from tests.images.test_extraction import save_small_network

CLASSES = ("robin", "blue tit", "Grünfink", "鳥", "owl")
PATHS = [f"{name}/{n} {name}.jpg" for name in CLASSES for n in range(4)]
JPEGS = {
    path: pictures.encoded(pictures.picture(60, 45, seed=n), "JPEG") for n, path in enumerate(PATHS)
}

CUT = JPEGS[PATHS[1]][:300]


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> Path:
    return save_small_network(tmp_path_factory.mktemp("network") / "small.keras")


def write(folder: Path, network: Path, images: str) -> Path:
    pictures.fill(folder / images, JPEGS)
    shutil.copy(network, folder)
    (folder / "backbone.json").write_text('{"backbone": "small.keras"}')
    return folder


def with_table(folder: Path, network: Path, suffix: str = "csv", **changes) -> Path:
    """Photographs in a folder of any name, and a table that names them."""
    write(folder, network, "my photos")
    rows = [
        {
            "image": f"my photos/{path}",
            "class": path.split("/")[0],
            "captions": [f"a {path.split('/')[0]}, from the front", f"photo {number}"],
        }
        for number, path in enumerate(PATHS)
    ]
    for line, change in changes.items():
        rows[int(line.removeprefix("line_")) - 2] |= change
    write_table(folder / f"table.{suffix}", rows)
    return folder


def with_folders(folder: Path, network: Path) -> Path:
    """One folder of photographs and one file of sentences for each class; no table."""
    write(folder, network, "images")
    texts = {f"{name}.txt": f"a {name}.\n\nit is a bird\n".encode() for name in CLASSES}
    pictures.fill(folder / "captions", texts | {"raven.txt": b"\xef\xbb\xbfa black bird"})
    return folder


def assert_features_are_those_of(network: Path, folder: Path, splits, path_of) -> None:
    extractor = Extractor(load_backbone(str(network)))
    for split in splits.values():
        if not len(split):
            continue
        paths = [folder / path_of(image_id) for image_id in split.image_ids]
        np.testing.assert_allclose(split.image_features, extractor.batch(paths)[1], atol=1e-5)
        assert split.backbone == extractor.backbone.record
    split = splits["trainval"]
    assert len(set(split.pictures.read(split.image_ids).values())) == len(split)
    assert len(splits["trainval"]) + len(splits["test_seen"]) + len(splits["test_unseen"]) == 20


@pytest.mark.parametrize("suffix", ["csv", pytest.param("jsonl", marks=pytest.mark.slow)])
def test_a_table_names_the_pictures(tmp_path, network, suffix):
    folder = with_table(
        tmp_path / "mine", network, suffix, line_3={"image": "./my photos//" + PATHS[1]}
    )
    builder = build(folder, tmp_path / "data")
    splits = load_splits(builder)
    assert class_names(builder) == sorted(CLASSES)
    # Without a column `image_id` the path is the id.
    assert_features_are_those_of(network, folder, splits, lambda image_id: image_id)
    captions = dict(zip(splits["trainval"].image_ids, splits["trainval"].captions, strict=True))
    for image_id, texts in captions.items():
        number = PATHS.index(image_id.removeprefix("my photos/"))
        assert texts[1].decode() == f"photo {number}"
    noted = json.loads((Path(builder.data_path) / "raw_files.json").read_text())["files"]
    assert noted.keys() == {f"table.{suffix}", "my photos", "backbone.json", "small.keras"}
    # Another picture of the same name is another dataset.
    (folder / "my photos" / PATHS[3]).write_bytes(JPEGS[PATHS[4]])
    with pytest.raises(ClarelError, match=f"my photos/{PATHS[3]} has other contents"):
        load_splits(builder, str(folder))


@pytest.mark.parametrize("config", ["plain", pytest.param("beam", marks=pytest.mark.slow)])
def test_class_folders_need_no_table(tmp_path, network, config):
    folder = with_folders(tmp_path / "mine", network)
    options = {"beam_runner": "DirectRunner"} if config == "beam" else {}
    builder = build(folder, tmp_path / "data", config, **options)
    splits = load_splits(builder)
    assert class_names(builder) == sorted([*CLASSES, "raven"])
    assert_features_are_those_of(network, folder / "images", splits, lambda image_id: image_id)
    for key in ("train", "trainval", "test_unseen"):
        for label in set(splits[key].labels.tolist()):
            name = class_names(builder)[label]
            assert splits[key].descriptions[label] == [f"a {name}.".encode(), b"it is a bird"]
    raven = class_names(builder).index("raven")
    assert splits["test_unseen"].descriptions[raven] == [b"a black bird"]


def test_what_is_left_out_is_told_once(tmp_path, network, capfd):
    folder = with_folders(tmp_path / "mine", network)
    tiny = pictures.encoded(pictures.picture(40, 9), "PNG")
    extra = {"images/robin/a.heic": b"", "images/robin/b.HEIC": b"", "images/owl/c.heic": b""}
    extra |= {"images/owl/tiny.png": tiny, "captions/notes.md": b"", "captions/owl.doc": b""}
    ignored = [".DS_Store", "robin/Thumbs.db", "__MACOSX/robin/._1.tif", "owl/.x.tif"]
    extra |= {f"images/{name}": b"" for name in ignored} | {"captions/._owl.txt": b"\xff"}
    pictures.fill(folder, extra)
    (folder / "captions" / "owl.txt").rename(folder / "captions" / "owl.TXT")
    for name in ("raven", "Nothing"):  # captions alone describe the raven
        (folder / "images" / name).mkdir()
    builder = build(folder, tmp_path / "data")
    told = [line for line in capfd.readouterr().err.splitlines() if line.startswith("photos:")]
    assert told == [
        "photos: left out 2 .heic, 1 .HEIC, 1 .doc in captions/, 1 .md in captions/, "
        "1 class folder without pictures (Nothing)",
        "photos: warning: 1 picture has a side of less than 16 pixels, too few to show much: "
        "images/owl/tiny.png (40 x 9)",
    ]
    splits = load_splits(builder, str(folder))
    assert "photos:" not in capfd.readouterr().err  # the folder was not read again
    owl = class_names(builder).index("owl")
    found = [split.descriptions[owl] for split in splits.values() if owl in split.descriptions]
    assert found and all(one == [b"a owl.", b"it is a bird"] for one in found)


def test_what_a_table_leaves_out(tmp_path, network, capfd):
    folder = with_table(tmp_path / "mine", network)
    small = pictures.encoded(pictures.picture(15, 15), "JPEG")
    pictures.fill(folder / "my photos", dict.fromkeys(PATHS[:7], small) | {"raw/1.tif": b""})
    pictures.fill(folder, {"notes.md": b"", "scans/1.tif": b""})  # not among the photographs
    build(folder, tmp_path / "data")
    told = [line for line in capfd.readouterr().err.splitlines() if line.startswith("photos:")]
    assert told[0] == "photos: left out 1 .tif" and len(told) == 2
    assert "warning: 7 pictures have a side of less than 16" in told[1]
    assert told[1].endswith(f"my photos/{PATHS[4]} (15 x 15), and 2 more")


@pytest.mark.slow
def test_a_table_with_pictures_on_beam(tmp_path, network):
    folder = with_table(tmp_path / "mine", network)
    builder = build(folder, tmp_path / "data", "beam", beam_runner="DirectRunner")
    assert_features_are_those_of(network, folder, load_splits(builder), lambda image_id: image_id)
    (folder / "my photos" / PATHS[5]).write_bytes(b"no picture")
    with pytest.raises(Exception, match=r"table\.csv, line 7: .*1 blue tit\.jpg is not a JPEG"):
        build(folder, tmp_path / "again", "beam", beam_runner="DirectRunner")


def test_class_folders_with_sentences_in_a_table(tmp_path, network):
    folder = with_folders(tmp_path / "mine", network)
    shutil.rmtree(folder / "captions")
    lines = ["class,captions", *(f'{name},"a {name}. | it sings"' for name in CLASSES)]
    (folder / "table.csv").write_text("\n".join(lines), encoding="utf-8")
    splits = load_splits(build(folder, tmp_path / "data"))
    assert_features_are_those_of(network, folder / "images", splits, lambda image_id: image_id)
    [label] = set(splits["test_unseen"].labels.tolist())
    assert splits["test_unseen"].descriptions[label][1] == b"it sings"


@pytest.mark.slow
def test_a_table_without_captions_beside_text_files(tmp_path, network):
    folder = write(tmp_path / "mine", network, "images")
    pictures.fill(folder / "captions", {f"{name}.txt": b"a bird" for name in CLASSES})
    lines = [
        "image_id,class,image",
        *(f"{n},{p.split('/')[0]},images/{p}" for n, p in enumerate(PATHS)),
    ]
    (folder / "table.csv").write_text("\n".join(lines), encoding="utf-8")
    splits = load_splits(build(folder, tmp_path / "data"))
    assert_features_are_those_of(
        network, folder / "images", splits, lambda image_id: PATHS[int(image_id)]
    )


def replace_in_table(folder: Path, old: str, new: str) -> None:
    text = (folder / "table.csv").read_text()
    (folder / "table.csv").write_text(text.replace(old, new, 1))


def with_ids(folder: Path, network: Path) -> Path:
    """A table with the column `image_id` too."""
    lines = (with_table(folder, network) / "table.csv").read_text().splitlines()
    lines = [f"image_id,{lines[0]}", *(f"{n},{line}" for n, line in enumerate(lines[1:]))]
    (folder / "table.csv").write_text("\n".join(lines))
    return folder


def in_table(line: int, **change):
    return lambda folder, network: with_table(folder, network, **{f"line_{line}": change})


def then(make, change):
    def both(folder: Path, network: Path) -> None:
        change(make(folder, network))

    return both


FAULTS = {
    "table.csv, line 5: there is no picture 'my photos/x.jpg' in": in_table(
        5, image="my photos/x.jpg"
    ),
    "table.csv, line 7: picture 'my photos/robin/0 robin.jpg' occurs already (": then(
        with_ids, lambda folder: replace_in_table(folder, PATHS[5], PATHS[0])
    ),
    "table.csv, line 7: image 'my photos/robin/0 robin.jpg' occurs already (": in_table(
        7, image="my photos/robin/0 robin.jpg"
    ),
    "table.csv, line 4: 'image' must be a path in the folder of the table, not '../a.jpg'": (
        in_table(4, image="../a.jpg")
    ),
    "my photos/extra.jpg: no row of the table names this picture (1 of 21 pictures": then(
        with_table, lambda folder: pictures.fill(folder, {"my photos/extra.jpg": b""})
    ),
    "table.csv, line 3: {folder}/my photos/robin/1 robin.jpg is empty (0 bytes). Correct": then(
        with_table, lambda folder: (folder / "my photos" / PATHS[1]).write_bytes(b"")
    ),
    "images/robin/1 robin.jpg is damaged or cut off. Correct": then(
        with_folders,
        lambda folder: (folder / "images" / PATHS[1]).write_bytes(CUT),
    ),
    "images/a.jpg is in no folder of a class; put it into images/<class>/": then(
        with_folders, lambda folder: pictures.fill(folder, {"images/a.jpg": b""})
    ),
    "owl.jpg: the image has no caption, and neither has any image of class 'owl' in "
    "{split}; add a caption, or a row without 'image_id', or the file captions/owl.txt,": then(
        with_folders, lambda folder: (folder / "captions" / "owl.txt").unlink()
    ),
    "captions/owl.txt has no sentence; write one a line": then(
        with_folders, lambda folder: (folder / "captions" / "owl.txt").write_text(" \n")
    ),
    "captions/owl.txt, line 2: byte 1 of the line is not UTF-8": then(
        with_folders, lambda folder: (folder / "captions" / "owl.txt").write_bytes(b"a\n\xff")
    ),
    "class 'Robin' differs from 'robin'": then(
        with_folders, lambda folder: (folder / "captions" / "Robin.txt").write_text("a bird")
    ),
    "images holds no pictures": then(
        with_folders, lambda folder: shutil.rmtree(folder / "images") or (folder / "images").mkdir()
    ),
    "and its table has the column 'image'; remove one of them": then(
        with_table, lambda folder: np.savez(folder / "features.npz", a=1)
    ),
}


def rename_two(folder: Path) -> None:
    for path in PATHS[2:4]:
        replace_in_table(folder, path, f"{path}.jpg")


def remove_captions(folder: Path) -> None:
    for name in ("owl", "robin", "鳥"):
        (folder / "captions" / f"{name}.txt").unlink()


FAULTS |= {
    "line 4: there is no picture 'my photos\\\\robin\\\\2 robin.jpg' in {folder}; "
    "write / instead of \\ in paths": then(
        with_table,
        lambda folder: replace_in_table(
            folder, f"my photos/{PATHS[2]}", f"my photos/{PATHS[2]}".replace("/", "\\")
        ),
    ),
    "correct the path, or remove the row; missing too: 'my photos/robin/3 robin.jpg.jpg' ({folder}"
    "/table.csv, line 5)": then(with_table, rename_two),
    "like that); add a row, or move it elsewhere; not named either: my photos/y.jpg": then(
        with_table, lambda folder: pictures.fill(folder / "my photos", {"x.jpg": b"", "y.jpg": b""})
    ),
    "describes the class; classes that lack captions too: 'robin', '鳥'": then(
        with_folders, remove_captions
    ),
}


def test_a_message_lists_ten_places(tmp_path):
    paths = {str(n): f"{n}.jpg" for n in range(12)}
    pictures.fill(tmp_path, {"a.jpg": b""})
    with pytest.raises(ClarelError) as error:
        check_pictures(tmp_path, paths, lambda image_id: f"line {image_id}")
    assert "line 0: there is no picture '0.jpg'" in str(error.value)
    assert str(error.value).endswith("'9.jpg' (line 9) and 2 more")


@pytest.mark.parametrize("message", FAULTS)
def test_a_mistake_has_one_message_with_file_and_line(tmp_path, network, message):
    folder = tmp_path / "mine"
    FAULTS[message](folder, network)
    with pytest.raises(ClarelError) as error:
        build(folder, tmp_path / "data")
    wanted = re.escape(message.replace("{folder}", str(folder))).replace(r"\{split\}", r"\w+")
    assert re.search(wanted, str(error.value)), error.value
    assert not list((tmp_path / "data").rglob("*.tfrecord*"))


def test_rows_with_and_without_a_picture(tmp_path, network):
    folder = with_table(tmp_path / "mine", network, line_6={"image": ""})
    # Neither an id nor a picture: it describes its class, so nothing names the picture.
    with pytest.raises(ClarelError, match=r"0 blue tit\.jpg: no row of the table names"):
        build(folder, tmp_path / "data")
    replace_in_table(with_ids(tmp_path / "ids", network), f"my photos/{PATHS[4]}", "")
    message = r"line 6: the row names no picture in 'image', unlike .*line 2"
    with pytest.raises(ClarelError, match=message):
        build(tmp_path / "ids", tmp_path / "data")


def test_features_of_clarel_extract_bring_their_record(tmp_path, network):
    folder = with_table(tmp_path / "mine", network)
    backbone = load_backbone(str(network))
    text = (folder / "table.csv").read_text()
    (folder / "table.csv").write_text(
        text.replace("image,", "image_id,", 1).replace("my photos/", "")
    )
    extract_folder(folder / "my photos", folder / "features.npz", backbone, tell=lambda _: None)
    split = load_splits(build(folder, tmp_path / "data"))["trainval"]
    assert split.backbone == backbone.record


@pytest.mark.parametrize("fault", ["another backbone", "no record"])
def test_files_of_features_of_different_backbones(tmp_path, network, fault):
    folder = with_table(tmp_path / "mine", network)
    text = (folder / "table.csv").read_text()
    text = text.replace("image,", "image_id,", 1).replace("my photos/", "")
    (folder / "table.csv").write_text(text)
    photos, parts = folder / "my photos", (folder / "features-1.npz", folder / "features-2.npz")
    for path, mirrored in zip(parts, (False, True), strict=True):
        extract_folder(photos, path, load_backbone(str(network), mirrored=mirrored))
    message = r"different backbones: mirrored False and True"
    if fault == "no record":
        with np.load(parts[0]) as arrays:
            np.savez(parts[0], image_ids=arrays["image_ids"], features=arrays["features"])
        message = r"features-1\.npz does not say which backbone made it, but .*features-2\.npz does"
    with pytest.raises(ClarelError, match=message):
        build(folder, tmp_path / "data")
