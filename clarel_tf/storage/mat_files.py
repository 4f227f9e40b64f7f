"""Reads matrices and lists of strings from MATLAB files, version 5 to 7.2.

SciPy's reader is compiled code, and a damaged file can make it crash the process. This reader
covers the types that public datasets use and checks every size in the file against the data. It
reads elements one at a time, so a file of very many tiny elements takes no more memory than the
file expands to.
"""

import itertools
import math
import struct
import zlib
from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np

# Types of elements, and classes of arrays, by their numbers in the format.
_MATRIX, _COMPRESSED, _UTF8 = 14, 15, 16
_CELL, _CHAR, _NUMBERS = 1, 4, range(6, 16)
_DTYPES = {
    **{1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4"},
    **{7: "f4", 9: "f8", 12: "i8", 13: "u8"},
}
_ENCODINGS = {1: "latin-1", 2: "latin-1", 4: "utf-16", _UTF8: "utf-8", 17: "utf-16"}
_COMPLEX = 0x0800
_MOST_CELLS = 1 << 20  # in all lists of a file together
_SMALLEST_CELL = 48  # bytes: head, flags, dimensions and an empty name
_LONGEST_NAME = 1 << 10  # bytes; MATLAB allows 63
_MOST_DIMENSIONS = 32
_PIECE = 1 << 14  # bytes expanded at a time


class Version73Error(ValueError):
    """The file is an HDF5 file, which this module does not read."""


def read_variables(data: bytes, wanted: Collection[str], most: int) -> dict[str, np.ndarray]:
    """The `wanted` variables that a file contains, by name; ValueError if the file is damaged.

    Args:
      data: the contents of the file.
      most: how many bytes its compressed variables may expand to.

    Returns:
      Numbers in the type they are stored in, text and lists of text as arrays of strings.
    """
    if data[:10] == b"MATLAB 7.3":
        raise Version73Error
    order = {b"IM": "<", b"MI": ">"}.get(bytes(data[126:128]))
    if order is None:
        raise ValueError("it has no header")
    variables: dict[str, np.ndarray] = {}
    cells = 0
    for kind, content in _elements(memoryview(data)[128:], order):
        if kind == _COMPRESSED:
            content = _expanded(content, order, most)
            most -= len(content)
            kind, content = next(_elements(content, order))
        if kind == _MATRIX:
            head, parts = _read_head(content, order)
            if head.name in wanted:
                variables[head.name] = array = _read_array(head, parts, order)
                cells += array.size if array.dtype == object else 0
                if cells > _MOST_CELLS:
                    raise ValueError(f"more than {_MOST_CELLS} cells")
    return variables


def _expanded(content: memoryview, order: str, most: int) -> memoryview:
    """The one element that is compressed in `content`; OverflowError if it is too large."""
    inflate = zlib.decompressobj()
    head = inflate.decompress(content[:_PIECE], 8)
    if len(head) < 8:
        raise ValueError("a variable is cut off")
    kind, size = struct.unpack(f"{order}II", head)
    # As large as its head states, plus the padding behind it.
    size = 8 if kind >> 16 else -(-(8 + size) // 8) * 8
    if size > most:
        raise OverflowError
    expanded = bytearray(size)
    expanded[:8] = head
    at = 8
    source: bytes | memoryview = inflate.unconsumed_tail
    for start in range(_PIECE, len(content) + _PIECE, _PIECE):
        piece = inflate.decompress(source, size - at + 1)
        if len(piece) > size - at:
            raise ValueError("a variable has data after its end")
        expanded[at : at + len(piece)] = piece
        at += len(piece)
        if inflate.eof:
            break
        source = content[start : start + _PIECE]
    if not inflate.eof:  # zlib verifies the checksum only at the end
        raise ValueError("a variable has no end")
    return memoryview(expanded)[:at]


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Yields (type, contents) of each element in `data`."""
    at = 0
    while at < len(data):
        if len(data) - at < 8:
            raise ValueError("an element is cut off")
        kind, size = struct.unpack_from(f"{order}II", data, at)
        start = at + 8
        if kind >> 16:  # up to four bytes, packed into the head
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
            if size > 4:
                raise ValueError("a small element with a wrong size")
        if size > len(data) - start:
            raise ValueError("an element is cut off")
        yield kind, data[start : start + size]
        # Elements start at multiples of eight bytes, except after a compressed element.
        at = start + size if kind == _COMPRESSED else -(-(start + size) // 8) * 8


class _Head(NamedTuple):
    """The head of an array: class, shape, name, and the number of bytes of its parts."""

    kind: int
    shape: tuple[int, ...]
    name: str
    size: int


_Parts = Iterator[tuple[int, memoryview]]


def _read_head(data: memoryview, order: str) -> tuple[_Head, _Parts]:
    """The head of an array, and its parts, not yet parsed."""
    elements = _elements(data, order)
    head = [content for _, content in itertools.islice(elements, 3)]
    if len(head) < 3 or len(head[0]) < 8:
        raise ValueError("an array without a head")
    if len(head[1]) > 4 * _MOST_DIMENSIONS or len(head[2]) > _LONGEST_NAME:
        raise ValueError("an array with too many dimensions or too long a name")
    (flags,) = struct.unpack_from(f"{order}I", head[0])
    shape = tuple(np.frombuffer(head[1], f"{order}i4").tolist())
    name = bytes(head[2]).decode("latin-1")
    if len(shape) < 2 or min(shape) < 0 or flags & _COMPLEX:
        raise ValueError(f"{name!r} has shape {shape}, or is complex")
    return _Head(flags & 0xFF, shape, name, len(data)), elements


def _read_array(head: _Head, parts: _Parts, order: str) -> np.ndarray:
    """The contents of an array."""
    name, count = head.name, math.prod(head.shape)
    if head.kind == _CELL:
        return _read_cells(head, parts, count, order).reshape(head.shape, order="F")
    if head.kind == _CHAR:
        return np.array([_read_text(head, parts, order)], object)
    stored, content = _only(parts, name)
    if head.kind not in _NUMBERS or stored not in _DTYPES:
        raise ValueError(f"{name!r} is neither numbers nor text nor a list of text")
    values = np.frombuffer(content, f"{order}{_DTYPES[stored]}")
    if values.size != count:
        raise ValueError(f"{name!r} has {values.size} numbers and shape {head.shape}")
    return values.reshape(head.shape, order="F")


def _read_cells(head: _Head, parts: _Parts, count: int, order: str) -> np.ndarray:
    """The strings of a list, object [count]."""
    if count > min(_MOST_CELLS, head.size // _SMALLEST_CELL):
        raise ValueError(f"a list of shape {head.shape} in {head.size} bytes")
    cells = np.empty(count, object)
    number = -1
    for number, (kind, content) in enumerate(itertools.islice(parts, count + 1)):
        if kind != _MATRIX or number == count:
            raise ValueError(f"a list of {count} cells has another part")
        cell, inner = _read_head(content, order)
        if cell.kind != _CHAR:
            raise ValueError(f"{head.name!r} is a list with items that are not text")
        cells[number] = _read_text(cell, inner, order)
    if number != count - 1:
        raise ValueError(f"{number + 1} cells in a list of shape {head.shape}")
    return cells


def _read_text(head: _Head, parts: _Parts, order: str) -> str:
    stored, content = _only(parts, head.name)
    if stored not in _ENCODINGS or head.shape[0] > 1:
        raise ValueError(f"{head.name!r} is not a single line of text")
    encoding = _ENCODINGS[stored]
    encoding += {"<": "-le", ">": "-be"}[order] if encoding == "utf-16" else ""
    return bytes(content).decode(encoding)


def _only(parts: _Parts, name: str) -> tuple[int, memoryview]:
    """The one part of an array that is not a list."""
    found = list(itertools.islice(parts, 2))
    if len(found) != 1:
        raise ValueError(f"{name!r} has no contents, or more than one part")
    return found[0]
