"""Dataclasses as JSON: written by `dataclasses.asdict`, read back and checked by `from_json`.

NaN is written as null.
"""

import dataclasses
import math
import types
import typing
from typing import Any, TypeVar

from clarel_tf.errors import ClarelError

Record = TypeVar("Record")


def from_json(kind: type[Record], values: Any, where: Any) -> Record:
    """A record of the dataclass `kind` from the values of a JSON file.

    Keys that `kind` does not have are left out, and a field with a default may be missing: files of
    older and of newer versions can be read as far as they agree.

    Args:
      where: the file, for messages.
    """
    if not isinstance(values, dict):
        raise ClarelError(f"{where}: expected an object with named values, found {values!r:.60}")
    hints = typing.get_type_hints(kind)
    found = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]  # any dataclass
        if field.name in values:
            found[field.name] = _value(hints[field.name], values[field.name], where, field.name)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ClarelError(
                f"{where} lacks {field.name!r}: it is damaged, or of an unknown version; restore a "
                "copy, or delete it and run the command that made it"
            )
    return kind(**found)


def without_nan(value: Any) -> Any:
    """The values of a JSON file with None in the place of NaN, which JSON does not have."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return value


def _value(hint: Any, value: Any, where: Any, name: str) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return from_json(typing.cast(type, hint), value, f"{where}, {name}")
    if origin in (typing.Union, types.UnionType):  # only `T | None` occurs
        kind = next(one for one in inner if one is not type(None))
        return None if value is None else _value(kind, value, where, name)
    if origin is list and isinstance(value, list):
        return [_value(inner[0], item, where, name) for item in value]
    if origin is dict and isinstance(value, dict):
        return {key: _value(inner[1], item, where, name) for key, item in value.items()}
    if hint is Any:
        return value
    if hint is float and value is None:
        return math.nan
    wanted = {float: (int, float)}.get(hint, origin or hint)
    if not isinstance(value, wanted) or (isinstance(value, bool) and hint is not bool):
        wanted_name = "number" if hint is float else getattr(hint, "__name__", str(hint))
        raise ClarelError(f"{where}: {name!r} is {value!r:.60}, but must be a {wanted_name}")
    try:
        return float(value) if hint is float else value
    except OverflowError as error:
        raise ClarelError(f"{where}: {name!r} is too large a number") from error
