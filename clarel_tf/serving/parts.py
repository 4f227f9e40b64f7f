"""Inputs of a request made uniform, and large ones cut into parts that a server takes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from clarel_tf.errors import ClarelError, brief

Inputs = Mapping[str, np.ndarray | Sequence[str | bytes]]
PlainInputs = Mapping[str, np.ndarray | list[str]]  # as `as_inputs` makes them

MAX_REQUEST_BYTES = 2_000_000  # half of what a gRPC server takes by default
# Inputs with a row for every image or sentence asked about; all others belong to the whole request.
ROW_INPUTS = ("image_features", "alpha", "text")
_TEXT_EXTRA = 8  # bytes that a text takes besides its own


def as_texts(texts: Iterable[str | bytes], what: str) -> list[str]:
    """Texts as str; bytes are read as UTF-8, with replacement characters where they are not."""
    # A string is a sequence of strings too: its letters would be taken for sentences.
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
        raise ClarelError(f"{what} takes a list of texts, not {texts!r:.80}")
    return [_as_text(text, what) for text in texts]


def _as_text(text: object, what: str) -> str:
    if isinstance(text, str):  # a lone surrogate cannot be sent
        text = text.encode("utf-8", "replace")
    if not isinstance(text, bytes):
        raise ClarelError(f"{what} takes texts, not {type(text).__name__} ({text!r:.40})")
    return text.decode("utf-8", "replace")


def as_features(image_features: np.ndarray) -> np.ndarray:
    """Image features as float32 [N, D]."""
    try:
        features = np.asarray(image_features, np.float32)
    except (ValueError, TypeError) as error:
        raise ClarelError(f"image features must be numbers, [N, D] ({brief(error)})") from error
    if features.ndim != 2:
        raise ClarelError(f"image features must have shape [N, D], not {list(features.shape)}")
    return features


def as_inputs(inputs: Inputs) -> dict[str, np.ndarray | list[str]]:
    """Arrays of numbers as they are, and everything else as lists of str."""
    plain: dict[str, np.ndarray | list[str]] = {}
    for name, value in inputs.items():
        if isinstance(value, np.ndarray) and value.ndim < 1:
            raise ClarelError(f"{name} must have rows; it is a single value")
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
            plain[name] = value
        else:
            plain[name] = as_texts(value, name)
    return plain


def row_count(inputs: Inputs) -> int | None:
    """How many rows are asked about; None if no input has rows."""
    lengths = {len(value) for name, value in inputs.items() if name in ROW_INPUTS}
    if len(lengths) > 1:
        raise ClarelError(f"inputs of different length: {sorted(lengths)}")
    return lengths.pop() if lengths else None


def part_ends(inputs: PlainInputs, max_rows: int, number_bytes: int) -> Iterator[int]:
    """Where the parts of a request end, as numbers of rows.

    A part has about MAX_REQUEST_BYTES at most, but always a row. What belongs to the whole request
    goes with every part; if it is large, half of the bytes are left to the rows all the same.

    Args:
      max_rows: of a part.
      number_bytes: what a number takes in the request.
    """
    fixed = sum(
        _row_bytes(value, number_bytes).sum()
        for name, value in inputs.items()
        if name not in ROW_INPUTS
    )
    most = max(MAX_REQUEST_BYTES - fixed, MAX_REQUEST_BYTES // 2)
    costs = sum(
        _row_bytes(value, number_bytes) for name, value in inputs.items() if name in ROW_INPUTS
    )
    start, held = 0, 0
    for row, cost in enumerate(np.atleast_1d(costs).tolist()):
        if row > start and (held + cost > most or row - start == max_rows):
            yield row
            start, held = row, 0
        held += cost
    yield row_count(inputs) or 0


def _row_bytes(value: np.ndarray | list[str], number_bytes: int) -> np.ndarray:
    """About what each row takes in a request, int64 [N]."""
    if isinstance(value, np.ndarray):
        return np.full(len(value), value[:1].size * number_bytes, np.int64)
    return np.array([len(text.encode("utf-8")) + _TEXT_EXTRA for text in value], np.int64)


def part_of(inputs: Inputs, start: int, stop: int) -> Inputs:
    """The rows from `start` to `stop`, with all that belongs to the whole request."""
    return {
        name: value[start:stop] if name in ROW_INPUTS else value for name, value in inputs.items()
    }
