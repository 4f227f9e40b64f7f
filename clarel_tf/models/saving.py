"""Reads trained models from the folder of a run."""

import io
import json
import re
import tempfile
import zipfile
from pathlib import Path

import h5py
import keras

from clarel_tf.errors import ClarelError, brief
from clarel_tf.models.clarel import Clarel
from clarel_tf.models.embedder import Embedder
from clarel_tf.storage import checksums, files
from clarel_tf.storage.expansion import most_bytes, too_large

_REMEDY = "delete results.json, and the training command writes it again from a checkpoint"


def load_model(path: str | Path) -> Embedder:
    """Loads the `.keras` file of a `Clarel` or an `Ensemble` in safe mode: no code is executed.

    If the model has custom towers, import their module first.

    Example:

    >>> model = clarel_tf.load_model("runs/demo/model.keras")
    >>> model.embed_texts(["a small bird with a red crown"]).ndim
    2
    """
    try:
        with files.open_regular(path) as file:
            checksums.check(Path(path), _REMEDY)
            archive = zipfile.ZipFile(file)
            _refuse_compressed(path, archive)
            older = _load_older(archive)
            if older is not None:
                return older
    except ClarelError:
        raise
    except Exception as error:
        raise _damaged(path, error) from error
    try:
        # Training continues from checkpoints, never from this file, so the optimiser is not loaded.
        return keras.saving.load_model(path, compile=False, safe_mode=True)
    except ClarelError as error:  # raised by `from_config`, which does not know the file
        raise ClarelError(f"{path}: {error}") from error
    except Exception as error:  # Keras, h5py and zipfile raise many kinds of exceptions on damage
        unknown = re.search(r"Could not locate class '(\w+)'", str(error))
        if unknown:
            raise ClarelError(
                f"{path} has a layer of class {unknown[1]!r}, which is not known here; import the "
                "module that registers it before the model is loaded"
            ) from error
        raise _damaged(path, error) from error


def _load_older(archive: zipfile.ZipFile) -> Clarel | None:
    """The model in a file of version 0.1, where the text tower had another name; None otherwise."""
    saved = json.loads(archive.read("config.json"))
    members = saved["config"].get("members", [])
    if any("text_tower" not in member for member in members):
        raise ClarelError(
            f"{archive.filename} is an ensemble of version 0.1; the training command with "
            "--repeats and --ensemble makes it again from its members, and moves this one aside"
        )
    if saved.get("registered_name") != "clarel_tf>Clarel" or "text_tower" in saved["config"]:
        return None
    model = Clarel.from_config(saved["config"])
    weights = io.BytesIO(archive.read("model.weights.h5"))
    with h5py.File(weights, "r+") as file:
        file.move("layers/text_tower", "layers/caption_tower")
    with tempfile.NamedTemporaryFile(suffix=".weights.h5") as renamed:
        renamed.write(weights.getvalue())
        renamed.flush()
        model.load_weights(renamed.name)
    return model


def _damaged(path: str | Path, error: Exception) -> ClarelError:
    return ClarelError(f"{path} is missing or damaged ({brief(error)})")


def _refuse_compressed(path: str | Path, archive: zipfile.ZipFile) -> None:
    """Raises ClarelError if a member is compressed; Keras never compresses them."""
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
