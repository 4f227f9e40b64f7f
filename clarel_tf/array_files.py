"""Reads named arrays from `.mat` and `.npz` files that somebody else made, and checks features."""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from clarel_tf.errors import ClarelError, brief
from clarel_tf.mat_files import Version73Error, read_variables

MAX_BYTES = 8 << 30  # of all arrays of a file; the largest public one has a few hundred megabytes


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
        data = source.read_bytes() if isinstance(source, Path) else source.read()
        return read_variables(data, wanted, MAX_BYTES)
    except FileNotFoundError as error:
        raise ClarelError(f"cannot read {name}: no such file") from error
    except Version73Error as error:
        raise ClarelError(f"{name} is a MATLAB 7.3 file; save it with the option -v7") from error
    except OverflowError as error:
        raise ClarelError(f"{name} expands to more than {MAX_BYTES} bytes; refused") from error
    except (ValueError, zlib.error, OSError, MemoryError) as error:
        raise ClarelError(f"{name} is cut off or not a MATLAB file ({brief(error)})") from error


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
    except Exception as error:  # NumPy and zipfile have no list of what damage raises
        if "allow_pickle" in str(error):
            raise ClarelError(
                f"{path} holds an array of Python objects, which is not read; save rows of one "
                "width as a float array, and names as an array of strings"
            ) from error
        raise ClarelError(f"{path} is cut off or not an .npz file ({brief(error)})") from error


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
