"""Folders of pictures become files of features: all kinds, broken ones, and after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from clarel_tf.data.backbone_choice import BackboneChoice, read_choice
from clarel_tf.data.pairs.features import read_features as read_pairs_features
from clarel_tf.errors import ClarelError
from clarel_tf.images import embedding, extraction
from clarel_tf.images.decoding import decode_pictures
from clarel_tf.images.extraction import extract_folder
from clarel_tf.images.extractor import Extractor
from clarel_tf.images.feature_files import read_features, read_record
from clarel_tf.images.loading import load_backbone
from clarel_tf.images.picture_files import list_pictures, read_picture
from clarel_tf.storage import files
from tests.helpers import pictures
from tests.helpers.cpp_calls import ask_cpp
from tests.helpers.programs import ROOT, call_program

DATA = Path(os.environ.get("CLAREL_DATA", "nowhere"))
KINDS = {f"{name}.{name.split()[-1]}": data for name, data in pictures.many_kinds().items()}


def save_small_network(path: Path, size: int = 40, filters: int = 6) -> Path:
    """A network that is made in no time."""
    keras.utils.set_random_seed(filters)
    inputs = keras.Input((size, size, 3))
    x = keras.layers.Rescaling(1 / 255)(inputs)
    keras.Model(inputs, keras.layers.Conv2D(filters, 5, activation="relu")(x)).save(path)
    return path


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    path = tmp_path_factory.mktemp("network") / "small.keras"
    return load_backbone(str(save_small_network(path)))


@pytest.fixture
def folder(tmp_path) -> Path:
    pictures.fill(tmp_path / "images", {f"birds/{name}": data for name, data in KINDS.items()})
    return tmp_path / "images"


def extract(*arguments, **options) -> list[str]:
    """`extract_folder`, quietly; returns what it tells."""
    told: list[str] = []
    extract_folder(*arguments, **options, tell=told.append)
    return told


def test_every_kind_of_picture(tmp_path, folder, backbone):
    pictures.fill(folder / "more", {f"{k}.bin": d for k, d in pictures.only_pillow().items()})
    pictures.fill(folder, {"birds/notes.txt": b"no picture", ".hidden/a.png": b""})
    for number, path in enumerate(sorted((folder / "more").iterdir())):
        path.rename(path.with_name(f"{number}.webp"))
    told = extract(folder, tmp_path / "f.npz", backbone)
    names, features, record = read_features(tmp_path / "f.npz")
    assert names == sorted([*(f"birds/{name}" for name in KINDS), "more/0.webp", "more/1.webp"])
    assert record == backbone.record and features.shape == (len(names), 6)
    assert told[-1].startswith(f"{len(names)} of {len(names)} pictures")
    one = Extractor(backbone).pixels(folder / names[3])
    np.testing.assert_allclose(backbone.features(one[None])[0], features[3], atol=1e-5)
    # Kinds that only Pillow decodes are those that they look like.
    palette = names.index("birds/palette png.png")
    similar = [names.index("more/0.webp"), names.index("more/1.webp")]
    assert np.abs(features[similar] - features[palette]).max() < 0.2
    # What the datasets read.
    ids, its_features = read_pairs_features(tmp_path / "f.npz")
    np.testing.assert_array_equal(its_features, features)
    with np.load(tmp_path / "f.npz", allow_pickle=False) as arrays:
        assert ids == arrays["image_files"].tolist() == names
        assert arrays["labels"].tolist() == [1] * len(KINDS) + [2, 2]
    assert not (tmp_path / "f.npz.parts").exists()
    assert "has the features of all" in extract(folder, tmp_path / "f.npz", backbone)[0]


def test_names_of_all_sorts(tmp_path, backbone):
    png = pictures.encoded(pictures.picture(), "PNG")
    names = ["a/1.png", "b/1.png", "a b/ü – 鳥.PNG", 'طائر/it\'s "x".png', "a/line\nbreak.png"]
    pictures.fill(tmp_path / "images", dict.fromkeys(names, png))
    extract(tmp_path / "images", tmp_path / "f.npz", backbone)
    found, features, _ = read_features(tmp_path / "f.npz")
    assert found == sorted(names)
    np.testing.assert_array_equal(features, features[:1].repeat(5, 0))


def test_folders_without_pictures(tmp_path, backbone):
    (tmp_path / "empty").mkdir()
    pictures.fill(tmp_path / "texts", {"a.txt": b"x", "b/c.csv": b"x"})
    for name, message in (
        ("empty", r"empty holds no pictures: no file, of 0, ends in \.jpg"),
        ("texts", r"texts holds no pictures: no file, of 2, ends"),
        ("absent", r"absent does not exist"),
        ("texts/a.txt", r"a\.txt is a file, not a folder"),
    ):
        with pytest.raises(ClarelError, match=message):
            extract(tmp_path / name, tmp_path / "f.npz", backbone)
    with pytest.raises(ClarelError, match=r"must end in \.npz"):
        extract(tmp_path / "texts", tmp_path / "f.mat", backbone)
    bad = os.fsdecode(b"\xff.png")
    (tmp_path / "texts" / bad).write_bytes(b"")
    with pytest.raises(ClarelError, match="not UTF-8"):
        list_pictures(tmp_path / "texts")


@pytest.mark.parametrize("name", pictures.broken())
def test_a_broken_picture_is_named(tmp_path, backbone, name):
    data, message = pictures.broken()[name]
    pictures.fill(tmp_path / "images", {"a/b c.jpg": data, "good.png": KINDS["png.png"]})
    with pytest.raises(ClarelError) as error:
        extract(tmp_path / "images", tmp_path / "f.npz", backbone)
    assert f"1 of 2 pictures cannot be read: {tmp_path}/images/a/b c.jpg {message}" in str(
        error.value
    )
    assert not (tmp_path / "f.npz").exists()


def test_broken_pictures_are_left_out_or_corrected(tmp_path, folder, backbone):
    pictures.fill(folder, {"x/broken.jpg": b"", "x/text.jpg": b"text"})
    count = len(KINDS)
    with pytest.raises(ClarelError, match=rf"2 of {count + 2} pictures cannot be.*--skip_broken"):
        extract(folder, tmp_path / "f.npz", backbone)
    told = extract(folder, tmp_path / "f.npz", backbone, skip_broken=True)
    assert told[0] == f"Continues: {count} of {count + 2} pictures are done"
    assert [line for line in told if line.startswith("broken")] == [
        f"broken: {folder}/x/broken.jpg is empty (0 bytes)",
        f"broken: {folder}/x/text.jpg is not a JPEG, PNG, GIF, BMP or WebP picture",
    ]
    assert len(read_features(tmp_path / "f.npz")[0]) == count
    with pytest.raises(ClarelError, match=rf"f\.npz exists, with the features of {count} p"):
        extract(folder, tmp_path / "f.npz", backbone)
    # The same command again has nothing to do, until one of them is corrected.
    told = extract(folder, tmp_path / "f.npz", backbone, skip_broken=True)
    assert f"{count} of {count + 2}" in told[-1]
    pictures.fill(folder, {"x/text.jpg": KINDS["png.png"]})
    with pytest.raises(ClarelError, match=rf"f\.npz exists, with the features of {count} p"):
        extract(folder, tmp_path / "f.npz", backbone, skip_broken=True)
    pictures.fill(folder, {"x/text.jpg": b"text"})
    for name in folder.glob("birds/*"):
        name.unlink()
    with pytest.raises(ClarelError, match="no picture can be read"):
        extract(folder, tmp_path / "g.npz", backbone, skip_broken=True)


def test_a_finished_file_is_not_taken_for_pictures_that_have_changed(tmp_path, folder, backbone):
    extract(folder, tmp_path / "f.npz", backbone)
    before = (tmp_path / "f.npz").read_bytes()
    changed = folder / "birds" / "jpeg.jpeg"
    changed.write_bytes(KINDS["png.png"])
    now = (tmp_path / "f.npz").stat().st_mtime_ns + 10**9
    os.utime(changed, ns=(now, now))
    with pytest.raises(ClarelError, match=r"f\.npz is older than 1 of its .* birds/jpeg\.jpeg"):
        extract(folder, tmp_path / "f.npz", backbone)
    assert (tmp_path / "f.npz").read_bytes() == before


def test_a_slow_extraction_writes_parts_by_time(tmp_path, folder, backbone, monkeypatch):
    monkeypatch.setattr(embedding, "_PART_SECONDS", 0.0)
    pictures.fill(folder, {"x/broken.jpg": b""})  # so that the parts stay
    with pytest.raises(ClarelError, match=f"1 of {len(KINDS) + 1} pictures"):
        extract(folder, tmp_path / "f.npz", backbone)
    batches = -(-(len(KINDS) + 1) // 8)
    assert len(list((tmp_path / "f.npz.parts").glob("part_*.npz"))) == batches


def test_damage_inside_of_a_picture_and_special_files(tmp_path, backbone):
    png = bytearray(KINDS["png.png"])
    png[len(png) // 2] ^= 255
    pictures.fill(tmp_path, {"a.png": bytes(png)})
    extractor = Extractor(backbone)
    with pytest.raises(ClarelError, match=r"a\.png is damaged or cut off"):
        extractor.pixels(tmp_path / "a.png")
    os.mkfifo(tmp_path / "b.png")
    with pytest.raises(ClarelError, match=r"b\.png is a named pipe"):
        read_picture(tmp_path / "b.png")
    with open(tmp_path / "c.png", "wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ClarelError, match=r"c\.png has 1024 MB; at most 512"):
        read_picture(tmp_path / "c.png")


def test_a_picture_for_which_memory_runs_out_is_named(backbone, monkeypatch):
    def out_of_memory(*_, **__) -> None:
        raise MemoryError

    def exhausted(_: bytes) -> None:
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    extractor = Extractor(backbone)
    monkeypatch.setattr(Image, "open", out_of_memory)
    with pytest.raises(ClarelError, match=r"a\.bmp is not decoded, because memory ran out"):
        extractor.pixels_of(pictures.only_pillow()["palette bmp"], "a.bmp")
    monkeypatch.setattr(extractor, "_decode", exhausted)
    with pytest.raises(ClarelError, match=r"a\.png is not decoded, because memory ran out"):
        extractor.pixels_of(KINDS["png.png"], "a.png")


def test_features_of_two_backbones_are_not_mixed(tmp_path, folder, backbone, monkeypatch):
    other = load_backbone(str(save_small_network(tmp_path / "other.keras", filters=7)))
    with monkeypatch.context() as patch:
        patch.setattr(extraction, "write_features", lambda *_: 1 / 0)  # killed before the end
        with pytest.raises(ZeroDivisionError):
            extract(folder, tmp_path / "f.npz", backbone)
    with pytest.raises(ClarelError, match=r"different backbones: name 'small\.keras'.*begin anew"):
        extract(folder, tmp_path / "f.npz", other)
    extract(folder, tmp_path / "f.npz", backbone)
    with pytest.raises(ClarelError, match="come from different backbones"):
        extract(folder, tmp_path / "f.npz", other)
    np.savez(tmp_path / "plain.npz", features=np.ones((1, 2)), image_ids=np.array(["a"]))
    with pytest.raises(ClarelError, match="does not say which backbone"):
        read_record(tmp_path / "plain.npz")


@pytest.mark.parametrize("name", ["part_000000.npz", "stamps_000000.json"])
@pytest.mark.parametrize("damage", [b"", b"[]"])
def test_a_damaged_part_comes_with_the_remedy(tmp_path, backbone, monkeypatch, name, damage):
    pictures.fill(tmp_path / "images", {"a.png": KINDS["png.png"]})
    with monkeypatch.context() as patch:
        patch.setattr(extraction, "write_features", lambda *_: 1 / 0)  # killed before the end
        with pytest.raises(ZeroDivisionError):
            extract(tmp_path / "images", tmp_path / "f.npz", backbone)
    parts = tmp_path / "f.npz.parts"
    (parts / name).write_bytes(damage)
    with pytest.raises(ClarelError, match=rf"{name}.* Delete {parts} to begin anew"):
        extract(tmp_path / "images", tmp_path / "f.npz", backbone)


def test_only_what_is_missing_or_changed_is_done_again(tmp_path, folder, backbone, monkeypatch):
    pictures.fill(folder, {"z/broken.jpg": b""})
    with pytest.raises(ClarelError, match=f"1 of {len(KINDS) + 1}"):
        extract(folder, tmp_path / "f.npz", backbone)
    changed = folder / "birds" / "png.png"
    changed.write_bytes(pictures.encoded(pictures.picture(seed=5), "PNG"))
    (folder / "z" / "broken.jpg").unlink()
    pictures.fill(folder, {"a/new.jpg": KINDS["jpeg.jpeg"]})
    done = []
    pixels_of = Extractor.pixels_of
    monkeypatch.setattr(
        Extractor, "pixels_of", lambda *args: done.append(args[2]) or pixels_of(*args)
    )
    extract(folder, tmp_path / "f.npz", backbone)
    assert done == [str(folder / "a/new.jpg"), str(folder / "birds/png.png")]
    again = tmp_path / "again.npz"
    extract(folder, again, backbone)
    np.testing.assert_array_equal(read_features(tmp_path / "f.npz")[1], read_features(again)[1])


def test_two_processes_do_not_work_on_one_file(tmp_path, folder, backbone):
    parts = extraction.make_folder(tmp_path / "f.npz")
    with files.only_process(parts, "x"), pytest.raises(ClarelError, match="another process"):
        extract(folder, tmp_path / "f.npz", backbone)


def test_the_program(tmp_path, folder):
    network = save_small_network(tmp_path / "small.keras")
    flags = [f"--images={folder}", f"--output={tmp_path / 'f.npz'}", f"--backbone={network}"]
    done = call_program("extract_main.py", *flags)
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.splitlines()[-1]
        == f"{tmp_path}/f.npz: features of {len(KINDS)} pictures, 6 wide"
    )
    pictures.fill(folder, {"empty.jpg": b""})
    done = call_program("extract_main.py", *flags[:1], f"--output={tmp_path}/g.npz", flags[2])
    assert done.returncode == 1 and "empty.jpg is empty (0 bytes)" in done.stderr
    assert call_program("extract_main.py", *flags[1:]).stderr.startswith("error: --images is mis")


def test_the_defaults_are_the_settings_with_better_features(tmp_path):
    """320 pixels and mirroring (docs/lab_notes.md); also for datasets without `backbone.json`."""
    image = pictures.picture(200, 150)
    mirror = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    made = {"a.png": image, "b.png": mirror}
    made = {name: pictures.encoded(picture, "PNG") for name, picture in made.items()}
    pictures.fill(tmp_path / "images", made)
    flags = [f"--images={tmp_path / 'images'}", f"--output={tmp_path / 'f.npz'}"]
    done = call_program("extract_main.py", *flags)
    assert done.returncode == 0, done.stderr
    _, (of_image, of_mirror), record = read_features(tmp_path / "f.npz")
    assert str(record) == "efficientnet_lite2 at 320 pixels, mirrored"
    np.testing.assert_allclose(of_image, of_mirror, atol=1e-4)
    assert read_choice(tmp_path) == BackboneChoice(mirrored=True, cropped=False)
    done = call_program("extract_main.py", *flags, "--nomirrored", "--input_size=260")
    assert "input_size 320 and 260; mirrored True and False" in done.stderr


def test_a_served_graph_gives_the_same_features(tmp_path, folder):
    """Through the C++ loader, with the default network inside."""
    backbone = load_backbone(input_size=96, mirrored=False)
    extract(folder, tmp_path / "f.npz", backbone)
    names, features, _ = read_features(tmp_path / "f.npz")

    def embed(image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        pixels, problems = decode_pictures(image_bytes, backbone.input_size)
        return {"features": backbone.features(pixels), "problems": problems}

    signature = [tf.TensorSpec([None], tf.string, name="image_bytes")]
    graph = tf.function(embed, input_signature=signature, autograph=False)
    concrete = graph.get_concrete_function()
    archive = keras.export.ExportArchive()
    for resource in backbone.export_resources():
        archive.track(resource)
    archive.add_endpoint("serve", lambda data: concrete(data), input_signature=signature)
    archive.write_out(str(tmp_path / "model"), verbose=False)
    given = [(folder / name).read_bytes() for name in names]
    calls = [("serve", {"image_bytes": given}), ("serve", {"image_bytes": [b"", given[0]]})]
    answer, partly = ask_cpp(tmp_path / "model", tmp_path, calls)
    np.testing.assert_allclose(answer["features"], features, atol=1e-4)
    assert not any(answer["problems"])
    assert [bool(problem) for problem in partly["problems"]] == [True, False]


@pytest.mark.slow
def test_a_killed_extraction_continues(tmp_path):
    """The file is the same as without a kill."""
    jpegs = [pictures.encoded(pictures.picture(500, 400, n), "JPEG") for n in range(40)]
    pictures.fill(tmp_path / "images", {f"{n % 7}/{n:04d}.jpg": jpegs[n % 40] for n in range(3000)})
    network = save_small_network(tmp_path / "small.keras", size=64)
    command = [sys.executable, str(ROOT / "extract_main.py"), f"--images={tmp_path / 'images'}"]
    command += [f"--backbone={network}"]
    killed = 0
    while not (tmp_path / "a.npz").exists():
        process = subprocess.Popen([*command, f"--output={tmp_path / 'a.npz'}"])
        parts = tmp_path / "a.npz.parts"
        before = len(list(parts.glob("part_*")))
        while process.poll() is None and len(list(parts.glob("part_*"))) <= before:
            time.sleep(0.01)
        if process.poll() is None and killed < 3:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.wait()
    assert killed >= 2
    done = subprocess.run([*command, f"--output={tmp_path / 'b.npz'}"], check=True)
    assert done.returncode == 0
    a, b = read_features(tmp_path / "a.npz"), read_features(tmp_path / "b.npz")
    assert a[0] == b[0] and a[2] == b[2]
    np.testing.assert_allclose(a[1], b[1], atol=1e-5)
    assert sorted(path.name for path in tmp_path.glob("*.npz*")) == ["a.npz", "b.npz"]


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "cub" / "photos_sample").exists(), reason="needs CLAREL_DATA")
def test_real_photographs(tmp_path):
    """Nearest class mean on 20 species, with half of the photographs; chance is 5 %."""
    extract(DATA / "cub" / "photos_sample", tmp_path / "f.npz", load_backbone())
    names, features, _ = read_features(tmp_path / "f.npz")
    labels = np.unique([name.split("/")[0] for name in names], return_inverse=True)[1]
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    known = np.arange(len(names)) % 2 == 0
    means = np.stack([features[known & (labels == label)].mean(0) for label in range(20)])
    found = (features[~known] @ means.T).argmax(1)
    assert (found == labels[~known]).mean() > 0.6


def test_a_record_is_json(tmp_path, backbone):
    assert json.loads(backbone.record.to_json())["input_size"] == 40
