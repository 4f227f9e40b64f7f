"""Weights of PyTorch are read by hash and by allowed names; nothing in the file is run."""

import hashlib
import os
import pickle
import struct
import sys
import types
from collections import OrderedDict

import numpy as np
import pytest

from clarel_tf.errors import ClarelError
from clarel_tf.images import efficientnet_lite2
from clarel_tf.images.torch_weights import _MAGIC, parse_torch_weights, read_torch_weights


def _rebuild_tensor_v2(*arguments):
    raise AssertionError("never called")


class FloatStorage:
    pass


@pytest.fixture
def torch_names(monkeypatch):
    """Pickles of this file have the names of PyTorch in them, which is not installed."""
    for name, value in (("torch._utils", _rebuild_tensor_v2), ("torch", FloatStorage)):
        module = types.ModuleType(name)
        setattr(module, value.__name__, value)
        monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setattr(value, "__module__", name)


class Tensor:
    """Pickled as PyTorch pickles a tensor."""

    def __init__(self, key, offset, shape, strides):
        self.key, self.rest = key, (offset, shape, strides, False, OrderedDict())

    def __reduce__(self):
        return _rebuild_tensor_v2, (Storage(self.key), *self.rest)


class Storage:
    def __init__(self, key):
        self.key = key


class _Pickler(pickle.Pickler):
    def persistent_id(self, item):
        if isinstance(item, Storage):
            return ("storage", FloatStorage, item.key, "cpu", 6, None)
        return None


def torch_file(path, tensors, values=(0, 1, 2, 3, 4, 5)):
    """A file in the legacy format with one storage, `a`."""
    with open(path, "wb") as file:
        for part in (_MAGIC, 1001, {"little_endian": True}):
            pickle.dump(part, file, protocol=2)
        _Pickler(file, protocol=2).dump(OrderedDict(tensors))
        pickle.dump(["a"], file, protocol=2)
        file.write(struct.pack("<q", len(values)) + np.array(values, "<f4").tobytes())
    return path.read_bytes()


def test_tensors_are_read_with_offset_and_strides(tmp_path, torch_names):
    data = torch_file(
        tmp_path / "w.pth",
        {"whole": Tensor("a", 0, (2, 3), (3, 1)), "turned": Tensor("a", 1, (2, 2), (1, 3))},
    )
    arrays = read_torch_weights(tmp_path / "w.pth", hashlib.sha256(data).hexdigest())
    np.testing.assert_array_equal(arrays["whole"], [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(arrays["turned"], [[1, 4], [2, 5]])


def test_the_hash_is_compared_before_anything_is_read(tmp_path):
    trap = tmp_path / "trap"
    (tmp_path / "w.pth").write_bytes(pickle.dumps(Trap(trap)))
    with pytest.raises(ClarelError, match=r"w\.pth does not hold the expected weights: its SHA"):
        read_torch_weights(tmp_path / "w.pth", efficientnet_lite2.WEIGHTS_SHA256)
    assert not trap.exists()


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_another_name_in_the_pickle_is_refused(tmp_path, torch_names):
    trap = tmp_path / "trap"
    data = torch_file(tmp_path / "w.pth", {"a": Tensor("a", 0, (6,), (1,)), "b": Trap(trap)})
    with pytest.raises(ClarelError, match=r"w\.pth: it names posix\.mkdir, which .* refused"):
        parse_torch_weights(data, "w.pth")
    assert not trap.exists()


@pytest.mark.parametrize("tensor", [(1, (6,), (1,)), (0, (2, 4), (4, 1)), (-1, (2,), (1,))])
def test_a_tensor_stays_in_its_storage(tmp_path, torch_names, tensor):
    data = torch_file(tmp_path / "w.pth", {"a": Tensor("a", *tensor)})
    with pytest.raises(ClarelError, match=r"w\.pth is damaged.*a tensor"):
        parse_torch_weights(data, "w.pth")


def test_damage_is_one_message(tmp_path, torch_names):
    data = torch_file(tmp_path / "w.pth", {"a": Tensor("a", 0, (6,), (1,))})
    for damaged in (data[:-4], data + b"x", data[:50], b"", b"text", pickle.dumps(1)):
        with pytest.raises(ClarelError, match=r"w\.pth is damaged, or no weights"):
            parse_torch_weights(damaged, "w.pth")
