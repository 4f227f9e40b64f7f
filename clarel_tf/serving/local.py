"""`LocalTransport` and the parts of `classify_main.py`: images and rows of answers."""

import functools
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clarel_tf.errors import ClarelError
from clarel_tf.serving.versions import load_version, newest_version
from clarel_tf.storage import files
from clarel_tf.storage.array_files import checked_features, read_npz

if TYPE_CHECKING:  # a module that imports TensorFlow
    from clarel_tf.serving.loaded_model import LoadedModel


def read_image_features(path: str) -> tuple[list[str], np.ndarray]:
    """Ids and features, float32 [N, D], of an .npz file; without `image_ids`, ids are numbers."""
    try:
        with files.open_regular(Path(path)) as file:
            is_npz = zipfile.is_zipfile(file)
    except OSError:
        is_npz = True  # `read_npz` says why it cannot be read
    if not is_npz:
        raise ClarelError(
            f"--features={path} is not an .npz file; give a file that "
            "np.savez(path, image_ids=..., features=...) wrote: a row of numbers for each image, "
            "made by the network that made the features of the training data"
        )
    arrays = read_npz(Path(path), ("image_ids", "features"))
    if "features" not in arrays:
        raise ClarelError(
            f"--features={path} has no array 'features'; save the file with "
            "np.savez(path, image_ids=..., features=...)"
        )
    count = len(arrays["features"]) if arrays["features"].ndim else 0
    ids = [str(name) for name in arrays.get("image_ids", np.arange(1, count + 1)).ravel()]
    if len(ids) != count and count:
        raise ClarelError(
            f"{path}: image_ids has {len(ids)} names, but features has {count} rows; save a name "
            "for each row, in the same order, or leave image_ids out"
        )
    return ids, checked_features(arrays["features"], len(ids), path)


def find_images(splits: dict[str, Any], wanted: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Ids and features, float32 [N, D], of the wanted images of a dataset."""
    if not wanted:
        raise ClarelError("--dataset needs --image_ids")
    rows = {
        image_id: split.image_features[i]
        for split in splits.values()
        for i, image_id in enumerate(split.image_ids.tolist())
    }
    for image_id in wanted:
        if image_id not in rows:
            raise ClarelError(f"--image_ids: the dataset has no image {image_id!r}")
    return list(wanted), np.stack([rows[image_id] for image_id in wanted])


def read_authorization(path: str | None) -> str | None:
    """The value of the `Authorization` header in a file, or None without a file.

    A file, because all users of a machine can see the flags of a process.
    """
    if not path:
        return None
    try:
        return files.read_regular(path).decode("utf-8").strip()
    except OSError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ClarelError(f"{path} does not hold text") from error


class LocalTransport:
    """Runs an export in this process, without a server.

    It uses the version that is newest when the first model is loaded, for all three models, because
    embeddings of different versions cannot be compared.

    A timeout has no effect: nothing interrupts a graph that runs in this process. A call returns
    when it is done, and a large picture takes seconds.

    Example:

    >>> client = clarel_tf.ServingClient(clarel_tf.LocalTransport("exports/demo"))
    >>> client.embed_texts(["a bird", "a red bird"]).shape[0]
    2
    """

    number_bytes = 4

    def __init__(self, export_dir: str | Path):
        self._export_dir = Path(export_dir)
        self._version: int | None = None
        self._loaded: dict[str, LoadedModel] = {}
        self._lock = threading.Lock()

    def predict(
        self, model: str, signature: str, inputs: Mapping[str, Any], deadline: object
    ) -> dict[str, np.ndarray]:
        """Runs one signature of a model; the deadline is ignored."""
        from clarel_tf.serving.in_process import call_signature

        loaded = self._load(model)
        known = loaded.signatures
        if signature not in known:
            raise ClarelError(f"{model} has no signature {signature!r}; it has {list(known)}")
        run = functools.partial(loaded.run, signature)
        return call_signature(run, known[signature], inputs, f"{model}, {signature}")

    def _load(self, model: str) -> "LoadedModel":
        """The SavedModel, loaded on first use."""
        with self._lock:
            if model not in self._loaded:
                if self._version is None:
                    self._version = newest_version(self._export_dir, model)
                self._loaded[model] = load_version(self._export_dir, model, self._version)
            return self._loaded[model]


def answer_rows(image_ids: Sequence[str], answer: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """One row for each image and class of the answer, nearest class first.

    New classes of the request follow with their ranks if they are not among the nearest. With new
    classes a row has `known_words`, the share of their words that the model knows; None for others.
    With options, it has the `strangeness` of the image, which the threshold is compared with.
    """
    rows = []
    for i, image_id in enumerate(image_ids):
        listed = [
            (rank, *values)
            for rank, values in enumerate(_columns(answer, "", ("class_name", *_NUMBERS), i), 1)
        ]
        new = list(_columns(answer, "new_class_", ("rank", "name", *_NUMBERS, "known_words"), i))
        known = {name: float(share) for _, name, *_, share in new}
        listed += sorted(values[:-1] for values in new if values[0] > len(listed))
        rows += [
            {
                "image_id": image_id,
                "rank": int(rank),
                "class": str(name),
                "distance": float(distance),
                "probability": float(probability),
                "accepted": bool(answer["accepted"][i]),
            }
            | ({"strangeness": float(answer["strangeness"][i])} if "strangeness" in answer else {})
            | ({"known_words": known.get(name)} if new else {})
            for rank, name, distance, probability in listed
        ]
    return rows


_NUMBERS = ("distance", "probability")


def _columns(
    answer: Mapping[str, np.ndarray], prefix: str, names: Sequence[str], row: int
) -> Iterator[tuple[Any, ...]]:
    """The values of these outputs for one image, class by class; nothing if there are none."""
    if all(f"{prefix}{name}" in answer for name in names):
        yield from zip(*(answer[f"{prefix}{name}"][row].tolist() for name in names), strict=True)
