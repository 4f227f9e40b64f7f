"""Exports a finished run as SavedModels that TensorFlow Serving loads."""

import contextlib
import functools
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from clarel_tf.data.split import Split
from clarel_tf.decision.class_store import ClassStore
from clarel_tf.decision.embedded_splits import embed_captions, embed_split
from clarel_tf.decision.prototypes import CaptionScatter
from clarel_tf.decision.rule import DecisionRule, RuleSettings
from clarel_tf.errors import ClarelError
from clarel_tf.evaluation.zero_shot import queries_from
from clarel_tf.models.embedder import Embedder
from clarel_tf.serving.page import models_config, serving_page
from clarel_tf.serving.signatures import (
    Answer,
    Gallery,
    PrototypeClassifier,
    Selected,
    embed_images,
    embed_texts,
)
from clarel_tf.serving.versions import (
    EMBED_WITH_ID,
    MODELS,
    check_model_folders,
    checksums_path,
    is_older_export,
    next_version,
    publish,
    put_aside_incomplete,
)
from clarel_tf.storage import checksums, files, ownership

Endpoint = tuple[Callable[..., Answer], list[tf.TensorSpec]]
# What TensorFlow and this module write below a SavedModel's folder.
_STAGED_FILES = re.compile(
    rf"({'|'.join(MODELS)})/"
    r"((saved_model|fingerprint)\.pb(\.tmp\w*)?|(variables|assets|assets\.extra)/.*)?"
)


