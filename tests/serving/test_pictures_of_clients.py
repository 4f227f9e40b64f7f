"""Pictures from files to answers: the client over REST and gRPC, and on folders; bad files."""

import numpy as np
import pytest
from PIL import Image

from clarel_tf.errors import ClarelError
from clarel_tf.images.extractor import Extractor
from clarel_tf.serving.client import ServingClient, connect
from clarel_tf.serving.local import LocalTransport
from tests.helpers import pictures
from tests.helpers.model_server import serve
from tests.helpers.tiny_backbone import tiny_backbone

KINDS = pictures.many_kinds()
PLAIN = [KINDS["jpeg"], KINDS["grey png"], KINDS["lossy webp"] + b"\0", KINDS["gif"], KINDS["bmp"]]


@pytest.fixture(scope="module")
def clients(exported_run):
    """A client for each transport."""
    with serve(exported_run) as (rest, grpc):
        yield {
            "local": ServingClient(LocalTransport(exported_run)),
            "rest": connect(rest, batch_size=2),
            "grpc": connect(grpc, batch_size=2),
        }


def features_of(*contents: bytes) -> np.ndarray:
    extractor = Extractor(tiny_backbone())
    return np.stack([extractor.embed(extractor.pixels_of(one, "one")[None])[0] for one in contents])


@pytest.mark.filterwarnings("ignore:the model knows")
@pytest.mark.parametrize("kind", [pytest.param("local", marks=pytest.mark.slow), "rest", "grpc"])
def test_pictures_get_the_answers_of_their_features(clients, kind):
    """In parts too, and with every option."""
    client, features = clients[kind], features_of(*PLAIN)
    np.testing.assert_allclose(client.embed_images(PLAIN), client.embed_images(features), atol=1e-4)
    for options in (
        {},
        {"alpha": 0.5},
        {"k": 2, "among": ["kind 1", "kind 7"], "threshold": 3.0},
        {"new_classes": {"mine": ["a pink bird"]}, "k": 8, "alpha": 0.1},
        {"new_classes": {"kind 6": ["a grey bird"]}, "replaces": ["kind 6"]},
    ):
        answer, expected = client.classify(PLAIN, **options), client.classify(features, **options)
        assert answer.keys() == expected.keys()
        for name, values in expected.items():
            if values.dtype == np.float32:
                np.testing.assert_allclose(answer[name], values, atol=1e-4)
            else:
                np.testing.assert_array_equal(answer[name], values)


@pytest.mark.parametrize("kind", ["local", "rest", "grpc"])
def test_files_and_folders_are_answered_without_the_broken_ones(clients, kind, tmp_path):
    bad = {
        "text.jpg": (b"no picture", "is not a JPEG, PNG, GIF, BMP or WebP picture"),
        "cut.jpg": (pictures.broken()["cut jpeg"][0], "is damaged or cut off"),
        "empty.png": (b"", "is empty (0 bytes)"),
        "huge.png": (
            bytes(pictures.huge()["png"]),
            "has 20000 x 10000 pixels; at most 64 million are decoded",
        ),
    }
    flipped = bytearray(KINDS["png"])
    flipped[60] ^= 255  # shows in decoding only
    bad["flipped.png"] = (bytes(flipped), "is damaged or cut off")
    good = {
        "a/photo.jpg": KINDS["jpeg"],
        "b/photo.jpg": pictures.encoded(pictures.picture(seed=5), "JPEG"),
        "a/with spaces und Ümläute.png": KINDS["png"],
        "b/鳥の写真.webp": KINDS["lossless webp"],
        "b/птица.gif": KINDS["gif"],
        "dot.jpg": KINDS["1 x 1 jpeg"],
    }
    pictures.fill(tmp_path, {name: data for name, (data, _) in bad.items()} | good)
    (tmp_path / "a" / "notes.txt").write_text("not looked at")
    (tmp_path / "single").write_bytes(KINDS["bmp"])  # named, so it needs no suffix
    names = ["single", *sorted([*good, *bad])]
    paths = [str(tmp_path / name) for name in names]
    lines = []
    found = clients[kind].classify_files([paths[0], tmp_path, paths[1]], lines.append, k=2)
    kept = [name for name in names if name not in bad]
    assert found.files == [str(tmp_path / name) for name in kept]
    expected = {
        f"{tmp_path / name}": f"{tmp_path / name} {text}" for name, (_, text) in bad.items()
    }
    assert found.problems == expected
    features = features_of(KINDS["bmp"], *(good[name] for name in kept[1:]))
    whole = clients["local"].classify(features, k=2)
    assert found.answer["class_name"].tolist() == whole["class_name"].tolist()
    np.testing.assert_allclose(found.answer["distance"], whole["distance"], atol=1e-4)
    assert lines[-1].startswith("12 of 12 pictures, ")


