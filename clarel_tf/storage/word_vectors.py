"""Reads word vectors: word2vec (binary or text), GloVe and fastText files, plain or gzipped.

The file is read as a stream. Only the vectors of wanted words are kept, so memory depends on the
vocabulary, not on the size of the file.
"""

import gzip
import io
import os
import zlib
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from clarel_tf.errors import ClarelError
from clarel_tf.storage import files
from clarel_tf.storage.expansion import FACTOR_OF_VECTORS, BoundedReader, most_bytes

# A longer word or line, or a wider vector, means that this is no vector file. Without a limit, one
# line of a small .gz file could fill the memory.
_LONGEST_WORD = 4096  # bytes
_LONGEST_LINE = 1 << 22  # bytes
_WIDEST = 100_000  # numbers


class WordVectors(NamedTuple):
    """Vectors for a vocabulary.

    Attributes:
      matrix: float32 [number of words, width]; zeros where a word was not found.
      missing: the words that the file does not have, in the order of the vocabulary.
    """

    matrix: np.ndarray
    missing: list[str]


def load_word_vectors(path: str | Path, words: Sequence[str]) -> WordVectors:
    """Finds the vectors of `words` in a vector file; the first entry of a repeated word counts."""
    row_of_word = {word.encode("utf-8"): row for row, word in enumerate(words)}
    matrix: np.ndarray | None = None
    found = np.zeros(len(words), bool)
    for word, vector in iterate_vectors(path, row_of_word):
        if matrix is None:
            matrix = np.zeros((len(words), vector.size), np.float32)
        row = row_of_word[word]
        if not found[row]:
            found[row] = True
            matrix[row] = vector
    if matrix is None:
        raise ClarelError(
            f"word vectors {path}: none of the {len(words)} words of the vocabulary is in it; "
            "is it a vector file of this language?"
        )
    return WordVectors(matrix, [word for word, hit in zip(words, found, strict=True) if not hit])


def iterate_vectors(
    path: str | Path, wanted: Container[bytes] | None = None
) -> Iterator[tuple[bytes, np.ndarray]]:
    """Yields (word, vector [width]) in the order of the file, for `wanted` words or for all."""
    try:
        with _open(path) as stream:
            count, width, in_binary = _read_header(path, stream)
            if in_binary:
                assert count is not None  # only text files may have no header
                yield from _iterate_binary(path, stream, count, width, wanted)
            else:
                yield from _iterate_text(path, stream, count, width, wanted)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ClarelError(f"cannot read the word vectors {path}: {reason}") from error


def _open(path: str | Path) -> io.BufferedReader:
    file = files.open_regular(path)
    assert isinstance(file, io.BufferedReader)  # a local file
    stream: io.BufferedReader | BoundedReader = file
    if file.peek(2)[:2] == b"\x1f\x8b":
        most = most_bytes(os.fstat(file.fileno()).st_size, FACTOR_OF_VECTORS)
        stream = BoundedReader(gzip.GzipFile(fileobj=file), f"word vectors {path}", most)
    return io.BufferedReader(stream, 1 << 20)


def _read_header(path: str | Path, stream: io.BufferedReader) -> tuple[int | None, int, bool]:
    """(count, if stated; width; True if binary); leaves the stream at the first vector."""
    line = stream.peek(1 << 16)[: 1 << 16].split(b"\n", 1)[0]
    fields = line.split()
    if len(fields) != 2:  # GloVe: no header
        if len(fields) < 2 or _as_vector(fields[1:]) is None:
            raise ClarelError(f"{path} is not a word-vector file: cannot parse line 1")
        return None, len(fields) - 1, False
    if not all(field.isdigit() and len(field) < 16 for field in fields) or int(fields[1]) == 0:
        raise ClarelError(f"{path} is not a word-vector file: line 1 should be '<words> <width>'")
    if int(fields[1]) > _WIDEST:
        raise ClarelError(
            f"{path}: line 1 says that a vector has {int(fields[1])} numbers; damaged?"
        )
    stream.readline(_LONGEST_LINE)
    count, width = int(fields[0]), int(fields[1])
    # A text line has `width` numbers after its word; binary floats hardly ever parse as numbers.
    fields = stream.peek(1 << 16).split(b"\n", 1)[0].split()
    looks_like_text = len(fields) > 1 and _as_vector(fields[1:3]) is not None
    return count, width, not looks_like_text


def _iterate_text(
    path: str | Path,
    stream: BinaryIO,
    count: int | None,
    width: int,
    wanted: Container[bytes] | None,
) -> Iterator[tuple[bytes, np.ndarray]]:
    number = entries = 0
    for number, line in enumerate(iter(lambda: stream.readline(_LONGEST_LINE), b""), start=1):
        if len(line) == _LONGEST_LINE:
            raise ClarelError(f"word vectors {path}: vector {number} has no end; damaged?")
        word = line.split(None, 1)[0] if line.strip() else b""
        entries += bool(word)
        if wanted is not None and word not in wanted:
            continue
        fields = line.split()
        if len(fields) > width + 1:
            continue  # an entry of several words, as in GloVe 840B: no token can match it
        vector = _as_vector(fields[1:])
        if vector is None or len(fields) <= width:
            raise ClarelError(
                f"word vectors {path}, vector {number}: expected {width} finite numbers behind "
                f"{word.decode('utf-8', 'replace')!r}; the file is cut off or damaged"
            )
        yield word, vector
    if count is not None and entries != count:
        raise ClarelError(
            f"word vectors {path}: {entries} vectors, but line 1 says {count}: cut off or damaged"
        )


def _iterate_binary(
    path: str | Path,
    stream: BinaryIO,
    count: int,
    width: int,
    wanted: Container[bytes] | None,
) -> Iterator[tuple[bytes, np.ndarray]]:
    for number in range(1, count + 1):
        word = _read_word(path, stream, number)
        data = stream.read(4 * width)
        if len(data) < 4 * width:
            raise ClarelError(f"word vectors {path}: cut off in vector {number}")
        if wanted is None or word in wanted:
            vector = np.frombuffer(data, "<f4")
            if not np.isfinite(vector).all():
                raise ClarelError(f"word vectors {path}: vector {number} is not finite")
            yield word, vector
    # Read to the end, where a .gz file has its checksum.
    while rest := stream.read(1 << 20):
        if rest.strip():
            raise ClarelError(f"word vectors {path}: more than the {count} vectors of line 1")


def _read_word(path: str | Path, stream: BinaryIO, number: int) -> bytes:
    """The bytes up to the next space; some writers put a newline between entries."""
    word = bytearray()
    while (byte := stream.read(1)) not in (b" ", b""):
        if byte != b"\n":
            word += byte
        if len(word) > _LONGEST_WORD:
            raise ClarelError(f"word vectors {path}: no word at vector {number}; damaged?")
    if byte == b"":
        raise ClarelError(f"word vectors {path}: cut off in vector {number}")
    return bytes(word)


def _as_vector(fields: list[bytes]) -> np.ndarray | None:
    try:
        vector = np.array([float(field) for field in fields], np.float32)
    except ValueError:
        return None
    return vector if np.isfinite(vector).all() else None