def export_run(
    model: Embedder,
    splits: dict[str, Split],
    class_names: Sequence[str],
    results: dict[str, Any],
    export_dir: str | Path,
    *,
    k: int = 5,
    gallery_split: str | None = None,
    base_path: str = "/models",
    classes: ClassStore | None = None,
) -> int:
    """Writes the three models as one new version, complete or not at all, and says which.

    Args:
      model: the final model of the run.
      splits: as the run used them; with `classes`, that of the gallery is enough.
      class_names: by label.
      results: `results.json` of the run, for alpha, temperature, threshold and decision rule.
      k: how many classes, captions or images an answer has.
      gallery_split: a split whose captions and images can be retrieved.
      base_path: where the server will see `export_dir`.
      classes: what the run's evaluation kept; without it all captions are embedded again.

    Example:

    >>> results = json.loads(open("runs/demo/results.json").read())
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
            export_id = secrets.token_hex(8)
            endpoints = {
                "image_embedder": _image_endpoints(model, export_id),
                "text_embedder": _text_endpoints(model, export_id),
                "prototype_classifier": _classifier_endpoints(
                    model, splits, class_names, results, k, gallery_split, export_id, classes
                ),
            }
            for name in MODELS:
                uses_text = name != "image_embedder"
                write_saved_model(staging / name, endpoints[name], model if uses_text else None)
                _write_warm_up(staging / name, name, model)
                checksums.write_tree(staging / name, checksums_path(staging / name))
            put_aside_incomplete(export_dir)
            publish(staging, export_dir, version)
        _write_unless_changed(export_dir / "models.config", models_config(MODELS, base_path))
        page = serving_page(model, version, k, gallery_split)
        _write_unless_changed(export_dir / "SERVING.md", page)
    return version


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


def _image_endpoints(model: Embedder, export_id: str) -> dict[str, Endpoint]:
    def embed(image_features: tf.Tensor) -> Answer:
        return {"embedding": embed_images(model, image_features)}

    return _plain_and_with_id(embed, export_id, [_features(model)])


def _text_endpoints(model: Embedder, export_id: str) -> dict[str, Endpoint]:
    def embed(text: tf.Tensor) -> Answer:
        return {"embedding": embed_texts(model, text)}

    return _plain_and_with_id(embed, export_id, [_strings("text")])


def _plain_and_with_id(
    embed: Callable[..., Answer], export_id: str, signature: list[tf.TensorSpec]
) -> dict[str, Endpoint]:
    """The signatures of an embedder; one output alone is what plain callers count on."""
    return {
        "serving_default": (embed, signature),
        EMBED_WITH_ID: (_with_id(embed, export_id), signature),
    }


def _with_id(function: Callable[..., Answer], export_id: str) -> Callable[..., Answer]:
    """Adds `export_id`, string [rows], to what a function answers.

    A server loads new versions of the three models one after the other. Embeddings of different
    exports do not belong together, and by the id a client can tell.
    """

    @functools.wraps(function)
    def answer(*arguments: tf.Tensor) -> Answer:
        outputs = function(*arguments)
        rows = tf.shape(next(iter(outputs.values())))[0]
        return {**outputs, "export_id": tf.fill([rows], export_id)}

    return answer


def _classifier_endpoints(
    model: Embedder,
    splits: dict[str, Split],
    class_names: Sequence[str],
    results: dict[str, Any],
    k: int,
    gallery_split: str | None,
    export_id: str,
    classes: ClassStore | None,
) -> dict[str, Endpoint]:
    settings = RuleSettings.of(results)
    stored = classes or _embedded_classes(model, splits, class_names, settings)
    head = model.image_classifier if settings.head_evidence else None
    classifier = PrototypeClassifier(
        model,
        stored.prototypes.means(),
        stored.names,
        stored.is_seen,
        Selected(results["alpha"], results["temperature"], results["none_of_these"]["distance"]),
        DecisionRule(head, settings.head_evidence, stored.discriminants),
        k,
        caption_scatter=stored.caption_scatter,
    )
    features, size = _features(model), model.embedding_size
    sentences, names = _strings("sentences"), _strings("class_names")
    alpha = tf.TensorSpec([None], tf.float32, "alpha")
    prototypes = tf.TensorSpec([None, size], tf.float32, "prototypes")
    endpoints: dict[str, Endpoint] = {
        "serving_default": (classifier.classify, [features]),
        "classify_with_alpha": (classifier.classify_with_alpha, [features, alpha]),
        "classify_with_new_classes": (
            classifier.classify_with_new_classes,
            [features, sentences, names],
        ),
        "embed_prototypes": (
            _with_id(classifier.embed_prototypes, export_id),
            [sentences, names],
        ),
        "classify_with_prototypes": (
            _with_id(classifier.classify_with_prototypes, export_id),
            [features, prototypes, names],
        ),
    }
    if gallery_split:
        gallery = _gallery(model, splits[gallery_split], k)
        endpoints["retrieve_captions"] = (gallery.retrieve_captions, [features])
        endpoints["retrieve_images"] = (gallery.retrieve_images, [_strings("text")])
    return endpoints


def _embedded_classes(
    model: Embedder, splits: dict[str, Split], class_names: Sequence[str], settings: RuleSettings
) -> ClassStore:
    """What an evaluation of `model` would keep of the classes."""
    scatter = CaptionScatter()
    order = ("test_seen", "test_unseen", "trainval")
    embedded = [embed_split(model, splits[name], [scatter]) for name in order]
    queries = queries_from(*embedded, model=model, settings=settings)
    return ClassStore(
        [class_names[label] for label in queries.prototypes.classes],
        queries.prototypes,
        queries.is_seen,
        scatter.result(queries.prototypes),
        queries.rule.discriminants,
    )


def _gallery(model: Embedder, split: Split, k: int) -> Gallery:
    blocks = list(embed_captions(model, split))
    return Gallery(
        model,
        [caption for own in split.captions for caption in own],
        np.concatenate([instances for _, instances in blocks]),
        np.concatenate([embeddings for embeddings, _ in blocks]),
        split.image_ids.tolist(),
        model.embed_images(split.image_features),
        k,
    )


def _features(model: Embedder) -> tf.TensorSpec:
    return tf.TensorSpec([None, model.feature_size], tf.float32, "image_features")


def _strings(name: str) -> tf.TensorSpec:
    return tf.TensorSpec([None], tf.string, name)


def write_saved_model(
    path: Path, endpoints: dict[str, Endpoint], text_model: Embedder | None
) -> None:
    """Writes one SavedModel.

    Tracking the whole model would store its weights twice, and holding it in a `tf.Module` makes a
    file that only Python can load; only what the text tower says has to be tracked.
    """
    archive = keras.export.ExportArchive()
    if text_model is not None:
        for resource in text_model.text_tower.export_resources():
            archive.track(resource)
    for name, (function, signature) in endpoints.items():
        archive.add_endpoint(name, function, input_signature=signature)
    archive.write_out(str(path), verbose=False)


def _write_warm_up(path: Path, name: str, model: Embedder) -> None:
    """One request for the server to run before it takes real ones."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    request.model_spec.signature_name = "serving_default"
    if name == "text_embedder":
        request.inputs["text"].CopyFrom(tf.make_tensor_proto(["a bird with a red crown"]))
    else:
        features = np.zeros((1, model.feature_size), np.float32)
        request.inputs["image_features"].CopyFrom(tf.make_tensor_proto(features))
    log = prediction_log_pb2.PredictionLog(
        predict_log=prediction_log_pb2.PredictLog(request=request)
    )
    extra = path / "assets.extra"
    extra.mkdir()
    with tf.io.TFRecordWriter(str(extra / "tf_serving_warmup_requests")) as writer:
        writer.write(log.SerializeToString())
