"""Exports a finished run as SavedModels that TensorFlow Serving loads."""

import contextlib
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import keras
import tensorflow as tf

from clarel_tf.data.split import Split
from clarel_tf.decision.class_store import ClassStore
from clarel_tf.decision.selected import Selected
from clarel_tf.errors import ClarelError, printable
from clarel_tf.evaluation.stored_classes import embedded_classes
from clarel_tf.images.backbones import Backbone
from clarel_tf.models.embedder import Embedder
from clarel_tf.serving.endpoints import (
    Endpoint,
    all_endpoints,
)
from clarel_tf.serving.origin import Origin, changed_run, origin_of
from clarel_tf.serving.page import models_config, serving_page
from clarel_tf.serving.picture_graph import picture_graph
from clarel_tf.serving.signatures import Answer
from clarel_tf.serving.versions import (
    MODELS,
    check_model_folders,
    checksums_path,
    is_older_export,
    newest_version,
    next_version,
    publish,
    put_aside_incomplete,
)
from clarel_tf.serving.warm_up import write_warm_up
from clarel_tf.storage import checksums, files, ownership

# What TensorFlow and this module write below a SavedModel's folder.
_STAGED_FILES = re.compile(
    rf"({'|'.join(MODELS)})/"
    r"((saved_model|fingerprint)\.pb(\.tmp\w*)?|(variables|assets|assets\.extra)/.*)?"
)


def export_run(
    model: Embedder,
    splits: dict[str, Split],
    class_names: Sequence[str],
    selected: Selected,
    export_dir: str | Path,
    *,
    k: int = 5,
    gallery_split: str | None = None,
    base_path: str = "/models",
    classes: ClassStore | None = None,
    about: str = "",
    origin: Origin | None = None,
    backbone: Backbone | None = None,
) -> int:
    """Writes the three models as one new version, complete or not at all, and says which.

    Args:
      model: the final model of the run.
      splits: as the run used them; with `classes`, that of the gallery is enough.
      class_names: by label.
      selected: alpha, temperature, threshold and settings of the rule; the results of a run have
        them.
      k: how many classes, captions or images an answer has.
      gallery_split: a split whose captions and images can be retrieved.
      base_path: where the server will see `export_dir`.
      classes: what the run's evaluation kept; without it all captions are embedded again.
      about: what `SERVING.md` says of the model.
      origin: the run; if the present version is of another one, a line on stderr says so.
      backbone: the network that made the features of the run; with it, the export takes pictures.

    Example:

    >>> results = clarel_tf.RunFolder("runs/demo").read_results()
    >>> builder = clarel_tf.get_builder("demo")
    >>> splits, names = clarel_tf.load_splits(builder), clarel_tf.class_names(builder)
    >>> model = clarel_tf.load_model("runs/demo/model.keras")
    >>> clarel_tf.export_run(model, splits, names, results, "exports/mine")
    1
    """
    export_dir = Path(export_dir)
    ownership.check_claim(export_dir, "export", "export_dir", is_older_export)
    with contextlib.ExitStack() as stack:
        stack.enter_context(files.writing_in(export_dir, "export_dir"))
        export_dir.mkdir(parents=True, exist_ok=True)
        stack.enter_context(files.only_process(export_dir, "export_dir"))
        ownership.claim(export_dir, "export", "export_dir", is_older_export)
        check_model_folders(export_dir)
        checksums.is_noted(export_dir / "models.config")  # or damage would show after the work
        version = next_version(export_dir)
        with _staging(export_dir) as staging:
            classes = classes or embedded_classes(model, splits, class_names, selected)
            origin = origin and origin.with_classes(classes.names)
            changed = _changed_run(export_dir, origin, version)
            export_id = secrets.token_hex(8)
            pictures = picture_graph(backbone) if backbone else None
            endpoints = all_endpoints(
                model, classes, splits, selected, k, gallery_split, export_id, pictures
            )
            for name in MODELS:
                uses_text, uses_images = name != "image_embedder", name != "text_embedder"
                write_saved_model(
                    staging / name,
                    endpoints[name],
                    model if uses_text else None,
                    backbone if uses_images else None,
                )
                write_warm_up(staging / name, name, model.feature_size, backbone is not None)
                if origin and name == "prototype_classifier":
                    origin.write(staging)
                checksums.write_tree(staging / name, checksums_path(staging / name))
            put_aside_incomplete(export_dir)
            publish(staging, export_dir, version)
        _write_unless_changed(export_dir / "models.config", models_config(MODELS, base_path))
        told = [f"Version {version} is of {origin}."] if origin else []
        page = serving_page(
            model,
            version,
            k,
            gallery_split,
            " ".join([*told, about]).strip(),
            backbone.record if backbone else None,
        )
        _write_unless_changed(export_dir / "SERVING.md", page)
    if changed:
        print(printable(changed), file=sys.stderr)
    return version


def _changed_run(export_dir: Path, origin: Origin | None, version: int) -> str:
    """What to say if the version that is served now is of another run; empty if it is not."""
    try:
        before = newest_version(export_dir, "prototype_classifier")
    except ClarelError:  # there is none
        return ""
    return changed_run(origin_of(export_dir, before), before, origin, version) if origin else ""


def _write_unless_changed(path: Path, text: str) -> None:
    """Writes a file beside the models; one that is not as we wrote it stays as it is."""
    is_ours = not path.exists() or (checksums.is_noted(path) and checksums.is_intact(path))
    if is_ours or path.read_bytes() == text.encode("utf-8"):
        checksums.write_text(path, text)
    else:
        print(f"{path} was changed by hand and stays as it is", file=sys.stderr)


@contextlib.contextmanager
def _staging(export_dir: Path) -> Iterator[Path]:
    """A folder beside the models, on the same disk; no server looks into it."""
    folder = export_dir / ".staging"
    if folder.exists():  # of an export that was killed
        if ownership.kind_of(folder) is None and os.listdir(folder):
            raise ClarelError(f"{folder} was not made by clarel_tf; move it away, it is in the way")
        _remove_staging(folder)
    folder.mkdir()
    try:
        ownership.write_mark(folder, "staging")
        yield folder
    except BaseException:
        with contextlib.suppress(ClarelError, OSError):  # the first trouble is what counts
            _remove_staging(folder)
        raise
    _remove_staging(folder)


def _remove_staging(folder: Path) -> None:
    ownership.delete_own(folder, _STAGED_FILES, "the staging folder")
    folder.rmdir()


def write_saved_model(
    path: Path,
    endpoints: dict[str, Endpoint],
    text_model: Embedder | None,
    backbone: Backbone | None = None,
) -> None:
    """Writes one SavedModel.

    Tracking the whole model would store its weights twice, and holding it in a `tf.Module` makes a
    file that only Python can load; only what text tower and backbone say has to be tracked.
    """
    archive = keras.export.ExportArchive()
    resources = [] if text_model is None else text_model.text_tower.export_resources()
    for resource in [*resources, *(backbone.export_resources() if backbone else [])]:
        archive.track(resource)
    for name, (function, signature) in endpoints.items():
        archive.add_endpoint(name, _traced(function, signature), input_signature=signature)
    archive.write_out(str(path), verbose=False)


def _traced(
    function: Callable[..., Answer], signature: list[tf.TensorSpec]
) -> Callable[..., Answer]:
    """`function` as one finished graph.

    Keras and TensorFlow each trace an endpoint: what they trace is then the call of a graph.
    """
    graph = tf.function(function, input_signature=signature, autograph=False)
    concrete = graph.get_concrete_function()
    return lambda *arguments: concrete(*arguments)
