"""Asks a TensorFlow model server that serves our exports, by REST or gRPC."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import grpc
import numpy as np
import requests
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from clarel_tf.errors import ClarelError

Inputs = Mapping[str, np.ndarray | Sequence[str]]
Answer = dict[str, np.ndarray]

# Inputs with a row for every image or sentence asked about; all others belong to the whole request.
_ROW_INPUTS = ("image_features", "alpha", "text")


class ServingError(ClarelError):
    """The server could not be reached, or refused a request."""


class Transport(Protocol):
    """A way to send one request."""

    def predict(self, model: str, signature: str, inputs: Inputs) -> Answer:
        """Returns the outputs by name, or raises ServingError."""


class ServingClient:
    """Named questions to the three models; large ones are sent in parts."""

    def __init__(self, transport: Transport, batch_size: int = 256):
        self._transport, self._batch_size = transport, batch_size

    def embed_images(self, image_features: np.ndarray) -> np.ndarray:
        """[N, D] -> float32 [N, E]."""
        inputs = {"image_features": np.asarray(image_features, np.float32)}
        return self.predict("image_embedder", inputs)["embedding"]

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """N sentences -> float32 [N, E]."""
        return self.predict("text_embedder", {"text": list(texts)})["embedding"]

    def classify(
        self,
        image_features: np.ndarray,
        alpha: float | None = None,
        new_classes: Mapping[str, Sequence[str]] | None = None,
    ) -> Answer:
        """class_name, distance, probability [N, k] and accepted [N] for N images.

        Args:
          image_features: [N, D].
          alpha: another balance of seen and unseen classes than the stored one.
          new_classes: sentences by the name of the class that they describe.
        """
        inputs: dict[str, np.ndarray | Sequence[str]] = {
            "image_features": np.asarray(image_features, np.float32)
        }
        if alpha is not None and new_classes:
            raise ClarelError("give an alpha or new classes, not both")
        signature = "serving_default"
        if alpha is not None:
            signature = "classify_with_alpha"
            inputs["alpha"] = np.full(len(image_features), alpha, np.float32)
        if new_classes:
            signature = "classify_with_new_classes"
            inputs["sentences"] = [s for own in new_classes.values() for s in own]
            inputs["class_names"] = [name for name, own in new_classes.items() for _ in own]
        return self.predict("prototype_classifier", inputs, signature)

    def predict(self, model: str, inputs: Inputs, signature: str = "serving_default") -> Answer:
        """Any signature; inputs with many rows are sent in parts and put together again."""
        lengths = {len(value) for name, value in inputs.items() if name in _ROW_INPUTS}
        if len(lengths) > 1:
            raise ClarelError(f"inputs of different length: {sorted(lengths)}")
        rows = lengths.pop() if lengths else 0
        parts = []
        for start in range(0, max(rows, 1), self._batch_size):
            stop = start + self._batch_size
            part = {
                name: value[start:stop] if name in _ROW_INPUTS else value
                for name, value in inputs.items()
            }
            parts.append(self._transport.predict(model, signature, part))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


class RestTransport:
    """The REST interface of the model server, such as http://localhost:8501."""

    def __init__(self, address: str, timeout: float = 10.0):
        self._address, self._timeout = address.rstrip("/"), timeout
        self._session = requests.Session()

    def predict(self, model: str, signature: str, inputs: Inputs) -> Answer:
        url = f"{self._address}/v1/models/{model}:predict"
        plain = {
            name: value.tolist() if isinstance(value, np.ndarray) else list(value)
            for name, value in inputs.items()
        }
        body = {"signature_name": signature, "inputs": plain}
        try:
            response = self._session.post(url, json=body, timeout=self._timeout)
        except (requests.RequestException, ValueError) as error:
            raise ServingError(f"{url}: {_brief(error)}") from error
        try:
            answer = response.json()
        except ValueError:
            answer = {"error": response.text[:200]}
        if response.status_code != 200 or "outputs" not in answer:
            raise ServingError(f"{url}, {signature}: {answer.get('error', response.status_code)}")
        outputs = answer["outputs"]
        # The server leaves the name out where a signature has one output alone.
        outputs = outputs if isinstance(outputs, dict) else {"embedding": outputs}
        return {name: _as_array(value) for name, value in outputs.items()}


class GrpcTransport:
    """The gRPC interface of the model server, such as localhost:8500."""

    def __init__(self, address: str, timeout: float = 10.0):
        self._address, self._timeout = address, timeout
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(
            grpc.insecure_channel(address)
        )

    def predict(self, model: str, signature: str, inputs: Inputs) -> Answer:
        request = predict_pb2.PredictRequest()
        request.model_spec.name, request.model_spec.signature_name = model, signature
        for name, value in inputs.items():
            kind = value.dtype if isinstance(value, np.ndarray) else tf.string
            shape = np.shape(value)
            request.inputs[name].CopyFrom(tf.make_tensor_proto(value, dtype=kind, shape=shape))
        try:
            response = self._stub.Predict(request, timeout=self._timeout)
        except grpc.RpcError as error:
            raise ServingError(
                f"{self._address}, {model}, {signature}: {error.code().name}: {error.details()}"
            ) from error
        return {name: _as_array(tf.make_ndarray(proto)) for name, proto in response.outputs.items()}


def connect(address: str, timeout: float = 10.0, batch_size: int = 256) -> ServingClient:
    """A client for `http://host:port` (REST) or `host:port` (gRPC)."""
    is_rest = address.startswith(("http://", "https://"))
    transport = (RestTransport if is_rest else GrpcTransport)(address, timeout)
    return ServingClient(transport, batch_size)


def _as_array(value: object) -> np.ndarray:
    """Numbers as float32, flags as bool, text as str."""
    array = np.asarray(value)
    if array.dtype.kind in "OSU":
        decode = np.vectorize(
            lambda v: v.decode("utf-8") if isinstance(v, bytes) else v, otypes=[object]
        )
        return decode(array) if array.size else array.astype(object)
    return array.astype(np.float32) if array.dtype.kind in "fiu" else array


def _brief(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
