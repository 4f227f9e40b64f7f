"""A built dataset knows its raw files: other folders and changed files never go unnoticed."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from clarel_tf.data.loading import get_builder, load_splits
from clarel_tf.data.raw_files import NOTE
from clarel_tf.data.raw_files import RawFiles as Noted
from clarel_tf.errors import ClarelError
from clarel_tf.storage import files
from tests.helpers.pairs_data import build, make_data, write_folder
from tests.helpers.pictures import fill
from tests.helpers.raw_files import CUB, RawFiles

PAIRS = Path(__file__).resolve().parents[2] / "datasets" / "pairs"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """`mine`, a folder of own data, and `data`, where it is built; to be copied."""
    root = tmp_path_factory.mktemp("raw")
    build(write_folder(root / "mine", make_data(4, 3, range(1, 3), width=2)), root / "data")
    return root


@pytest.fixture
def place(made, tmp_path) -> Path:
    """A copy of `made`, of which the note says that it was built here."""
    shutil.copytree(made, tmp_path / "it")  # keeps the times of the files
    note = next((tmp_path / "it" / "data").rglob(NOTE))
    note.write_text(note.read_text().replace(str(made), str(tmp_path / "it")))
    return tmp_path / "it"


def use(place: Path, manual_dir: Path | None, config: str = ""):
    builder = get_builder("pairs", config, str(place / "data"))
    return load_splits(builder, manual_dir and str(manual_dir))


def other_folder(place: Path) -> Path:
    rows = make_data(4, 3, range(1, 3), width=2)
    rows[0]["captions"] = ["another sentence"]
    return write_folder(place / "other", rows)


def test_the_note_has_the_files_and_their_hashes(place):
    note = files.read_json(next((place / "data").rglob(NOTE)))
    assert note["folder"] == str(place / "mine")
    assert {name: one["sha256"] for name, one in note["files"].items()} == {
        name: files.sha256(place / "mine" / name) for name in ("table.csv", "features.npz")
    }


def test_another_folder_is_refused_by_name_with_what_to_do(place):
    with pytest.raises(ClarelError) as error:
        use(place, other_folder(place))
    message = str(error.value)
    assert f"was built from {place / 'mine'}, and {place / 'other'} holds other data" in message
    assert "(table.csv has other contents" in message
    assert "--config=NAME" in message and "leave out --manual_dir" in message


def test_own_datasets_side_by_side_by_name(place):
    other = other_folder(place)
    use(place, other, "birds-2")
    texts = [
        caption for split in use(place, None, "birds-2").values() for caption in split.captions
    ]
    assert [b"another sentence"] in texts
    plain = [caption for split in use(place, None).values() for caption in split.captions]
    assert [b"another sentence"] not in plain
    with pytest.raises(ClarelError, match=r"'pairs/bird' is not built yet .*: birds-2, plain\)"):
        use(place, None, "bird")
    with pytest.raises(ClarelError, match=r"--config=\.\./x: the name of a dataset begins with"):
        use(place, None, "../x")


CHANGES = {
    "table.csv has other contents": lambda folder: (folder / "table.csv").write_text("x"),
    "features.npz has other contents": lambda folder: flip_last_byte(folder / "features.npz"),
    "splits.json is new": lambda folder: (folder / "splits.json").write_text("{}"),
}


def flip_last_byte(path: Path) -> None:
    """Of the same size, so that only the time of the change and the contents differ."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("message", CHANGES)
def test_a_changed_file_is_named(place, capfd, message):
    CHANGES[message](place / "mine")
    with pytest.raises(ClarelError, match=f"which has changed since .*{message}"):
        use(place, place / "mine")
    assert len(use(place, None)) == 6  # what was built can still be used
    err = capfd.readouterr().err
    assert message in err and "it is used as it was built" in err


