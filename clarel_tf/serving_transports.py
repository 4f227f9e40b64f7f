"""Ways to send a request to a model server, REST and gRPC, and to take its answer apart.

The server may be anybody's: whatever it answers, what comes out is arrays or a ServingError, within
the time-out.
"""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

import grpc
import numpy as np
import requests
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from clarel_tf.errors import ClarelError, brief

Inputs = Mapping[str, np.ndarray | Sequence[str]]
Answer = dict[str, np.ndarray]


class ServingError(ClarelError):
    """The server could not be reached, or refused a request."""


class Transport(Protocol):
    """A way to send one request."""

    def predict(self, model: str, signature: str, inputs: Inputs) -> Answer:
        """Returns the outputs by name, or raises ServingError."""


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
            response = self._session.post(url, json=body, timeout=self._timeout, stream=True)
            with response:
                text = self._read(response)
            answer = json.loads(text)
        except (requests.RequestException, ValueError, RecursionError) as error:
            raise ServingError(f"{url}: {brief(error)}") from error
        answer = answer if isinstance(answer, dict) else {"error": str(answer)[:200]}
        if response.status_code != 200 or "outputs" not in answer:
            raise ServingError(f"{url}, {signature}: {answer.get('error', response.status_code)}")
        outputs = answer["outputs"]
        # The server leaves the name out where a signature has one output alone.
        outputs = outputs if isinstance(outputs, dict) else {"embedding": outputs}
        try:
            return {name: _as_array(value) for name, value in outputs.items()}
        except (ValueError, TypeError, OverflowError) as error:
            raise ServingError(f"{url}, {signature}: {brief(error)}") from error

    def _read(self, response: requests.Response) -> bytes:
        """The whole answer; a server that sends a byte now and then does not keep us for ever."""
        end = time.monotonic() + self._timeout
        blocks = []
        for block in response.iter_content(1 << 16):
            blocks.append(block)
            if time.monotonic() > end:
                raise requests.Timeout(f"no whole answer within {self._timeout} s")
        return b"".join(blocks)


class GrpcTransport:
    """The gRPC interface of the model server, such as localhost:8500."""

    def __init__(self, address: str, timeout: float = 10.0):
        self._address, self._timeout = address, timeout
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(
            grpc.insecure_channel(address)
        )

    def predict(self, model: str, signature: str, inputs: Inputs) -> Answer:
        request = predict_pb2.PredictRequest()
        where = f"{self._address}, {model}, {signature}"
        try:
            request.model_spec.name, request.model_spec.signature_name = model, signature
            for name, value in inputs.items():
                kind = value.dtype if isinstance(value, np.ndarray) else tf.string
                shape = np.shape(value)
                request.inputs[name].CopyFrom(tf.make_tensor_proto(value, dtype=kind, shape=shape))
            response = self._stub.Predict(request, timeout=self._timeout)
            return {
                name: _as_array(tf.make_ndarray(proto)) for name, proto in response.outputs.items()
            }
        except grpc.RpcError as error:
            raise ServingError(f"{where}: {error.code().name}: {error.details()}") from error
        except (ValueError, TypeError) as error:
            raise ServingError(f"{where}: {brief(error)}") from error


def _as_array(value: object) -> np.ndarray:
    """Numbers as float32, flags as bool, text as str."""
    array = np.asarray(value)
    if array.dtype.kind in "OSU":
        return (
            np.vectorize(_as_text, otypes=[object])(array) if array.size else array.astype(object)
        )
    return array.astype(np.float32) if array.dtype.kind in "fiu" else array


def _as_text(value: object) -> str:
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"neither text nor a number: {value!r:.40}")
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
