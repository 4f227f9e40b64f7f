"""The signatures of the three exported models, by name: functions with the tensors they take."""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from clarel_tf.data.split import Split
from clarel_tf.decision.class_store import ClassStore
from clarel_tf.decision.embedded_splits import embed_captions
from clarel_tf.decision.rule import DecisionRule
from clarel_tf.decision.selected import Selected
from clarel_tf.models.embedder import Embedder
from clarel_tf.serving.answering import Answer
from clarel_tf.serving.embeddings import embed_images, text_graph
from clarel_tf.serving.gallery import Gallery
from clarel_tf.serving.picture_graph import PictureGraph
from clarel_tf.serving.signatures import PrototypeClassifier
from clarel_tf.serving.versions import CLASSIFY_WITH_OPTIONS, EMBED_WITH_ID, OF_PICTURES

Endpoint = tuple[Callable[..., Answer], list[tf.TensorSpec]]


def all_endpoints(
    model: Embedder,
    classes: ClassStore,
    splits: dict[str, Split],
    selected: Selected,
    k: int,
    gallery_split: str | None,
    export_id: str,
    pictures: PictureGraph | None,
) -> dict[str, dict[str, Endpoint]]:
    """The signatures of each model; the arguments are those of `export_run`.

    Args:
      export_id: returned with embeddings.
      pictures: turns pictures into features; without it only features are taken.
    """
    endpoints = {
        "image_embedder": image_endpoints(model, export_id),
        "text_embedder": text_endpoints(model, export_id),
        "prototype_classifier": classifier_endpoints(
            model, classes, splits, selected, k, gallery_split, export_id
        ),
    }
    return {name: with_pictures(name, endpoints[name], pictures) for name in endpoints}


def image_endpoints(model: Embedder, export_id: str) -> dict[str, Endpoint]:
    """The signatures of the image embedder."""

    def embed(image_features: tf.Tensor) -> Answer:
        return {"embedding": embed_images(model, image_features)}

    return _plain_and_with_id(embed, export_id, [_features(model)])


def with_pictures(
    model: str, endpoints: dict[str, Endpoint], pictures: PictureGraph | None
) -> dict[str, Endpoint]:
    """Adds a signature with `image_bytes`, string [B], for each that takes image features.

    Both call the same graph, so the weights are stored once, and tracing takes little time.

    Args:
      model: name of the exported model.
      pictures: turns pictures into features; without it nothing is added.
    """
    if pictures is None:
        return endpoints
    found: dict[str, Endpoint] = {}
    for name, (function, signature) in endpoints.items():
        found[name] = (function, signature)
        if signature[0].name == "image_features":
            graph = tf.function(function, input_signature=signature, autograph=False)
            found[name] = (graph, signature)
            inputs = [_strings("image_bytes"), *signature[1:]]
            found[OF_PICTURES[model][name]] = (_of_pictures(graph, pictures), inputs)
    return found


def _of_pictures(graph: Callable[..., Answer], pictures: PictureGraph) -> Callable[..., Answer]:
    return lambda image_bytes, *others: graph(pictures(image_bytes), *others)


def text_endpoints(model: Embedder, export_id: str) -> dict[str, Endpoint]:
    """The signatures of the text embedder."""
    embed_texts = text_graph(model)

    def embed(text: tf.Tensor) -> Answer:
        return {"embedding": embed_texts(text)}

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


def classifier_endpoints(
    model: Embedder,
    classes: ClassStore,
    splits: dict[str, Split],
    selected: Selected,
    k: int,
    gallery_split: str | None,
    export_id: str,
) -> dict[str, Endpoint]:
    """The signatures of the classifier; the arguments are those of `export_run`."""
    rule = DecisionRule.of_run(
        selected.rule, model.image_classifier, classes.discriminants, classes.is_seen
    )
    if classes.descriptions is not None:
        rule = rule.with_descriptions(classes.descriptions)
    classifier = PrototypeClassifier(
        model,
        classes.prototypes.means(),
        classes.names,
        classes.is_seen,
        selected,
        rule,
        k,
        counts=classes.prototypes.counts,
        density=classes.density,
    )
    features, size = _features(model), model.embedding_size
    sentences, names = _strings("sentences"), _strings("class_names")
    alpha = tf.TensorSpec([None], tf.float32, "alpha")
    wanted = tf.TensorSpec([None], tf.int32, "k")
    threshold = tf.TensorSpec([None], tf.float32, "threshold")
    prototypes = tf.TensorSpec([None, size], tf.float32, "prototypes")
    endpoints: dict[str, Endpoint] = {
        "serving_default": (classifier.classify, [features]),
        "classify_with_alpha": (classifier.classify_with_alpha, [features, alpha]),
        "classify_with_new_classes": (
            classifier.classify_with_new_classes,
            [features, sentences, names],
        ),
        CLASSIFY_WITH_OPTIONS: (
            classifier.classify_with_options,
            [
                *(features, alpha, wanted, _strings("among"), sentences, names),
                *(_strings("replaces"), _strings("extends"), threshold),
            ],
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
