"""Reads trained models from the folder of a run."""

import zipfile
from pathlib import Path

import keras

from clarel_tf.errors import ClarelError, brief
from clarel_tf.models.clarel import Clarel
from clarel_tf.models.embedder import Embedder
from clarel_tf.models.ensemble import Ensemble
from clarel_tf.storage import checksums, files
from clarel_tf.storage.expansion import most_bytes, too_large

# Keras finds the classes of a file by name, once their modules are imported.
KINDS = (Clarel, Ensemble)
_REMEDY = "delete results.json, and the training command writes it again from a checkpoint"


def load_model(path: str | Path) -> Embedder:
    """Reads the `.keras` file of a `Clarel` or an `Ensemble` in safe mode: nothing is executed."""
    try:
        with files.open_regular(path) as file:
            checksums.check(Path(path), _REMEDY)
            _refuse_compressed(path, zipfile.ZipFile(file))
        # Training goes on from a checkpoint, never from here: the optimiser stays out.
        return keras.saving.load_model(path, compile=False, safe_mode=True)
    except ClarelError:
        raise
    except Exception as error:  # Keras, h5py and zipfile have no common list of what damage raises
        raise ClarelError(f"{path} is missing or damaged ({brief(error)})") from error


def _refuse_compressed(path: str | Path, archive: zipfile.ZipFile) -> None:
    """Keras stores the members of its files as they are, so that none of them expands."""
    for member in archive.infolist():
        is_stored = member.compress_type == zipfile.ZIP_STORED
        if not is_stored or member.file_size != member.compress_size:
            raise ClarelError(
                f"{path}: member {member.filename!r} is compressed, which Keras does not do; "
                "refused. Save the model again, or pack it without compression"
            )
    most = most_bytes(Path(path).stat().st_size)
    if sum(member.file_size for member in archive.infolist()) > most:
        raise too_large(path, most)
