"""Reads matrices and lists of strings from MATLAB files, version 5 to 7.2.

SciPy's reader is compiled code that a damaged file can make crash the whole process; this one reads
the little that public datasets use, and every size in the file is compared with what is there.
"""

import math
import struct
import zlib
from collections.abc import Collection, Iterator

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
_DEEPEST = 4  # cells in cells


class Version73Error(ValueError):
    """The file is an HDF5 file, which this module does not read."""


def read_variables(data: bytes, wanted: Collection[str], most: int) -> dict[str, np.ndarray]:
    """Those of the `wanted` variables that a file has; ValueError where it is damaged.

    Args:
      data: the contents of the file.
      most: how many bytes its compressed variables may expand to.

    Returns:
      Numbers in the type they are stored in, cells and text as arrays of objects.
    """
    if data[:10] == b"MATLAB 7.3":
        raise Version73Error
    order = {b"IM": "<", b"MI": ">"}.get(bytes(data[126:128]))
    if order is None:
        raise ValueError("it has no header")
    variables = {}
    for kind, content in _elements(memoryview(data)[128:], order):
        if kind == _COMPRESSED:
            content = _expanded(content, most)
            most -= len(content)
            [(kind, content)] = _elements(content, order)
        if kind == _MATRIX:
            name, array = _read_matrix(content, order, wanted)
            if array is not None:
                variables[name] = array
    return variables


def _expanded(content: memoryview, most: int) -> memoryview:
    inflate = zlib.decompressobj()
    expanded = inflate.decompress(content, max(most, 1))
    if inflate.unconsumed_tail:
        raise OverflowError
    if not inflate.eof:  # only there has zlib compared the checksum
        raise ValueError("a variable has no end")
    return memoryview(expanded)


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """(type, contents) of the elements that stand one after the other in `data`."""
    at = 0
    while at < len(data):
        if len(data) - at < 8:
            raise ValueError("an element is cut off")
        kind, size = struct.unpack_from(f"{order}II", data, at)
        start = at + 8
        if kind >> 16:  # up to four bytes, packed into the head
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
            if size > 4:
                raise ValueError("a small element that is not small")
        if size > len(data) - start:
            raise ValueError("an element is cut off")
        yield kind, data[start : start + size]
        # Each begins at a multiple of eight, but for what follows a compressed one.
        at = start + size if kind == _COMPRESSED else -(-(start + size) // 8) * 8


def _read_matrix(
    data: memoryview, order: str, wanted: Collection[str] | None, depth: int = 0
) -> tuple[str, np.ndarray | None]:
    """Name and contents of an array; None if it is not wanted. All are if `wanted` is None."""
    parts = list(_elements(data, order))
    if len(parts) < 3 or len(parts[0][1]) < 8:
        raise ValueError("an array without a head")
    (flags,) = struct.unpack_from(f"{order}I", parts[0][1])
    shape = tuple(np.frombuffer(parts[1][1], f"{order}i4").tolist())
    name = bytes(parts[2][1]).decode("latin-1")
    if wanted is not None and name not in wanted:
        return name, None
    if len(shape) < 2 or min(shape) < 0 or flags & _COMPLEX:
        raise ValueError(f"{name!r} has shape {shape}, or is complex")
    kind, count, contents = flags & 0xFF, math.prod(shape), parts[3:]
    if kind == _CELL:
        return name, _read_cells(contents, shape, count, order, depth)
    if len(contents) != 1:
        raise ValueError(f"{name!r} has {len(contents)} parts")
    [(stored, content)] = contents
    if kind == _CHAR and stored in _ENCODINGS and shape[0] <= 1:
        encoding = _ENCODINGS[stored]
        encoding += {"<": "-le", ">": "-be"}[order] if encoding == "utf-16" else ""
        return name, np.array([bytes(content).decode(encoding)], object)
    if kind in _NUMBERS and stored in _DTYPES:
        values = np.frombuffer(content, f"{order}{_DTYPES[stored]}")
        if values.size != count:
            raise ValueError(f"{name!r} has {values.size} numbers and shape {shape}")
        return name, values.reshape(shape, order="F")
    raise ValueError(f"{name!r} is neither numbers nor text nor a list of them")


def _read_cells(
    contents: list[tuple[int, memoryview]],
    shape: tuple[int, ...],
    count: int,
    order: str,
    depth: int,
) -> np.ndarray:
    if len(contents) != count or depth >= _DEEPEST:
        raise ValueError(f"{len(contents)} cells in a list of shape {shape}")
    cells = np.empty(count, object)
    for number, (kind, content) in enumerate(contents):
        if kind != _MATRIX:
            raise ValueError("a cell that is no array")
        cells[number] = _read_matrix(content, order, None, depth + 1)[1]
    return cells.reshape(shape, order="F")
