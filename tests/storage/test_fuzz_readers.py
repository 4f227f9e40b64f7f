"""Readers of other people's files, on files damaged at random: no crash, no hang, no wrong answer.

`pytest -m slow -n0 -s tests/storage/test_fuzz_readers.py tests/serving/test_fuzz_serving.py`
tries many more.
"""

import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from hypothesis import given, settings
from hypothesis import strategies as st

from clarel_tf.data.pairs.features import read_features
from clarel_tf.data.pairs.splits import read_shares
from clarel_tf.data.pairs.table import read_rows
from clarel_tf.data.zero_shot.captions import read_captions
from clarel_tf.data.zero_shot.splits import LOCATIONS, read_locations
from clarel_tf.models.vocabulary import build_vocabulary, load_vocabulary, save_vocabulary
from clarel_tf.storage.archives import read_zip_member
from clarel_tf.storage.array_files import read_mat
from clarel_tf.storage.word_vectors import load_word_vectors
from tests.helpers.fuzzing import damaged, fuzz
from tests.helpers.pairs_data import make_data, write_features, write_table
from tests.helpers.raw_files import CUB, RawFiles
from tests.storage.test_word_vectors import FORMATS, VECTORS

FEW = {"cases": 60}
MANY = {"seconds": 15.0}
EFFORTS = [FEW, pytest.param(MANY, marks=pytest.mark.slow)]
Attempt = Callable[[random.Random], None]


def files_of(folder: Path) -> dict[str, bytes]:
    """A small, good file of every format that is read."""
    raw = RawFiles(CUB, width=6)
    rows = make_data(classes=5, images=4, captions=range(1, 4), width=6)
    for row, split in zip(rows, ["train", "val_seen", "test_seen", "train"] * 5, strict=True):
        row["split"] = split
    write_table(folder / "table.csv", rows)
    write_table(folder / "table.jsonl", rows)
    write_features(folder / "features.npz", rows)
    vectors = {f"vectors_{name}": data for name, data in FORMATS.items()}
    return {
        "captions.tar.gz": raw.captions_tar(),
        "captions.tar": gzip.decompress(raw.captions_tar()),  # damaged first, then compressed
        "splits.zip": raw.splits_zip(),
        "res101.mat": raw.features_mat(),
        "att_splits.mat": raw.splits_mat(),
        "plain.mat": uncompressed_mat(raw),
        **{name: (folder / name).read_bytes() for name in ("table.csv", "table.jsonl")},
        "features.npz": (folder / "features.npz").read_bytes(),
        "splits.json": b'{"unseen_classes": 0.25, "val_unseen_classes": 0.2, "seed": 3}',
        "vocabulary.txt": "a\nbird\nred\nüber\n1\n".encode(),
        **vectors,
        **{f"{name}.gz": gzip.compress(data) for name, data in vectors.items()},
    }


def uncompressed_mat(raw: RawFiles) -> bytes:
    """Without the checksums of compression: SciPy's parser sees the damage."""
    buffer = io.BytesIO()
    names = np.array(raw.image_files, object)[:, None]
    scipy.io.savemat(buffer, {"features": raw.features, "image_files": names})
    return buffer.getvalue()


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)


def reader_of(name: str, good: bytes, folder: Path) -> Callable[[Path], object]:
    """What reads the file, and whether that can be right: by a checksum, or by its own rules."""
    raw = RawFiles(CUB, width=6)
    if name == "captions.tar.gz":
        texts = {key.removesuffix(".txt"): text for key, text in raw.captions.items()}

        def read(path: Path) -> None:
            found = read_captions(path, CUB["captions_folder"])
            assert {k: ("\n".join(v) + "\n").encode() for k, v in found.items()} == texts

    elif name == "captions.tar":

        def read(path: Path) -> None:
            path.write_bytes(gzip.compress(path.read_bytes()))
            found = read_captions(path, CUB["captions_folder"])
            assert all(len(sentences) == 10 for sentences in found.values())

    elif name == "plain.mat":

        def read(path: Path) -> None:
            read_mat(path, ("features", "image_files"))

    elif name == "splits.zip":
        member = f"{CUB['splits_folder']}/res101.mat"
        contents = zipfile.ZipFile(io.BytesIO(good)).read(member)

        def read(path: Path) -> None:
            assert read_zip_member(path, member).contents == contents

    elif name.endswith(".mat"):
        wanted = ("features", "labels") if name == "res101.mat" else LOCATIONS
        good_path = folder / f"good_{name}"
        good_path.write_bytes(good)
        expected = read_mat(good_path, wanted)

        def read(path: Path) -> None:
            found = read_mat(path, wanted)
            same(found, expected)
            if name == "att_splits.mat":
                read_locations(found, 20, str(path))

    elif name == "features.npz":
        good_ids, good_features = read_features(folder / "features.npz")

        def read(path: Path) -> None:
            ids, features = read_features(path)
            assert ids == good_ids
            np.testing.assert_array_equal(features, good_features)

    elif name.startswith("table"):

        def read(path: Path) -> None:
            rows = list(read_rows(path))
            assert all(row.image_id and row.class_name and row.captions for row in rows)
            again = path.with_name("again.jsonl")
            again.write_text(
                "".join(
                    json.dumps(
                        {
                            "image_id": row.image_id,
                            "class": row.class_name,
                            "captions": row.captions,
                            "split": row.split,
                        }
                    )
                    + "\n"
                    for row in rows
                ),
                encoding="utf-8",
            )
            for row, other in zip(rows, read_rows(again), strict=True):
                assert (row.image_id, row.class_name) == (other.image_id, other.class_name)
                assert (row.captions, row.split) == (other.captions, other.split)

    elif name == "splits.json":
        read = read_shares
    elif name == "vocabulary.txt":

        def read(path: Path) -> None:
            words = load_vocabulary(path)
            assert len(set(words)) == len(words) and all(word.split() == [word] for word in words)

    else:

        def read(path: Path) -> None:
            found = load_word_vectors(path, ["bird", "zebra"])
            assert found.matrix.shape[0] == 2 and np.isfinite(found.matrix).all()
            if name.endswith(".gz"):
                np.testing.assert_array_equal(found.matrix[0], VECTORS["bird"])

    return read


@pytest.mark.parametrize("effort", EFFORTS)
def test_damaged_files_are_refused_or_read_right(tmp_path, effort):
    total = 0
    for name, good in files_of(tmp_path).items():
        read, path = reader_of(name, good, tmp_path), tmp_path / f"damaged_{name}"
        path.write_bytes(good)
        read(path)  # the good one is read

        def attempt(chance: random.Random, good=good, path=path, read=read) -> None:
            path.write_bytes(damaged(good, chance))
            read(path)

        outcome = fuzz(attempt, seed=sum(name.encode()), **effort)
        total += sum(outcome.values())
        print(f"{name}: {outcome}")
        assert outcome["refused"]
    print(f"{total} damaged files")


@settings(max_examples=20, deadline=None)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=5))
def test_the_words_of_any_captions_survive_their_file(tmp_path_factory, captions):
    captions = [text.encode("utf-8", "replace") for text in (*captions, "bird")]
    words = build_vocabulary(captions)
    path = tmp_path_factory.mktemp("words") / "vocabulary.txt"
    save_vocabulary(path, words)
    assert load_vocabulary(path) == words
