"""Reads weights in PyTorch's legacy format, without PyTorch and without running what is in them.

Such a file holds five pickles (magic number, protocol, system, the tensors by name, the list of
storage keys) and then, for each key, a count and raw data. A pickle can call any function that it
names. So the file's hash is compared first, and only the names that tensors need are allowed.
"""

import hashlib
import io
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clarel_tf.errors import ClarelError, brief
from clarel_tf.storage import files

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "<i1",
    "ByteStorage": "<u1",
    "BoolStorage": "<b1",
}


class _Storage(NamedTuple):
    kind: str
    key: str


class _Tensor(NamedTuple):
    """The arguments of `torch._utils._rebuild_tensor_v2`."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool
    hooks: Any


class _Reader(pickle.Unpickler):
    """An unpickler for tensors by name; any other name in the file is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda *arguments: _Tensor(*arguments)
        if module == "torch" and name in _STORAGES:
            return name
        raise ClarelError(
            f"it names {module}.{name}, which weights do not need and which could run code; refused"
        )

    def persistent_load(self, pid: Any) -> _Storage:
        what, kind, key, _, _, view = pid
        if what != "storage" or kind not in _STORAGES or view is not None:
            raise ValueError(f"unknown storage {pid!r:.80}")
        return _Storage(kind, str(key))


def read_torch_weights(path: Path, sha256: str) -> dict[str, np.ndarray]:
    """The arrays of a file of PyTorch weights, by name.

    Args:
      sha256: of the whole file; any other file is refused before anything in it is interpreted.
    """
    try:
        data = files.read_regular(path)
    except OSError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror}") from error
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise ClarelError(
            f"{path} does not hold the expected weights: its SHA-256 is {found}, not {sha256}; "
            "install the package that it came with again"
        )
    return parse_torch_weights(data, path)


def parse_torch_weights(data: bytes, path: str | Path) -> dict[str, np.ndarray]:
    """The arrays in the contents of such a file.

    Args:
      path: the file, for messages.
    """
    stream = io.BytesIO(data)
    try:
        if _Reader(stream).load() != _MAGIC or _Reader(stream).load() != _PROTOCOL:
            raise ValueError("no magic number of the legacy format")
        if _Reader(stream).load().get("little_endian") is not True:
            raise ValueError("not little-endian")
        tensors, keys = _Reader(stream).load(), _Reader(stream).load()
        kinds = {tensor.storage.key: tensor.storage.kind for tensor in tensors.values()}
        storages = {key: _read_storage(stream, kinds[key]) for key in keys}
        if stream.read(1):
            raise ValueError("data after the last storage")
        return {name: _as_array(tensor, storages) for name, tensor in tensors.items()}
    except ClarelError as error:
        raise ClarelError(f"{path}: {error}") from error
    except Exception as error:  # a damaged pickle raises almost any exception
        raise ClarelError(
            f"{path} is damaged, or no weights in PyTorch's legacy format ({brief(error)})"
        ) from error


def _read_storage(stream: io.BytesIO, kind: str) -> np.ndarray:
    dtype = np.dtype(_STORAGES[kind])
    count = int.from_bytes(stream.read(8), "little")
    raw = stream.read(count * dtype.itemsize)
    if len(raw) != count * dtype.itemsize:
        raise ValueError("a storage is cut off")
    return np.frombuffer(raw, dtype)


def _as_array(tensor: _Tensor, storages: dict[str, np.ndarray]) -> np.ndarray:
    """The values of a tensor, in order, in memory of their own."""
    storage, shape, strides = storages[tensor.storage.key], tensor.shape, tensor.strides
    if len(shape) != len(strides) or min((tensor.offset, *shape, *strides)) < 0:
        raise ValueError("a tensor has an impossible shape")
    last = tensor.offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if 0 in shape or last >= len(storage):
        raise ValueError("a tensor exceeds its storage")
    view = np.lib.stride_tricks.as_strided(
        storage[tensor.offset :], shape, [step * storage.itemsize for step in strides]
    )
    return view.copy()
