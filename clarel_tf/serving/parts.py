"""Converts the inputs of a request, and cuts large requests into parts."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from clarel_tf.errors import ClarelError, brief

Inputs = Mapping[str, np.ndarray | Sequence[str | bytes]]
PlainInputs = Mapping[str, np.ndarray | list[str] | list[bytes]]  # as returned by `as_inputs`
Images = dict[str, np.ndarray | list[bytes]]  # one input, as returned by `as_images`

MAX_REQUEST_BYTES = 2_000_000  # half of the default limit of a gRPC server
# Inputs with a row for each image or sentence; all others belong to the whole request.
ROW_INPUTS = ("image_features", "image_bytes", "alpha", "k", "threshold", "text")
# Of these, an option that is left out has no values at all.
_OPTIONS = ("alpha", "k", "threshold")
_TEXT_EXTRA = 8  # overhead of a text, in bytes; a picture may be sent as base64


def as_texts(texts: Iterable[str | bytes], what: str) -> list[str]:
    """Texts as str; bytes are decoded as UTF-8, with replacement characters for invalid bytes."""
    # A string is a sequence of strings too: its letters would become sentences.
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
        raise ClarelError(f"{what} takes a list of texts, not {texts!r:.80}")
    return [_as_text(text, what) for text in texts]


def _as_text(text: object, what: str) -> str:
    if isinstance(text, str):  # a lone surrogate cannot be sent
        text = text.encode("utf-8", "replace")
    if not isinstance(text, bytes):
        raise ClarelError(f"{what} takes texts, not {type(text).__name__} ({text!r:.40})")
    return text.decode("utf-8", "replace")


def as_features(image_features: np.ndarray | Sequence[Any]) -> np.ndarray:
    """Image features as float32 [N, D]."""
    try:
        features = np.asarray(image_features, np.float32)
    except (ValueError, TypeError) as error:
        raise ClarelError(f"image features must be numbers, [N, D] ({brief(error)})") from error
    if features.ndim != 2:
        raise ClarelError(f"image features must have shape [N, D], not {list(features.shape)}")
    return features


def as_images(images: np.ndarray | Sequence[bytes]) -> Images:
    """The input of images: `image_features`, float32 [N, D], or `image_bytes`, N pictures."""
    if isinstance(images, (bytes, str, os.PathLike)):
        raise ClarelError(
            f"images are features [N, D] or a list of the contents of pictures, not {images!r:.80}"
        )
    if isinstance(images, Sequence) and any(isinstance(one, bytes) for one in images):
        return {"image_bytes": as_contents(images, "images")}
    if isinstance(images, Sequence) and any(isinstance(one, (str, os.PathLike)) for one in images):
        raise ClarelError(
            "images are features [N, D] or the contents of pictures (bytes), not paths; "
            "classify_files takes paths"
        )
    return {"image_features": as_features(images)}


def as_contents(pictures: Iterable[object], what: str) -> list[bytes]:
    """The contents of pictures, checked."""
    checked = []
    for row, contents in enumerate(pictures):
        if not isinstance(contents, bytes):
            kind = type(contents).__name__
            raise ClarelError(f"{what}: row {row} is {kind}, not the contents of a picture (bytes)")
        checked.append(contents)
    return checked


def as_inputs(inputs: Inputs) -> PlainInputs:
    """Inputs as arrays of numbers, lists of str, or lists of bytes by names ending in `_bytes`."""
    plain: dict[str, np.ndarray | list[str] | list[bytes]] = {}
    for name, value in inputs.items():
        if isinstance(value, np.ndarray) and value.ndim < 1:
            raise ClarelError(f"{name} must have rows; it is a single value")
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
            plain[name] = value
        elif name.endswith("_bytes"):
            plain[name] = as_contents(value, name)
        else:
            plain[name] = as_texts(value, name)
    return plain


def row_count(inputs: Inputs) -> int | None:
    """The number of rows of a request; None if no input has rows."""
    lengths = {len(value) for name, value in inputs.items() if _has_rows(name, value)}
    if len(lengths) > 1:
        raise ClarelError(f"inputs of different length: {sorted(lengths)}")
    return lengths.pop() if lengths else None


def part_ends(inputs: PlainInputs, max_rows: int, number_bytes: int) -> Iterator[int]:
    """The ends of the parts of a request, as row numbers.

    A part has about MAX_REQUEST_BYTES at most, but at least one row. Inputs of the whole request go
    with every part; if they are large, the rows still get half of the bytes.

    Args:
      max_rows: maximal rows of a part.
      number_bytes: bytes of a number in the request.
    """
    fixed = sum(
        _row_bytes(value, number_bytes).sum()
        for name, value in inputs.items()
        if not _has_rows(name, value)
    )
    most = max(MAX_REQUEST_BYTES - fixed, MAX_REQUEST_BYTES // 2)
    costs = sum(
        _row_bytes(value, number_bytes) for name, value in inputs.items() if _has_rows(name, value)
    )
    start, held = 0, 0
    for row, cost in enumerate(np.atleast_1d(costs).tolist()):
        if row > start and (held + cost > most or row - start == max_rows):
            yield row
            start, held = row, 0
        held += cost
    yield row_count(inputs) or 0


def _row_bytes(value: np.ndarray | list[str] | list[bytes], number_bytes: int) -> np.ndarray:
    """The approximate bytes of each row in a request, int64 [N]."""
    if isinstance(value, np.ndarray):
        return np.full(len(value), value[:1].size * number_bytes, np.int64)
    sizes = (
        len(text) * 4 // 3 if isinstance(text, bytes) else len(text.encode("utf-8"))
        for text in value
    )
    return np.array([size + _TEXT_EXTRA for size in sizes], np.int64)


def part_of(inputs: Inputs, start: int, stop: int) -> Inputs:
    """Rows `start` to `stop`, with the inputs of the whole request."""
    return {
        name: value[start:stop] if _has_rows(name, value) else value
        for name, value in inputs.items()
    }


def _has_rows(name: str, value: Sized) -> bool:
    return name in ROW_INPUTS and not (name in _OPTIONS and not len(value))
