"""`ServingClient`: queries exports on a TensorFlow model server, by REST or gRPC."""

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from clarel_tf.errors import ClarelError
from clarel_tf.serving.address import parse_server
from clarel_tf.serving.answers import Answer, check_answer, joined
from clarel_tf.serving.calls import Deadline, ServingError, TooLarge, checked_timeout
from clarel_tf.serving.parts import (
    Inputs,
    as_features,
    as_inputs,
    as_texts,
    part_ends,
    part_of,
    row_count,
)
from clarel_tf.serving.transports import GrpcTransport, RestTransport, Transport
from clarel_tf.serving.versions import EMBED_WITH_ID

TIMEOUT = 60.0  # seconds for a whole call
# Error texts of a server, or a folder, for an export without ids.
_NO_SUCH_SIGNATURE = ("not found in signature def", f"has no signature {EMBED_WITH_ID!r}")


class ServingClient:
    """A client for the three exported models; large requests are sent in parts.

    Threads may share a client. It is bound to the export of its first embeddings and refuses
    embeddings of another export.

    Example:

    >>> client = clarel_tf.ServingClient(clarel_tf.LocalTransport("exports/demo"))
    >>> client.embed_texts(["a small bird with a red crown"]).ndim
    2
    """

    def __init__(self, transport: Transport, batch_size: int = 256, timeout: float = TIMEOUT):
        """Takes a transport: REST, gRPC or a local folder.

        Args:
          batch_size: maximal rows of a part.
          timeout: seconds for one call with all its parts and retries.
        """
        if batch_size < 1:
            raise ClarelError(f"batch_size must be at least 1, not {batch_size}")
        self._transport, self._batch_size = transport, batch_size
        self._timeout = checked_timeout(timeout)
        self._export_id: str | None = None  # id of the export that answered first
        self._lock = threading.Lock()
        self._embed_signature = EMBED_WITH_ID

    def embed_images(self, image_features: np.ndarray) -> np.ndarray:
        """[N, D] -> float32 [N, E]."""
        return self._embed("image_embedder", {"image_features": as_features(image_features)})

    def embed_texts(self, texts: Sequence[str | bytes]) -> np.ndarray:
        """N sentences -> float32 [N, E]."""
        return self._embed("text_embedder", {"text": as_texts(texts, "embed_texts")})

    def _embed(self, model: str, inputs: Inputs) -> np.ndarray:
        """Embeddings, float32 [N, E]; raises ServingError if they come from another export."""
        deadline = Deadline(self._timeout)
        try:
            answer = self._predict(model, inputs, self._embed_signature, deadline)
        except ClarelError as error:
            is_older = any(words in str(error) for words in _NO_SUCH_SIGNATURE)
            if not is_older or self._export_id:
                raise
            self._embed_signature = "serving_default"  # an export without ids
            answer = self._predict(model, inputs, self._embed_signature, deadline)
        return _with(("embedding",), answer)["embedding"]

    def classify(
        self,
        image_features: np.ndarray,
        alpha: float | None = None,
        new_classes: Mapping[str, Sequence[str | bytes]] | None = None,
    ) -> Answer:
        """class_name, distance, probability [N, k] and accepted [N] for N images.

        Args:
          image_features: [N, D].
          alpha: replaces the stored alpha.
          new_classes: class name -> sentences that describe the class.
        """
        features = as_features(image_features)
        inputs: dict[str, np.ndarray | Sequence[str]] = {"image_features": features}
        if alpha is not None and new_classes:
            raise ClarelError("give an alpha or new classes, not both")
        signature = "serving_default"
        if alpha is not None:
            signature = "classify_with_alpha"
            inputs["alpha"] = np.full(len(features), alpha, np.float32)
        if new_classes:
            signature = "classify_with_new_classes"
            names = as_texts(new_classes, "new_classes")
            described = [
                (name, as_texts(own, f"the new class {name!r}"))
                for name, own in zip(names, new_classes.values(), strict=True)
            ]
            if empty := [name for name, own in described if not own]:
                raise ClarelError(f"the new class {empty[0]!r} has no sentence")
            inputs["sentences"] = [text for _, own in described for text in own]
            inputs["class_names"] = [name for name, own in described for _ in own]
        answer = self.predict("prototype_classifier", inputs, signature)
        return _with(("class_name", "distance", "probability", "accepted"), answer)

    def predict(self, model: str, inputs: Inputs, signature: str = "serving_default") -> Answer:
        """Calls any signature; inputs with many rows are sent in parts.

        Args:
          inputs: arrays of numbers or lists of texts, by name.

        Returns:
          Arrays by name: float32, bool, or object with elements of type str.
        """
        return self._predict(model, inputs, signature, Deadline(self._timeout))

    def _predict(self, model: str, inputs: Inputs, signature: str, deadline: Deadline) -> Answer:
        inputs = as_inputs(inputs)
        rows, parts, start = row_count(inputs), [], 0
        for stop in part_ends(inputs, self._batch_size, self._transport.number_bytes):
            parts += self._ask(model, signature, inputs, start, stop, rows is not None, deadline)
            start = stop
        try:
            answer = joined(parts)
            self._check_export(answer.pop("export_id", np.array([])))
        except ServingError as error:
            raise ServingError(f"{model}, {signature}: {error}") from error
        return answer

    def _ask(
        self,
        model: str,
        signature: str,
        inputs: Inputs,
        start: int,
        stop: int,
        has_rows: bool,
        deadline: Deadline,
    ) -> list[Answer]:
        """Checked answers for rows `start` to `stop`, in halves if the request is too large."""
        try:
            part = part_of(inputs, start, stop)
            answer = self._transport.predict(model, signature, part, deadline)
        except TooLarge:
            if stop - start < 2:
                raise
            middle = (start + stop) // 2
            return [
                *self._ask(model, signature, inputs, start, middle, has_rows, deadline),
                *self._ask(model, signature, inputs, middle, stop, has_rows, deadline),
            ]
        try:
            check_answer(answer, stop - start if has_rows else None)
        except ServingError as error:
            raise ServingError(f"{model}, {signature}: {error}") from error
        return [answer]

    def _check_export(self, export_ids: np.ndarray) -> None:
        """Raises ServingError if `export_ids`, str [N], name another export; N may be 0."""
        if not len(export_ids):
            return
        with self._lock:
            self._export_id = self._export_id or export_ids[0]
            own = self._export_id
        if any(export_id != own for export_id in export_ids):
            raise ServingError(
                "the server changed to another export meanwhile, and embeddings of two exports "
                "cannot be compared; connect again, and repeat the embeddings that you have kept"
            )


