"""Reads trained models from the folder of a run."""

from pathlib import Path

import keras

from clarel_tf import checksums
from clarel_tf.embedder import Embedder
from clarel_tf.ensemble import Ensemble
from clarel_tf.errors import ClarelError
from clarel_tf.model import Clarel

# Keras finds the classes of a file by name, once their modules are imported.
KINDS = (Clarel, Ensemble)


def load_model(path: str | Path) -> Embedder:
    """Reads the `.keras` file of a `Clarel` or an `Ensemble` in safe mode: nothing is executed."""
    if Path(path).is_file():
        remedy = "delete results.json, and the training command writes it again from a checkpoint"
        checksums.check(Path(path), remedy)
    try:
        # Training goes on from a checkpoint, never from here: the optimiser stays out.
        return keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:  # Keras, h5py and zipfile have no common list of what damage raises
        brief = " ".join(str(error).split())[:200]
        raise ClarelError(f"{path} is missing or damaged ({brief})") from error
