"""Requests that a server runs before it takes real ones."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from clarel_tf.serving.versions import OF_PICTURES


def write_warm_up(path: Path, model: str, width: int, takes_pictures: bool) -> None:
    """Writes a request for each kind of input beside a SavedModel.

    Args:
      model: name of the exported model.
      width: of image features.
    """
    extra = path / "assets.extra"
    extra.mkdir()
    with tf.io.TFRecordWriter(str(extra / "tf_serving_warmup_requests")) as writer:
        for signature, name, values in _inputs(model, width, takes_pictures):
            request = predict_pb2.PredictRequest()
            request.model_spec.name = model
            request.model_spec.signature_name = signature
            request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
            log = prediction_log_pb2.PredictLog(request=request)
            writer.write(prediction_log_pb2.PredictionLog(predict_log=log).SerializeToString())


def _inputs(model: str, width: int, takes_pictures: bool) -> Iterator[tuple[str, str, object]]:
    """Signatures with their only inputs."""
    if model == "text_embedder":
        yield "serving_default", "text", ["a bird with a red crown"]
        return
    yield "serving_default", "image_features", np.zeros((1, width), np.float32)
    if takes_pictures:
        grey = tf.io.encode_jpeg(tf.fill([64, 64, 3], tf.constant(127, tf.uint8)))
        yield OF_PICTURES[model]["serving_default"], "image_bytes", [grey.numpy()]
