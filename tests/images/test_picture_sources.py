"""Pictures of folders and archives: the same features, small JPEG files, a kill in between."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clarel_tf.errors import ClarelError
from clarel_tf.images import embedding
from clarel_tf.images.embedding import embed, refuse_broken
from clarel_tf.images.feature_parts import FeatureParts, make_folder
from clarel_tf.images.headers import MAX_PIXELS
from clarel_tf.images.loading import load_backbone
from clarel_tf.images.picture_sources import FolderPictures, TarPictures
from clarel_tf.images.thumbnails import small_jpeg
from tests.helpers import pictures
from tests.images.test_extraction import save_small_network


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    return load_backbone(
        str(save_small_network(tmp_path_factory.mktemp("network") / "small.keras"))
    )


def tar_of(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def make_parts(folder: Path, backbone) -> FeatureParts:
    return FeatureParts(make_folder(folder / "features"), backbone.record)


FILES = {
    f"{kind}/{n}.jpg": pictures.encoded(pictures.picture(90, 60, seed=n), "JPEG")
    for kind, numbers in {"b": range(20), "a": range(20, 40)}.items()
    for n in numbers
}


def test_an_archive_gives_what_its_folder_gives(tmp_path, backbone):
    pictures.fill(tmp_path / "x", FILES)
    others = {"jpg/notes.txt": b"x", "jpg/b/._1.jpg": b"x", "else/1.jpg": b"x"}
    archive = tar_of(
        tmp_path / "x.tgz", others | {f"jpg/{name}": data for name, data in FILES.items()}
    )
    found = {}
    for number, source in enumerate(
        (FolderPictures(tmp_path / "x", sorted(FILES)), TarPictures(archive, "jpg"))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        parts = make_parts(folder, backbone)
        names, problems = embed(source, parts, backbone, print, with_jpegs=True)
        assert names == sorted(FILES) and not problems
        found[number] = [(parts.features(name), parts.jpeg(name)) for name in names]
        parts.delete()
    for (features, jpeg), (its_features, its_jpeg) in zip(found[0], found[1], strict=True):
        np.testing.assert_allclose(features, its_features, atol=1e-5)
        assert jpeg == its_jpeg


def test_only_the_rest_is_embedded_after_a_kill(tmp_path, backbone, monkeypatch):
    archive = tar_of(tmp_path / "x.tgz", {f"jpg/{name}": data for name, data in FILES.items()})
    monkeypatch.setattr(embedding, "_PART", 16)
    embedded = embedding._embedded
    counts: list[int] = []

    def killed(batch, *args):
        if len(counts) == 2:
            raise KeyboardInterrupt
        counts.append(len(batch))
        return embedded(batch, *args)

    with monkeypatch.context() as patch:
        patch.setattr(embedding, "_embedded", killed)
        with pytest.raises(KeyboardInterrupt):
            embed(TarPictures(archive, "jpg"), make_parts(tmp_path, backbone), backbone)
    done = len(make_parts(tmp_path, backbone)._places)
    assert done >= 16
    told: list[str] = []
    parts = make_parts(tmp_path, backbone)
    names, _ = embed(TarPictures(archive, "jpg"), parts, backbone, told.append)
    assert told[0] == f"Continues: {done} of 40 pictures are done"
    assert told[-1].startswith(f"{40 - done} of {40 - done} pictures")
    assert len(parts._places) == 40 == len(names)
    # Of another archive nothing is taken over.
    (tmp_path / "x.tgz").touch()
    assert len(parts.missing(TarPictures(archive, "jpg").stamps())) == 40


@pytest.mark.parametrize(
    ("width", "height", "orientation", "expected"),
    [
        (500, 375, 1, (40, 30)),
        (300, 400, 1, (30, 40)),
        (500, 375, 6, (30, 40)),  # lies on its side
        (36, 20, 1, (36, 20)),  # is small already
        (1, 900, 1, (1, 40)),
        (1, 1, 1, (1, 1)),
    ],
)
def test_small_jpegs_look_like_the_picture(
    tmp_path, backbone, width, height, orientation, expected
):
    image = pictures.picture(width, height)
    contents = pictures.turned(orientation, "JPEG", image)
    (tmp_path / "a.jpg").write_bytes(contents)
    pixels = embedding.Extractor(backbone).pixels(tmp_path / "a.jpg")
    small = Image.open(io.BytesIO(small_jpeg(contents, pixels)))
    assert (small.format, small.mode, small.size) == ("JPEG", "RGB", expected)
    upright = image.rotate(-90, expand=True) if orientation == 6 else image
    reference = upright.resize(expected, Image.Resampling.BICUBIC)
    error = np.abs(np.asarray(small, float) - np.asarray(reference, float)).mean()
    assert error < 6, error


def test_faults_of_archives(tmp_path, backbone):
    jpeg = pictures.encoded(pictures.picture(), "JPEG")
    huge = bytes(pictures.huge()["jpeg"])
    archive = tar_of(tmp_path / "x.tgz", {"jpg/1.jpg": jpeg, "jpg/2.jpg": b"", "jpg/3.jpg": huge})
    names, problems = embed(
        TarPictures(archive, "jpg"), make_parts(tmp_path, backbone), backbone, lambda _: None
    )
    assert names == ["1.jpg"]
    assert problems[0] == f"{archive}: jpg/2.jpg is empty (0 bytes)"
    assert f"at most {MAX_PIXELS // 10**6} million" in problems[1]
    with pytest.raises(ClarelError, match=r"2 of 3 pictures cannot be read: .*2\.jpg.*\. Do this"):
        refuse_broken(problems, 3, "Do this")
    for files, message in (
        ({"jpg/../../1.jpg": jpeg}, "outside the archive"),
        ({"jpg/1.jpg": bytes(17 << 20)}, r"1\.jpg has 17 MB; at most 16"),
    ):
        with pytest.raises(ClarelError, match=message):
            TarPictures(tar_of(tmp_path / "y.tgz", files), "jpg").stamps()
    with tarfile.open(tmp_path / "z.tgz", "w:gz") as twice:
        for _ in range(2):
            info = tarfile.TarInfo("jpg/1.jpg")
            info.size = len(jpeg)
            twice.addfile(info, io.BytesIO(jpeg))
    with pytest.raises(ClarelError, match="occurs twice"):
        TarPictures(tmp_path / "z.tgz", "jpg").stamps()
    (tmp_path / "cut.tgz").write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(ClarelError, match="cut off or damaged"):
        TarPictures(tmp_path / "cut.tgz", "jpg").stamps()
