"""Files of features: `.npz` with the names of pictures, their features and the backbone's record.

`image_ids` and `image_files` are the same relative paths; the dataset `pairs` reads the former, CUB
and Flowers the latter, with `labels`: the number of a picture's folder, from 1.
"""

import io
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from clarel_tf.errors import ClarelError
from clarel_tf.images.backbone_record import BackboneRecord
from clarel_tf.storage import files
from clarel_tf.storage.array_files import checked_features, read_npz

RECORD = "backbone"


def write_features(
    path: Path, names: Sequence[str], rows: Iterable[np.ndarray], record: BackboneRecord
) -> None:
    """Writes a file of features, all of it or nothing, in memory for one block.

    Args:
      names: of n pictures.
      rows: their features in the same order, blocks of float32 [m, D].
    """
    arrays = {"image_ids": np.array(names), "image_files": np.array(names)}
    folders = [PurePosixPath(name).parent.as_posix() for name in names]
    if "." not in folders:
        arrays["labels"] = np.unique(folders, return_inverse=True)[1] + 1
    arrays[RECORD] = np.array(record.to_json())
    shape = (len(names), record.feature_width)
    with files.written_aside(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, array in arrays.items():
            packed = io.BytesIO()
            np.lib.format.write_array(packed, array, allow_pickle=False)
            archive.writestr(f"{name}.npy", packed.getvalue())
        with archive.open("features.npy", "w", force_zip64=True) as stream:
            header = {"descr": "<f4", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(stream, header)
            for block in rows:
                stream.write(np.ascontiguousarray(block, "<f4").data)


def read_features(path: Path) -> tuple[list[str], np.ndarray, BackboneRecord]:
    """The names, the features, float32 [n, D], and the record in a file of `write_features`."""
    arrays = read_npz(path, ("image_files", "features"))
    if len(arrays) != 2 or arrays["image_files"].dtype.kind != "U":
        raise ClarelError(f"{path} was not written by clarel-extract; name another file")
    names = arrays["image_files"].tolist()
    return names, checked_features(arrays["features"], len(names), path), read_record(path)


def read_record(path: Path) -> BackboneRecord:
    """The record of the backbone in a file of features."""
    record = find_record(path)
    if record is None:
        raise ClarelError(
            f"{path} does not say which backbone made it; clarel-extract writes files that do"
        )
    return record


def find_record(path: Path) -> BackboneRecord | None:
    """As `read_record`; None for a file that others wrote."""
    text = read_npz(path, (RECORD,)).get(RECORD)
    if text is None or text.dtype.kind != "U" or text.ndim:
        return None
    return BackboneRecord.from_json(str(text), path)
