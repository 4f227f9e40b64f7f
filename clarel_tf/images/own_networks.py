"""Backbones from files of one's own: a `.keras` file or a SavedModel.

The network takes pixels [B, S, S, 3] from 0 to 255, so its preprocessing is inside. It gives
features [B, D], or a map [B, h, w, D], over which the mean is taken.
"""

import hashlib
import os
import zipfile
from pathlib import Path

import keras
import tensorflow as tf

from clarel_tf.errors import ClarelError, brief
from clarel_tf.images.backbones import Backbone, Network, Views
from clarel_tf.storage import files
from clarel_tf.storage.expansion import check_claims

_PREPROCESSING = "inside the network"


def load_keras_file(path: Path, input_size: int | None = None, views: Views = Views()) -> Backbone:
    """The backbone in a `.keras` file, loaded in safe mode: code in it is refused."""
    try:
        with files.open_regular(path) as file, zipfile.ZipFile(file) as archive:
            check_claims(archive, path, file.seek(0, os.SEEK_END))
        model = keras.saving.load_model(path, compile=False, safe_mode=True)
    except ClarelError:
        raise
    except OSError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror or brief(error)}") from error
    except Exception as error:  # Keras, h5py and zipfile raise many kinds of exceptions
        raise ClarelError(f"{path} is refused, or damaged ({brief(error)})") from error
    if not getattr(model, "inputs", None):  # nothing has been through it, or it is no network
        raise ClarelError(
            f"{path} does not say what it takes; let the network begin with keras.Input, and save "
            "it again"
        )
    model.trainable = False
    size = _size_of(tuple(model.input_shape), input_size, path)
    dtype = tf.as_dtype(model.inputs[0].dtype)
    network = _fed_with(lambda pixels: model(pixels, training=False), dtype)
    return Backbone(path.name, files.sha256(path), size, _PREPROCESSING, network, views)


def load_saved_model(path: Path, input_size: int | None = None, views: Views = Views()) -> Backbone:
    """The backbone in a SavedModel: its signature `serving_default`, one input and one output.

    A SavedModel is a program; TensorFlow runs what is in it. Use only your own.
    """
    try:
        loaded = tf.saved_model.load(str(path))
    except Exception as error:  # TensorFlow raises many kinds of exceptions on damage
        raise ClarelError(f"{path} is no SavedModel, or damaged ({brief(error)})") from error
    signature = loaded.signatures.get("serving_default")
    inputs = {} if signature is None else signature.structured_input_signature[1]
    if len(inputs) != 1 or len(signature.structured_outputs) != 1:
        raise ClarelError(
            f"{path} needs a signature 'serving_default' with one input, pixels, and one output, "
            "features"
        )
    [(name, spec)], [output] = inputs.items(), signature.structured_outputs
    size = _size_of(tuple(spec.shape.as_list()), input_size, path)
    network = _fed_with(lambda pixels: signature(**{name: pixels})[output], spec.dtype)
    digest = _hash_of_tree(path)
    return Backbone(path.name, digest, size, _PREPROCESSING, network, views, [loaded])


def _size_of(shape: tuple[int | None, ...], wanted: int | None, path: Path) -> int:
    """Height and width of the input, by the network or by the user."""
    if len(shape) != 4 or shape[3] != 3 or shape[1] != shape[2]:
        raise ClarelError(f"{path} takes {list(shape)}, not square pictures [B, S, S, 3]")
    if shape[1] is None and wanted is None:
        raise ClarelError(f"{path} takes pictures of any size; give one with --input_size")
    if None not in (shape[1], wanted) and shape[1] != wanted:
        raise ClarelError(f"{path} takes pictures of {shape[1]} pixels, not of {wanted}")
    return int(shape[1] or wanted or 0)


def _fed_with(network: Network, dtype: tf.DType) -> Network:
    """The network, given pixels of the type that it takes."""
    if dtype.is_floating:
        return lambda pixels: network(tf.cast(pixels, dtype))
    return lambda pixels: network(tf.cast(tf.round(pixels), dtype))


def _hash_of_tree(folder: Path) -> str:
    """The SHA-256 of the names and contents of all files below a folder."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{files.sha256(path)}\n".encode())
    return digest.hexdigest()
