"""Fingerprints of all that a run depends on besides its config: splits, words, towers, backbone."""

import dataclasses
from pathlib import Path
from typing import Any

from clarel_tf.config import Config
from clarel_tf.data.split import Split
from clarel_tf.errors import ClarelError
from clarel_tf.experiments.run_data import BACKBONE
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.experiments.training_phase import MakeTowers, towers_fingerprint
from clarel_tf.storage import files


def data_fingerprints(
    config: Config, splits: dict[str, Split], folder: RunFolder | None = None
) -> dict[str, Any]:
    """Fingerprints of the splits and the word vectors.

    Args:
      folder: of the run; once it has kept the vectors, their file may be gone.
    """
    fingerprints: dict[str, Any] = split_fingerprints(splits)
    if config.word_vectors:
        is_gone = not Path(config.word_vectors).exists()
        if is_gone and folder and folder.word_vectors_path.exists():
            fingerprints["word_vectors"] = folder.data.fingerprints()["word_vectors"]
        else:
            try:
                fingerprints["word_vectors"] = files.file_fingerprint(config.word_vectors)
            except ClarelError as error:
                raise ClarelError(f"word_vectors: {error}") from error
    return fingerprints


def fingerprint_of_towers(
    config: Config,
    splits: dict[str, Split],
    make_towers: MakeTowers | None,
    folder: RunFolder | None = None,
) -> dict[str, Any]:
    """The fingerprint of a run's own towers, those of the training split, if it has any."""
    if make_towers is None:
        return {}
    kept = folder.word_vectors_path if folder else None
    return {"towers": towers_fingerprint(config, splits["train"], make_towers, kept)}


def older_mark_of_towers(folder: RunFolder, make_towers: MakeTowers | None) -> dict[str, Any]:
    """What a run noted of its towers before there were fingerprints: the name of the function."""
    if make_towers is None or not folder.data.has_begun:
        return {}
    name = getattr(make_towers, "__qualname__", type(make_towers).__qualname__)
    return {"towers": name} if folder.data.fingerprints().get("towers") == name else {}


def split_fingerprints(splits: dict[str, Split]) -> dict[str, Any]:
    """The fingerprints of each split, by its name; the record of the backbone, if it is known."""
    found: dict[str, Any] = {name: split.fingerprints() for name, split in splits.items()}
    backbone = splits["trainval"].backbone
    if backbone is not None:
        found[BACKBONE] = dataclasses.asdict(backbone)
    return found
