"""Every format of word vectors, and every way in which a file can be wrong."""

import gzip
import struct
import tracemalloc

import numpy as np
import pytest

from clarel_tf.errors import ClarelError
from clarel_tf.storage.word_vectors import load_word_vectors

VECTORS = {"the": [1.0, 2.0, 3.0], "bird": [0.5, -1.25, 4.0], "über": [7.0, 8.0, 9.0]}


def glove(vectors=VECTORS) -> bytes:
    return "".join(f"{w} {' '.join(map(str, v))}\n" for w, v in vectors.items()).encode()


def with_header(vectors=VECTORS) -> bytes:
    return f"{len(vectors)} 3\n".encode() + glove(vectors)


def word2vec_binary(vectors=VECTORS, separator=b"") -> bytes:
    rows = [w.encode() + b" " + struct.pack("<3f", *v) + separator for w, v in vectors.items()]
    return f"{len(vectors)} 3\n".encode() + b"".join(rows)


FORMATS = {
    "glove.txt": glove(),
    "word2vec.txt": with_header(),
    "fasttext.vec": with_header().replace(b"\n", b" \n"),  # fastText ends lines with a space
    "word2vec.bin": word2vec_binary(),
    "word2vec_newlines.bin": word2vec_binary(separator=b"\n"),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("compressed", [False, True])
def test_reads_every_format(tmp_path, name, compressed):
    path = tmp_path / name
    path.write_bytes(gzip.compress(FORMATS[name]) if compressed else FORMATS[name])
    result = load_word_vectors(path, ["bird", "zebra", "über"])
    np.testing.assert_array_equal(result.matrix, [VECTORS["bird"], [0, 0, 0], VECTORS["über"]])
    assert result.missing == ["zebra"]
    assert result.matrix.dtype == np.float32


def test_entries_of_several_words_are_passed_over(tmp_path):
    path = tmp_path / "glove.840B.txt"
    path.write_bytes(b"the 1 2 3\nbird . com 9 9 9\nbird 4 5 6\nbird 7 8 9\n")
    # "bird . com" is one entry; of the two for "bird" the first counts.
    np.testing.assert_array_equal(load_word_vectors(path, ["bird"]).matrix, [[4, 5, 6]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1"),
        (b"hello\n", "line 1"),
        (b"the one two\n", "line 1"),
        (b"the 1 2 3\nbird 1 2\n", "vector 2"),
        (b"the 1 2 3\nbird 1 nan 2\n", "vector 2"),
        (b"the 1 2 3\nbird 1 x 2\n", "vector 2"),
        (b"10 3\nthe 1 2 3\nbird 1 2 3\n", "line 1 says 10"),
        (word2vec_binary()[:-5], "cut off in vector 3"),
        (word2vec_binary()[: -len("über".encode()) - 13], "cut off in vector 3"),
        (word2vec_binary({"bird": [1.0, float("inf"), 2.0]}), "vector 1 is not finite"),
        (gzip.compress(glove() * 2000)[:-12], "cannot read"),
        (glove({"zebra": [1.0, 2.0, 3.0]}), "none of the 1 words"),
    ],
)
def test_bad_files_are_named_with_the_place(tmp_path, content, message):
    path = tmp_path / "vectors"
    path.write_bytes(content)
    with pytest.raises(ClarelError, match=message) as caught:
        load_word_vectors(path, ["bird"])
    assert str(path) in str(caught.value)


def test_tabs_and_wide_vectors(tmp_path):
    path = tmp_path / "wide.txt"
    wide = ["0.12345678901234567"] * 3000
    path.write_text("\t".join(["the", *wide]) + "\n" + "\t".join(["bird", *wide]) + "\n")
    assert load_word_vectors(path, ["bird"]).matrix.shape == (1, 3000)


def test_every_flipped_byte_of_a_gzip_file_is_harmless(tmp_path):
    path = tmp_path / "vectors.gz"
    good = gzip.compress(glove())
    for position in range(len(good)):
        path.write_bytes(good[:position] + bytes([good[position] ^ 0xFF]) + good[position + 1 :])
        try:
            result = load_word_vectors(path, ["bird"])
        except ClarelError as error:
            assert str(path) in str(error)
        else:
            np.testing.assert_array_equal(result.matrix, [VECTORS["bird"]])


def test_missing_file(tmp_path):
    with pytest.raises(ClarelError, match="No such file"):
        load_word_vectors(tmp_path / "none.bin", ["bird"])


def test_memory_is_that_of_the_words_kept(tmp_path):
    path = tmp_path / "large.bin"
    words, width = 20_000, 300
    with open(path, "wb") as handle:
        handle.write(f"{words} {width}\n".encode())
        for i in range(words):
            handle.write(f"word{i} ".encode() + np.full(width, i, "<f4").tobytes())
    assert path.stat().st_size > 24_000_000
    tracemalloc.start()
    result = load_word_vectors(path, ["word19999", "word0"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.matrix[0, 0] == 19999
    assert peak < 5_000_000  # a few read buffers
