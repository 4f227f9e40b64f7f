"""Pictures of a user's own data: named by a table, or in one folder for each class."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from clarel_tf.data.backbone_choice import read_choice
from clarel_tf.data.pairs.table import text_lines
from clarel_tf.data.schema import checked_name
from clarel_tf.errors import ClarelError
from clarel_tf.images.picture_files import list_pictures

IMAGES, CAPTIONS = "images", "captions"  # folders
_LISTED = 9  # places in a message, besides the first


class ClassPicture(NamedTuple):
    """A picture in the folder of its class.

    Attributes:
      image_id: its path below `images`.
      path: its path below the user's folder.
    """

    image_id: str
    class_name: str
    path: str


def class_pictures(folder: Path) -> list[ClassPicture]:
    """All pictures in `images/<class>/`, sorted."""
    found = []
    for name in list_pictures(folder / IMAGES):
        path = PurePosixPath(name)
        if len(path.parts) == 1:
            raise ClarelError(
                f"{folder / IMAGES / name} is in no folder of a class; put it into "
                f"{IMAGES}/<class>/, or name it in a table with the column 'image'"
            )
        checked_name(path.parts[0], f"{folder / IMAGES}: the name of folder {path.parts[0]!r}")
        checked_name(name, f"{folder / IMAGES}: the name of picture {name!r}")
        found.append(ClassPicture(name, path.parts[0], f"{IMAGES}/{name}"))
    return found


def class_texts(folder: Path) -> Iterator[tuple[Path, str, list[str]]]:
    """Each file `captions/<class>.txt`, its class, and its sentences, one a line."""
    for path in sorted(path for path in (folder / CAPTIONS).glob("*") if is_text(path.name)):
        checked_name(path.stem, f"the name of {str(path)!r}")
        sentences = [line.strip() for line in text_lines(path)]
        sentences = [sentence for sentence in sentences if sentence]
        if not sentences:
            raise ClarelError(f"{path} has no sentence; write one a line, or remove the file")
        yield path, path.stem, sentences


def is_text(name: str) -> bool:
    """True for a name like `owl.txt` or `owl.TXT`; hidden files are no captions."""
    return name.lower().endswith(".txt") and not name.startswith(".")


def check_pictures(folder: Path, paths: Mapping[str, str], place: Callable[[str], str]) -> None:
    """Raises ClarelError for a picture that is missing, named twice, or that no row names.

    Args:
      paths: of the pictures in `folder`, by image id.
      place: tells where the table names an image, for messages.
    """
    there = set(list_pictures(folder))
    first: dict[str, str] = {}
    missing: list[str] = []
    for image_id, path in paths.items():
        if path not in there and not (folder / path).is_file():
            missing.append(image_id)
        if first.setdefault(path, image_id) != image_id:
            raise ClarelError(
                f"{place(image_id)}: picture {path!r} occurs already ({place(first[path])}); give "
                "each picture one row with all its captions"
            )
    if missing:
        path = paths[missing[0]]
        remedy = "correct the path, or remove the row"
        if "\\" in path and (folder / path.replace("\\", "/")).is_file():
            remedy = "write / instead of \\ in paths"
        others = [f"{paths[image_id]!r} ({place(image_id)})" for image_id in missing[1:]]
        raise ClarelError(
            f"{place(missing[0])}: there is no picture {path!r} in {folder}; {remedy}"
            + and_also(others, "missing too")
        )
    if extra := sorted(there - first.keys()):
        raise ClarelError(
            f"{folder / extra[0]}: no row of the table names this picture ({len(extra)} of "
            f"{len(there)} pictures are like that); add a row, or move it elsewhere"
            + and_also(extra[1:], "not named either")
        )


def and_also(others: Sequence[str], what: str) -> str:
    """The end of a message: in what other places the same is wrong; empty if there are none."""
    if not others:
        return ""
    more = f" and {len(others) - _LISTED} more" if len(others) > _LISTED else ""
    return f"; {what}: {', '.join(others[:_LISTED])}{more}"


def picture_files(folder: Path, paths: Iterable[str]) -> list[Path]:
    """What a build reads besides tables: pictures, sentences, `backbone.json`.

    Args:
      paths: of the pictures that a table names; without any, there is a folder for each class.
    """
    tops = sorted({PurePosixPath(path).parts[0] for path in paths}) or [IMAGES]
    found = [folder / name for name in (*tops, CAPTIONS) if (folder / name).exists()]
    return list(dict.fromkeys([*found, *read_choice(folder).files(folder)]))