def test_kinds_that_tensorflow_does_not_decode_are_repacked(clients, tmp_path):
    """The same features as in extraction, which does it too."""
    pictures.fill(tmp_path, {f"{name}.bin": data for name, data in pictures.only_pillow().items()})
    paths = [tmp_path / f"{name}.bin" for name in pictures.only_pillow()]
    found = clients["local"].classify_files(paths)
    expected = clients["local"].classify(features_of(*pictures.only_pillow().values()))
    np.testing.assert_allclose(found.answer["distance"], expected["distance"], atol=1e-4)
    with pytest.raises(ClarelError, match=r"image_bytes\[0\] is a BMP file with a palette"):
        clients["local"].classify([pictures.only_pillow()["palette bmp"]])


def test_a_file_that_a_server_does_not_take_does_not_cost_the_others(clients, tmp_path):
    """A gRPC server takes 4 MiB at once."""
    noise = np.random.default_rng(0).integers(0, 256, (1200, 1300, 3), np.uint8)
    big = pictures.encoded(Image.fromarray(noise), "PNG")
    pictures.fill(tmp_path, {"a.jpg": KINDS["jpeg"], "big.png": big, "c.png": KINDS["png"]})
    found = clients["grpc"].classify_files([tmp_path])
    assert found.files == [str(tmp_path / name) for name in ("a.jpg", "c.png")]
    name = str(tmp_path / "big.png")
    problem = f"{name} has {len(big) / 1e6:.1f} MB, too many for the server"
    assert found.problems == {name: problem}
    assert len(clients["rest"].classify_files([tmp_path]).files) == 3


@pytest.mark.parametrize("kind", ["local", "rest", "grpc"])
def test_rows_are_those_of_the_whole_call(clients, kind):
    """Not of the part in which they were sent."""
    with pytest.raises(ClarelError, match=r"^image_bytes\[4\] is empty \(0 bytes\)$"):
        clients[kind].classify([*PLAIN[:4], b""])
    assert len(clients[kind].classify(PLAIN)["class_name"]) == 5


def test_what_is_no_list_of_pictures_is_told(clients, tmp_path):
    client = clients["local"]
    for images, message in (
        ("photo.jpg", "images are features .* or a list of the contents of pictures"),
        (KINDS["jpeg"], "a list of the contents"),
        (["photo.jpg"], "not paths; classify_files takes paths"),
        ([KINDS["jpeg"], "photo.jpg"], "row 1 is str, not the contents of a picture"),
    ):
        with pytest.raises(ClarelError, match=message):
            client.classify(images)
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.jpg").touch()
    for paths, message in (
        ("photo.jpg", "give a list of paths, not 'photo.jpg' alone"),
        ([tmp_path / "absent.jpg"], r"the picture .*absent\.jpg does not exist"),
        ([tmp_path / "folder"], r"folder holds no pictures: no file, of 0, ends in \.jpg"),
        ([tmp_path / "empty.jpg"], r"empty\.jpg is empty \(0 bytes\)$"),
    ):
        with pytest.raises(ClarelError, match=message):
            client.classify_files(paths)


def test_an_export_without_a_backbone_says_so(clients, exported_run, tmp_path):
    class Older(LocalTransport):
        """Lacks the signatures with pictures."""

        def _load(self, model):
            loaded = super()._load(model)
            for name in list(loaded.signatures):
                if "pictures" in name:
                    del loaded.signatures[name]
            return loaded

    client = ServingClient(Older(exported_run))
    for ask in (client.classify, client.embed_images, lambda one: client.classify(one, k=2)):
        with pytest.raises(ClarelError, match="takes image features, but no pictures"):
            ask([KINDS["jpeg"]])
    assert len(client.classify(features_of(KINDS["jpeg"]))["class_name"]) == 1
