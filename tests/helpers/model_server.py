"""A small server that speaks the model server's REST and gRPC interfaces on exported models.

It is a test tool: it runs the SavedModels in Python and knows no batching, versions or reloading.
"""

import base64
import contextlib
import http.server
import json
import re
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


class Models:
    """The newest version of every model of an export folder."""

    def __init__(self, export_dir: Path):
        self._loaded = {
            path.name: tf.saved_model.load(str(max(path.glob("[0-9]*"), key=lambda p: int(p.name))))
            for path in export_dir.iterdir()
            if path.is_dir() and not path.name.startswith(".")
        }

    def predict(self, model: str, signature: str, inputs: dict) -> dict[str, np.ndarray]:
        """Raises ValueError with a message where a request does not fit."""
        if model not in self._loaded:
            raise ValueError(f"Servable not found for request: {model}")
        signatures = self._loaded[model].signatures
        if signature not in signatures:
            raise ValueError(f"Serving signature name: {signature!r} not found in signature def")
        function = signatures[signature]
        specs = function.structured_input_signature[1]
        if set(specs) != set(inputs):
            raise ValueError(f"inputs {sorted(inputs)} do not match {sorted(specs)}")
        try:
            tensors = {
                name: tf.reshape(tf.constant(value, specs[name].dtype), np.shape(value) or [0])
                if np.size(value)
                else tf.zeros([0, *specs[name].shape[1:]], specs[name].dtype)
                for name, value in inputs.items()
            }
            outputs = function(**tensors)
        except (TypeError, tf.errors.OpError) as error:
            raise ValueError(str(error)) from error
        return {name: value.numpy() for name, value in outputs.items()}


@contextlib.contextmanager
def serve(export_dir: Path) -> Iterator[tuple[str, str]]:
    """Serves the models; yields (REST address, gRPC address)."""
    models = Models(export_dir)
    rest = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _rest_handler(models))
    rest.daemon_threads = True
    threading.Thread(target=rest.serve_forever, daemon=True).start()
    server = grpc.server(futures.ThreadPoolExecutor(8))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(_Service(models), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{rest.server_address[1]}", f"127.0.0.1:{port}"
    finally:
        server.stop(None)
        rest.shutdown()
        rest.server_close()


def _rest_handler(models: Models) -> type:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            status, answer = 200, {}
            try:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                model = re.fullmatch(r"/v1/models/(\w+):predict", self.path)
                signature = body.get("signature_name", "serving_default")
                inputs = {name: _unpacked(value) for name, value in body["inputs"].items()}
                outputs = models.predict(model[1] if model else self.path, signature, inputs)
                plain = {name: _plain(value) for name, value in outputs.items()}
                answer = {"outputs": plain if len(plain) > 1 else next(iter(plain.values()))}
            except (ValueError, KeyError) as error:
                status, answer = 400, {"error": str(error)}
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments):
            pass

    return Handler


def _unpacked(value):
    """A JSON value with bytes in the place of {"b64": ...}."""
    if isinstance(value, dict):
        return base64.b64decode(value["b64"], validate=True)
    return [_unpacked(one) for one in value] if isinstance(value, list) else value


class _Service(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, models: Models):
        self._models = models

    def Predict(self, request, context):
        inputs = {name: tf.make_ndarray(proto) for name, proto in request.inputs.items()}
        spec = request.model_spec
        try:
            outputs = self._models.predict(spec.name, spec.signature_name, inputs)
        except ValueError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        response = predict_pb2.PredictResponse()
        for name, value in outputs.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
        return response


def _plain(value: np.ndarray) -> list:
    if value.dtype == object:
        return (
            np.vectorize(bytes.decode, otypes=[object])(value).tolist()
            if value.size
            else value.tolist()
        )
    return value.tolist()
