"""REST and gRPC transports to a model server.

A transport returns arrays or raises ServingError, before the deadline, whatever the server sends.
"""

import base64
import json
import urllib.parse
from collections.abc import Sequence
from typing import Any, Protocol

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from clarel_tf.errors import brief, printable
from clarel_tf.serving.address import Server
from clarel_tf.serving.answers import Answer, outputs_of_json, outputs_of_protos
from clarel_tf.serving.calls import (
    FIRST_WAIT,
    MAX_ANSWER_BYTES,
    Deadline,
    ServingError,
    TooLarge,
    Unavailable,
    retrying,
)
from clarel_tf.serving.http_exchange import HttpAnswer, HttpExchange
from clarel_tf.serving.parts import Inputs
from clarel_tf.serving.refusals import plain_refusal
from clarel_tf.storage import files

_LONGEST_MESSAGE = 2_000  # characters of a server's message


class Transport(Protocol):
    """The interface of a transport, which sends one request.

    Attributes:
      number_bytes: maximal bytes of a number in a request.
    """

    number_bytes: int

    def predict(self, model: str, signature: str, inputs: Inputs, deadline: Deadline) -> Answer:
        """Returns the outputs by name, or raises ServingError (TooLarge: send less at a time)."""


class RestTransport:
    """The REST interface of the model server, such as http://localhost:8501."""

    number_bytes = 23  # "-1.0000000031710769e-30,"

    def __init__(self, server: Server):
        self._server, self._http = server, HttpExchange(server)

    def predict(self, model: str, signature: str, inputs: Inputs, deadline: Deadline) -> Answer:
        path = f"{self._server.path}/v1/models/{urllib.parse.quote(model, safe='')}:predict"
        plain = {name: _as_json(value) for name, value in inputs.items()}
        request = {"signature_name": signature, "inputs": plain}
        body = json.dumps(request, separators=(",", ":"), ensure_ascii=False).encode("utf-8")

        def ask() -> bytes:
            answer = self._http.post(path, body, deadline)
            _check_status(answer)
            return answer.body

        try:
            outputs = outputs_of_json(retrying(ask, deadline))
            deadline.left()  # reading it took its time too
            return outputs
        except ServingError as error:
            url = f"{self._server.scheme}://{self._server.host_and_port}{path}"
            raise type(error)(f"{url}, {signature}: {error}") from error


def _as_json(value: np.ndarray | Sequence[str | bytes]) -> list[Any]:
    """An input as JSON; bytes are base64, as the model server reads them."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [
        {"b64": base64.b64encode(one).decode("ascii")} if isinstance(one, bytes) else one
        for one in value
    ]


def _check_status(answer: HttpAnswer) -> None:
    """Raises the ServingError for an HTTP status other than 200."""
    if answer.status == 200:
        return
    message = f"{answer.status} {plain_refusal(_message_of(answer))}"[:_LONGEST_MESSAGE]
    if 300 <= answer.status < 400:
        target = printable(answer.location or "an unknown place")[:200]
        raise ServingError(
            f"the server redirects to {target}, which is not followed ({answer.status}); "
            "if you trust it, give that address"
        )
    kind = {413: TooLarge, 503: Unavailable}.get(answer.status, ServingError)
    raise kind(message)


def _message_of(answer: HttpAnswer) -> str:
    """The server's error message, or the standard HTTP text."""
    try:
        found = json.loads(answer.body) if len(answer.body) < 100_000 else None
    except (ValueError, RecursionError):
        found = None
    error = found.get("error") if isinstance(found, dict) else None
    return error if isinstance(error, str) else answer.reason


class GrpcTransport:
    """The gRPC interface of the model server, such as localhost:8500."""

    number_bytes = 4

    def __init__(self, server: Server):
        milliseconds = int(1000 * FIRST_WAIT)
        options = [
            ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
            ("grpc.enable_http_proxy", 0),  # no proxy, as with REST
            ("grpc.enable_retries", 0),  # we count the retries
            # Without these, all retries would get the failure of the first call.
            ("grpc.initial_reconnect_backoff_ms", milliseconds),
            ("grpc.max_reconnect_backoff_ms", 10 * milliseconds),
        ]
        self._server, target = server, f"dns:///{server.host_and_port}"
        value = server.authorization
        self._metadata = None if value is None else (("authorization", value),)
        if server.is_secure:
            credentials = grpc.ssl_channel_credentials(_certificates(server))
            channel = grpc.secure_channel(target, credentials, options)
        else:
            channel = grpc.insecure_channel(target, options)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

    def predict(self, model: str, signature: str, inputs: Inputs, deadline: Deadline) -> Answer:
        where = f"{self._server.host_and_port}, {model}, {signature}"
        try:
            request = _request(model, signature, inputs)
            response = retrying(lambda: self._ask(request, deadline), deadline)
            outputs = outputs_of_protos(response.outputs)
            deadline.left()  # reading it took its time too
            return outputs
        except ServingError as error:
            raise type(error)(f"{where}: {error}") from error
        except (ValueError, TypeError) as error:
            raise ServingError(f"{where}: {brief(error)}") from error

    def _ask(
        self, request: predict_pb2.PredictRequest, deadline: Deadline
    ) -> predict_pb2.PredictResponse:
        try:
            return self._stub.Predict(request, timeout=deadline.left(), metadata=self._metadata)
        except grpc.RpcError as error:
            code = error.code()
            if code == grpc.StatusCode.DEADLINE_EXCEEDED:
                raise deadline.missed() from error
            kind = {
                grpc.StatusCode.UNAVAILABLE: Unavailable,
                grpc.StatusCode.RESOURCE_EXHAUSTED: TooLarge,
            }.get(code, ServingError)
            details = plain_refusal(str(error.details()))
            raise kind(f"{code.name}: {details}"[:_LONGEST_MESSAGE]) from error


def _request(model: str, signature: str, inputs: Inputs) -> predict_pb2.PredictRequest:
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = model, signature
    for name, value in inputs.items():
        kind = value.dtype if isinstance(value, np.ndarray) else tf.string
        proto = tf.make_tensor_proto(value, dtype=kind, shape=np.shape(value))
        request.inputs[name].CopyFrom(proto)
    return request


def _certificates(server: Server) -> bytes | None:
    """The contents of `ca_file`, or None for the certificates that come with gRPC."""
    if server.ca_file is None:
        return None
    return files.read_regular(server.ca_file)
