"""Reads the members of a tar archive one at a time and keeps none in memory.

Python's `tarfile` keeps every header, and a crafted header can take seconds or hundreds of
megabytes. This module reads names and contents only. It holds one header at a time, of at most
64 KiB.
"""

import tarfile
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

_BLOCK = tarfile.BLOCKSIZE
_LONGEST_HEADER = 1 << 16
_PIECE = 1 << 20


class Member(NamedTuple):
    """A member of an archive.

    Attributes:
      name: its path in the archive.
      is_file: True for a regular file; links, folders and devices are not.
      size: bytes of its contents.
    """

    name: str
    is_file: bool
    size: int


class TarReader:
    """Iterates over the members of a tar archive; ValueError if it is damaged."""

    def __init__(self, stream: BinaryIO):
        self._stream = stream
        self._left = 0  # bytes left of the member's contents and padding

    def __iter__(self) -> Iterator[Member]:
        """Yields members; call `read` before the next one is requested."""
        described: dict[str, str] = {}  # from the extended headers before the member's own
        while block := self._read_block():
            info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            if info.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE):
                described |= _pax_values(self._read_header(info))
            elif info.type == tarfile.GNUTYPE_LONGNAME:
                path = self._read_header(info).split(b"\0", 1)[0]
                described["path"] = path.decode("utf-8", "surrogateescape")
            elif info.type in (tarfile.XGLTYPE, tarfile.GNUTYPE_LONGLINK):
                self._read_header(info)
            else:
                name = described.get("path", info.name)
                if info.type == tarfile.GNUTYPE_SPARSE or "GNU.sparse" in described:
                    raise ValueError(f"{name[:200]!r} is a sparse file")
                size = int(described["size"]) if "size" in described else info.size
                # Other kinds have no contents, even if they state a size.
                if info.isreg() or info.type not in tarfile.SUPPORTED_TYPES:
                    self._left = _padded(size)
                yield Member(name, info.isreg(), size)
                self._skip()
                described = {}
        if described:
            raise ValueError("the last header describes no member")

    def read(self, member: Member) -> bytes:
        """The contents of the last member yielded."""
        data = self._read(member.size)
        self._left -= len(data)
        return data

    def _read_block(self) -> bytes:
        """The next block of a header; b"" at the end of the archive."""
        block = self._stream.read(_BLOCK)
        if block in (b"", bytes(_BLOCK)):
            return b""
        if len(block) < _BLOCK:
            raise ValueError("a header is cut off")
        return block

    def _read_header(self, info: tarfile.TarInfo) -> bytes:
        """The contents of an extended header."""
        if not 0 <= info.size <= _LONGEST_HEADER:
            raise ValueError(f"a header claims {info.size} bytes")
        return self._read(_padded(info.size))[: info.size]

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise ValueError("a member is cut off")
        return data

    def _skip(self) -> None:
        while self._left > 0:
            self._left -= len(self._read(min(self._left, _PIECE)))


def _padded(size: int) -> int:
    if size < 0:
        raise ValueError(f"a member claims {size} bytes")
    return -(-size // _BLOCK) * _BLOCK


def _pax_values(data: bytes) -> dict[str, str]:
    """`path`, `size` and whether the member is sparse, of records "<length> <key>=<value>\\n"."""
    values, at = {}, 0
    while at < len(data):
        digits = data[at : at + 8].split(b" ", 1)[0]
        length = int(digits) if digits.isdigit() else 0
        key, _, value = data[at + len(digits) + 1 : at + length].partition(b"=")
        if length < len(digits) + 4 or not value.endswith(b"\n"):
            raise ValueError("a pax header is damaged")
        if key in (b"path", b"size"):
            values[key.decode()] = value[:-1].decode("utf-8", "surrogateescape")
        elif key.startswith(b"GNU.sparse"):
            values["GNU.sparse"] = ""
        at += length
    return values
