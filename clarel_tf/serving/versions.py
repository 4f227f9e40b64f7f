"""The versions in an export folder: listing, publishing, checking and loading."""

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from clarel_tf.errors import ClarelError, brief
from clarel_tf.storage import checksums, ownership

if TYPE_CHECKING:  # a module that imports TensorFlow
    from clarel_tf.serving.loaded_model import LoadedModel

# The order in which a new version appears. The classifier is last; it does not need the others.
MODELS = ("image_embedder", "text_embedder", "prototype_classifier")
# The signature of an embedder that returns the id of its export.
EMBED_WITH_ID = "embed_with_id"
# The signature of the classifier that takes every option of a request.
CLASSIFY_WITH_OPTIONS = "classify_with_options"
# The signatures that take image features, and those that take encoded pictures in their place.
OF_PICTURES = {
    "image_embedder": {
        "serving_default": "embed_pictures",
        EMBED_WITH_ID: "embed_pictures_with_id",
    },
    "prototype_classifier": {
        "serving_default": "classify_pictures",
        "classify_with_alpha": "classify_pictures_with_alpha",
        "classify_with_new_classes": "classify_pictures_with_new_classes",
        CLASSIFY_WITH_OPTIONS: "classify_pictures_with_options",
        "classify_with_prototypes": "classify_pictures_with_prototypes",
        "retrieve_captions": "retrieve_captions_of_pictures",
    },
}
_OWN_NAMES = re.compile(
    rf"{'|'.join(MODELS)}|models\.config|SERVING\.md|checksums\.json|\.lock|\.staging|"
    r"\.clarel_tf\.json"
)


def versions_of(export_dir: Path, model: str) -> set[int]:
    """The versions that a server can load: folders named by a number, with a model inside."""
    return {
        number
        for number, path in _numbered(export_dir / model)
        if path.name == str(number) and (path / "saved_model.pb").is_file()
    }


def next_version(export_dir: Path) -> int:
    """One more than the highest version that exists or existed.

    A number is never reused: a server that has loaded a version does not look at it again.
    """
    used = [number for model in MODELS for number, _ in _numbered(export_dir / model)]
    last = ownership.read_mark(export_dir).get("last_version")
    return max([0, *used, last if isinstance(last, int) else 0]) + 1


def newest_version(export_dir: Path, model: str) -> int:
    """The newest version of `model` that the other models have too.

    An export that is killed between two of its three renames leaves a version that only some models
    have, and embeddings of different versions cannot be compared.
    """
    shared = versions_of(export_dir, model)
    for other in MODELS:
        if (export_dir / other).is_dir():
            shared &= versions_of(export_dir, other)
    if not shared:
        what = (
            f"holds no export (no version of {model})" if export_dir.exists() else "does not exist"
        )
        raise ClarelError(f"{export_dir} {what}; name the folder that export_main.py wrote")
    return max(shared)


def publish(staging: Path, export_dir: Path, version: int) -> None:
    """Renames the three models in `staging` into place as one version, all or none."""
    ownership.write_mark(export_dir, "export", last_version=version)
    moved: list[str] = []
    try:
        for model in MODELS:
            (export_dir / model).mkdir(exist_ok=True)
            os.rename(staging / model, export_dir / model / str(version))
            moved.append(model)
    except BaseException:
        for model in reversed(moved):
            os.rename(export_dir / model / str(version), staging / model)
        raise


def put_aside_incomplete(export_dir: Path) -> None:
    """Renames versions that only some models have, so that no server loads them.

    A killed export leaves them. Those older than a complete version do no harm.
    """
    present = [model for model in MODELS if (export_dir / model).is_dir()]
    by_model = {model: versions_of(export_dir, model) for model in present}
    if not by_model:
        return
    complete = max(set.intersection(*by_model.values()), default=0)
    for model, versions in by_model.items():
        for version in sorted(versions):
            if version > complete:
                aside = export_dir / model / f"{version}.incomplete"
                os.rename(export_dir / model / str(version), aside)
                print(f"Only some models have version {version}: now {aside}", file=sys.stderr)


def check_model_folders(export_dir: Path) -> None:
    """Raises ClarelError if a version cannot be renamed into a model folder."""
    for model in MODELS:
        folder = export_dir / model
        if os.path.lexists(folder) and not folder.is_dir():
            raise ClarelError(f"{folder} is not a folder; move it away, because versions go there")
        if folder.is_dir() and folder.stat().st_dev != export_dir.stat().st_dev:
            raise ClarelError(
                f"{folder} is on another disk than {export_dir}, so the three models cannot appear "
                "together; name an export_dir that is all on one disk"
            )


def is_older_export(folder: Path) -> bool:
    """True for an export by a version without marks, with no other files beside it."""
    has_checksums = any(
        checksums_path(folder / model / str(version)).is_file()
        for model in MODELS
        for version in versions_of(folder, model)
    )
    return has_checksums and all(_OWN_NAMES.fullmatch(item.name) for item in folder.iterdir())


def checksums_path(version: Path) -> Path:
    """The checksum file of a version, in a folder that loaders ignore."""
    return version / "assets.extra" / checksums.MANIFEST


def load_version(export_dir: Path, model: str, version: int | None = None) -> "LoadedModel":
    """The SavedModel of `model`, checked against its checksums; by default the newest version."""
    from clarel_tf.serving.loaded_model import LoadedModel

    if version is not None and version not in versions_of(export_dir, model):
        raise ClarelError(f"{export_dir} has no version {version} of {model}")
    number = newest_version(export_dir, model) if version is None else version
    path = export_dir / model / str(number)
    remedy = "delete this version and export again, or restore a copy"
    try:
        checksums.check_tree(path, checksums_path(path), remedy)
        return LoadedModel(path)
    except ClarelError:
        raise
    except Exception as error:  # TensorFlow and protobuf raise many kinds of exceptions on damage
        raise ClarelError(f"{path} cannot be loaded ({brief(error)}); {remedy}") from error


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    """Everything in the folder of a model that is named by a number."""
    names = ((path.name, path) for path in folder.glob("*"))
    return [(int(name), path) for name, path in names if name.isascii() and name.isdigit()]
