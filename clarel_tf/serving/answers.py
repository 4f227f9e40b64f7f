"""Parses and checks the answers of a model server.

The server is untrusted. Shapes, types and sizes are checked before memory is allocated, and numbers
that no export of clarel_tf can return are refused.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from clarel_tf.errors import brief
from clarel_tf.serving.calls import ServingError, TooLarge
from clarel_tf.serving.new_class_answers import NEW_CLASS_OUTPUTS, check_new_classes

Answer = dict[str, np.ndarray]

# Limits that bound the parsing of a hostile answer to a second or two; no deadline interrupts it.
_MAX_OUTPUTS = 64
_MAX_NUMBERS = 1 << 22  # values of one gRPC output; as float32, 16 MiB
_MAX_TEXTS = 1 << 18
_MAX_JSON_VALUES = 1 << 20
_MAX_JSON_LISTS = 1 << 16
_LONG_NUMBER = re.compile(rb"[0-9]{40}")  # parsing time grows faster than the length
_TOLERANCE = 1e-3  # tolerance of a sum of probabilities
_ROUNDING = 1e-5  # tolerance of a single probability
_TYPES = {"f": "numbers", "b": "true or false", "O": "text"}  # by the kind of a NumPy type
# The outputs of our exports: kind of values and number of dimensions.
_OUTPUTS = {
    "embedding": ("f", 2),
    "prototype": ("f", 2),
    "class_name": ("O", 2),
    "distance": ("f", 2),
    "probability": ("f", 2),
    "accepted": ("b", 1),
    "strangeness": ("f", 1),
    "uncalibrated": ("b", 1),
    "caption": ("O", 2),
    "image_id": ("O", 2),
    "export_id": ("O", 1),
    **{name: (kind, 2) for name, kind in NEW_CLASS_OUTPUTS.items()},
}
_TABLES = ("class_name", "distance", "probability", "caption", "image_id")  # [N, k], the same k
# The field of a TensorProto that holds its values if tensor_content is empty.
_FIELDS = {
    tf.float32: "float_val",
    tf.float64: "double_val",
    tf.int32: "int_val",
    tf.int64: "int64_val",
    tf.bool: "bool_val",
    tf.string: "string_val",
}
_VALUES = tuple(field for field in _FIELDS.values() if field != "string_val")


def outputs_of_json(body: bytes) -> Answer:
    """The outputs by name of a REST answer; raises ServingError."""
    if body.count(b",") > _MAX_JSON_VALUES or body.count(b"[") + body.count(b"{") > _MAX_JSON_LISTS:
        raise TooLarge("the answer has too many values")
    if _LONG_NUMBER.search(body):
        raise ServingError("the answer has a number of 40 digits or more")
    try:
        answer = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ServingError(f"the answer is not JSON ({brief(error)})") from error
    if not isinstance(answer, dict) or "outputs" not in answer:
        raise ServingError("the answer has no 'outputs'; is this a clarel_tf export?")
    outputs = answer["outputs"]
    # The server leaves the name out if a signature has only one output.
    outputs = outputs if isinstance(outputs, dict) else {"embedding": outputs}
    _check_count(outputs)
    return {name: _array_of_json(name, value) for name, value in outputs.items()}


def _check_count(outputs: Mapping[str, object]) -> None:
    if len(outputs) > _MAX_OUTPUTS:
        raise ServingError(f"the answer has {len(outputs)} outputs; is this a clarel_tf export?")


def _refuse_constant(token: str) -> None:
    raise ValueError(f"{token} is not a number")


def _array_of_json(name: str, value: object) -> np.ndarray:
    # NumPy would turn ["a", 1] into two texts and [true, 0.5] into two numbers.
    try:
        types = {kind for row in _innermost(value) for kind in set(map(type, row))}
        if types - {int, float} and len(types) > 1:
            raise ServingError(f"{name!r:.40} mixes {sorted(kind.__name__ for kind in types)}")
        if types - {int, float, str, bool}:
            raise ServingError(f"{name!r:.40} holds neither text nor numbers")
        return as_array(np.asarray(value, object if str in types else None))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ServingError(f"{name!r:.40} is not a table ({brief(error)})") from error


def _innermost(value: object) -> Iterator[list]:
    """The innermost lists of nested lists."""
    if not isinstance(value, list):
        raise ValueError("not a list")
    if not any(isinstance(item, list) for item in value):
        yield value
        return
    for item in value:
        yield from _innermost(item)


def outputs_of_protos(protos: Mapping[str, tensor_pb2.TensorProto]) -> Answer:
    """The outputs by name of a gRPC answer; raises ServingError."""
    _check_count(protos)
    texts = sum(len(proto.string_val) for proto in protos.values())
    values = sum(len(getattr(proto, field)) for proto in protos.values() for field in _VALUES)
    if texts > _MAX_TEXTS or values > _MAX_NUMBERS:
        raise TooLarge("the answer has too many values")
    return {name: _array_of_proto(name, proto) for name, proto in protos.items()}


def _array_of_proto(name: str, proto: tensor_pb2.TensorProto) -> np.ndarray:
    """The array of a TensorProto, if it holds as many values as its shape claims.

    `tf.make_ndarray` repeats the last value until the shape is full, so a message of a few bytes
    could allocate any amount of memory.
    """
    known = {kind.as_datatype_enum: kind for kind in _FIELDS}
    if proto.dtype not in known:
        raise ServingError(f"{name!r:.40} has an unexpected type (number {proto.dtype})")
    rank = len(proto.tensor_shape.dim)
    if proto.tensor_shape.unknown_rank or not 1 <= rank <= 2:
        raise ServingError(f"{name!r:.40} must have one or two dimensions, not {rank}")
    kind, shape = known[proto.dtype], [dim.size for dim in proto.tensor_shape.dim]
    count, most = math.prod(shape), _MAX_TEXTS if kind == tf.string else _MAX_NUMBERS
    if not all(0 <= size <= most for size in shape) or count > most:
        raise ServingError(f"{name!r:.40} claims the shape {shape}, which is too large")
    if proto.tensor_content:
        held, needed = len(proto.tensor_content), count * kind.size
        is_whole = kind != tf.string and held == needed
    else:
        is_whole = len(getattr(proto, _FIELDS[kind])) == count
    if not is_whole:
        raise ServingError(
            f"{name!r:.40} claims the shape {shape}, but does not hold {count} values"
        )
    return as_array(tf.make_ndarray(proto))


def as_array(array: np.ndarray) -> np.ndarray:
    """Numbers as float32, flags as bool, texts as str in an array of objects."""
    if array.dtype.kind in "OSU":
        decoded = np.vectorize(_as_text, otypes=[object])
        return decoded(array) if array.size else array.astype(object)
    if array.dtype.kind in "fiu":
        with np.errstate(over="ignore"):  # an overflow becomes infinite and is refused
            return array.astype(np.float32)
    return array


def _as_text(value: object) -> str:
    if isinstance(value, str):  # a lone surrogate cannot be encoded
        value = value.encode("utf-8", "replace")
    if not isinstance(value, bytes):
        raise TypeError(f"neither text nor a number: {value!r:.40}")
    return value.decode("utf-8", "replace")


def check_answer(answer: Answer, rows: int | None) -> None:
    """Raises ServingError unless the outputs can come from an export of clarel_tf.

    Args:
      rows: number of rows in the request; None if it does not determine the rows of the answer.
    """
    for name, array in answer.items():
        if array.ndim < 1 or rows not in (None, len(array)):
            raise ServingError(f"not one row for each of the {rows} in {name!r:.40}")
    if len({len(array) for array in answer.values()}) > 1:
        raise ServingError(f"outputs of different length: {_shapes(answer)}")
    if not all(map(len, answer.values())):
        return
    for name, array in answer.items():
        kind, rank = _OUTPUTS.get(name, (array.dtype.kind, array.ndim))
        if name == "class_name" and "prototype" in answer:
            rank = 1  # the names of the prototypes
        if array.ndim != rank or not array.size:
            raise ServingError(f"{name!r:.40} has the impossible shape {list(array.shape)}")
        if array.dtype.kind != kind:
            found = _TYPES.get(array.dtype.kind, array.dtype)
            raise ServingError(f"{name!r:.40} must hold {_TYPES[kind]}, not {found}")
        if kind == "f" and not np.isfinite(array).all():
            raise ServingError(f"{name!r:.40} has a NaN or an infinite number")
    tables = {name: answer[name] for name in _TABLES if name in answer and answer[name].ndim == 2}
    if len({table.shape for table in tables.values()}) > 1:
        raise ServingError(f"the tables of the answer do not fit together: {_shapes(tables)}")
    _check_order(answer)
    check_new_classes(answer)


def _check_order(answer: Answer) -> None:
    """Raises ServingError unless distances rise and probabilities fall along each row, [N, k]."""
    if (distance := answer.get("distance")) is not None:
        if (distance < 0).any():
            raise ServingError("a distance is below 0")
        if (np.diff(distance, axis=1) < 0).any():
            raise ServingError("the distances of a row are not in order, nearest first")
    if (probability := answer.get("probability")) is not None:
        if (probability < 0).any() or (probability > 1 + _ROUNDING).any():
            raise ServingError("a probability is not between 0 and 1")
        if (probability.sum(axis=1) > 1 + _TOLERANCE).any():
            raise ServingError("the probabilities of a row add up to more than 1")
        if (np.diff(probability, axis=1) > _ROUNDING).any():
            raise ServingError("the probabilities of a row are not in order, highest first")


def joined(parts: Sequence[Answer]) -> Answer:
    """The concatenation of the parts of an answer, in order."""
    first = parts[0]
    for part in parts[1:]:
        if part.keys() != first.keys() or any(
            part[name].shape[1:] != first[name].shape[1:] or part[name].dtype != first[name].dtype
            for name in first
        ):
            raise ServingError(
                f"the parts of the answer do not fit together: {_shapes(first)}, {_shapes(part)}"
            )
    return {name: np.concatenate([part[name] for part in parts]) for name in first}


def _shapes(answer: Answer) -> str:
    return ", ".join(f"{name!r:.40} {list(array.shape)}" for name, array in answer.items())[:300]