def test_files_that_are_gone(place, capfd):
    (place / "mine" / "table.csv").rename(place / "mine" / "table.jsonl")
    with pytest.raises(ClarelError, match=r"table.csv is not there; table.jsonl is new"):
        use(place, place / "mine")
    shutil.rmtree(place / "mine")
    capfd.readouterr()
    assert len(use(place, None)) == 6
    assert capfd.readouterr().err == ""
    with pytest.raises(ClarelError, match="mine does not exist"):
        use(place, place / "mine")


def test_the_same_contents_at_another_place_are_the_same_data(place, monkeypatch):
    copy = place / "copy"
    shutil.copytree(place / "mine", copy)
    for path in copy.iterdir():
        os.utime(path, (1, 1))
    use(place, copy)
    assert files.read_json(next((place / "data").rglob(NOTE)))["folder"] == str(copy)
    # From now on, times and sizes are enough: no file is read.
    monkeypatch.setattr(files, "sha256", lambda path: pytest.fail(f"{path} was read"))
    use(place, copy)


def test_a_dataset_of_an_older_version_is_used_with_a_line(place, capfd):
    next((place / "data").rglob(NOTE)).unlink()
    assert len(use(place, place / "mine")) == 6
    err = capfd.readouterr().err
    assert "has no note of its raw files" in err and err.count("\n") == 1


def test_a_damaged_note_is_named(place):
    note = next((place / "data").rglob(NOTE))
    for content in ("[]", "{", '{"folder": "x", "files": {"a": {"stamp": "1"}}}'):
        note.write_text(content)
        with pytest.raises(ClarelError, match=f"cannot read {note} .*delete it"):
            use(place, None)


def test_the_tfds_command_refuses_in_one_line(place):
    command = [sys.executable, "-m", "tensorflow_datasets.scripts.cli.main", "build", str(PAIRS)]
    command += [f"--data_dir={place / 'data'}", f"--manual_dir={other_folder(place)}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=place)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: dataset 'pairs' in ")


def test_a_build_that_fails_leaves_no_note(place):
    folder = other_folder(place)
    arrays = dict(np.load(folder / "features.npz"))
    np.savez(folder / "features.npz", image_ids=arrays["image_ids"])
    with pytest.raises(ClarelError, match="has no array 'features'"):
        use(place, folder, "bad")
    assert not list((place / "data" / "pairs" / "bad").rglob(NOTE))


def test_a_build_says_nothing_of_a_download(place, capfd):
    use(place, other_folder(place), "quiet")
    told = capfd.readouterr()
    where = place / "data" / "pairs" / "quiet" / "1.0.0"
    assert told.out.splitlines() == [
        f"Builds the dataset pairs/quiet/1.0.0 in {where}",
        "The dataset pairs/quiet/1.0.0 is built",
    ]
    assert "Shuffling" not in told.err and "Generating" not in told.err


def test_data_that_is_not_built_asks_for_the_folder_once(place):
    with pytest.raises(ClarelError, match="--manual_dir") as error:
        use(place, None, "absent")
    assert " ".join(str(error.value).split()).lower().count("give the folder") == 1


@pytest.fixture
def photos(tmp_path) -> Path:
    """Eight files in folders; `note_of` notes them."""
    folder = tmp_path / "photos"
    fill(folder, {f"images/{name}/{n}.jpg": b"%d" % n for name in ("a", "b") for n in range(4)})
    return folder


def note_of(folder: Path) -> Noted:
    """What a build notes, as it is read again."""
    Noted.of(folder, [folder / "images"]).write(folder.parent)
    return Noted.read(folder.parent)


def test_changed_files_in_folders_are_named(photos):
    noted = note_of(photos)
    assert noted.changes(photos, [photos / "images"]) == []
    fill(photos, {"images/b c/new one.jpg": b"", "images/a/1.jpg": b"x", "images/a/2.jpg": b"yz"})
    (photos / "images" / "b" / "3.jpg").unlink()
    assert noted.changes(photos, [photos / "images"]) == [
        "images/b/3.jpg is not there",
        "images/b c/new one.jpg is new",
        "images/a/1.jpg has other contents",
        "images/a/2.jpg has other contents",
    ]


