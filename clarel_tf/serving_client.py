"""Asks a TensorFlow model server that serves our exports, by REST or gRPC."""

from collections.abc import Mapping, Sequence

import numpy as np

from clarel_tf.errors import ClarelError, brief
from clarel_tf.serving_transports import (
    Answer,
    GrpcTransport,
    Inputs,
    RestTransport,
    ServingError,
    Transport,
)

# Inputs with a row for every image or sentence asked about; all others belong to the whole request.
_ROW_INPUTS = ("image_features", "alpha", "text")


class ServingClient:
    """Named questions to the three models; large ones are sent in parts."""

    def __init__(self, transport: Transport, batch_size: int = 256):
        self._transport, self._batch_size = transport, batch_size

    def embed_images(self, image_features: np.ndarray) -> np.ndarray:
        """[N, D] -> float32 [N, E]."""
        inputs = {"image_features": _as_features(image_features)}
        return _checked(self.predict("image_embedder", inputs), ("embedding",))["embedding"]

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """N sentences -> float32 [N, E]."""
        inputs = {"text": _as_sentences(texts, "embed_texts")}
        return _checked(self.predict("text_embedder", inputs), ("embedding",))["embedding"]

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
        features = _as_features(image_features)
        inputs: dict[str, np.ndarray | Sequence[str]] = {"image_features": features}
        if alpha is not None and new_classes:
            raise ClarelError("give an alpha or new classes, not both")
        signature = "serving_default"
        if alpha is not None:
            signature = "classify_with_alpha"
            inputs["alpha"] = np.full(len(features), alpha, np.float32)
        if new_classes:
            signature = "classify_with_new_classes"
            described = {
                name: _as_sentences(own, f"the new class {name!r}", least=1)
                for name, own in new_classes.items()
            }
            inputs["sentences"] = [s for own in described.values() for s in own]
            inputs["class_names"] = [name for name, own in described.items() for _ in own]
        answer = self.predict("prototype_classifier", inputs, signature)
        return _checked(answer, ("class_name", "distance", "probability", "accepted"))

    def predict(self, model: str, inputs: Inputs, signature: str = "serving_default") -> Answer:
        """Any signature; inputs with many rows are sent in parts and put together again."""
        lengths = {len(value) for name, value in inputs.items() if name in _ROW_INPUTS}
        if len(lengths) > 1:
            raise ClarelError(f"inputs of different length: {sorted(lengths)}")
        rows = lengths.pop() if lengths else None
        parts = []
        for start in range(0, max(rows or 0, 1), self._batch_size):
            stop = start + self._batch_size
            part = {
                name: value[start:stop] if name in _ROW_INPUTS else value
                for name, value in inputs.items()
            }
            answer = self._transport.predict(model, signature, part)
            expected = None if rows is None else min(stop, rows) - start
            if any(
                value.ndim < 1 or expected not in (None, len(value)) for value in answer.values()
            ):
                raise ServingError(f"{model}, {signature}: not one row for each of the {expected}")
            parts.append(answer)
        if any(part.keys() != parts[0].keys() for part in parts):
            raise ServingError(f"{model}, {signature}: the parts of the answer do not fit together")
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def connect(address: str, timeout: float = 10.0, batch_size: int = 256) -> ServingClient:
    """A client for `http://host:port` (REST) or `host:port` (gRPC)."""
    is_rest = address.startswith(("http://", "https://"))
    transport = (RestTransport if is_rest else GrpcTransport)(address, timeout)
    return ServingClient(transport, batch_size)


def _as_features(image_features: np.ndarray) -> np.ndarray:
    try:
        features = np.asarray(image_features, np.float32)
    except (ValueError, TypeError) as error:
        raise ClarelError(f"image features must be numbers, [N, D] ({brief(error)})") from error
    if features.ndim != 2:
        raise ClarelError(f"image features must have shape [N, D], not {list(features.shape)}")
    return features


def _as_sentences(texts: Sequence[str], what: str, least: int = 0) -> list[str]:
    # A string is a sequence of strings too: its letters would be taken for sentences.
    if isinstance(texts, (str, bytes)) or len(texts) < least:
        raise ClarelError(f"{what} takes a list of sentences, not {texts!r}")
    return list(texts)


def _checked(answer: Answer, names: Sequence[str]) -> Answer:
    """An answer that has what we need of it, the same number of classes in each table."""
    if absent := [name for name in names if name not in answer]:
        raise ServingError(f"the answer lacks {', '.join(absent)}; is it a server of our exports?")
    tables = [answer[name].shape for name in names if name != "accepted" and len(answer[name])]
    if len(set(tables)) > 1 or any(len(shape) != 2 for shape in tables):
        raise ServingError(f"the tables of the answer do not fit together: {sorted(answer)}")
    return answer
