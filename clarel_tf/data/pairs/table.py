"""Reads a table of images, classes and captions row by row; errors name file and line.

The table is CSV with a header, or JSON lines. Only the current row is in memory.
"""

import csv
import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from clarel_tf.data.schema import checked_name
from clarel_tf.errors import ClarelError
from clarel_tf.storage import files

REQUIRED_COLUMNS = ("image_id", "class", "captions")
# Of a table beside folders of pictures: its rows may all describe classes.
COLUMNS_OF_CLASSES = ("class", "captions")
_WITH_IMAGE = ("class",)  # required beside the column `image`
COLUMNS = (*REQUIRED_COLUMNS, "split", "image")
# The splits of rows; `trainval` is the first three together.
ROW_SPLITS = ("train", "val_seen", "val_unseen", "test_seen", "test_unseen")
TRAINVAL_SPLITS = ROW_SPLITS[:3]
LONGEST_FIELD = 1 << 24  # characters in a field of a CSV file; Python's own limit is 131,072


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of a table: an image, or sentences that describe a class.

    Attributes:
      line: where the row begins in its file, counted from 1.
      image_id: empty if the captions describe the class and no image.
      captions: may be none for an image.
      split: one of ROW_SPLITS, or None if none is given.
      image: path of its picture, relative to the folder; empty if none is given.
    """

    line: int
    image_id: str
    class_name: str
    captions: list[str]
    split: str | None
    image: str = ""


def read_rows(path: Path, required: Sequence[str] = REQUIRED_COLUMNS) -> Iterator[Row]:
    """The rows of `table.csv` or `table.jsonl`, checked one at a time.

    Args:
      required: columns that a table without the column `image` must have.
    """
    read = _csv_records if path.suffix == ".csv" else _json_records
    records = read(path, required)
    empty = True
    for line, record in records:
        yield _checked_row(line, record, f"{path}, line {line}")
        empty = False
    if empty:
        raise ClarelError(f"{path} has no rows; add a row for each image or remove the file")


def image_rows(path: Path) -> Iterator[Row]:
    """The rows of a table that stand for an image."""
    return (row for row in read_rows(path) if row.image_id)


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a file, with their ends; decoded one by one, so that an error names the line."""
    try:
        with files.open_regular(path) as file:
            for number, line in enumerate(file, 1):
                text = line.decode("utf-8")
                yield text.removeprefix("\ufeff") if number == 1 else text
    except UnicodeDecodeError as error:
        raise ClarelError(
            f"{path}, line {number}: byte {error.start + 1} of the line is not UTF-8; "
            "save the file in UTF-8"
        ) from error
    except OSError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror or error}") from error


def _csv_records(path: Path, required: Sequence[str]) -> Iterator[tuple[int, dict[str, object]]]:
    quoting = "put a field that holds a comma, a quote or a line break in double quotes"
    csv.field_size_limit(max(LONGEST_FIELD, csv.field_size_limit()))
    reader = csv.reader(text_lines(path), strict=True)
    header: list[str] = []
    while True:
        line = reader.line_num + 1
        place = f"{path}, line {line}"
        try:
            fields = next(reader, None)
        except csv.Error as error:
            if "field larger than" in str(error):
                raise ClarelError(
                    f"{place}: a field of the row that begins here has more than {LONGEST_FIELD} "
                    "characters; is a closing quote missing? Use table.jsonl if it is that long"
                ) from error
            raise ClarelError(f"{place}: not valid CSV ({error}); {quoting}") from error
        if fields is None:
            return
        if not fields:  # a blank line
            continue
        if not header:
            header = [name.strip() for name in fields]
            _check_columns(header, required, place)
            continue
        if len(fields) != len(header):
            raise ClarelError(
                f"{place}: {len(fields)} fields, but the header has {len(header)}; {quoting}"
            )
        record: dict[str, object] = dict(zip(header, fields, strict=True))
        captions = str(record.get("captions", ""))
        record["captions"] = captions.split("|") if captions.strip() else []
        yield line, record


def _json_records(path: Path, required: Sequence[str]) -> Iterator[tuple[int, dict[str, object]]]:
    for line, text in enumerate(text_lines(path), 1):
        if not text.strip():
            continue
        place = f"{path}, line {line}"
        try:
            # As pairs, because a dictionary would hide a duplicate key.
            pairs = json.loads(text, object_pairs_hook=tuple)
        except (ValueError, RecursionError) as error:
            raise ClarelError(
                f"{place}: not valid JSON ({error}); each line must hold one whole object"
            ) from error
        if not text.lstrip().startswith("{"):
            raise ClarelError(f"{place}: must hold an object {{...}}, not {text.strip()[:40]!r}")
        _check_columns([key for key, _ in pairs], required, place)
        yield line, dict(pairs)


def _check_columns(names: list[str], required: Sequence[str], place: str) -> None:
    known = ", ".join(COLUMNS)
    for name in names:
        if name not in COLUMNS:
            remedy = f"the columns are {known}"
            if ";" in name or "\t" in name:
                remedy += "; separate them with commas, not with semicolons or tabs"
            raise ClarelError(f"{place}: unknown column {name!r}; {remedy}")
        if names.count(name) > 1:
            raise ClarelError(f"{place}: column {name!r} occurs twice; remove one")
    for name in _WITH_IMAGE if "image" in names else required:
        if name not in names:
            raise ClarelError(f"{place}: column {name!r} is missing; the columns are {known}")


def _checked_row(line: int, record: dict[str, object], place: str) -> Row:
    captions = record.get("captions", [])
    if not isinstance(captions, list):
        raise ClarelError(f"{place}: 'captions' must be a list of strings")
    split = record.get("split")
    if split is not None:
        split = _checked_text(split, "split", place) or None
    if split is not None and split not in ROW_SPLITS:
        raise ClarelError(
            f"{place}: unknown split {split!r}; use one of {', '.join(ROW_SPLITS)} "
            "(trainval is made of the first three)"
        )
    texts = [_checked_text(caption, "captions", place) for caption in captions]
    if not all(texts):
        raise ClarelError(
            f"{place}: caption {texts.index('') + 1} is blank; remove it, or write a sentence"
        )
    image_id, class_name, image = (
        _checked_text(record.get(name, ""), name, place) for name in ("image_id", "class", "image")
    )
    if image:
        path = PurePosixPath(image)
        if path.is_absolute() or ".." in path.parts:
            raise ClarelError(
                f"{place}: 'image' must be a path in the folder of the table, not {image!r}"
            )
        image, image_id = str(path), image_id or image
    checked_name(class_name, f"{place}: 'class'")
    if image_id:
        checked_name(image_id, f"{place}: 'image_id'")
    elif not texts:
        raise ClarelError(
            f"{place}: neither 'image_id' nor 'captions'; a row is an image, or sentences that "
            "describe its class"
        )
    elif split is not None:
        raise ClarelError(
            f"{place}: a row without 'image_id' describes a class, and a class is in no split; "
            "leave 'split' empty"
        )
    return Row(line, image_id, class_name, texts, split, image)


def _checked_text(value: object, column: str, place: str) -> str:
    if not isinstance(value, str):
        raise ClarelError(f"{place}: {column!r} must be text, not {type(value).__name__}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON can spell
        raise ClarelError(f"{place}: {column!r} holds a character that is not Unicode") from error
    return value.strip()
