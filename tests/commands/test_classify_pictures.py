"""`classify_main.py` with pictures: files, folders, every option; bad files get one clear line."""

import csv
import dataclasses
import io
import json
import shutil

import numpy as np
import pytest

from clarel_tf.images.feature_files import write_features
from clarel_tf.images.loading import load_backbone
from clarel_tf.serving.client import ServingClient
from clarel_tf.serving.local import LocalTransport
from clarel_tf.serving.origin import Origin
from clarel_tf.storage import checksums
from clarel_tf.storage.files import write_json
from tests.helpers import pictures
from tests.helpers.model_server import serve
from tests.helpers.programs import call_program
from tests.helpers.tiny_backbone import tiny_network

KINDS = pictures.many_kinds()
GOOD = {
    "a/photo.jpg": KINDS["jpeg"],
    "b/photo.jpg": pictures.encoded(pictures.picture(seed=5), "JPEG"),
    "a/two words, ümläut.png": KINDS["png"],
    "b/鳥の写真.webp": KINDS["lossless webp"],
    "b/птица.gif": KINDS["gif"],
    "one.jpg": KINDS["1 x 1 jpeg"],
}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    pictures.fill(folder, GOOD)
    return folder


def classify(*arguments, **options):
    return call_program("classify_main.py", *map(str, arguments), **options)


def rows_of_client(exported_run, files, **options):
    """What the client answers: path, class and probability."""
    answer = ServingClient(LocalTransport(exported_run)).classify(
        [file.read_bytes() for file in files], **options
    )
    columns = answer["class_name"], answer["probability"]
    return [
        (str(file), *row)
        for file, *of_file in zip(files, *columns, strict=True)
        for row in zip(*of_file, strict=True)
    ]


def test_files_and_folders_in_every_format(photos, exported_run):
    export = f"--export_dir={exported_run}"
    expected = rows_of_client(exported_run, [photos / name for name in sorted(GOOD)])
    table, as_csv, as_json = (
        classify(photos, photos / "one.jpg", export, f"--format={style}")
        for style in ("table", "csv", "json")
    )
    assert [done.returncode for done in (table, as_csv, as_json)] == [0, 0, 0]
    assert [done.stderr for done in (table, as_csv, as_json)] == ["", "", ""]
    for rows in (csv.DictReader(io.StringIO(as_csv.stdout)), json.loads(as_json.stdout)):
        found = [(row["image_id"], row["class"], float(row["probability"])) for row in rows]
        assert [row[:2] for row in found] == [row[:2] for row in expected]
        np.testing.assert_allclose([row[2] for row in found], [row[2] for row in expected])
    header, *lines = table.stdout.splitlines()
    assert header.split()[:4] == ["image_id", "rank", "class", "distance"]
    assert [line.split("  ")[0] for line in lines] == [row[0] for row in expected]


@pytest.mark.filterwarnings("ignore:the model knows")
def test_options_hold_for_pictures_too(photos, exported_run):
    flags = ["--k=2", "--alpha=0.3", "--among=kind 1,kind 7", "--new_class=mine: a pink bird; zzz"]
    done = classify(photos / "a", f"--export_dir={exported_run}", *flags, "--format=json")
    assert done.returncode == 0, done.stderr
    files = [photos / "a/photo.jpg", photos / "a/two words, ümläut.png"]
    options = {"alpha": 0.3, "k": 3, "among": ["kind 1", "kind 7"]}
    expected = rows_of_client(
        exported_run, files, new_classes={"mine": ["a pink bird", "zzz"]}, **options
    )
    rows = json.loads(done.stdout)
    new = [row for row in rows if row["class"] == "mine"]
    assert len(new) == 2 and all(0 < row["known_words"] < 1 for row in new)
    assert all("knows only" in row["warning"] for row in new)
    by_rank = {(row[0], row[1]): row[2] for row in expected}
    for row in rows:
        assert row["probability"] == pytest.approx(by_rank[row["image_id"], row["class"]], abs=1e-5)


def test_broken_pictures_are_named_and_the_others_answered(tmp_path, exported_run):
    bad = {name: pictures.broken()[name] for name in ("text", "cut jpeg", "empty", "huge png")}
    pictures.fill(tmp_path, {f"{name}.jpg": data for name, (data, _) in bad.items()})
    pictures.fill(tmp_path, {f"good {n}.png": KINDS["png"] for n in range(18)})
    done = classify(".", f"--export_dir={exported_run}", "--k=1", "--format=json", cwd=tmp_path)
    assert done.returncode == 2
    names = [row["image_id"] for row in json.loads(done.stdout)]
    assert names == sorted(f"./good {n}.png" for n in range(18))
    *said, rate, last = done.stderr.splitlines()
    assert sorted(said) == sorted(f"broken: ./{name}.jpg {text}" for name, (_, text) in bad.items())
    assert rate.startswith("22 of 22 pictures, ")
    assert last == "4 pictures have no answer, see above"


