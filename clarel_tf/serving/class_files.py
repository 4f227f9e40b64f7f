"""New classes and their sentences, from flags or from a JSON or CSV file; errors name the place.

    {"cardinal": ["a red bird", "a bird with a crest"], "jay": ["a blue bird"]}

or a row for each sentence, with the header `class,sentence`.
"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from clarel_tf.data.schema import alike
from clarel_tf.errors import ClarelError
from clarel_tf.serving.options import refuse_alike
from clarel_tf.serving.parts import MAX_REQUEST_BYTES
from clarel_tf.storage import files

_COLUMNS = ["class", "sentence"]
_FORM = '{"class": ["sentence", ...], ...}'


def parse_new_classes(items: Sequence[str]) -> dict[str, list[str]]:
    """`["cardinal: a red bird; a small red bird"]` -> {"cardinal": [two sentences]}."""
    classes: dict[str, list[str]] = {}
    for item in items:
        name, _, text = item.partition(":")
        sentences = [sentence.strip() for sentence in text.split(";") if sentence.strip()]
        if not name.strip() or not sentences:
            raise ClarelError(f"--new_class={item!r}: expected 'name: sentence; sentence; ...'")
        classes.setdefault(name.strip(), []).extend(sentences)
    refuse_alike(list(classes), "--new_class: ")
    return classes


def new_classes_of(items: Sequence[str], path: str | None) -> dict[str, list[str]]:
    """The new classes of --new_class and of the file of --new_classes, those of the file first.

    A class in both is an error: whether its sentences belong together, only the user knows.
    """
    of_flag, of_file = parse_new_classes(items), {}
    if path:
        try:
            of_file = read_new_classes(path)
        except ClarelError as error:
            raise ClarelError(f"--new_classes: {error}") from error
    names = [*of_file, *of_flag]
    for first, second in alike(names):
        spelled = "" if names[first] == names[second] else f" (there {names[first]!r})"
        raise ClarelError(
            f"the new class {names[second]!r} is in --new_class and in --new_classes={path}"
            f"{spelled}; put all of its sentences into one of them, or rename one"
        )
    return of_file | of_flag


def read_new_classes(path: str) -> dict[str, list[str]]:
    """Class name -> its sentences, in the order of the file (`.json` or `.csv`)."""
    kinds = {".json": _json_rows, ".csv": _csv_rows}
    kind = Path(path).suffix.lower()
    if kind not in kinds:
        raise ClarelError(f"{path} must be a .json or .csv file; JSON looks like {_FORM}")
    classes: dict[str, list[str]] = {}
    for line, name, sentence in kinds[kind](_text_of(path), path):
        if not name.strip():
            raise ClarelError(f"{path}, line {line}: the name of a class is empty; fill it in")
        if not sentence.strip():
            raise ClarelError(
                f"{path}, line {line}: a sentence of the class {name.strip()!r} is empty; fill it "
                "in or remove it"
            )
        classes.setdefault(name.strip(), []).append(sentence.strip())
    refuse_alike(list(classes), f"{path}: ")
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
        if sentences == []:
            raise ClarelError(
                f"{path}, line {line}: the class {name!r} has no sentence; describe it in at least "
                "one, or remove it"
            )
        if not is_list or not all(isinstance(s, str) for s in sentences):
            raise ClarelError(
                f"{path}, line {line}: {name!r} must have a list of sentences, like {_FORM}"
            )
        for sentence in sentences:
            yield line, name, sentence
        start += 1


class _Pairs(list):
    """The keys and values of a JSON object, in their order."""