def test_files_of_file_managers_and_new_times_are_no_change(photos, monkeypatch):
    noted = note_of(photos)
    fill(photos, {"images/.DS_Store": b"x", "images/a/Thumbs.db": b"x", "images/a/._1.jpg": b"x"})
    os.utime(photos / "images" / "a" / "0.jpg", (1, 1))
    assert noted.changes(photos, [photos / "images"]) == []
    noted = noted.stamped(photos)
    (photos / "images" / ".DS_Store").unlink()
    monkeypatch.setattr(files, "sha256", lambda path: pytest.fail(f"{path} was read"))
    assert noted.changes(photos, [photos / "images"]) == []


def test_a_note_of_an_older_version_is_compared_as_a_whole(photos):
    note_of(photos)
    note = files.read_json(photos.parent / NOTE)
    assert list(note.pop("below")["images"]) == [f"{x}/{n}.jpg" for x in "ab" for n in range(4)]
    # As the older version computes it.
    digest = hashlib.sha256()
    for path in sorted((photos / "images").rglob("*.jpg")):
        name = path.relative_to(photos / "images").as_posix()
        digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\0".encode())
    assert note["files"]["images"]["sha256"] == digest.hexdigest()
    files.write_json(photos.parent / NOTE, note)
    os.utime(photos / "images" / "a" / "0.jpg", (1, 1))
    noted = Noted.read(photos.parent)
    assert noted.changes(photos, [photos / "images"]) == []
    fill(photos, {"images/a/0.jpg": b"x"})
    [change] = noted.changes(photos, [photos / "images"])
    assert change.startswith("images has other contents (an older version built it")


def test_the_message_names_five_changes_and_what_becomes_of_runs(place):
    (place / "mine" / "table.csv").unlink()
    for number in range(7):
        (place / "mine" / f"table-{number}.csv").write_text("x")
    with pytest.raises(ClarelError) as error:
        use(place, place / "mine")
    message = str(error.value)
    assert "(table.csv is not there; table-0.csv is new; " in message
    assert "table-3.csv is new; and 3 more)" in message
    assert "evaluated only with a build of the older files" in message


def test_a_file_that_changes_during_the_build_is_named(tmp_path, monkeypatch):
    folder = write_folder(tmp_path / "mine", make_data(4, 3, range(1, 3), width=2))
    of = Noted.of

    def change_first(where: Path, paths: list[Path]) -> Noted:
        flip_last_byte(folder / "features.npz")
        return of(where, paths)

    monkeypatch.setattr(Noted, "of", change_first)
    with pytest.raises(ClarelError, match=r"mine: features\.npz changed while the dataset was"):
        build(folder, tmp_path / "data")


@pytest.mark.parametrize("form", ["archives", "unpacked"])
def test_the_public_files_are_noted_too(tmp_path, form):
    folder = getattr(RawFiles(CUB), f"write_{form}")(tmp_path / "raw")

    def load(manual_dir: Path) -> None:
        load_splits(get_builder("cub", data_dir=str(tmp_path / "data")), str(manual_dir))

    load(folder)
    load(folder)
    changed = RawFiles(CUB)
    first = next(iter(changed.captions))
    changed.captions[first] = changed.captions[first].replace(b"sentence 3", b"sentence x")
    other = getattr(changed, f"write_{form}")(tmp_path / "other")
    name = "cvpr2016_cub.tar.gz"
    if form == "unpacked":
        name = f"cvpr2016_cub/text_c10/{first}"
    with pytest.raises(ClarelError, match=rf"{name} has other contents.*name another --data_dir"):
        load(other)


def test_raw_files_for_a_dataset_without_any(tmp_path, demo_data_dir):
    with pytest.raises(ClarelError, match=r"'demo' is made without raw.* --dataset missing"):
        load_splits(get_builder("demo", "small", data_dir=str(demo_data_dir)), str(tmp_path))
    with pytest.raises(ClarelError, match="'demo' is made without raw files"):
        load_splits(get_builder("demo", "small", data_dir=str(tmp_path)), str(tmp_path))
