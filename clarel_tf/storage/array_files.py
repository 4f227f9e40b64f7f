"""Reads named arrays from untrusted `.mat` and `.npz` files, and checks image features."""

import os
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from clarel_tf.errors import ClarelError, brief
from clarel_tf.storage import files
from clarel_tf.storage.expansion import MAX_BYTES, check_claims, most_bytes, open_member, too_large
from clarel_tf.storage.mat_files import Version73Error, read_variables


def read_mat(
    source: Path | bytes,
    wanted: Sequence[str],
    name: str | Path | None = None,
    compressed: int | None = None,
) -> dict[str, np.ndarray]:
    """The `wanted` variables that a MATLAB file (version 5 to 7.2) contains, by name.

    Args:
      source: the file, as a path or its contents.
      name: what to call it in messages.
      compressed: its size on disk, if the file itself came out of an archive.
    """
    shown = str(name or source)
    most = 0
    try:
        data = source if isinstance(source, bytes) else _read_whole(source)
        most = most_bytes(len(data) if compressed is None else compressed)
        return read_variables(data, wanted, most)
    except FileNotFoundError as error:
        raise ClarelError(f"cannot read {shown}: no such file") from error
    except PermissionError as error:
        raise ClarelError(f"cannot read {shown}: {error.strerror}") from error
    except Version73Error as error:
        raise ClarelError(f"{shown} is a MATLAB 7.3 file; save it with the option -v7") from error
    except OverflowError as error:
        raise too_large(shown, most) from error
    except (ValueError, zlib.error, OSError, MemoryError) as error:
        raise ClarelError(f"{shown} is cut off or not a MATLAB file ({brief(error)})") from error


def _read_whole(path: Path) -> bytes:
    with files.open_regular(path) as handle:
        size = os.fstat(handle.fileno()).st_size
        if size > MAX_BYTES:
            raise ClarelError(f"{path} has {size} bytes; at most {MAX_BYTES} are read")
        return handle.read()


def read_npz(path: Path, wanted: Sequence[str]) -> dict[str, np.ndarray]:
    """The `wanted` arrays that an `.npz` file contains, by name; pickled arrays are refused."""
    try:
        with files.open_regular(path) as file, zipfile.ZipFile(file) as archive:
            check_claims(archive, path, file.seek(0, os.SEEK_END))
            members = {member.filename: member for member in archive.infolist()}
            return {
                key: _read_member(archive, members[f"{key}.npy"], path)
                for key in wanted
                if f"{key}.npy" in members
            }
    except FileNotFoundError as error:
        raise ClarelError(f"cannot read {path}: no such file") from error
    except PermissionError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror}") from error
    except ClarelError:
        raise
    except Exception as error:  # NumPy and zipfile raise many kinds of exceptions on damage
        if "allow_pickle" in str(error):
            raise ClarelError(
                f"{path} holds an array of Python objects, which is not read; save rows of one "
                "width as a float array, and names as an array of strings"
            ) from error
        raise ClarelError(f"{path} is cut off or not an .npz file ({brief(error)})") from error


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> np.ndarray:
    """Reads one array of an `.npz` file and verifies its checksum."""
    with open_member(archive, member, path) as stream:
        array = np.lib.format.read_array(stream, allow_pickle=False)
        if stream.read(1):
            raise ValueError(f"{member.filename} has data after its array")
    if array.size and not array.dtype.itemsize:
        raise ValueError(f"{member.filename} claims {array.size} values of zero size")
    return array


def checked_features(features: np.ndarray, count: int, name: str | Path) -> np.ndarray:
    """Image features as float32 [count, D], all finite.

    Args:
      features: [count, D] of any float type.
      name: the file, for messages.
    """
    if features.ndim != 2 or features.dtype.kind not in "fiu" or not features.size:
        raise ClarelError(
            f"{name}: 'features' must be a matrix of numbers, not {features.dtype} of shape "
            f"{list(features.shape)}"
        )
    if len(features) != count:
        raise ClarelError(f"{name}: features of {len(features)} images, but names of {count}")
    with np.errstate(over="ignore"):
        features = np.ascontiguousarray(features, np.float32)
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if bad.size:
        raise ClarelError(
            f"{name}: the features of image number {bad[0] + 1} (counted from 1) are NaN, infinite "
            f"or too large for float32; images like that: {bad.size}; correct or remove them"
        )
    return features