def connect(
    address: str,
    timeout: float = TIMEOUT,
    batch_size: int = 256,
    *,
    ca_file: str | None = None,
    authorization: str | None = None,
) -> ServingClient:
    """A client for a model server.

    Args:
      address: `http://host:port` or `https://host:port` (REST); `host:port`, `grpc://host:port`
        or, with TLS, `grpcs://host:port` (gRPC).
      timeout: seconds for one call with all its parts and retries.
      batch_size: maximal rows of a request.
      ca_file: PEM file of certificates to trust instead of the default ones.
      authorization: value of the `Authorization` header; without TLS only to this machine.

    Example:

    >>> client = clarel_tf.connect("http://localhost:8501", timeout=5.0)
    >>> try:
    ...     client.embed_texts(["a bird"])
    ... except clarel_tf.ServingError as error:
    ...     print("no server listens there" in str(error))
    True
    """
    server = parse_server(address, ca_file, authorization)
    transport = RestTransport(server) if server.is_rest else GrpcTransport(server)
    return ServingClient(transport, batch_size, timeout)


def _with(names: Sequence[str], answer: Answer) -> Answer:
    """The answer; raises ServingError if it lacks one of these outputs."""
    if absent := [name for name in names if name not in answer]:
        raise ServingError(f"the answer lacks {', '.join(absent)}; is this a clarel_tf export?")
    return answer