MISTAKES = {
    "text.jpg": (b"no picture", "text.jpg is not a JPEG, PNG, GIF, BMP or WebP picture"),
    "folder/notes.txt": (b"text", "folder holds no pictures: no file, of 1, ends in .jpg, "),
    "absent.jpg": (None, "the picture absent.jpg does not exist"),
    "all/1.jpg": (b"1", "no picture can be read; the first: all/1.jpg is not a JPEG"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_picture_that_cannot_be_classified_is_one_line(tmp_path, exported_run, name):
    data, message = MISTAKES[name]
    if data is not None:
        pictures.fill(tmp_path, {name: data})
    if name.startswith("all"):
        pictures.fill(tmp_path, {"all/2.jpg": b"2"})
    path = name.split("/")[0]
    done = classify(path, f"--export_dir={exported_run}", "--format=json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert message in done.stderr


def test_pictures_go_to_a_server(photos, exported_run):
    with serve(exported_run) as addresses:
        answers = [
            classify(photos / "a", f"--server={address}", "--format=csv") for address in addresses
        ]
    local = classify(photos / "a", f"--export_dir={exported_run}", "--format=csv")
    for done in (local, *answers):
        assert done.returncode == 0, done.stderr
    table = [list(csv.DictReader(io.StringIO(done.stdout))) for done in (local, *answers)]
    for rows in table[1:]:
        assert [row["class"] for row in rows] == [row["class"] for row in table[0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.jpg"], "give one of --export_dir, --run_dir and --server"),
        (["--export_dir=e"], "give pictures (photo.jpg folder/), or --features, or --dataset"),
        (["a.jpg", "--features=f.npz", "--run_dir=r"], "give pictures (photo.jpg folder/), or"),
        (["a.jpg", "--export_dir=e", "--backbone=own.keras"], "pictures with --run_dir"),
        (["--export_dir=e", "a.jpg"], "the picture a.jpg does not exist"),
    ],
)
def test_flags_that_do_not_fit_together(arguments, message, tmp_path):
    done = classify(*arguments, cwd=tmp_path)
    assert done.returncode == 1 and message in done.stderr and done.stderr.count("\n") == 1


@pytest.fixture(scope="module")
def own_run(tmp_path_factory, finished_run):
    """A run that records a network of one's own: (folder, path of the network)."""
    folder = tmp_path_factory.mktemp("own")
    run = shutil.copytree(finished_run, folder / "run")
    tiny_network().save(folder / "own.keras")
    backbone = load_backbone(str(folder / "own.keras"), cropped=True)
    record = json.loads(backbone.record.to_json())
    noted = checksums.read_json(run / "data.json", "")
    checksums.write_json(run / "data.json", noted | {"backbone": record})
    return run, folder / "own.keras"


@pytest.mark.slow
def test_a_run_and_its_export_take_pictures_with_its_own_network(own_run, photos, tmp_path):
    run, own = own_run
    flags = [f"--run_dir={run}", f"--backbone={own}"]
    done = call_program("export_main.py", *flags, f"--export_dir={tmp_path / 'e'}")
    assert done.returncode == 0, done.stderr
    assert (
        "It takes pictures too: own.keras at 32 pixels, cropped, mirrored is part of it."
        in done.stdout
    )
    answers = [
        classify(photos, *source, "--format=csv", "--new_class=mine: a red bird")
        for source in (flags, [f"--export_dir={tmp_path / 'e'}"])
    ]
    assert [done.returncode for done in answers] == [0, 0], answers[0].stderr
    of_run, of_export = (list(csv.DictReader(io.StringIO(done.stdout))) for done in answers)
    assert len(of_run) >= 5 * len(GOOD)
    for one, other in zip(of_run, of_export, strict=True):
        assert [one[key] for key in ("image_id", "class")] == [
            other[key] for key in ("image_id", "class")
        ]
        assert float(one["distance"]) == pytest.approx(float(other["distance"]), abs=1e-4)


def test_a_backbone_that_did_not_make_the_features_is_refused(
    own_run, finished_run, photos, tmp_path
):
    run, own = own_run
    tiny_network(seed=1).save(tmp_path / "own.keras")
    other = f"--backbone={tmp_path / 'own.keras'}"
    where = f"--export_dir={tmp_path / 'e'}"
    picture = photos / "one.jpg"
    for done, message in (
        (call_program("export_main.py", f"--run_dir={run}", where, other), "weights_sha256"),
        (classify(picture, f"--run_dir={run}", other), "come from different backbones"),
        (
            classify(picture, f"--run_dir={run}"),
            "features of the run are of own.keras at 32 pixels, cropped, mirrored; give its path",
        ),
        (
            classify(picture, f"--run_dir={finished_run}"),
            "the run takes image features, but no pictures: the run in",
        ),
        (
            call_program("export_main.py", f"--run_dir={finished_run}", where, f"--backbone={own}"),
            "does not record which network made its features, so nobody can tell whether it was",
        ),
    ):
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
        assert message in done.stderr
    assert not (tmp_path / "e").exists()
    done = call_program("export_main.py", f"--run_dir={finished_run}", where)
    assert done.returncode == 0, done.stderr
    assert "It takes image features, but no pictures: the run in" in done.stdout
    done = classify(picture, where)
    assert done.returncode == 1 and "takes image features, but no pictures" in done.stderr


def test_features_of_another_backbone_are_refused(own_run, exported_run, splits, tmp_path):
    run, own = own_run
    exports = shutil.copytree(exported_run, tmp_path / "e")
    record = load_backbone(str(own), cropped=True).record
    origin = Origin("runs/x", "demo", "one", backbone=record)
    for place in (exports / "prototype_classifier" / "1").glob("assets.extra"):
        write_json(place / "origin.json", dataclasses.asdict(origin))
    features = splits["test_seen"].image_features[:2]
    other = dataclasses.replace(record, input_size=33)
    write_features(tmp_path / "same.npz", ["a", "b"], [features], record)
    write_features(tmp_path / "other.npz", ["a", "b"], [features], other)
    np.savez(tmp_path / "plain.npz", features=features)
    for source in (f"--run_dir={run}", f"--export_dir={exports}"):
        for name, code in (("same", 0), ("plain", 0), ("other", 1)):
            done = classify(f"--features={tmp_path / name}.npz", source)
            assert done.returncode == code, done.stderr
        assert "come from different backbones: input_size 33 and 32" in done.stderr
        assert done.stderr.count("\n") == 1
