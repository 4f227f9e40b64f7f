"""`ServingClient`: queries exports on a TensorFlow model server, by REST or gRPC."""

import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from clarel_tf.errors import ClarelError
from clarel_tf.serving.address import parse_server
from clarel_tf.serving.answers import Answer, check_answer, joined
from clarel_tf.serving.calls import Deadline, ServingError, TooLarge, checked_timeout
from clarel_tf.serving.new_class_answers import without_empty
from clarel_tf.serving.options import Options, warnings_of
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
from clarel_tf.serving.versions import CLASSIFY_WITH_OPTIONS, EMBED_WITH_ID

TIMEOUT = 60.0  # seconds for a whole call
# Error texts of a server, or a folder, for an export of an older version.
_NO_SUCH_SIGNATURE = ("not found in signature def", "has no signature ")


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
        *,
        k: int | None = None,
        among: Iterable[str] | None = None,
        replaces: Iterable[str] = (),
        extends: Iterable[str] = (),
        threshold: float | None = None,
    ) -> Answer:
        """class_name, distance, probability [N, k] and accepted [N] for N images.

        With M new classes also, in their order, `new_class_name`, `new_class_rank`,
        `new_class_distance`, `new_class_probability` and `new_class_known_words`, [N, M]: where
        each of them stands, however small k is, and the share of its words that the model knows.
        There is a warning if that share is below 0.8. There is one, and `uncalibrated`, [N], if the
        run had no validation images.

        Args:
          image_features: [N, D].
          alpha: replaces the stored alpha.
          new_classes: class name -> sentences that describe the class. A stored class with the
            same name is an error unless it is replaced or extended.
          k: classes in an answer, instead of the export's number.
          among: the stored classes on offer, by name; all by default. New classes are on offer
            besides.
          replaces: new classes that take the place of the stored class with their name.
          extends: new classes whose sentences are added to the captions of that stored class.
          threshold: replaces the stored one: an image is accepted if its strangeness is at most
            this. With any option besides alpha the answer has the `strangeness`, [N].
        """
        options = Options.checked(alpha, new_classes, k, among, replaces, extends, threshold)
        features, deadline = as_features(image_features), Deadline(self._timeout)
        signature, inputs = options.request(features)
        try:
            answer = self._predict("prototype_classifier", inputs, signature, deadline)
        except ClarelError as error:
            is_older = any(words in str(error) for words in _NO_SUCH_SIGNATURE)
            if signature != CLASSIFY_WITH_OPTIONS or not is_older:
                raise
            remedy = "export the run again with export_main.py"
            if not options.is_only_new_classes:
                raise ServingError(
                    "this export is of an older version: it takes alpha or new classes, but not "
                    f"both, and neither k, among, replaces, extends nor threshold; {remedy}"
                ) from error
            warnings.warn(
                "this export is of an older version: the answer does not say where new classes "
                f"stand beyond the nearest classes, nor whether their words are known; {remedy}",
                stacklevel=2,
            )
            signature, inputs = options.request_of_older(features)
            answer = self._predict("prototype_classifier", inputs, signature, deadline)
            return _with(("class_name", "distance", "probability", "accepted"), answer)
        _with(("class_name", "distance", "probability", "accepted"), answer)
        answer = options.fitted(answer)
        if "uncalibrated" in answer:
            warnings.warn(options.without_validation(), stacklevel=2)
        for text in warnings_of(answer).values():
            warnings.warn(text, stacklevel=2)
        return answer

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
            answer = without_empty(self._transport.predict(model, signature, part, deadline))
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
