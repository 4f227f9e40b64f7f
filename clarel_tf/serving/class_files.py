"""Reads new classes and their sentences from a JSON or CSV file; errors name file and line.

    {"cardinal": ["a red bird", "a bird with a crest"], "jay": ["a blue bird"]}

or a row for each sentence, with the header `class,sentence`.
"""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

from clarel_tf.errors import ClarelError
from clarel_tf.serving.parts import MAX_REQUEST_BYTES
from clarel_tf.storage import files

_COLUMNS = ["class", "sentence"]
_FORM = '{"class": ["sentence", ...], ...}'


def read_new_classes(path: str) -> dict[str, list[str]]:
    """Class name -> its sentences, in the order of the file (`.json` or `.csv`)."""
    kinds = {".json": _json_rows, ".csv": _csv_rows}
    kind = Path(path).suffix.lower()
    if kind not in kinds:
        raise ClarelError(f"{path} must be a .json or .csv file; JSON looks like {_FORM}")
    classes: dict[str, list[str]] = {}
    for line, name, sentence in kinds[kind](_text_of(path), path):
        for what, text in (("class", name), ("sentence", sentence)):
            if not text.strip():
                raise ClarelError(
                    f"{path}, line {line}: a {what} is empty; fill it in or remove it"
                )
        classes.setdefault(name.strip(), []).append(sentence.strip())
    if not classes:
        raise ClarelError(f"{path} has no new class; it looks like {_FORM}, or a row a sentence")
    return classes


def _text_of(path: str) -> str:
    try:
        with files.open_regular(path) as file:
            data = file.read(MAX_REQUEST_BYTES + 1)
    except OSError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror or error}") from error
    if len(data) > MAX_REQUEST_BYTES:
        raise ClarelError(
            f"{path} is larger than {MAX_REQUEST_BYTES} bytes, which go with every request; "
            "describe the classes in fewer sentences, or ask in several calls"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ClarelError(f"{path}, line {line}: not UTF-8; save the file in UTF-8") from error


def _csv_rows(text: str, path: str) -> Iterator[tuple[int, str, str]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    while True:
        place = f"{path}, line {reader.line_num + 1}"
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise ClarelError(
                f"{place}: not valid CSV ({error}); put a field that holds a comma or a quote in "
                "double quotes"
            ) from error
        if row is None:
            return
        if not row:
            continue
        if not header:
            header = [name.strip() for name in row]
            if sorted(header) != _COLUMNS:
                raise ClarelError(
                    f"{place}: the header must be class,sentence with a comma between them, not "
                    f"{', '.join(row)}"
                )
            continue
        if len(row) != len(header):
            raise ClarelError(
                f"{place}: {len(row)} fields, but the header has {len(header)}; put a field that "
                "holds a comma in double quotes"
            )
        yield line, row[header.index("class")], row[header.index("sentence")]


def _json_rows(text: str, path: str) -> Iterator[tuple[int, str, str]]:
    try:
        # As pairs, because a dictionary would hide a name that occurs twice.
        pairs = json.loads(text, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as error:
        raise ClarelError(f"{path}, line {error.lineno}: not valid JSON ({error.msg})") from error
    except (ValueError, RecursionError) as error:
        raise ClarelError(f"{path}, line 1: not JSON that can be read ({error})") from error
    if not isinstance(pairs, _Pairs):
        raise ClarelError(f"{path}, line 1: must be an object {_FORM}")
    start = 0
    for name, sentences in pairs:
        # The place of the key; a string that looks like it stands before it only by intent.
        spelled = [json.dumps(name, ensure_ascii=ascii_only) for ascii_only in (False, True)]
        found = [at for at in (text.find(form, start) for form in spelled) if at >= 0]
        start = min(found, default=start)
        line = text.count("\n", 0, start) + 1
        is_list = isinstance(sentences, list) and not isinstance(sentences, _Pairs)
        if not is_list or not sentences or not all(isinstance(s, str) for s in sentences):
            raise ClarelError(
                f"{path}, line {line}: {name!r} must have a list of sentences, like {_FORM}"
            )
        for sentence in sentences:
            yield line, name, sentence
        start += 1


class _Pairs(list):
    """The keys and values of a JSON object, in their order."""
