"""The versions in an export folder: which there are, whether they are intact, and loading one."""

from pathlib import Path
from typing import Any

from clarel_tf import checksums
from clarel_tf.errors import ClarelError, brief

MODELS = ("image_embedder", "text_embedder", "prototype_classifier")


def versions_of(export_dir: Path, model: str) -> set[int]:
    """The versions that a server would find."""
    names = (path.name for path in (export_dir / model).glob("*"))
    return {int(name) for name in names if name.isascii() and name.isdigit()}


def next_version(export_dir: Path) -> int:
    """One more than the highest version of any of the models."""
    return max((0, *(v for model in MODELS for v in versions_of(export_dir, model)))) + 1


def newest_version(export_dir: Path, model: str) -> int:
    """The newest version of `model` that the other models have too.

    An export that is killed between two of its three renames leaves a version of some models, and
    embeddings of different versions do not belong together.
    """
    shared = versions_of(export_dir, model)
    for other in MODELS:
        if (export_dir / other).is_dir():
            shared &= versions_of(export_dir, other)
    if not shared:
        raise ClarelError(f"{export_dir} holds no export (no version of {model})")
    return max(shared)


def checksums_path(version: Path) -> Path:
    """Where a version has the checksums of its files: a folder that no loader looks into."""
    return version / "assets.extra" / checksums.MANIFEST


def load_version(export_dir: Path, model: str, version: int | None = None) -> Any:
    """The SavedModel of `model`, compared with its checksums first; without a version, the newest.

    Raises:
      ClarelError: there is no such version, or it is damaged.
    """
    import tensorflow as tf

    number = newest_version(export_dir, model) if version is None else version
    folder = export_dir / model / str(number)
    if not folder.is_dir():
        raise ClarelError(f"{folder} does not exist: the export has no version {number} of {model}")
    remedy = "delete this version and export again, or put back a copy"
    try:
        checksums.check_tree(folder, checksums_path(folder), remedy)
        return tf.saved_model.load(str(folder))
    except ClarelError:
        raise
    except Exception as error:  # TensorFlow and protobuf have no common list of what damage raises
        raise ClarelError(f"{folder} cannot be loaded ({brief(error)}); {remedy}") from error
