"""Dataclasses as JSON: what comes back, and what is refused."""

import dataclasses
import json
import math

import pytest

from clarel_tf.errors import ClarelError
from clarel_tf.storage.records import from_json, without_nan


@dataclasses.dataclass(frozen=True)
class Point:
    x: float
    y: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    name: str
    points: list[Point]
    by_name: dict[str, Point]
    closed: bool = False
    label: str | None = None


LINE = Line(name="a", points=[Point(1.0, 2.5)], by_name={"end": Point(0.0, -1.0)}, label="b")


def test_a_record_comes_back_from_json():
    text = json.dumps(dataclasses.asdict(LINE))
    assert from_json(Line, json.loads(text), "file") == LINE


def test_files_of_other_versions_are_read_as_far_as_they_agree():
    values = {"name": "a", "points": [], "by_name": {}, "of a later version": 1}
    assert from_json(Line, values, "file") == Line(name="a", points=[], by_name={})


def test_what_was_not_measured_is_null_in_json_and_nan_in_a_record():
    line = dataclasses.replace(LINE, points=[Point(math.nan, 2.0)])
    values = without_nan(dataclasses.asdict(line))
    assert values["points"] == [{"x": None, "y": 2.0}] and values["label"] == "b"
    point = from_json(Line, values, "file").points[0]
    assert math.isnan(point.x) and point.y == 2.0


def test_whole_numbers_are_numbers():
    assert from_json(Point, {"x": 1, "y": 2}, "file") == Point(1.0, 2.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "file: expected an object"),
        ({"x": 1.0}, "file lacks 'y'"),
        ({"x": 1.0, "y": "2"}, "file: 'y' is '2'"),
        ({"x": True, "y": 2.0}, "file: 'x' is True"),
        ({"x": 10**400, "y": 2.0}, "file: 'x' is too large"),
    ],
)
def test_what_is_wrong_is_named(values, message):
    with pytest.raises(ClarelError, match=message):
        from_json(Point, values, "file")


def test_what_is_wrong_inside_is_named_with_its_place():
    values = dataclasses.asdict(LINE) | {"points": [{"x": 1.0}]}
    with pytest.raises(ClarelError, match="file, points lacks 'y'"):
        from_json(Line, values, "file")
    with pytest.raises(ClarelError, match="'points' is 'many'"):
        from_json(Line, dataclasses.asdict(LINE) | {"points": "many"}, "file")
