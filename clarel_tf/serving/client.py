"""`ServingClient`: queries exports on a TensorFlow model server, by REST or gRPC."""

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from clarel_tf.errors import ClarelError
from clarel_tf.serving.address import parse_server
from clarel_tf.serving.answers import Answer
from clarel_tf.serving.calls import Deadline, ServingError, checked_timeout
from clarel_tf.serving.file_answers import FileAnswers, answers_of_files, find_pictures, gathered
from clarel_tf.serving.options import Options, warnings_of
from clarel_tf.serving.part_calls import PartCalls
from clarel_tf.serving.parts import Images, Inputs, as_images, as_texts
from clarel_tf.serving.transports import GrpcTransport, RestTransport, Transport
from clarel_tf.serving.versions import CLASSIFY_WITH_OPTIONS, EMBED_WITH_ID, OF_PICTURES

TIMEOUT = 60.0  # seconds for a whole call
# Error texts of a server, or a folder, for an export without the signature.
_NO_SUCH_SIGNATURE = ("not found in signature def", "has no signature ")
_NO_PICTURES = (
    "this export takes image features, but no pictures: it is of an older version, or its run does "
    "not record the network that made its features. Export a run on photographs with "
    "export_main.py, or give features"
)


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
        self._calls = PartCalls(transport, batch_size)
        self._timeout = checked_timeout(timeout)
        self._embed_signature = EMBED_WITH_ID

    def embed_images(self, images: np.ndarray | Sequence[bytes]) -> np.ndarray:
        """Image features [N, D], or the contents of N pictures -> float32 [N, E]."""
        return self._embed("image_embedder", as_images(images))

    def embed_texts(self, texts: Sequence[str | bytes]) -> np.ndarray:
        """N sentences -> float32 [N, E]."""
        return self._embed("text_embedder", {"text": as_texts(texts, "embed_texts")})

    def _embed(self, model: str, inputs: Inputs) -> np.ndarray:
        """Embeddings, float32 [N, E]; raises ServingError if they come from another export."""
        deadline, signature = Deadline(self._timeout), self._embed_signature
        of_pictures = OF_PICTURES[model][EMBED_WITH_ID] if "image_bytes" in inputs else None
        try:
            answer = self._calls.predict(model, inputs, of_pictures or signature, deadline)
        except ClarelError as error:
            if not _is_missing_signature(error):
                raise
            if of_pictures:
                raise ServingError(_NO_PICTURES) from error
            if self._calls.export_id:
                raise
            self._embed_signature = "serving_default"  # an export without ids
            answer = self._calls.predict(model, inputs, self._embed_signature, deadline)
        return _with(("embedding",), answer)["embedding"]

    def classify(
        self,
        images: np.ndarray | Sequence[bytes],
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
          images: features [N, D], or the contents of N pictures, encoded as in their files.
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
        inputs, deadline = as_images(images), Deadline(self._timeout)
        signature, request = options.request(inputs)
        try:
            answer = self._calls.predict("prototype_classifier", request, signature, deadline)
        except ClarelError as error:
            if not _is_missing_signature(error):
                raise
            if "image_bytes" in inputs:
                raise ServingError(_NO_PICTURES) from error
            if signature != CLASSIFY_WITH_OPTIONS:
                raise
            return self._classify_by_older(options, inputs, deadline, error)
        _with(("class_name", "distance", "probability", "accepted"), answer)
        answer = options.fitted(answer)
        if "uncalibrated" in answer:
            warnings.warn(options.without_validation(), stacklevel=2)
        for text in warnings_of(answer).values():
            warnings.warn(text, stacklevel=2)
        return answer

    def _classify_by_older(
        self, options: Options, inputs: Images, deadline: Deadline, error: ClarelError
    ) -> Answer:
        """The answer of an export without `classify_with_options`, if it can give one."""
        remedy = "export the run again with export_main.py"
        if not options.is_only_new_classes:
            raise ServingError(
                "this export is of an older version: it takes alpha or new classes, but not "
                f"both, and neither k, among, replaces, extends nor threshold; {remedy}"
            ) from error
        warnings.warn(
            "this export is of an older version: the answer does not say where new classes "
            f"stand beyond the nearest classes, nor whether their words are known; {remedy}",
            stacklevel=3,
        )
        signature, request = options.request_of_older(inputs)
        answer = self._calls.predict("prototype_classifier", request, signature, deadline)
        return _with(("class_name", "distance", "probability", "accepted"), answer)

    def classify_files(
        self,
        paths: Sequence[str | os.PathLike[str]],
        tell: Callable[[str], None] | None = None,
        **options: Any,
    ) -> FileAnswers:
        """Classifies pictures in files and folders; those that cannot be read are left out.

        The time limit holds for each 16 pictures.

        Args:
          paths: of pictures, and of folders that are searched for them.
          tell: gets lines about progress.
          options: as for `classify`.

        Returns:
          The paths of the N pictures with an answer; the answer, as `classify` gives it; and a
          message for each of the other pictures, by path.

        Example:

        >>> client = clarel_tf.ServingClient(clarel_tf.LocalTransport("exports/demo"))
        >>> found = client.classify_files(["photos"])
        >>> found.files, found.answer["class_name"].shape
        (['photos/bird.jpg'], (1, 3))
        """
        parts = answers_of_files(
            lambda contents: self.classify(contents, **options), find_pictures(paths), tell
        )
        return gathered(list(parts))

    def predict(self, model: str, inputs: Inputs, signature: str = "serving_default") -> Answer:
        """Calls any signature; inputs with many rows are sent in parts.

        Args:
          inputs: arrays of numbers or lists of texts, by name.

        Returns:
          Arrays by name: float32, bool, or object with elements of type str.
        """
        return self._calls.predict(model, inputs, signature, Deadline(self._timeout))


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


def _is_missing_signature(error: ClarelError) -> bool:
    return any(words in str(error) for words in _NO_SUCH_SIGNATURE)


def _with(names: Sequence[str], answer: Answer) -> Answer:
    """The answer; raises ServingError if it lacks one of these outputs."""
    if absent := [name for name in names if name not in answer]:
        raise ServingError(f"the answer lacks {', '.join(absent)}; is this a clarel_tf export?")
    return answer
