"""Limits on the expanded size of compressed files, and readers that enforce them.

A deflated file of 1 MB can expand to 1 GB. The files that this project reads do not: the captions
of CUB expand 9-fold, its features 2-fold, GloVe vectors 3-fold. So a file may expand to a hundred
times its size, word vectors to fifty times, and to 16 MiB in any case.
"""

import io
import zipfile
from pathlib import Path
from typing import IO, Any, BinaryIO

from clarel_tf.errors import ClarelError

FACTOR = 100
FACTOR_OF_VECTORS = 50
MAX_BYTES = 8 << 30  # for any file; the largest public feature file has a few hundred megabytes
_BASE = 16 << 20
_PIECE = 1 << 20


def most_bytes(compressed: int, factor: int = FACTOR) -> int:
    """The largest size, in bytes, that a file of `compressed` bytes may expand to."""
    return min(MAX_BYTES, _BASE + factor * compressed)


def too_large(name: str | Path, most: int) -> ClarelError:
    """The error for a file that expands to more than `most` bytes."""
    return ClarelError(
        f"{name} expands to more than {most} bytes, which no real file of its size does; refused. "
        "If you made it yourself, save it without compression"
    )


class BoundedReader(io.RawIOBase):
    """A readable stream that raises after `most` bytes and reads in small pieces."""

    def __init__(self, stream: IO[bytes] | io.BufferedIOBase, name: str | Path, most: int):
        self._stream, self._name, self._most, self._left = stream, name, most, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(min(len(buffer), _PIECE))
        self._left -= len(data)
        if self._left < 0:
            raise too_large(self._name, self._most)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def check_claims(archive: zipfile.ZipFile, name: str | Path, size: int) -> None:
    """Raises if the members of a zip file of `size` bytes claim to expand beyond the limit.

    Only stored and deflated members are accepted: Python reads other kinds without a bound.
    """
    most = most_bytes(size)
    if sum(member.file_size for member in archive.infolist()) > most:
        raise too_large(name, most)
    for member in archive.infolist():
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ClarelError(
                f"{name}: member {member.filename!r} is compressed by a method that is not read; "
                "pack the file again with the usual one, deflate"
            )


def open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str | Path) -> BinaryIO:
    """Opens a member for reading in small pieces, limited to the size that it claims."""
    # A single read would expand a member completely before cutting it to the claimed size.
    bounded = BoundedReader(archive.open(member), name, member.file_size)
    return io.BufferedReader(bounded, _PIECE)
