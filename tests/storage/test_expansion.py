"""Small files cannot take much memory or time, whatever they expand to or claim."""

import io
import struct
import zipfile

import numpy as np
import pytest
import scipy.io

from clarel_tf.errors import ClarelError
from clarel_tf.models.saving import load_model
from clarel_tf.storage.archives import iterate_texts, read_zip_member
from clarel_tf.storage.array_files import read_mat, read_npz
from clarel_tf.storage.expansion import most_bytes
from clarel_tf.storage.word_vectors import load_word_vectors
from tests.helpers.bombs import (
    ATTACKS,
    CAPTIONS,
    END,
    SHORT_TEXT,
    mat_file,
    pax_record,
    repeated,
    squeezed,
    tar_member,
    watched,
    zip_file,
)

MOST_MEGABYTES = 150
MOST_SECONDS = 20


# Each takes as long as ten of the others, which run through the same readers.
LONG = {"empty_members.tar.gz", "blank.gz"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in ATTACKS]
)
def test_attack_files_take_little_memory_and_time(tmp_path, name):
    make, before, code = ATTACKS[name]
    path = tmp_path / name
    path.write_bytes(make())
    assert path.stat().st_size < 2_000_000
    said, megabytes, seconds = watched(code.format(path=str(path)), before)
    print(f"{name}: {megabytes:.0f} MB, {seconds:.1f} s, {said}")
    assert megabytes < MOST_MEGABYTES and seconds < MOST_SECONDS
    assert said is None or (said.startswith("ClarelError: ") and name in said)


def test_real_ratios_are_allowed():
    assert most_bytes(0) == 16 << 20
    assert most_bytes(10**6) == (16 << 20) + 10**8
    assert most_bytes(10**6, factor=50) == (16 << 20) + 5 * 10**7
    assert most_bytes(10**12) == 8 << 30


def test_what_expands_too_far_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", features=np.zeros((1 << 11, 1 << 11)))
    with pytest.raises(ClarelError, match=r"a\.npz expands to more than .* without compression"):
        read_npz(tmp_path / "a.npz", ("features",))
    zeros = {"features": np.zeros((1 << 11, 1 << 11))}
    scipy.io.savemat(tmp_path / "a.mat", zeros, do_compression=True)
    with pytest.raises(ClarelError, match=r"a\.mat expands to more than"):
        read_mat(tmp_path / "a.mat", ("features",))
    scipy.io.savemat(tmp_path / "a.mat", zeros)
    assert read_mat(tmp_path / "a.mat", ("features",))["features"].shape == (1 << 11, 1 << 11)
    (tmp_path / "a.zip").write_bytes(zip_file("member", repeated(bytes(8), 32 << 20)))
    with pytest.raises(ClarelError, match=r"a\.zip expands to more than"):
        read_zip_member(tmp_path / "a.zip", "member")
    picture = tar_member("texts/a.jpg", bytes(32 << 20))
    (tmp_path / "a.tar.gz").write_bytes(squeezed([picture, END], 31))
    with pytest.raises(ClarelError, match=r"a\.tar\.gz expands to more than"):
        list(iterate_texts(tmp_path / "a.tar.gz", "texts"))
    (tmp_path / "a.gz").write_bytes(squeezed([b"the 1 2\n", *repeated(b"a 1 2\n", 32 << 20)], 31))
    with pytest.raises(ClarelError, match=r"a\.gz expands to more than"):
        load_word_vectors(tmp_path / "a.gz", ["bird"])


def test_a_compressed_matlab_file_in_a_zip_cannot_expand_twice(tmp_path):
    packed = mat_file(bytes(8), 64 << 20, 6)
    (tmp_path / "a.zip").write_bytes(zip_file("member", [packed, bytes(1 << 20)]))
    found = read_zip_member(tmp_path / "a.zip", "member")
    with pytest.raises(ClarelError, match="expands to more than"):
        read_mat(found.contents, ("features",), "a.mat", found.compressed)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_of_zip_files_are_refused(tmp_path, method):
    for name, read in (("a.zip", read_zip_member), ("a.npz", read_npz)):
        with zipfile.ZipFile(tmp_path / name, "w", method) as archive:
            archive.writestr("member", bytes(1000))
        with pytest.raises(ClarelError, match="by a method that is not read"):
            read(tmp_path / name, "member")


def test_a_matlab_variable_that_lies_about_its_size(tmp_path):
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, {"features": np.arange(6.0)})
    matrix = buffer.getvalue()[128:]
    header, size = buffer.getvalue()[:128], struct.unpack_from("<I", matrix, 4)[0]
    path = tmp_path / "a.mat"
    for claimed, message in ((size - 8, "has data after its end|cut off"), (size + 8, "cut off")):
        content = squeezed([matrix[:4], struct.pack("<I", claimed), matrix[8:]])
        path.write_bytes(header + struct.pack("<II", 15, len(content)) + content)
        with pytest.raises(ClarelError, match=message):
            read_mat(path, ("features",))


def test_the_number_of_cells_is_bounded(tmp_path, monkeypatch):
    path = tmp_path / "a.mat"
    path.write_bytes(mat_file(SHORT_TEXT, 2 << 20, 1, b"image_files"))
    assert len(read_mat(path, ("image_files",))["image_files"]) > 10_000
    monkeypatch.setattr("clarel_tf.storage.mat_files._MOST_CELLS", 10_000)
    with pytest.raises(ClarelError, match="a list of shape"):
        read_mat(path, ("image_files",))


def test_long_names_in_archives_are_read(tmp_path):
    """Both ways to write a name of more than 100 letters, and a size that only pax states."""
    name = f"texts/{'long ' * 30}/bild ü.txt"
    pax = pax_record("path", name) + pax_record("mtime", "1.5")
    pieces = [
        tar_member("g", pax_record("comment", "made by git"), b"g"),
        tar_member("x", pax, b"x") + tar_member("short", CAPTIONS),
        tar_member("l", b"texts/%s.txt\0" % (b"y" * 200), b"L") + tar_member("short", b"text"),
        tar_member("texts/folder.txt", kind=b"5") + tar_member("texts/link.txt", kind=b"2"),
    ]
    (tmp_path / "a.tar.gz").write_bytes(squeezed([*pieces, END], 31))
    assert list(iterate_texts(tmp_path / "a.tar.gz", "texts")) == [
        (name.removeprefix("texts/"), CAPTIONS),
        (f"{'y' * 200}.txt", b"text"),
    ]


def test_keras_files_that_expand_are_refused(tmp_path):
    path = tmp_path / "model.keras"
    path.write_bytes(zip_file("config.json", repeated(b" ", 64 << 20)))
    with pytest.raises(ClarelError, match=r"model\.keras.*compressed"):
        load_model(path)


def test_keras_files_whose_members_share_their_bytes_are_refused(tmp_path):
    path = tmp_path / "model.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", bytes(1 << 20))
    data = path.read_bytes()
    start, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    entries = data[start:end] * 200
    counts = struct.pack("<HHII", 200, 200, len(entries), start)
    path.write_bytes(data[:start] + entries + data[end : end + 8] + counts + bytes(2))
    with pytest.raises(ClarelError, match=r"model\.keras expands to more than"):
        load_model(path)
