"""CUB and Flowers from photographs: archives or folders, kills, faults, the backbone's record."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds
from tensorflow_datasets.scripts.cli import main as cli

from clarel_tf.data.loading import get_builder, load_splits
from clarel_tf.errors import ClarelError
from clarel_tf.images.extraction import extract_folder
from clarel_tf.images.extractor import Extractor
from clarel_tf.images.loading import load_backbone
from tests.helpers import pictures
from tests.helpers.raw_files import CUB, FLOWERS, RawFiles
from tests.images.test_extraction import save_small_network

ROOT = Path(__file__).resolve().parent.parent.parent
KINDS = {"cub": CUB, "flowers": FLOWERS}


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> Path:
    return save_small_network(tmp_path_factory.mktemp("network") / "small.keras")


def write(folder: Path, network: Path, raw: RawFiles, unpacked: bool = False) -> Path:
    raw.write_photos(folder, unpacked)
    shutil.copy(network, folder)
    (folder / "backbone.json").write_text('{"backbone": "small.keras"}')
    return folder


@pytest.mark.parametrize(
    ("name", "unpacked"),
    [
        ("cub", False),
        pytest.param("cub", True, marks=pytest.mark.slow),
        pytest.param("flowers", False, marks=pytest.mark.slow),
        ("flowers", True),
    ],
)
def test_every_value_is_that_of_the_photograph(tmp_path, network, name, unpacked):
    raw = RawFiles(KINDS[name])
    manual = write(tmp_path / "raw", network, raw, unpacked)
    builder = get_builder(name, "photos", str(tmp_path / "data"))
    splits = load_splits(builder, str(manual))
    rows = {raw.image_id(row): row for row in range(20)}
    pictures.fill(tmp_path / "photos", raw.photos)
    backbone = load_backbone(str(network))
    paths = [tmp_path / "photos" / path for path in raw.photos]
    _, expected, _ = Extractor(backbone).batch(paths)
    found = {key: [rows[i] for i in split.image_ids] for key, split in splits.items()}
    for key, index in (("trainval", "trainval_loc"), ("test_unseen", "test_unseen_loc")):
        assert sorted(found[key]) == (np.sort(raw.locations[index], axis=None) - 1).tolist()
    for key, split in splits.items():
        np.testing.assert_allclose(split.image_features, expected[found[key]], atol=1e-5)
        assert (split.labels == raw.labels[found[key]] - 1).all()
        assert split.backbone == backbone.record
        for i, image_id in enumerate(split.image_ids):
            assert split.captions[i] == raw.captions[f"{image_id}.txt"].split(b"\n")[:-1]
    split = splits["test_unseen"]
    small = split.pictures.read(split.image_ids)
    assert len(small) == len(split) and len(set(small.values())) == len(split)
    assert all(data.startswith(b"\xff\xd8") for data in small.values())
    folder = Path(builder.data_path)
    assert not (folder.parent / "features.parts").exists()
    noted = json.loads((folder / "raw_files.json").read_text())["files"]
    photos = "CUB_200_2011/images" if name == "cub" else "jpg"
    wanted = {photos if unpacked else raw.kind["photos"], "backbone.json", "small.keras"}
    assert wanted < noted.keys()
    # What an older version built of the same files stays what it was.
    older = dataclasses.replace(backbone.record, mirrored=False)
    (folder / "backbone.json").write_text(older.to_json())
    assert load_splits(builder, str(manual))["trainval"].backbone == older
    # Another backbone is another dataset.
    (manual / "backbone.json").write_text('{"backbone": "small.keras", "mirrored": false}')
    with pytest.raises(ClarelError, match=r"backbone\.json has other contents"):
        load_splits(get_builder(name, "photos", str(tmp_path / "data")), str(manual))


def test_a_killed_build_continues_by_the_tfds_command(tmp_path, network, monkeypatch, capsys):
    manual = write(tmp_path / "raw", network, RawFiles(CUB))
    builder = get_builder("cub", "photos", str(tmp_path / "data"))
    with monkeypatch.context() as patch:
        patch.setattr(type(builder), "_generate_examples", lambda *_: 1 / 0)  # killed while writing
        with pytest.raises(ZeroDivisionError):
            load_splits(builder, str(manual))
    monkeypatch.setattr(Extractor, "pixels_of", lambda *_: 1 / 0)  # nothing is embedded again
    command = ["tfds", "build", str(ROOT / "datasets" / "cub"), "--config=photos"]
    command += [f"--manual_dir={manual}", f"--data_dir={tmp_path / 'data'}"]
    capsys.readouterr()
    cli.main(cli._parse_flags(command))
    assert "Continues: 20 of 20 pictures are done" in capsys.readouterr().out
    built = tmp_path / "data" / "cub" / "photos"
    assert [path.name for path in built.iterdir() if "part" in path.name] == []
    info = tfds.builder_from_directory(built / "1.0.0").info
    assert info.splits["trainval"].num_examples == 12


FAULTS = {
    "a damaged photograph": (
        lambda raw: raw.photos.update({next(iter(raw.photos)): b"\xff\xd8\xff\xe0 cut"}),
        r"1 of 20 pictures cannot be read: .*CUB_200_2011\.tgz: CUB_200_2011/images/001\.Bird_1/"
        r"image_00001\.jpg is damaged or cut off\. Correct",
    ),
    "a photograph too few": (
        lambda raw: raw.photos.pop(next(iter(raw.photos))),
        r"no photograph for the image with captions 001\.Bird_1/image_00001\.txt \(1 such",
    ),
    "a photograph without captions": (
        lambda raw: raw.photos.update({"CUB_200_2011/images/x/y.jpg": b"x"}),
        r"image number 21, 'x/y\.jpg', has no caption file",
    ),
    "no photographs": (lambda raw: raw.photos.clear(), r"holds no pictures in CUB_200_2011/images"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_named(tmp_path, network, fault):
    raw = RawFiles(CUB)
    change, message = FAULTS[fault]
    change(raw)
    manual = write(tmp_path / "raw", network, raw)
    builder = get_builder("cub", "photos", str(tmp_path / "data"))
    with pytest.raises(ClarelError, match=message):
        load_splits(builder, str(manual))
    assert not builder.is_prepared()


def test_missing_and_wrong_files(tmp_path, network):
    manual = write(tmp_path / "raw", network, RawFiles(CUB))

    def refusal(name: str = "cub") -> str:
        with pytest.raises(ClarelError) as error:
            load_splits(get_builder(name, "photos", str(tmp_path / "data")), str(manual))
        return str(error.value)

    for text, message in (
        ('{"network": "x"}', "unknown key 'network'; the keys are backbone, input_size, weights"),
        ('{"input_size": "x"}', "'input_size' is 'x', but must be a int"),
        ('{"backbone": "ResNet5"}', "unknown backbone 'ResNet5': is it ResNet50"),
        ("[", "is not valid JSON"),
    ):
        (manual / "backbone.json").write_text(text)
        assert message in refusal()
    (manual / "CUB_200_2011.tgz").unlink()
    assert "CUB_200_2011.tgz is missing; get it from https://data.caltech.edu" in refusal()

    shutil.rmtree(manual)
    write(manual, network, RawFiles(FLOWERS))
    (manual / "imagelabels.mat").write_bytes((manual / "setid.mat").read_bytes())
    assert "imagelabels.mat has no labels; is it the public file?" in refusal("flowers")
    (manual / "setid.mat").unlink()
    assert "setid.mat: no such file" in refusal("flowers")


def test_features_of_clarel_extract_bring_their_record(tmp_path, network):
    raw = RawFiles(CUB)
    manual = raw.write_archives(tmp_path / "raw")
    pictures.fill(tmp_path, raw.photos)
    backbone = load_backbone(str(network))
    photos = tmp_path / "CUB_200_2011" / "images"
    extract_folder(photos, manual / "features.npz", backbone, tell=lambda _: None)
    splits = load_splits(get_builder("cub", "custom", str(tmp_path / "data")), str(manual))
    assert splits["trainval"].backbone == backbone.record
    assert splits["trainval"].pictures.read(splits["trainval"].image_ids) == {}
