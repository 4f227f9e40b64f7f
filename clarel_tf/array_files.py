"""Reads named arrays from `.mat` and `.npz` files that somebody else made, and checks features."""

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import scipy.io

from clarel_tf.errors import ClarelError

# What SciPy and NumPy raise on files that are cut off or damaged; no stable list is documented.
_DAMAGE = (ValueError, TypeError, KeyError, IndexError, EOFError, OSError, MemoryError, zlib.error)


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
        variables = scipy.io.loadmat(source, variable_names=list(wanted), chars_as_strings=True)
    except FileNotFoundError as error:
        raise ClarelError(f"cannot read {name}: no such file") from error
    except NotImplementedError as error:  # SciPy's answer to version 7.3
        raise ClarelError(f"{name} is a MATLAB 7.3 file; save it with the option -v7") from error
    except (*_DAMAGE, scipy.io.matlab.MatReadError) as error:
        raise ClarelError(f"{name} is cut off or not a MATLAB file ({_brief(error)})") from error
    return {key: variables[key] for key in wanted if key in variables}


def read_npz(path: Path, wanted: Sequence[str]) -> dict[str, np.ndarray]:
    """Those of the `wanted` arrays that a `.npz` file has; pickled ones are refused."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {key: archive[key] for key in wanted if key in archive.files}
    except FileNotFoundError as error:
        raise ClarelError(f"cannot read {path}: no such file") from error
    except (*_DAMAGE, zipfile.BadZipFile, AttributeError) as error:
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
