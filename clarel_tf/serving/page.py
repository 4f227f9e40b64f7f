"""`models.config` and `SERVING.md`, the files beside exported models."""

from collections.abc import Sequence

from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from clarel_tf.images.backbone_record import BackboneRecord
from clarel_tf.models.embedder import Embedder
from clarel_tf.serving.versions import OF_PICTURES


def models_config(names: Sequence[str], base_path: str) -> str:
    """`models.config` for the model server, as text; each model under its own name."""
    config = model_server_config_pb2.ModelServerConfig()
    for name in names:
        entry = config.model_config_list.config.add()
        entry.name, entry.base_path = name, f"{base_path.rstrip('/')}/{name}"
        entry.model_platform = "tensorflow"
    return text_format.MessageToString(config)


def serving_page(
    model: Embedder,
    version: int,
    k: int,
    gallery_split: str | None,
    about: str = "",
    backbone: BackboneRecord | None = None,
) -> str:
    """The text of `SERVING.md`: how to start a server, and all signatures.

    Args:
      backbone: the network in the export, if it takes pictures.
    """
    about = f"{about}\n\n" if about else ""
    width = model.feature_size
    gallery = (
        f"""
`retrieve_captions` (image features) and `retrieve_images` (`text`) search the captions and images
of split `{gallery_split}`, nearest first."""
        if gallery_split
        else ""
    )
    return f"""# Serving this export (version {version})

{about}Start a model server on this folder:

    docker run -p 8500:8500 -p 8501:8501 -v "$PWD:/models" tensorflow/serving \\
      --model_config_file=/models/models.config

Ask it, by REST (gRPC is on port 8500):

    curl -d '{{"inputs": {{"text": ["a small bird with a red crown"]}}}}' \\
      http://localhost:8501/v1/models/text_embedder:predict

| model | signature | in | out |
|---|---|---|---|
| image_embedder | serving_default | image_features [B, {width}] | embedding [B, E] |
| | embed_with_id | image_features [B, {width}] | embedding [B, E]* |
| text_embedder | serving_default | text [B] | embedding [B, E] |
| | embed_with_id | text [B] | embedding [B, E]* |
| prototype_classifier | serving_default | image_features | an answer |
| | classify_with_alpha | image_features, alpha [B] | an answer |
| | classify_with_new_classes | image_features, sentences [S], class_names [S] | an answer |
| | classify_with_options | image_features, alpha [B], k [B], among [M], sentences [S], \
class_names [S], replaces [R], extends [X], threshold [B]; an empty list leaves an option out | an \
answer, strangeness [B] and new_class_name, new_class_rank, new_class_distance, \
new_class_probability, new_class_known_words [B, N] |
| | classify_with_prototypes | image_features, prototypes [N, E], class_names [N] | an answer* |
| | embed_prototypes | sentences [S], class_names [S] | class_name [N], prototype [N, E]* |

* and `export_id`, one for each row, the same for the three models of one export. A server loads
the models of a new version one after the other, and embeddings of different exports cannot be
compared: compare the ids before you compare embeddings.

An answer is class_name, distance and probability [B, {k}], nearest first, and accepted [B].
`accepted` is false if even the nearest class is beyond the rejection threshold. An answer with
`uncalibrated` is of a run without validation images: every image is accepted. In
`classify_with_new_classes` each sentence describes the class at the same position in
`class_names`. New classes compete with the stored ones and need no training. A mean of few
sentences lies farther from every image than a mean of many; its distance is corrected for that.
One sentence is enough; more sentences make the class more accurate. With `head_evidence` in the
run, distances to seen classes include the image head. With `discriminant_evidence`, all distances
include linear discriminants (LDA) of the seen classes.

`classify_with_options` takes all options of a request at once. `k` is the number of classes in the
answer, and `among` names the stored classes on offer. A new class with the name of a stored one
must be in `replaces` (it takes its place) or in `extends` (its sentences are added to the stored
captions). Its further outputs say where each new class stands, however far it is, and which share
of its words the model knows.{gallery}

{_of_pictures(backbone, gallery_split is not None)}"""


def _of_pictures(backbone: BackboneRecord | None, has_gallery: bool) -> str:
    """The section about pictures."""
    if backbone is None:
        return """## Pictures

This export takes image features only: it was made without the network that makes them.
"""
    listed = "\n".join(
        f"| {model} | {name} | {of_pictures} |"
        for model, names in OF_PICTURES.items()
        for name, of_pictures in names.items()
        if has_gallery or name != "retrieve_captions"
    )
    return f"""## Pictures

Each signature that takes image features has a twin that takes encoded pictures, `image_bytes` [B]
(JPEG, PNG, GIF, BMP or WebP), in their place. Other inputs and all outputs are the same.

| model | signature | with `image_bytes` |
|---|---|---|
{listed}

By REST, bytes are base64 in an object:

    (echo '{{"signature_name": "classify_pictures", "inputs": {{"image_bytes": [{{"b64": "'
     base64 -w0 photo.jpg; echo '"}}]}}}}') | tr -d '\\n' | curl -d @- \\
      http://localhost:8501/v1/models/prototype_classifier:predict

Decoding, resizing and the network, {backbone}, are in the graph. A request with bytes that are no
picture, or with a picture of more than 64 million pixels, gets an error that names the row, such as
`image_bytes[2] is damaged or cut off`.
"""
