"""One setting of a config: a dataclass field with its meaning and its legal values."""

import dataclasses
import math
import reprlib
import typing
from collections.abc import Sequence
from typing import Any

from clarel_tf.errors import ClarelError


def setting(
    default: Any,
    meaning: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    choices: Sequence[str] | None = None,
) -> Any:
    """A dataclass field with its meaning and its legal values as metadata."""
    checks = {"low": low, "high": high, "above": above, "choices": choices}
    return dataclasses.field(default=default, metadata={"meaning": meaning, **checks})


def convert(field: dataclasses.Field, value: Any) -> Any:
    """`value` in the field's type: JSON has no tuples and may write 1.0 as 1."""
    if typing.get_origin(field.type) is tuple and isinstance(value, (list, tuple)):
        return tuple(value)
    if field.type is float and type(value) is int and abs(value) < 1e300:
        return float(value)
    return value


def check(field: dataclasses.Field, value: Any) -> None:
    """Raises ClarelError, with the name of the key, for a wrong type or a value out of bounds."""
    bounds = field.metadata
    name = field.name.rstrip("_")
    is_tuple = typing.get_origin(field.type) is tuple
    kind: Any = int if is_tuple else field.type
    items = value if is_tuple and isinstance(value, tuple) else (value,)
    if is_tuple and (not isinstance(value, tuple) or not value):
        raise ClarelError(f"{name} must be a list of {kind.__name__}, not {reprlib.repr(value)}")
    for item in items:
        if type(item) is not kind:
            raise ClarelError(f"{name} must be of type {kind.__name__}, not {reprlib.repr(item)}")
        if kind is float and not math.isfinite(item):
            raise ClarelError(f"{name} must be a finite number, not {item}")
        if bounds["choices"] and item not in bounds["choices"]:
            allowed = ", ".join(bounds["choices"])
            raise ClarelError(f"{name} must be one of {allowed}, not {reprlib.repr(item)}")
        if bounds["low"] is not None and item < bounds["low"]:
            raise ClarelError(f"{name} must be at least {bounds['low']}, not {item}")
        if bounds["above"] is not None and item <= bounds["above"]:
            raise ClarelError(f"{name} must be above {bounds['above']}, not {item}")
        if bounds["high"] is not None and item > bounds["high"]:
            raise ClarelError(f"{name} must be at most {bounds['high']}, not {item}")
