"""The public caption files: a folder for each class, a file for each image, ten lines in it."""

from pathlib import Path, PurePosixPath

from clarel_tf.data.schema import checked_name
from clarel_tf.errors import ClarelError
from clarel_tf.storage.archives import iterate_texts

CAPTIONS_PER_IMAGE = 10


def read_captions(source: Path, folder: str) -> dict[str, list[str]]:
    """All captions by `<class folder>/<image name without suffix>`.

    Args:
      source: the archive, or the folder that it was unpacked in.
      folder: where the texts are, such as `cvpr2016_cub/text_c10`.
    """
    captions = {}
    for path, data in iterate_texts(source, folder):
        where = f"{source}: {folder}/{path}"
        key = str(PurePosixPath(path).with_suffix(""))
        checked_name(PurePosixPath(key).name, f"the name of {where!r}")
        if key in captions:
            raise ClarelError(f"{where} occurs twice")
        captions[key] = _parse(data, where)
    if not captions:
        raise ClarelError(f"{source} has no caption file below {folder}")
    return captions


def _parse(data: bytes, where: str) -> list[str]:
    lines = data.split(b"\n")
    if lines[-1].strip() == b"":
        lines.pop()
    sentences = []
    for number, line in enumerate(lines, start=1):
        try:
            sentence = line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise ClarelError(f"{where}, line {number} is not UTF-8 ({error.reason})") from error
        if not sentence:
            raise ClarelError(f"{where}, line {number} is empty")
        sentences.append(sentence)
    if len(sentences) != CAPTIONS_PER_IMAGE:
        raise ClarelError(
            f"{where} has {len(sentences)} lines, but an image has {CAPTIONS_PER_IMAGE} captions"
        )
    return sentences


def match_images(
    image_files: list[str], captions: dict[str, list[str]], where: str, what: str = "features"
) -> list[str]:
    """The key into `captions` of each image of a feature file, or of each photograph.

    Only the last parts of the paths in `image_files` are compared: the file name and, if the
    dataset has them, the class folder.

    Args:
      where: the file with the images, for messages.
      what: it holds of each image.
    """
    by_name: dict[str, list[str]] = {}
    for key in captions:
        by_name.setdefault(PurePosixPath(key).name, []).append(key)
    keys = []
    for number, image_file in enumerate(image_files, start=1):
        path = PurePosixPath(image_file.replace("\\", "/")).with_suffix("")
        full = f"{path.parent.name}/{path.name}"
        candidates = [full] if full in captions else by_name.get(path.name, [])
        if len(candidates) != 1:
            raise ClarelError(
                f"{where}: image number {number}, {image_file!r}, has "
                + ("no caption file" if not candidates else f"{len(candidates)} caption files")
            )
        keys.append(candidates[0])
    _refuse_doubles(keys, image_files, where)
    if without := sorted(set(captions) - set(keys)):
        raise ClarelError(
            f"{where}: no {what} for the image with captions {without[0]}.txt "
            f"({len(without)} such images)"
        )
    return keys


def _refuse_doubles(keys: list[str], image_files: list[str], where: str) -> None:
    first: dict[str, int] = {}
    for number, key in enumerate(keys, start=1):
        if key in first:
            raise ClarelError(
                f"{where}: image numbers {first[key]} and {number} are the same, "
                f"{image_files[number - 1]!r}"
            )
        first[key] = number
