"""Reads named arrays from `.mat` and `.npz` files that somebody else made, and checks features."""

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import scipy.io

from clarel_tf.errors import ClarelError

MAX_BYTES = 8 << 30  # of all arrays of a file; the largest public one has a few hundred megabytes
_COMPRESSED = 15  # the type of a compressed variable in a MATLAB file


def read_mat(
    source: Path | BinaryIO, wanted: Sequence[str], name: str | Path | None = None
) -> dict[str, np.ndarray]:
    """Those of the `wanted` variables that a MATLAB file (version 5 to 7.2) has.

    Args:
      source: the file, as a path or open for reading.
      name: what to call it in messages.
    """
    name = name or source
    try:
        if isinstance(source, Path):
            with source.open("rb") as file:
                _refuse_expansion(file, name)
        else:
            _refuse_expansion(source, name)
        variables = scipy.io.loadmat(source, variable_names=list(wanted), chars_as_strings=True)
    except FileNotFoundError as error:
        raise ClarelError(f"cannot read {name}: no such file") from error
    except NotImplementedError as error:  # SciPy's answer to version 7.3
        raise ClarelError(f"{name} is a MATLAB 7.3 file; save it with the option -v7") from error
    except ClarelError:
        raise
    except Exception as error:  # SciPy has no list of what damage raises
        raise ClarelError(f"{name} is cut off or not a MATLAB file ({_brief(error)})") from error
    return {key: variables[key] for key in wanted if key in variables}


def _refuse_expansion(file: BinaryIO, name: str | Path) -> None:
    """Compressed variables are expanded in passing: SciPy takes them whole, however large they are,
    and without a look at their checksums."""
    order = ">" if file.read(128)[126:] == b"MI" else "<"
    expanded = 0
    while len(tag := file.read(8)) == 8:
        kind, size = struct.unpack(f"{order}II", tag)
        if kind != _COMPRESSED:
            file.seek(size, 1)
            continue
        inflate = zlib.decompressobj()
        while size > 0 and (block := file.read(min(size, 1 << 20))):
            size -= len(block)
            while block and not inflate.eof:
                expanded += len(inflate.decompress(block, 1 << 24))
                block = inflate.unconsumed_tail
                if expanded > MAX_BYTES:
                    raise ClarelError(f"{name} expands to more than {MAX_BYTES} bytes; refused")
        if not inflate.eof:  # where zlib compares the checksum, which SciPy does not wait for
            raise ValueError("a variable has no end")
    file.seek(0)


def read_npz(path: Path, wanted: Sequence[str]) -> dict[str, np.ndarray]:
    """Those of the `wanted` arrays that a `.npz` file has; pickled ones are refused."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if sum(member.file_size for member in archive.zip.infolist()) > MAX_BYTES:
                raise ClarelError(f"{path} expands to more than {MAX_BYTES} bytes; refused")
            return {key: archive[key] for key in wanted if key in archive.files}
    except FileNotFoundError as error:
        raise ClarelError(f"cannot read {path}: no such file") from error
    except ClarelError:
        raise
    except Exception as error:  # nor have NumPy and zipfile
        if "allow_pickle" in str(error):
            raise ClarelError(
                f"{path} holds an array of Python objects, which is not read; save rows of one "
                "width as a float array, and names as an array of strings"
            ) from error
        raise ClarelError(f"{path} is cut off or not an .npz file ({_brief(error)})") from error


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
            f"{name}: the features of image number {bad[0] + 1} (counted from 1) are NaN or "
            f"infinite; {bad.size} images are"
        )
    return features


def _brief(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
